"""Rules for sequences and optionals. The optional of a sequence is held as the sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.held import OptionalOf, SequenceOf
from circlet.runtime.ir.probe import merged
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import layout, sequence
from circlet.runtime.ops.operands import normalize_axis
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Narrow, Type, Value, type_text
from circlet.schema.onnx.bodies import HeldShapes
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.scope import Listed, Slices
from circlet.schema.onnx.types import dtype_of, type_of

_NONE: HeldShapes = ()
"""What is known of an empty sequence."""
_MOST_PIECES = 64
"""Pieces of a tensor that are tensors of their own: a choice."""


def _of(element: Value) -> HeldShapes:
    """What is known of a sequence of one tensor."""
    return None if element.shape is None else (element.shape,)


def united(one: HeldShapes, other: HeldShapes) -> HeldShapes:
    """What is known of the tensors in either of two sequences."""
    if not one or not other:
        return None if one is None or other is None else one or other
    found = merged([*one, *other])
    return None if found is None else (found,)


def _taken(node: Node, op: sequence.SequenceAt | sequence.SequenceConcat, *inputs: Value) -> Value:
    """A tensor out of a sequence, or all of them joined."""
    held, shape = inputs[0].held_shapes, None
    if held:
        (shape,) = held
        if isinstance(op, sequence.SequenceConcat):
            rank = len(shape) + op.new_axis
            axis = normalize_axis(op.axis, rank)
            shape = (*shape[:axis], -1, *shape[axis + (not op.new_axis):])
    return node.graph.op(op, *inputs, types=(_element(node),), shapes=(shape,))[0]


def _element(node: Node) -> DType:
    """The element type of the tensors in the sequence that input 0 is."""
    found = node[0].type
    if not isinstance(found, SequenceOf):
        raise ModelError(f"input 0: expected a sequence, found {type_text(found)}")
    if not isinstance(found.element, DType):
        node.unsupported(f"a {type_text(found)}")
    return found.element


def _listed(node: Node) -> tuple[Value, ...] | None:
    """The tensors in the sequence that input 0 is, where they are known one by one."""
    return node.scope.listed(node.proto.input[0])


def _place(node: Node, count: int) -> int | None:
    """The position that input 1 or 2 is, from the front, in a sequence of so many tensors; None where a run tells it,
    or it lies outside."""
    data = node[len(node.inputs) - 1].data
    if data is None or data.size != 1 or not -count <= data.item() < count:
        return None
    return int(data.item()) % count


def _listed_at(node: Node, listed: Sequence[Value], place: int) -> Value:
    return listed[place] if listed[place].is_constant else node.copy(listed[place])


def _note(node: Node, elements: Sequence[Value]) -> None:
    node.scope.note(node.proto.output[0], Listed(tuple(elements)))


@rule("SequenceEmpty")
def sequence_empty(node: Node) -> Value:
    _note(node, ())
    dtype = dtype_of(node.integer("dtype")) if node.has("dtype") else DType.FLOAT32
    return node.graph.declare(node.apply(sequence.SequenceConstruct(), type=SequenceOf(dtype)), held_shapes=())


@rule("SequenceConstruct")
def sequence_construct(node: Node) -> Value:
    kinds = {node.dtype(k) for k in range(len(node.inputs))}
    if len(kinds) != 1:
        raise ModelError(f"expected inputs of one type, found {', '.join(sorted(map(repr, kinds)))}")
    made, shapes = node.apply(sequence.SequenceConstruct(), *node.given, type=SequenceOf(kinds.pop())), _NONE
    for each in node.given:
        shapes = united(shapes, _of(each))
    _note(node, node.given)
    return node.graph.declare(made, held_shapes=shapes)


@rule("SequenceInsert")
def sequence_insert(node: Node) -> Value:
    if _element(node) is not node.dtype(1):
        raise ModelError(f"input 1: expected {_element(node).value} as the sequence has, found {node.dtype(1).value}")
    made = node.apply(sequence.SequenceInsert(), node[0], node[1], node.get(2), type=SequenceOf(_element(node)))
    listed = _listed(node)
    if listed is not None:
        place = len(listed) if node.get(2) is None else _place(node, len(listed))
        if place is not None:
            _note(node, (*listed[:place], node[1], *listed[place:]))
    return node.graph.declare(made, held_shapes=united(node[0].held_shapes, _of(node[1])))


@rule("SequenceErase")
def sequence_erase(node: Node) -> Value:
    made = node.apply(sequence.SequenceErase(), node[0], node.get(1), type=SequenceOf(_element(node)))
    listed = _listed(node)
    if listed:
        place = len(listed) - 1 if node.get(1) is None else _place(node, len(listed))
        if place is not None:
            _note(node, (*listed[:place], *listed[place + 1:]))
    return node.graph.declare(made, held_shapes=node[0].held_shapes)


@rule("SequenceAt")
def sequence_at(node: Node) -> Value:
    """An element of a sequence; of one of slices, the slice of what they are of."""
    slices, listed = node.scope.slices(node.proto.input[0]), _listed(node)
    place = None if listed is None else _place(node, len(listed))
    if listed is not None and place is not None:
        return _listed_at(node, listed, place)
    if slices is None:
        return _taken(node, sequence.SequenceAt(), node[0], node[1])
    graph, index = node.graph, c.cast(node.graph, c.reshape(node.graph, node[1], []), DType.INT64)
    if index.data is None or index.data < 0:
        count = c.reshape(graph, c.dimension(graph, slices.data, slices.axis), [])
        index = c.select(graph, c.less(graph, index, c.like(0, index)), c.add(graph, index, count), index)
    return c.gather(graph, slices.data, c.reshape(graph, index, [1] if slices.keeps_axis else []), slices.axis)


@rule("SequenceLength")
def sequence_length(node: Node) -> Value:
    _element(node)
    slices = node.scope.slices(node.proto.input[0])
    if slices is not None:
        return c.reshape(node.graph, c.dimension(node.graph, slices.data, slices.axis), [])
    listed = _listed(node)
    if listed is not None:
        return node.constant(np.int64(len(listed)))
    return node.apply(sequence.SequenceLength(), node[0])


@rule("ConcatFromSequence")
def concat_from_sequence(node: Node) -> Value:
    op = sequence.SequenceConcat(node.integer("axis"), bool(node.integer("new_axis", 0)))
    listed = _listed(node)
    ranks = {each.rank for each in listed or ()}
    if listed and len(ranks) == 1 and None not in ranks:
        return _joined(node.graph, listed, op)
    slices = node.scope.slices(node.proto.input[0])
    moved = None if slices is None else _moved(node, slices, op)
    return _taken(node, op, node[0]) if moved is None else moved


def _moved(node: Node, slices: Slices, op: sequence.SequenceConcat) -> Value | None:
    """What slices are of, joined along an axis, which may be another one where they lack it; None where those that have
    it are to be joined along another one."""
    rank = slices.data.rank or 0
    if rank > 1 and not slices.keeps_axis and not op.new_axis:
        return _chained(node, slices, normalize_axis(op.axis, rank - 1))
    axis = normalize_axis(op.axis, rank)
    if slices.keeps_axis == op.new_axis or (slices.keeps_axis and axis != slices.axis):
        return None
    axes = [each for each in range(rank) if each != slices.axis]
    axes.insert(axis, slices.axis)
    data = node.graph.capture(slices.data)
    return node.copy(data) if axis == slices.axis else c.transpose(node.graph, data, axes)


def _chained(node: Node, slices: Slices, axis: int) -> Value:
    """Slices that lack the axis that they were cut along, one behind another along one that they have."""
    graph, rank = node.graph, slices.data.rank or 0
    axes = [each for each in range(rank) if each != slices.axis]
    axes.insert(axis, slices.axis)
    turned = c.transpose(graph, graph.capture(slices.data), axes)
    length = c.multiply(graph, c.dimension(graph, turned, axis), c.dimension(graph, turned, axis + 1))
    sizes = [c.dims(graph, turned, 0, axis), length, c.dims(graph, turned, axis + 2, rank)]
    return c.reshape_to(graph, turned, c.concatenate(graph, sizes))


def _joined(graph: Graph, values: Sequence[Value], op: sequence.SequenceConcat) -> Value:
    own = [graph.capture(each) for each in values]
    rows = [c.unsqueeze(graph, each, [op.axis]) for each in own] if op.new_axis else own
    return graph.apply(layout.Concatenation(normalize_axis(op.axis, rows[0].rank or 0)), *rows)


@rule("SplitToSequence")
def split_to_sequence(node: Node) -> Value:
    lengths = node.get(1)
    is_one = lengths is not None and lengths.shape == () and lengths.data is not None and lengths.data == 1
    # With lengths, keepdims is ignored by the specification, but not by PyTorch's exporter and ONNX Runtime.
    keep = bool(node.integer("keepdims", 1)) or not (lengths is None or is_one)
    if lengths is None:
        lengths = node.constant(np.int64(1))
    op = sequence.SequenceSplit(node.integer("axis", 0), keep)
    shape, size = node[0].shape, -1
    if shape is not None:
        axis = c.axis_of(node[0], op.axis)
        pieces = _pieces(shape[axis], lengths.data) if keep else ()
        if _are_ones(node, lengths):
            node.scope.note(node.proto.output[0], Slices(node[0], axis, keep))
        elif pieces:
            _note(node, node.graph.op(layout.SplitV(len(pieces)), node[0], node.constant(np.array(pieces, np.int64)),
                                      node.constant(np.array(axis, np.int32)), count=len(pieces)))
            size = pieces[0] if len({*pieces}) == 1 else -1
        shape = (*shape[:axis], *((size,) if keep else ()), *shape[axis + 1:])
    made = node.apply(op, node[0], lengths, type=SequenceOf(node.dtype()))
    return node.graph.declare(made, held_shapes=None if shape is None else (shape,))


def _pieces(size: int, lengths: Array | None) -> Sequence[int]:
    """How long the pieces are that an axis is cut into; none where that is not known, or they are many."""
    if size <= 0 or lengths is None or (lengths <= 0).any():
        return ()
    if lengths.ndim:
        found: list[int] = lengths.tolist()
    else:
        length = lengths.item()
        found = [min(length, size - start) for start in range(0, min(size, (_MOST_PIECES + 1) * length), length)]
    return found if len(found) <= _MOST_PIECES and sum(found) == size else ()


def _are_ones(node: Node, lengths: Value) -> bool:
    """Whether a tensor is cut into slices."""
    filled = node.scope.filled.get(node.proto.input[1]) if node.get(1) is not None else None
    known = lengths.data if filled is None else filled
    return known is not None and known.size > 0 and bool((known == 1).all())


@rule("Optional")
def optional(node: Node) -> Value:
    value = node.get(0)
    if value is None:
        if not node.has("type"):
            raise ModelError("expected an input or the attribute 'type', found neither")
        kind = type_of(node.attributes["type"].tp)
        if kind is None:
            raise ModelError("attribute 'type': expected a type, found none")
        _note(node, ())
        return node.graph.declare(node.apply(sequence.OptionalOf(), type=OptionalOf(kind)), held_shapes=())
    if isinstance(value.type, DType):
        _note(node, (value,))
    return optional_of(node, value)


def optional_of(node: Node, value: Value) -> Value:
    """The optional of a value that is there."""
    kind = value.type
    if isinstance(kind, DType):
        made = node.apply(sequence.OptionalOf(), value, type=OptionalOf(kind))
        return node.graph.declare(made, held_shapes=_of(value))
    if isinstance(kind, Narrow):
        node.unsupported(f"element type {type_text(kind)}")
    return node.retyped(value, OptionalOf(kind))


@rule("OptionalHasElement")
def optional_has_element(node: Node) -> Value:
    value = node.get(0)
    if value is None:
        return node.constant(np.bool_(False))
    if not isinstance(value.type, OptionalOf):
        return node.constant(np.bool_(True))
    listed = _listed(node)
    return node.apply(sequence.OptionalHasElement(), value) if listed is None else node.constant(np.bool_(bool(listed)))


@rule("OptionalGetElement")
def optional_get_element(node: Node) -> Value:
    kind: Type = node[0].type
    if not isinstance(kind, OptionalOf):
        return node.copy(node[0])
    if listed := _listed(node):
        return _listed_at(node, listed, 0)
    if isinstance(kind.element, DType):
        shape = node[0].held_shapes[0] if node[0].held_shapes else None
        return node.graph.op(sequence.OptionalGetElement(), node[0], types=(kind.element,), shapes=(shape,))[0]
    return node.retyped(node[0], kind.element)
