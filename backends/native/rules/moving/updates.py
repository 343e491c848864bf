"""Native rules of the operators that write over parts of variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.cpu.updates import update_of
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.value import Value, in_memory
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.cells import CellCode
from circlet.backends.native.rules.moving.elements import scattered
from circlet.backends.native.rules.moving.index import scalars, window_at
from circlet.backends.native.rules.moving.move import runs_of, wholes
from circlet.backends.native.rules.moving.variable import handle_of
from circlet.backends.native.rules.rule import Node, Rule, Sink, nest, rule_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.state.cell import BLOCK
from circlet.runtime.exec.state.store import BEFORE, CHANGED, NOW
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.elements import Scattering
from circlet.runtime.ops.index import DynamicUpdateSlice, StablehloDynamicUpdateSlice, UpdateRow
from circlet.runtime.ops.updates import UpdateVariable

_STARTS: dict[type[Op], Callable[[Node[Any]], Sequence[Whole]]] = {
    DynamicUpdateSlice: lambda node: wholes(node.function.e, node.input(2)),
    StablehloDynamicUpdateSlice: lambda node: scalars(node, 2),
    UpdateRow: lambda node: [*wholes(node.function.e, node.input(2)),
                             *[Whole(node.function.e, 0)] * (len(node.shape) - 1)],
}
"""Where input 1 begins in what each operator writes, before it is moved to where it fits."""


def _refuses(call: Call) -> str | None:
    assert isinstance(call.op, UpdateVariable)
    if type(call.op.update) not in _STARTS and not isinstance(call.op.update, Scattering):
        return f"{call.op.update.name} on a variable"
    found = rule_of(update_of(call.op, call))
    return None if isinstance(found, Rule) else found


def _updated(node: Node[UpdateVariable]) -> Value:
    """Of a handle, a window and where it begins: keeps what lies there, and writes over it by the rule of what updates;
    gives the value in its cell."""
    e, value, call = node.function.e, node.op.value, update_of(node.op, node.call)
    cell = CellCode.of(node.function, handle_of(node), value.shape, value.dtype)
    home, other = cell.halves_by_value(node.place)
    on: Node[Any] = Node(node.op.update, call, (in_memory(home, value.shape, value.dtype), *node.inputs[1:]),
                         (value.shape,), node.place, node.function)
    is_old = e.builder.icmp_signed("==", *(e.load(cell.words, DType.INT64, word) for word in (NOW, BEFORE)))
    with e.builder.if_then(is_old):
        _keep(e, on, cell, home, other)
    e.builder.fence("seq_cst", "singlethread")  # the child of a fork must not see what is written but not what is kept
    rule = rule_of(call)
    assert isinstance(rule, Rule), "the call was not refused"
    assert rule.nest is not None, "what updates writes by itself"
    rule.nest(on, e, (Sink(lambda e, index, element: None, home),))
    return in_memory(home, value.shape, value.dtype)


@nest(UpdateVariable, _refuses, memory_inputs=None, parameters=frozenset({0}), is_last=True, lends=_updated)
def update_variable(node: Node[UpdateVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Writes over a part of a variable; the result, if there is one, is copied from the cell."""
    value = _updated(node)
    for sink in sinks:
        assert sink.memory is not None, "nothing follows a rule that is the last one"
        e.copy(sink.memory, value.memory, value.nbytes)


def _keep(e: Emitter, node: Node[Any], cell: CellCode, home: ir.Value, other: ir.Value) -> None:
    """Copies the blocks of the window to the other half, unless the run has done so before."""
    window, b = node.input(1), e.builder
    if not may_differ(window.size, 0) or not prod(cell.shape):
        return
    e.store(cell.run(), cell.words, DType.INT64, CHANGED)
    with _runs(e, node, cell.shape) as (begin, count):
        size = cell.dtype.numpy.itemsize
        first, last = (b.udiv(each.register, e.number(BLOCK)) for each in (begin * size, (begin + count) * size - 1))
        with e.loop(b.add(b.sub(last, first), e.number(1))) as k:
            block = b.add(first, k)
            with b.if_then(b.not_(cell.is_kept(block))):
                cell.copy_block(block, other, home)
                b.fence("seq_cst", "singlethread")
                e.store(cell.run(), cell.marks(), DType.INT64, block)


def _runs(e: Emitter, node: Node[Any], shape: Shape) -> AbstractContextManager[tuple[Whole, int]]:
    """A loop over the runs of elements that an operator writes; see `runs_of`."""
    if isinstance(node.op, Scattering):
        return scattered(node)
    window = node.input(1)
    return runs_of(e, shape, window.shape, window_at(_STARTS[type(node.op)](node), shape, window.shape))
