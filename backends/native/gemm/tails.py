"""Tiles for as many rows as the run tells: fewer functions than there are numbers of rows, and the same for products
that differ in what a tile of all rows is made for."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.gemm.finish import Rows
from circlet.backends.native.gemm.functions import Microkernel, internal_function
from circlet.backends.native.gemm.microkernel import Call, Tile, call_tile, function_of
from circlet.backends.native.gemm.operands import table
from circlet.backends.native.gemm.vectors import WORD
from circlet.runtime.records import replace


def call_tiles(e: Emitter, tile: Tile, fewer: Sequence[int], call: Call) -> None:
    """Calls a tile or, where there are fewer rows, the smallest that has as many.

    Args:
        e: writes the code.
        tile: the one with all rows.
        fewer: the rows of the others, the largest first.
        call: with the number of rows, which is the tile's at most.
    """
    is_full = e.builder.icmp_signed("==", call.count, e.number(tile.rows))
    with e.builder.if_else(is_full, likely=True) as (then, otherwise):
        with then:
            call_tile(e, tile, replace(call, count=None))
        with otherwise:
            call_smallest(e, tile, fewer, call)


def call_smallest(e: Emitter, tile: Tile, sizes: Sequence[int], call: Call) -> None:
    """Calls the smallest of some tiles that has as many rows as there are. They leave sums on the stack where these are
    to be finished, by a function of its own: tiles that finish would be for one product, and each takes as long to
    compile as what finishes for all of them.

    Args:
        e: writes the code.
        tile: as all of them are but for their rows.
        sizes: their rows, the largest first.
        call: with the number of rows, which is that of the largest at most.
    """
    if tile.finish is None or tile.finish.apart is None:
        _call_smallest(e, tile, sizes, call)
        return
    assert call.terms is not None
    assert call.count is not None
    sums = e.slot(tile.arithmetic.total, sizes[0] * tile.columns)
    _call_smallest(e, replace(tile, finish=None), sizes,
                   replace(call, out=sums, out_step=e.number(tile.columns * WORD), terms=None))
    tile.finish.apart(e, Rows(sums, e.number(tile.columns)), call.terms, Rows(call.out, call.out_step), call.count)


def _call_smallest(e: Emitter, tile: Tile, sizes: Sequence[int], call: Call) -> None:
    """As `call_smallest`, where nothing is to be done apart."""
    general = replace(tile, has_taps=True, is_partial=tile.finish is None, adds=True, leaves_words=False,
                      is_even=False)
    clamped = replace(general, clamps=True)
    if tile.arithmetic.is_real and _name(clamped, sizes) in e.module.globals:
        general = clamped
    few = general.arithmetic.few or general.arithmetic
    tiles = [replace(general, rows=rows, least=below + 1, fetches=general.fetches and rows > 1,
                     arithmetic=few if rows < general.rows else general.arithmetic)
             for rows, below in zip(sizes, (*sizes[1:], 0), strict=True)]
    name = _name(general, sizes)
    function = e.module.globals.get(name) or _make(e, name, tiles)
    e.builder.call(function, _generalised(e, general, call).arguments())
    for each in tiles:
        e.callers.setdefault(each.name, {})[e.label] = None


def _name(tile: Tile, sizes: Sequence[int]) -> str:
    """Of the function that calls the smallest of some tiles, which are as one is but for their rows."""
    return f"{replace(tile, rows=sizes[0], least=1).name}_or_fewer"


def _generalised(e: Emitter, tile: Tile, call: Call) -> Call:
    """A call of a tile that takes rows of one run, writes whole panels, and limits none of the results, too."""
    taps = call.taps or (table(e, [0]), e.number(1))
    columns = e.number(tile.columns) if tile.is_partial and call.columns is None else call.columns
    limits = call.limits
    if tile.clamps and limits is None:
        limits = ir.Constant(tile.arithmetic.total, -inf), ir.Constant(tile.arithmetic.total, inf)
    return replace(call, taps=taps, columns=columns, limits=limits, words=None)


def _make(e: Emitter, name: str, tiles: Sequence[Tile]) -> ir.Function:
    """The function that goes on to one of the tiles, of which the first has the most rows: a jump where the
    processor can, as all of them take the same."""
    function = internal_function(e, name, tiles[0].kinds(e.index), Microkernel)
    inner = Emitter(e.module, function, e.target)
    choice = inner.builder.switch(function.args[-1], _jump(inner, tiles[0]))
    for each in tiles[1:]:
        block = _jump(inner, each)
        for rows in range(each.least or 1, each.rows + 1):
            choice.add_case(e.number(rows), block)
    return function


def _jump(e: Emitter, tile: Tile) -> ir.Block:
    """A block that goes on to a tile with what the function was called with."""
    block = e.function.append_basic_block(tile.name)
    b = ir.IRBuilder(block)
    b.call(function_of(e, tile), e.function.args, tail="tail")
    b.ret_void()
    return block
