"""How rows are cut into register tiles: into ones of one size, the last of which overlaps the one before it, where that
takes hardly longer; where their number is open, into ones for several numbers of them, unless there are always some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

import circlet
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.gemm.microkernel import FLOAT32, Tile, chains, function_of, lanes
from circlet.backends.native.gemm.plan import CACHE, DEPTH, LARGE, SHALLOW, Plan
from circlet.backends.native.gemm.tiling import Split, panel_vectors, split_rows
from circlet.backends.native.load import cache, llvm
from circlet.backends.native.load.llvm import host
from circlet.backends.native.lower.pieces import Piece
from circlet.backends.native.targets.target import Goal
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.length import Scope
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.unary import Tanh
from tests.native.against_cpu import Array, agree, values
from tests.native.test_targets import x86
from tests.ops.cases import check

OVERLAPPING = [rows for rows in range(100) if split_rows(host(), rows, 3, FLOAT32).overlaps]
"""Numbers of rows whose last tile overlaps, for panels of three vectors."""


def parts(split: Split) -> list[range]:
    """The rows of each tile."""
    sizes = [split.size + (k < split.larger) for k in range(split.parts)]
    begins = [min(k * split.size + min(k, split.larger), split.total - sizes[k]) for k in range(split.parts)]
    return [range(begin, begin + size) for begin, size in zip(begins, sizes, strict=True)]


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 20000), st.integers(1, 4), st.integers(0, 1))
def test_tiles_are_all_rows(rows: int, vectors: int, spare: int) -> None:
    split = split_rows(host(), rows, vectors, replace(FLOAT32, spare=spare))
    found = parts(split)
    assert sorted({row for part in found for row in part}) == list(range(rows))
    assert max(map(len, found)) * vectors <= host().vector_registers - vectors - 1 - spare
    assert sum(map(len, found)) <= rows if not split.overlaps else sum(map(len, found)) < rows + split.size
    apart = parts(split.apart)
    assert sum(map(len, apart)) == rows
    assert max(map(len, apart)) <= max(map(len, found))


@pytest.mark.parametrize("rows", [1601, None])
@pytest.mark.parametrize("depth", [8, SHALLOW])
@pytest.mark.parametrize("columns", [100, 1601, 5000])
def test_results_of_a_block_stay_in_the_cache(rows: int | None, depth: int, columns: int) -> None:
    """Of few steps, but for the last tile: lines that two panels write to would leave it before the second one does."""
    plan = Plan.of(host(), FLOAT32, rows or Scope([1601]).symbol(0), columns, depth)
    assert columns * depth * 4 < LARGE
    assert (plan.block - 1) * plan.split.size <= CACHE // (columns * 4)


@pytest.mark.parametrize("rows", [784, 3136, 12544])
@pytest.mark.parametrize("columns", [24, 64, 96, 144, 576])
def test_rows_of_images_are_tiles_of_one_size(rows: int, columns: int) -> None:
    vectors = panel_vectors(host(), rows, columns, FLOAT32)
    assert len(split_rows(host(), rows, vectors, FLOAT32).sizes) == 1


@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
@pytest.mark.parametrize("spare", [0, 1])
def test_tiles_for_any_rows_sum_up_as_those_for_just_these(vectors: int, spare: int) -> None:
    split = split_rows(host(), Scope([64]).symbol(0), vectors, replace(FLOAT32, spare=spare))
    assert split.sizes == (split.size, *split.fewer)
    for rows in range(1, split.size):
        tile = min(size for size in split.fewer if size >= rows)
        assert chains(host(), tile, vectors) == chains(host(), rows, vectors)


@pytest.mark.parametrize("vectors", [2, 3, 4])
def test_tiles_for_a_few_rows_compute_none_that_are_not_there(vectors: int) -> None:
    """A batch of two would take half as long again otherwise."""
    split = split_rows(x86("+avx2,+fma"), Scope([64]).symbol(0), vectors, FLOAT32)
    assert {*range(1, min(split.size, 4))} <= {*split.fewer}


@pytest.mark.parametrize(("rows", "depth", "times"), [(4, 256, 1), (8, 256, 2), (4, 128, 2), (8, 128, 4)])
def test_a_few_rows_read_panels_as_seldom_as_can_be(rows: int, depth: int, times: int) -> None:
    """Panels of four vectors leave registers for tiles of three rows, which take as long for each product."""
    assert Plan.of(x86("+avx2,+fma"), FLOAT32, rows, 256, depth).split.parts == times


@pytest.mark.parametrize(("features", "count"), [("+avx2,+fma", 8), ("+avx2,+avx512f,+avx512bw", 0)])
def test_tiles_for_any_columns_write_whole_panels_without_masks(features: str, count: int) -> None:
    """Where a processor of AVX2 takes some 18 cycles for each vector that it writes in part."""
    target = x86(features)
    module = ir.Module("tiles")
    e = Emitter(module, ir.Function(module, ir.FunctionType(ir.VoidType(), []), "main"), target)
    function = function_of(e, Tile(FLOAT32, 4, 2, lanes(target), is_partial=True, adds=True, least=3))
    assert len(re.findall(r"\n *store <\d+ x float>", str(function))) == count


@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
@pytest.mark.parametrize("spare", [0, 1])
def test_one_row_that_is_left_shares_with_those_before_it(vectors: int, spare: int) -> None:
    split = split_rows(host(), Scope([64]).symbol(0), vectors, replace(FLOAT32, spare=spare))
    assert split.size - split.sooner - (1 + split.sooner) in (0, 1)
    assert not Split.even(100 * Scope([64]).symbol(0), 6).sooner


@pytest.mark.parametrize(("columns", "depth"), [(20, 40), (48, 40), (100, 40), (100, 1100)])
def test_products_of_any_number_of_rows(columns: int, depth: int) -> None:
    weights = values((columns, depth), np.float32, 1)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, depth))
    main.output(main.apply(FullyConnected(), x, main.constant(weights)))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for rows in range(1, 40):
        given = values((rows, depth), np.float32, rows)
        check(_run_on(native, given), _run_on(cpu, given), 1e-4)


@pytest.mark.parametrize(("rows", "depth", "are_several"), [(-1, SHALLOW, True), (-1, 2 * SHALLOW, False),
                                                            (1, SHALLOW, False)])
def test_a_few_rows_are_multiplied_by_several_panels_at_a_time(rows: int, depth: int, are_several: bool,
                                                               pieces: list[str]) -> None:
    """Where their number is open and panels are short; what is left of these is multiplied one by one."""
    columns = (4 * 3 + 1) * 2 * lanes(host()) + 5
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (rows, depth))
    one, other = (main.apply(FullyConnected(keep_num_dims=True), x, main.constant(values((columns, depth), np.float32,
                                                                                         seed))) for seed in (1, 2))
    main.output(one)
    main.output(main.apply(Tanh(), other))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for count in (1, 2, 3, 50, 1) if rows < 0 else (1,):
        given = values((count, depth), np.float32, count)
        for found, wanted in zip(native.invoke(0, [given]), cpu.invoke(0, [given]), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert any(re.fullmatch(r"tile_f32_\dx\d+s\d+", each) for each in pieces) is are_several


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that are compiled."""
    found: list[str] = []
    monkeypatch.setenv(cache.VARIABLE, "")
    monkeypatch.delenv("CIRCLET_CHECK_BOUNDS", raising=False)  # checked code stays whole
    compiled = llvm._object_code

    def noted(piece: Piece, machine: object) -> bytes:
        found.append(piece.name)
        return compiled(piece, machine)

    monkeypatch.setattr(llvm, "_object_code", noted)
    return found


def test_rows_that_are_left_share_tiles_with_those_that_are_limited(pieces: list[str]) -> None:
    """Such tiles do not limit the results of products without limits, whatever these are."""
    weights = values((20, 40), np.float32, 1)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, 40))
    for activation in (Activation.RELU6, Activation.NONE):
        main.output(main.apply(FullyConnected(activation), x, main.constant(weights)))
    session = circlet.Session(b.build(), "native")
    for rows in range(1, 40):
        given = values((rows, 40), np.float32, rows, special=rows % 2 == 0)
        limited, free = session.invoke(0, [given])
        with np.errstate(all="ignore"):
            check(free, given @ weights.T, 1e-4)
        np.testing.assert_array_equal(limited, np.clip(free, 0, 6))
    tails = [each for each in pieces if each.endswith("_or_fewer")]
    assert len(tails) == len(set(tails)) == 1


def test_rows_that_are_left_share_tiles_whatever_is_made_of_their_sums(pieces: list[str]) -> None:
    """Convolutions of bytes whose tiles clamp results to other limits."""
    made = Quantization((0.4,), (-3,))
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.INT8, (-1, 1, 1, 40), Quantization((0.02,), (5,)))
    weights = np.random.default_rng(1).integers(-127, 128, (28, 1, 1, 40)).astype(np.int8)
    for activation in (Activation.NONE, Activation.RELU, Activation.RELU_N1_TO_1):
        right = main.constant(weights, quantization=Quantization((0.01,), (0,)))
        (result,) = main.op(Conv2D(Padding.VALID, 1, 1, activation), x, right,
                            outputs=[Tensor("", DType.INT8, (), has_rank=False, quantization=made)])
        main.output(result)
    native, cpu = (circlet.Session(b.build(), backend) for backend in ("native", "cpu"))
    for rows in range(1, 40):
        given = np.random.default_rng(rows).integers(-128, 128, (rows, 1, 1, 40)).astype(np.int8)
        for one, other in zip(native.invoke(0, [given]), cpu.invoke(0, [given]), strict=True):
            np.testing.assert_array_equal(one, other)
    tails = [each for each in pieces if each.endswith("_or_fewer")]
    assert len(tails) == 1


@pytest.mark.parametrize("factor", [12, 16, 25, 49, 196, 3136])
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
def test_any_number_of_images_is_in_tiles_of_one_size(factor: int, vectors: int) -> None:
    split = split_rows(host(), factor * Scope([64]).symbol(0), vectors, FLOAT32)
    assert split.sizes == (split.size,)
    assert split.size <= factor
    assert split.overlaps == (factor % split.size > 0)
    assert split.apart.sizes == (split.size, *split.fewer)


@pytest.mark.parametrize(("depth", "columns"), [(40, 20), (40, 100), (1100, 100)])
@pytest.mark.parametrize("factor", [13, 25])
def test_products_of_any_number_of_images(depth: int, columns: int, factor: int) -> None:
    """Each has the same bits, whatever their number; those of the second depth are added up in two parts, whose tiles
    do not overlap."""
    weights = values((columns, depth), np.float32, 1)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, factor, depth))
    main.output(main.apply(FullyConnected(keep_num_dims=True), x, main.constant(weights)))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for images in (2, 1, 3, 5):
        given = values((images, factor, depth), np.float32, images)
        found = _run_on(native, given)
        check(found, _run_on(cpu, given), 1e-4)
        for number in range(images if depth < DEPTH else 0):
            np.testing.assert_array_equal(_run_on(native, given[number:number + 1])[0], found[number])


def test_some_rows_overlap() -> None:
    assert OVERLAPPING


@pytest.mark.parametrize("rows", OVERLAPPING[::9])
def test_results_of_rows_that_overlap_are_passed_on_once(rows: int) -> None:
    """A sum in place, turn by turn."""
    weights, x = values((48, 20), np.float32, 1), values((rows, 20), np.float32, 2)
    b = ModelBuilder()
    main, cond, body = (b.subgraph(name) for name in ("main", "cond", "body"))
    left, *_ = _inputs(cond, rows)
    cond.output(cond.apply(Less(), cond.constant(0), left))
    left, total, factor = _inputs(body, rows)
    product = body.apply(FullyConnected(), factor, body.constant(weights))
    body.output(body.apply(Add(), left, body.constant(-1)), body.apply(Add(), total, product), factor)
    main.output(main.op(While(cond.index, body.index), *_inputs(main, rows), count=3)[1])
    model, given = b.build(), [np.array(3, np.int32), values((rows, 48), np.float32, 3), x]
    native, cpu = (circlet.Session(model, backend=each).invoke(0, given)[0] for each in ("native", "cpu"))
    check(native, cpu, 1e-5)


@pytest.mark.parametrize("rows", OVERLAPPING[::9])
def test_rows_that_overlap_among_threads(rows: int) -> None:
    """Tiles that several threads compute at the same time write the same."""
    weights, x = values((300, 700), np.float32, 1), values((rows, 700), np.float32, 2)

    def formula(g: SubgraphBuilder, x: Value) -> Sequence[Value]:
        return [g.apply(FullyConnected(), x, g.constant(weights))]

    agree(formula, x, floats=1e-4)
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(*formula(main, main.input("x", DType.FLOAT32, x.shape)))
    model = b.build()
    one, two = (_run(circlet.Session(model, backend="native", num_threads=n), x) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def _run_on(session: circlet.Session, x: Array) -> Array:
    (found,) = session.invoke(0, [x])
    return found


def _run(session: circlet.Session, x: Array) -> Array:
    found = _run_on(session, x)
    session.close()
    return found


def _inputs(s: SubgraphBuilder, rows: int) -> list[Value]:
    return [s.input("n", DType.INT32), s.input("total", DType.FLOAT32, (rows, 48)),
            s.input("factor", DType.FLOAT32, (rows, 20))]


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 10, 17, 18, 20, 33, 66])
def test_the_last_panel_has_in_memory_what_loads_take(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target = replace(host(), goal=Goal.SPEED)
    plan = Plan.of(target, FLOAT32, 5, columns, 40)
    rest = columns - (plan.panels - 1) * plan.panel
    assert rest <= plan.last_columns <= min(plan.panel, max(2 * rest - 1, 1))
    packed = plan.pack_compact(np.ones((columns, 40), np.float32))
    assert packed.size == ((plan.panels - 1) * plan.panel + plan.last_columns) * 40
    assert packed.sum() == columns * 40
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (5, 40))
    main.output(main.apply(FullyConnected(), x, main.constant(values((columns, 40), np.float32, 1))))
    given = values((5, 40), np.float32, 2)
    expected = _run_on(circlet.Session(b.build(), "cpu"), given)
    monkeypatch.setenv(cache.VARIABLE, "")
    monkeypatch.setattr(llvm, "host", lambda: target)
    check(_run_on(circlet.Session(b.build(), "native"), given), expected, 1e-4)
