"""Native convolutions of volumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.op import Op, ShapeError
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops.conv import Conv3D, Conv3DTranspose
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.ops.unary import Tanh
from tests.native.against_cpu import agree, applied, seeds, values
from tests.native.test_lengths import Graph, floats
from tests.ops.cases import check
from tests.properties import holds

Axis: TypeAlias = "tuple[int, int, int, int]"
"""A length, and of the window size, stride and dilation."""
AXES = st.tuples(st.sampled_from([1, 2, 4, 5, 9]), st.integers(1, 3), st.integers(1, 2), st.sampled_from([1, 1, 2]))
CHANNELS = st.sampled_from([1, 2, 3, 8, 17, 32])
ACTIVATIONS = st.sampled_from([Activation.NONE, Activation.RELU, Activation.RELU6])


def made(kind: type[Conv3D] | type[Conv3DTranspose], axes: tuple[Axis, Axis, Axis], padding: Padding,
         activation: Activation) -> Conv3D | Conv3DTranspose:
    (_, _, deep, by_d), (_, _, tall, by_h), (_, _, wide, by_w) = axes
    return kind(padding, deep, wide, tall, activation, by_d, by_w, by_h)


@holds(st.integers(0, 2), st.tuples(AXES, AXES, AXES), CHANNELS, CHANNELS, st.sampled_from(Padding), ACTIVATIONS,
       st.booleans(), st.booleans(), seeds, few=15, many=150)
def test_conv_3d(count: int, axes: tuple[Axis, Axis, Axis], channels: int, filters: int, padding: Padding,
                 activation: Activation, biased: bool, told: bool, seed: int) -> None:
    lengths, sizes = zip(*((length, min(size, length)) for length, size, _, _ in axes), strict=True)
    x = values((count, *lengths, channels), np.float32, seed)
    filter, bias = values((*sizes, channels, filters), np.float32, seed + 1), values((filters,), np.float32, seed + 2)
    op = made(Conv3D, axes, padding, activation)
    try:
        op.windows(x.shape, filter.shape)
    except ShapeError:
        return
    behind = [bias] if biased else []
    if told:
        agree(applied(op), x, filter, *behind)
    else:
        agree(applied(op, filter, *behind), x)


@holds(st.integers(0, 2), st.tuples(AXES, AXES, AXES), CHANNELS, CHANNELS, st.sampled_from(Padding), ACTIVATIONS,
       st.booleans(), st.booleans(), seeds, few=15, many=150)
def test_conv_3d_transpose(count: int, axes: tuple[Axis, Axis, Axis], channels: int, filters: int, padding: Padding,
                           activation: Activation, biased: bool, told: bool, seed: int) -> None:
    lengths, sizes = zip(*((length, min(size, length)) for length, size, _, _ in axes), strict=True)
    shape, op = (count, *lengths, filters), made(Conv3DTranspose, axes, padding, activation)
    filter = values((*sizes, filters, channels), np.float32, seed + 1)
    try:
        windows = op.windows(shape, filter.shape)
    except ShapeError:
        return
    x = values((count, *(each.count for each in windows), channels), np.float32, seed)
    behind = [values((filters,), np.float32, seed + 2)] if biased else []

    def formula(g: SubgraphBuilder, given: Value, *told: Value) -> Sequence[Value]:
        weights = told or (g.constant(filter),)
        return g.op(op, g.constant(np.array(shape, np.int32)), *weights, given, *map(g.constant, behind))

    agree(formula, x, *([filter] if told else []))


HALVES = floats(3, 3, 3, 3, 5).astype(np.float16)
INFINITE = np.where(np.arange(27).reshape(3, 3, 3, 1, 1) == 5, np.inf, HALVES)
FILTERS: dict[str, Callable[[Graph], Value]] = {
    "constant": lambda g: g.builder.constant(HALVES.astype(np.float32)),
    "halves": lambda g: g(Dequantize(), g.builder.constant(HALVES)),
    "infinite halves": lambda g: g(Dequantize(), g.builder.constant(INFINITE.astype(np.float16))),
    "computed": lambda g: g(Tanh(), g.builder.input("filter", DType.FLOAT32, (3, 3, 3, 3, 5))),
}


@pytest.mark.parametrize("filter", FILTERS.values(), ids=list(FILTERS))
@pytest.mark.parametrize("op", [Conv3D(Padding.SAME, 2, 1, 1), Conv3D(Padding.VALID, 1, 1, 2, dilation_w_factor=2)],
                         ids=str)
def test_one_function_serves_all_lengths(op: Op, filter: Callable[[Graph], Value], folder: object,
                                         compiled: list[str]) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1, -1, -1, -1, 3))
    g.builder.output(g(Tanh(), g(op, x, filter(g))))
    model = b.build()
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for shape in ((2, 5, 6, 7), (3, 8, 5, 9), (2, 12, 33, 20), (4, 7, 7, 7)):
        given = [floats(*shape, 3), HALVES.astype(np.float32)][:len(model.subgraphs[0].inputs)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)
    assert len(compiled) == 1
    assert set(native.backend_of(0)) == {"native"}
