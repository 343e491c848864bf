"""Rules for sequences and optionals. The optional of a sequence is held as the sequence."""

from __future__ import annotations

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.held import OptionalOf, SequenceOf
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import sequence
from circlet.schema.importer.graph import Narrow, Type, Value, type_text
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.types import dtype_of, type_of


def _element(node: Node) -> DType:
    """The element type of the tensors in the sequence that input 0 is."""
    found = node[0].type
    if not isinstance(found, SequenceOf):
        raise ModelError(f"input 0: expected a sequence, found {type_text(found)}")
    if not isinstance(found.element, DType):
        node.unsupported(f"a {type_text(found)}")
    return found.element


@rule("SequenceEmpty")
def sequence_empty(node: Node) -> Value:
    dtype = dtype_of(node.integer("dtype")) if node.has("dtype") else DType.FLOAT32
    return node.apply(sequence.SequenceConstruct(), type=SequenceOf(dtype))


@rule("SequenceConstruct")
def sequence_construct(node: Node) -> Value:
    kinds = {node.dtype(k) for k in range(len(node.inputs))}
    if len(kinds) != 1:
        raise ModelError(f"expected inputs of one type, found {', '.join(sorted(map(repr, kinds)))}")
    return node.apply(sequence.SequenceConstruct(), *node.given, type=SequenceOf(kinds.pop()))


@rule("SequenceInsert")
def sequence_insert(node: Node) -> Value:
    if _element(node) is not node.dtype(1):
        raise ModelError(f"input 1: expected {_element(node).value} as the sequence has, found {node.dtype(1).value}")
    return node.apply(sequence.SequenceInsert(), node[0], node[1], node.get(2), type=SequenceOf(_element(node)))


@rule("SequenceErase")
def sequence_erase(node: Node) -> Value:
    return node.apply(sequence.SequenceErase(), node[0], node.get(1), type=SequenceOf(_element(node)))


@rule("SequenceAt")
def sequence_at(node: Node) -> Value:
    return node.apply(sequence.SequenceAt(), node[0], node[1], type=_element(node))


@rule("SequenceLength")
def sequence_length(node: Node) -> Value:
    _element(node)
    return node.apply(sequence.SequenceLength(), node[0])


@rule("ConcatFromSequence")
def concat_from_sequence(node: Node) -> Value:
    op = sequence.SequenceConcat(node.integer("axis"), bool(node.integer("new_axis", 0)))
    return node.apply(op, node[0], type=_element(node))


@rule("SplitToSequence")
def split_to_sequence(node: Node) -> Value:
    lengths = node.get(1)
    keep = lengths is not None or bool(node.integer("keepdims", 1))
    if lengths is None:
        lengths = node.constant(np.int64(1))
    op = sequence.SequenceSplit(node.integer("axis", 0), keep)
    return node.apply(op, node[0], lengths, type=SequenceOf(node.dtype()))


@rule("Optional")
def optional(node: Node) -> Value:
    value = node.get(0)
    if value is None:
        if not node.has("type"):
            raise ModelError("expected an input or the attribute 'type', found neither")
        kind = type_of(node.attributes["type"].tp)
        if kind is None:
            raise ModelError("attribute 'type': expected a type, found none")
        return node.apply(sequence.OptionalOf(), type=OptionalOf(kind))
    return optional_of(node, value)


def optional_of(node: Node, value: Value) -> Value:
    """The optional of a value that is there."""
    kind = value.type
    if isinstance(kind, DType):
        return node.apply(sequence.OptionalOf(), value, type=OptionalOf(kind))
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
    return node.apply(sequence.OptionalHasElement(), value)


@rule("OptionalGetElement")
def optional_get_element(node: Node) -> Value:
    kind: Type = node[0].type
    if not isinstance(kind, OptionalOf):
        return node.copy(node[0])
    if isinstance(kind.element, DType):
        return node.apply(sequence.OptionalGetElement(), node[0], type=kind.element)
    return node.retyped(node[0], kind.element)
