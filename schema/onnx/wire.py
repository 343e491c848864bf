"""Takes the content of large tensors out of a serialised model, so that it is not copied before it is read.

The format is that of protocol buffers ("Encoding", protobuf.dev), the numbers of fields are those of `onnx.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from onnx import TensorProto

SMALLEST = 1 << 20
"""Bytes of a model from which on it is looked through: a choice. Of less, copies take less than a millisecond."""
_LARGE = 1 << 12
"""Bytes of what is taken out of it at the least: a choice."""
_GRAPH, _INITIALIZER, _DATA_TYPE, _RAW_DATA, _OUTSIDE = 7, 5, 2, 9, (13, 14)
"""`ModelProto.graph`, `GraphProto.initializer`, `TensorProto.data_type`, `raw_data`, and what says that its data lies
in another file, `external_data` and `data_location`."""
_VARINT, _LENGTH = 0, 2
_SIZES = {1: 8, 5: 4}
"""Types of fields; the bytes of those of fixed size."""
PLAIN = frozenset({
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
    TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64, TensorProto.BOOL})
"""Types of elements that are stored as numpy has them."""


class _Field(NamedTuple):
    """A field of a message."""

    number: int
    kind: int
    begin: int
    value: int
    """Where what it holds begins; of a `_VARINT`, the number itself."""
    end: int


class Separated(NamedTuple):
    """A serialised model without the content of some tensors."""

    model: bytes
    contents: dict[int, memoryview]
    """Of initializers of its graph, by position."""


def separated(data: memoryview) -> Separated:
    """A model whose initializers that are large, and of plain types, have no `raw_data`. Of what is not well-formed, or
    gives its graph in parts, nothing is taken out."""
    with suppress(IndexError, ValueError):
        found = _separated(data) if len(data) >= SMALLEST else None
        if found is not None and found.contents:
            return found
    return Separated(bytes(data), {})


def _separated(data: memoryview) -> Separated:
    graphs = [each for each in _fields(data, 0, len(data)) if each.number == _GRAPH]
    if len(graphs) != 1 or graphs[0].kind != _LENGTH:
        raise ValueError("the graph comes in parts")
    graph, contents, number = graphs[0], dict[int, memoryview](), 0
    kept = graph.value
    parts: list[bytes | memoryview] = []
    for field in _fields(data, graph.value, graph.end):
        if field.number != _INITIALIZER:
            continue
        raw = _content(data, field) if field.kind == _LENGTH else None
        if raw is not None:
            contents[number] = data[raw.value:raw.end]
            parts += [data[kept:field.begin], *_message(_INITIALIZER, [data[field.value:raw.begin],
                                                                      data[raw.end:field.end]])]
            kept = field.end
        number += 1
    parts.append(data[kept:graph.end])
    return Separated(b"".join([data[:graph.begin], *_message(_GRAPH, parts), data[graph.end:]]), contents)


def _content(data: memoryview, tensor: _Field) -> _Field | None:
    """The only `raw_data` of a tensor, if it is large, and of a plain type."""
    if tensor.end - tensor.value < _LARGE:
        return None
    fields = list(_fields(data, tensor.value, tensor.end))
    raw = [each for each in fields if each.number == _RAW_DATA]
    types = [each.value for each in fields if each.number == _DATA_TYPE and each.kind == _VARINT]
    is_plain = len(types) == 1 and types[0] in PLAIN and not any(each.number in _OUTSIDE for each in fields)
    is_large = len(raw) == 1 and raw[0].kind == _LENGTH and raw[0].end - raw[0].value >= _LARGE
    return raw[0] if is_plain and is_large else None


def _fields(data: memoryview, begin: int, end: int) -> Iterator[_Field]:
    """The fields of a message.

    Raises:
        ValueError, IndexError: it is malformed, or has groups, of an older format.
    """
    place = begin
    while place < end:
        tag, value = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            found, after = _varint(data, value)
            field = _Field(number, kind, place, found, after)
        else:
            size, value = _varint(data, value) if kind == _LENGTH else (_SIZES.get(kind, -1), value)
            if size < 0:
                raise ValueError(f"a field of type {kind}")
            field = _Field(number, kind, place, value, value + size)
        if field.end > end:
            raise ValueError("a field ends beyond its message")
        yield field
        place = field.end


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where the next thing begins."""
    found = shift = 0
    while True:
        byte = data[place]
        found |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return found, place
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _message(number: int, parts: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """A field that holds a message."""
    return [_number(number << 3 | _LENGTH), _number(sum(map(len, parts))), *parts]


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
