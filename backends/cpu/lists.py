"""Numpy rules of the operators on lists that are tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlet.backends.cpu.move import moving
from circlet.backends.cpu.rule import Node, rule, store
from circlet.backends.refusal import Refusal
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import ShapeError
from circlet.runtime.ir.types import Array
from circlet.runtime.ops import lists as ops
from circlet.runtime.ops.sequence import NO_VALUE, cuts, place
from circlet.runtime.records import replace


def _any(call: Call) -> str | None:
    return None


def _elements(refuses: Refusal) -> Refusal:
    """Refuses what another refusal does, whatever output 1 is, which says where elements end."""
    return lambda call: refuses(replace(call, outputs=call.outputs[:1]))


@rule(ops.ListEmpty, accepts=moving())
def list_empty(node: Node[ops.ListEmpty]) -> Step:
    return lambda: None


@rule(ops.ListBegin, accepts=_any)
def list_begin(node: Node[ops.ListBegin]) -> Step:
    source, out = node.input(node.op.position), node.out
    return lambda: store(out, source.reshape(out.shape))


@rule(ops.ListAppend, accepts=moving())
def list_append(node: Node[ops.ListAppend]) -> Step:
    return _append(node.op, node.input(0), node.input(1), node.out)


def _append(op: ops.ListAppend, source: Array, element: Array, out: Array) -> Step:
    axis = op.axis
    before = (*(slice(None),) * axis, slice(None, source.shape[axis]))
    behind = (*before[:axis], slice(source.shape[axis], None))
    added = np.expand_dims(element, axis) if op.stacked else element

    def step() -> None:
        if source.size:
            out[before] = source
        out[behind] = added

    return step


@rule(ops.ListAppendPart, accepts=_elements(moving({2})))
def list_append_part(node: Node[ops.ListAppendPart]) -> Step:
    append = _append(node.op, node.input(0), node.input(1), node.out)
    before, ends, size = node.input(2), node.outputs[1], node.out.shape[node.op.axis]

    def step() -> None:
        append()
        ends[:-1], ends[-1] = before, size

    return step


@rule(ops.ListHas, accepts=_any)
def list_has(node: Node[ops.ListHas]) -> Step:
    has, out = node.input(0).shape[node.op.axis] > 0, node.out
    return lambda: out.fill(has)


@rule(ops.ListOnly, accepts=moving())
def list_only(node: Node[ops.ListOnly]) -> Step:
    layers, out = np.moveaxis(node.input(0), node.op.axis, 0), node.out

    def step() -> None:
        if not len(layers):
            raise ShapeError(NO_VALUE)
        store(out, layers[0])

    return step


@rule(ops.ListInsert, accepts=moving({2}))
def list_insert(node: Node[ops.ListInsert]) -> Step:
    layers, position, element, out = _changing(node, 2)

    def step() -> None:
        number = place(position(), len(layers), 1)
        out[number] = element
        if layers.size:
            out[:number], out[number + 1:] = layers[:number], layers[number:]

    return step


@rule(ops.ListErase, accepts=moving({1}))
def list_erase(node: Node[ops.ListErase]) -> Step:
    layers, position, _, out = _changing(node, 1)

    def step() -> None:
        number = place(position(), len(layers))
        out[:number], out[number:] = layers[:number], layers[number + 1:]

    return step


@rule(ops.ListInsertPart, accepts=_elements(moving({2, 3})))
def list_insert_part(node: Node[ops.ListInsertPart]) -> Step:
    layers, position, before, out, ends = _parts(node, 2)
    element = np.moveaxis(node.input(1), node.op.axis, 0)

    def step() -> None:
        number = place(position(), len(before), 1)
        begin, _ = _part(before, number, len(layers))
        store(out, np.concatenate([layers[:begin], element, layers[begin:]]) if layers.size else element)
        store(ends, np.concatenate([before[:number], [begin + len(element)], before[number:] + len(element)]))

    return step


@rule(ops.ListErasePart, accepts=_elements(moving({1, 2})))
def list_erase_part(node: Node[ops.ListErasePart]) -> Step:
    layers, position, before, out, ends = _parts(node, 1)

    def step() -> None:
        number = place(position(), len(before))
        begin, end = _part(before, number, len(layers))
        store(out, np.concatenate([layers[:begin], layers[end:]]))
        store(ends, np.concatenate([before[:number], before[number + 1:] - (end - begin)]))

    return step


def _parts(node: Node[Any], position: int) -> tuple[Array, Callable[[], int], Array, Array, Array]:
    """A list along its axis, what gives the position that an input says, where elements end, which the next one does,
    and the same list and ends of the result."""
    source, before, (out, ends), axis = node.input(0), node.input(position + 1), node.outputs, node.op.axis
    return np.moveaxis(source, axis, 0), node.input(position).item, before, np.moveaxis(out, axis, 0), ends


def _part(ends: Array, number: int, size: int) -> tuple[int, int]:
    """Where an element of a list of a size begins and ends; the one behind all others ends with the list.

    Raises:
        ShapeError: that is not in the list.
    """
    begin, end = int(ends[number - 1]) if number else 0, int(ends[number]) if number < len(ends) else size
    if not 0 <= begin <= end <= size:
        raise ShapeError(f"ends: expected some of a list of length {size}, found {begin} and {end}")
    return begin, end


@rule(ops.ListSet, accepts=moving({2}))
def list_set(node: Node[ops.ListSet]) -> Step:
    layers, position, element, out = _changing(node, 2)
    is_there = np.may_share_memory(layers, out)

    def step() -> None:
        old = position()
        number = ops.replaced_place(old, len(layers))
        if not is_there:
            out[...] = layers
        if old < 0:
            out[number + 1] = layers[number]
        out[number] = element

    return step


def _changing(node: Node[Any], position: int) -> tuple[Array, Callable[[], int], Array, Array]:
    """The elements of a list, what gives the position that an input says, input 1, and the elements of the result."""
    axis, element = node.op.axis, node.input(1)
    if position == 2:
        element = np.moveaxis(element.reshape(node.op.slice(element.shape)), axis, 0)[0]
    return np.moveaxis(node.input(0), axis, 0), node.input(position).item, element, np.moveaxis(node.out, axis, 0)


@rule(ops.ListStack, accepts=moving())
def list_stack(node: Node[ops.ListStack]) -> Step:
    return lambda: store(node.out, np.stack(node.inputs, node.op.axis))


@rule(ops.ListJoin, accepts=_elements(moving()))
def list_join(node: Node[ops.ListJoin]) -> Step:
    elements, axis, (out, ends) = node.inputs, node.op.axis, node.outputs
    sizes = np.cumsum([each.shape[axis] for each in elements])

    def step() -> None:
        np.concatenate(elements, axis, out)
        ends[:] = sizes

    return step


@rule(ops.ListEnds, accepts=_any)
def list_ends(node: Node[ops.ListEnds]) -> Step:
    size, lengths, out = node.input(0).shape[node.op.axis], node.input(1), node.out
    return lambda: store(out, np.array([*cuts(size, lengths), size], np.int64))


@rule(ops.ListPart, accepts=moving({1, 2}))
def list_part(node: Node[ops.ListPart]) -> Step:
    source, position, out, axis = node.input(0), node.input(1).item, node.out, node.op.axis
    layers = np.moveaxis(source, axis, 0)
    if node.op.stacked or node.op.are_single:
        return lambda: store(out, layers[place(position(), len(layers))].reshape(out.shape))
    ends = node.input(2)

    def step() -> None:
        number = place(position(), len(ends))
        begin = ends[number - 1] if number else 0
        store(out, np.moveaxis(layers[begin:ends[number]], 0, axis))

    return step
