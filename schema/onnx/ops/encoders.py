"""Rules for encoders of the set `ai.onnx.ml`: numbers are looked up among those that a node names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import comparison, reduce
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Narrow, Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.learned import DOMAIN
from circlet.schema.onnx.rules import rule

_KINDS: dict[DType, tuple[str, Any]] = {
    DType.INT64: ("int64", -1), DType.FLOAT32: ("float", -0.0), DType.STRING: ("string", "_Unused"),
}
"""What attributes of a type are called after, and what stands for keys that are not there."""
_PLAIN = (DType.INT64, DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT16, DType.STRING)
"""The types of tensors of keys and values."""
_SPREAD, _FEW = 4, 1 << 10
"""A table of integers has so many places for each key, and so many more, at most: a choice."""


@rule(f"{DOMAIN}.LabelEncoder")
def label_encoder_1(node: Node) -> Value:
    """The name of each number from 0 on."""
    names = np.array([each.encode() for each in node.strings("classes_strings")], object)
    other = np.array([node.string("default_string", "_Unused").encode()], object)
    return _encoded(node, node[0], np.arange(len(names)), names, other)


@rule(f"{DOMAIN}.LabelEncoder", since=2)
def label_encoder(node: Node) -> Value:
    """The value of the first key that equals each element, or the one that stands for others. NaN equals NaN from
    version 4 on."""
    values = _given(node, "values")
    return _encoded(node, node[0], _given(node, "keys"), values, _default(node, values))


def _encoded(node: Node, x: Value, keys: Array, values: Array, other: Array) -> Value:
    """The values of keys, or another one, in the shape of x."""
    if keys.size != values.size or not keys.size:
        raise ModelError(f"expected as many keys as values, found {keys.size} and {values.size}")
    if keys.dtype == object or DType.of(keys.dtype) is not x.dtype:
        node.unsupported(f"keys of type {_name(keys)} for elements of type {x.dtype.value}")
    if keys.dtype.kind == "i" and int(keys.max()) - int(keys.min()) < _SPREAD * keys.size + _FEW:
        return _of_table(node, x, keys, values, other)
    is_key = _equal(node, x, keys, node.version > 3)
    axis = node.constant(node.rank(), DType.INT32)
    place = node.apply(reduce.ArgMax(DType.INT32), c.cast(node.graph, is_key, DType.INT8), axis)
    place = c.select(node.graph, node.apply(reduce.ReduceAny(), is_key, axis), place, c.like(keys.size, place))
    return c.gather(node.graph, node.constant(np.concatenate([values, other])), place, 0)


def _of_table(node: Node, x: Value, keys: Array, values: Array, other: Array) -> Value:
    """The same of integers that lie close together: a look-up in a table of all from the least one to the greatest."""
    graph, low, high = node.graph, int(keys.min()), int(keys.max())
    table = np.repeat(other, high - low + 2)
    table[keys[::-1] - low] = values[::-1]
    near = c.minimum(graph, c.like(high, x), c.maximum(graph, c.like(low, x), x))
    place = c.select(graph, c.equal(graph, near, x), c.subtract(graph, near, c.like(low, x)), c.like(high - low + 1, x))
    return c.gather(graph, node.constant(table), c.cast(graph, place, DType.INT32), 0)


@rule(f"{DOMAIN}.OneHotEncoder")
def one_hot_encoder(node: Node) -> Value:
    """A further axis, with 1 at the last category that equals each element as an integer. With `zeros` of 0 one must be
    there: the row of another element is looked up behind the last one."""
    names = node.integers("cats_int64s", ())
    if not names or node.strings("cats_strings", ()):
        node.unsupported("categories of text")
    if node.dtype() not in (DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64):
        node.unsupported(f"elements of type {node.dtype().value}")
    count, last = len(names), {each: position for position, each in enumerate(names)}
    c.expect_few(count * count)
    rows = np.eye(count + node.integer("zeros", 1), count, dtype=np.float32)
    place = _encoded(node, c.cast(node.graph, node[0], DType.INT64), np.array([*last], np.int64), np.array(
        [*last.values()], np.int32), np.array([count], np.int32))
    return c.gather(node.graph, node.constant(rows), place, 0)


def _equal(node: Node, x: Value, keys: Array, finds_nan: bool) -> Value:
    """Whether each element is each key, along a further axis."""
    x = c.unsqueeze(node.graph, x, [node.rank()])
    found = c.equal(node.graph, x, node.constant(keys))
    if not finds_nan or keys.dtype.kind != "f" or not np.isnan(keys).any():
        return found
    missing = node.apply(comparison.LogicalAnd(), node.apply(comparison.NotEqual(), x, x), node.constant(
        np.isnan(keys)))
    return node.apply(comparison.LogicalOr(), found, missing)


def _given(node: Node, side: str) -> Array:
    """The keys or the values."""
    if node.has(f"{side}_tensor"):
        dtype, found = node.tensor(f"{side}_tensor")
        return _plain(node, dtype, found)
    lists: dict[DType, Sequence[Any]] = {
        DType.INT64: node.integers(f"{side}_int64s", ()), DType.FLOAT32: node.numbers(f"{side}_floats", ()),
        DType.STRING: [each.encode() for each in node.strings(f"{side}_strings", ())]}
    named = [np.array(numbers, dtype.numpy) for dtype, numbers in lists.items() if numbers]
    if len(named) != 1:
        raise ModelError(f"expected {side} of one type, found {len(named)}")
    return named[0]


def _default(node: Node, values: Array) -> Array:
    """What stands for keys that are not there, as one element."""
    if node.has("default_tensor"):
        dtype, found = node.tensor("default_tensor")
        return _plain(node, dtype, found)[:1].astype(values.dtype)
    kind = DType.STRING if values.dtype == object else DType.of(values.dtype)
    name, other = _KINDS.get(kind, ("", 0))
    if kind is DType.STRING:
        return np.array([node.string("default_string", other).encode()], object)
    if kind is DType.INT64:
        other = node.integer(f"default_{name}", other)
    elif kind is DType.FLOAT32:
        other = node.number(f"default_{name}", other)
    return np.array([other], values.dtype)


def _plain(node: Node, dtype: DType | Narrow, found: Array) -> Array:
    if dtype not in _PLAIN:
        node.unsupported(f"keys or values of type {dtype.name}")
    return found.reshape(-1)


def _name(array: Array) -> str:
    return "string" if array.dtype == object else array.dtype.name
