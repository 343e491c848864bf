"""Operators, methods and functions of tensors give what numpy gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest

from circlet import Network
from circlet.network import Tensor
from circlet.network.tensor import Like
from circlet.runtime.ir.types import Activation, Padding
from circlet.runtime.ops.unary import Square
from tests.network.runs import Array, run

F = np.array([[1.5, -2, 3], [0.5, 4, -1]], np.float32)
G = np.array([[2, 0.25, -1], [1, -3, 2]], np.float32)
I = np.array([[7, -7, 3], [0, 5, -2]], np.int32)  # noqa: E741
J = np.array([[2, 2, -2], [3, 3, 3]], np.int32)
B = np.array([[True, False, True], [False, False, True]])
C = np.array([[True, True, False], [False, True, True]])


@dataclass(frozen=True)
class Case:
    name: str
    x: Array
    y: Array
    formula: Callable[[Network, Tensor, Tensor], Tensor]
    expected: Callable[[Array, Array], npt.ArrayLike]
    tolerance: float = 0.0


def same(name: str, x: Array, y: Array, formula: Callable[[Array, Array], npt.ArrayLike]) -> Case:
    """A formula that means the same to numpy."""
    return Case(name, x, y, lambda net, a, b: formula(a, b), formula)  # type: ignore[arg-type, return-value]


def correlated(x: Array, kernel: Array) -> Array:
    padded = np.pad(x[0, :, :, 0], ((0, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3))
    sums: Array = (windows * kernel).sum((2, 3))
    return sums.reshape(1, 2, 3, 1)


CASES = [
    same("add", F, G, lambda x, y: x + y),
    same("add_scalar", F, G, lambda x, y: 1 + x + 2.5),
    same("subtract", I, J, lambda x, y: (x - y) - 3),
    same("subtract_from", I, J, lambda x, y: 3 - x),
    same("multiply", F, G, lambda x, y: 2 * x * y),
    same("divide", F, G, lambda x, y: x / y),
    same("divide_scalar", F, G, lambda x, y: 1 / x),
    same("floor_divide", I, J, lambda x, y: x // y),
    same("floor_divide_scalar", I, J, lambda x, y: 7 // y),
    same("modulo", I, J, lambda x, y: x % y),
    same("power", F, G, lambda x, y: x ** 2),
    same("negate_abs", I, J, lambda x, y: -x + abs(y)),
    same("shift", I, J, lambda x, y: x >> 1),
    same("xor", I, J, lambda x, y: x ^ y),
    same("and_or", B, C, lambda x, y: (x & y) | ~x),
    same("xor_of_booleans", B, C, lambda x, y: x ^ y ^ True),
    same("less", F, G, lambda x, y: x < y),
    same("less_equal", I, J, lambda x, y: x <= 3),
    same("greater", F, G, lambda x, y: x > 0),
    same("greater_reflected", I, J, lambda x, y: 3 > x),  # noqa: SIM300
    same("greater_equal", F, G, lambda x, y: x >= y),
    same("equal", I, J, lambda x, y: x == y),
    same("not_equal", I, J, lambda x, y: x != 7),
    same("array_operand", F, G, lambda x, y: np.array([[1], [2]], np.float32) * x),
    same("broadcast", F, G[0], lambda x, y: x + y),
    same("matmul", F, G.T.copy(), lambda x, y: x @ y),
    same("matmul_vector", F, G[0], lambda x, y: x @ y),
    same("vector_matmul", F[:, 0].copy(), G, lambda x, y: x @ y),
    same("vector_vector", F[0], G[1], lambda x, y: x @ y),
    same("array_matmul", F, G, lambda x, y: np.array([[1, 2]], np.float32) @ x),
    same("index", F, G, lambda x, y: x[1]),
    same("index_negative", F, G, lambda x, y: x[-1, -3]),
    same("slice", F, G, lambda x, y: x[:, 1:]),
    same("slice_step", F, G, lambda x, y: x[::-1, ::2]),
    same("slice_bounds", F, G, lambda x, y: x[0:10, -2:-1]),
    same("new_axis", F, G, lambda x, y: x[:, None, 1]),
    same("ellipsis", F, G, lambda x, y: x[..., 0]),
    same("ellipsis_middle", F.reshape(1, 2, 3), G, lambda x, y: x[0, ..., 1:2]),
    same("all", F, G, lambda x, y: x[()]),
    same("indices", F, G, lambda x, y: x[:, np.array([2, 0, 2], np.int32)]),
    same("indices_behind_ellipsis", F.reshape(1, 2, 3), G, lambda x, y: x[..., np.array([1, 0], np.int32), 1:]),
    same("reshape", F, G, lambda x, y: x.reshape(3, -1)),
    same("reshape_tuple", F, G, lambda x, y: x.reshape((6,))),
    same("transpose", F, G, lambda x, y: x.T + y.transpose(1, 0)),
    same("squeeze", F[:, None], G, lambda x, y: x.squeeze(1)),
    same("astype", F, G, lambda x, y: x.astype(np.int32)),
    same("sum", F, G, lambda x, y: x.sum()),
    same("sum_axis", I, J, lambda x, y: x.sum(-1)),
    same("sum_keepdims", F, G, lambda x, y: x.sum(axis=(0, 1), keepdims=True)),
    same("mean", F, G, lambda x, y: x.mean(0)),
    same("prod", I, J, lambda x, y: y.prod(axis=1)),
    same("max_min", F, G, lambda x, y: x.max(1) - y.min(1)),
    same("any_all", B, C, lambda x, y: x.any(0) & y.all(0)),
    same("argmax", F, G, lambda x, y: x.argmax(1) - x.argmin(1)),
    same("iterate", F, G, lambda x, y: sum(row * (k + 1) for k, row in enumerate(x))),
    Case("tensor_index", F, np.array([2, 1], np.int32), lambda net, x, y: x[:, y], lambda x, y: x[:, y]),
    Case("scalar_tensor_index", F, np.int32(1), lambda net, x, y: x[y, 1:], lambda x, y: x[y, 1:]),
    Case("where", F, G, lambda net, x, y: net.where(x > y, x, 0), lambda x, y: np.where(x > y, x, 0)),
    Case("maximum", F, G, lambda net, x, y: net.maximum(x, 0) + net.minimum(1, y),
         lambda x, y: np.maximum(x, 0) + np.minimum(1, y)),
    Case("squared_difference", F, G, lambda net, x, y: net.squared_difference(x, y), lambda x, y: (x - y) ** 2),
    Case("exp_log", F, G, lambda net, x, y: net.log(net.exp(x)), lambda x, y: np.log(np.exp(x)), 1e-6),
    Case("sqrt_rsqrt", F, G, lambda net, x, y: net.sqrt(net.square(x)) * net.rsqrt(y * y),
         lambda x, y: np.abs(x) / np.abs(y), 1e-6),
    Case("sin_cos", F, G, lambda net, x, y: net.sin(x) + net.cos(y), lambda x, y: np.sin(x) + np.cos(y), 1e-6),
    Case("tanh_sigmoid", F, G, lambda net, x, y: net.tanh(x) - net.sigmoid(y),
         lambda x, y: np.tanh(x) - 1 / (1 + np.exp(-y)), 1e-6),
    Case("relu", F, G, lambda net, x, y: net.relu(x) + net.relu6(2 * y) + net.leaky_relu(x, 0.5),
         lambda x, y: np.maximum(x, 0) + np.clip(2 * y, 0, 6) + np.where(x > 0, x, x / 2), 1e-6),
    Case("elu_gelu_swish", F, G, lambda net, x, y: net.elu(x) + net.gelu(x, approximate=True) + net.hard_swish(y),
         lambda x, y: np.where(x > 0, x, np.exp(x) - 1) + x * (
             1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))) / 2 + y * np.clip(y + 3, 0, 6) / 6, 1e-5),
    Case("rounding", F, G, lambda net, x, y: net.floor(x) + net.ceil(y) + net.round(x) + net.sign(y),
         lambda x, y: np.floor(x) + np.ceil(y) + np.round(x) + np.sign(y)),
    Case("softmax", F, G, lambda net, x, y: net.softmax(x) - net.log_softmax(x),
         lambda x, y: (p := np.exp(x) / np.exp(x).sum(-1, keepdims=True)) - np.log(p), 1e-5),
    Case("reductions", F, G, lambda net, x, y: net.sum(x) + net.mean(y, 0) + net.prod(x, 0) + net.max(x) - net.min(y),
         lambda x, y: x.sum() + y.mean(0) + x.prod(0) + x.max() - y.min(), 1e-6),
    Case("any_all_functions", B, C, lambda net, x, y: net.any(x, 1) & ~net.all(y, 1),
         lambda x, y: x.any(1) & ~y.all(1)),
    Case("cumsum", F, G, lambda net, x, y: net.cumsum(x, 1), lambda x, y: x.cumsum(1)),
    Case("top_k", F, G, lambda net, x, y: net.top_k(x, 2)[0] + net.top_k(x, 2)[1].astype(np.float32),
         lambda x, y: np.array([[3 + 2, 1.5 + 0], [4 + 1, 0.5 + 0]], np.float32)),
    Case("concat_stack", F, G, lambda net, x, y: net.concat([net.stack([x, y], 1), net.stack([y, x], 1)], -1),
         lambda x, y: np.concatenate([np.stack([x, y], 1), np.stack([y, x], 1)], -1)),
    Case("concat_constant", F, G, lambda net, x, y: net.concat([x, [[1.0, 2, 3]]]),
         lambda x, y: np.concatenate([x, np.array([[1, 2, 3]], np.float32)])),
    Case("split", F, G, lambda net, x, y: net.split(x, 3, 1)[1] + net.split(y, [1, -1], 1)[0],
         lambda x, y: x[:, 1:2] + y[:, :1]),
    Case("reverse_tile", F, G, lambda net, x, y: net.tile(net.reverse(x, 1), [2, 1]),
         lambda x, y: np.tile(x[:, ::-1], (2, 1))),
    Case("pad", F, G, lambda net, x, y: net.pad(x, [[0, 1], [1, 0]], 2.5),
         lambda x, y: np.pad(x, [[0, 1], [1, 0]], constant_values=2.5)),
    Case("shape_full", F, G, lambda net, x, y: net.full(net.shape(x), 2.0) + net.full((), 1.0),
         lambda x, y: np.full(x.shape, np.float32(3))),
    Case("broadcast_to", F, G, lambda net, x, y: net.broadcast_to(x, [2, 2, 3]),
         lambda x, y: np.broadcast_to(x, (2, 2, 3))),
    Case("range_one_hot", F, np.int32(4), lambda net, x, y: net.one_hot(net.range(0, y), 4),
         lambda x, y: np.eye(4, dtype=np.float32)),
    Case("gather", F, np.array([[1, 0]], np.int32), lambda net, x, y: net.gather(x, y, axis=1), lambda x, y: x[:, y]),
    Case("gather_nd", F, np.array([[1, 0], [0, 2]], np.int32), lambda net, x, y: net.gather_nd(x, y),
         lambda x, y: x[y[:, 0], y[:, 1]]),
    Case("scatter_nd", F[0], np.array([[3], [1], [3]], np.int32), lambda net, x, y: net.scatter_nd(y, x, [5]),
         lambda x, y: np.array([0, x[1], 0, x[0] + x[2], 0], np.float32)),
    Case("update", F, np.int32(1), lambda net, x, y: net.update(x, [[9.0, 8.0]], cast(list[Like], [y, 1])),
         lambda x, y: np.array([x[0], [x[1, 0], 9, 8]], np.float32)),
    Case("functions", F, G, lambda net, x, y: net.transpose(net.reshape(net.cast(x, np.int32), (3, 2)), (1, 0)),
         lambda x, y: x.astype(np.int32).reshape(3, 2).T),
    Case("matmul_function", F, G, lambda net, x, y: net.matmul(x, y.T), lambda x, y: x @ y.T),
    Case("dense", F, G, lambda net, x, y: net.dense(x, y, [1.0, -1.0], Activation.RELU),
         lambda x, y: np.maximum(x @ y.T + np.array([1, -1], np.float32), 0)),
    Case("conv2d", F.reshape(1, 2, 3, 1), G, lambda net, x, y: net.conv2d(x, y.reshape(1, 2, 3, 1), [1.0]),
         lambda x, y: correlated(x, y) + 1),
    Case("depthwise", F.reshape(1, 1, 2, 3), G,
         lambda net, x, y: net.depthwise_conv2d(x, y.reshape(1, 1, 2, 3), padding=Padding.VALID),
         lambda x, y: (x * y.reshape(1, 1, 2, 3)).sum(2, keepdims=True), 1e-6),
    Case("pooling", F.reshape(1, 2, 3, 1), G,
         lambda net, x, y: net.max_pool2d(x, 2, 1) - net.average_pool2d(x, (2, 2), 1),
         lambda x, y: np.array([4 - 1, 4 - 1], np.float32).reshape(1, 1, 2, 1)),
    Case("apply", F, G, lambda net, x, y: net.apply(Square(), x)[0], lambda x, y: x * x),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_formula(case: Case) -> None:
    net = Network()
    x = net.input("x", case.x.dtype, case.x.shape)
    y = net.input("y", case.y.dtype, case.y.shape)
    result = case.formula(net, x, y)
    net.output(result, "z")
    found = run(net, x=case.x, y=case.y)["z"]
    expected = np.asarray(case.expected(case.x, case.y))
    assert result.dtype.numpy == found.dtype
    assert found.dtype.kind == expected.dtype.kind
    assert result.shape is not None
    assert all(dim in (-1, size) for dim, size in zip(result.shape, found.shape, strict=True))
    np.testing.assert_allclose(found, expected, rtol=case.tolerance, atol=case.tolerance)


OPEN: list[tuple[str, tuple[int, ...], Callable[[Network, Tensor], Tensor], tuple[int, ...] | None]] = [
    ("elementwise", (-1, 3), lambda net, x: x + np.ones((2, 1), np.float32), (2, 3)),
    ("unary", (-1, 3), lambda net, x: net.exp(x), (-1, 3)),
    ("broadcast_open", (-1, 1), lambda net, x: x * [1.0, 2.0], (-1, 2)),
    ("matmul", (-1, 3), lambda net, x: x @ np.ones((3, 4), np.float32), (-1, 4)),
    ("reshape", (-1, 4), lambda net, x: x.reshape(-1, 2), (-1, 2)),
    ("concat", (-1, 4), lambda net, x: net.concat([x, x], 1), (-1, 8)),
    ("grow", (-1, 4), lambda net, x: net.concat([x, x]), (-1, 4)),
    ("index", (-1, 4), lambda net, x: x[-1, 1:], (3,)),
    ("sum", (-1, 4), lambda net, x: x.sum(0), (4,)),
    ("shape", (-1, 4), lambda net, x: net.shape(x), (2,)),
    ("unknown", (-1,), lambda net, x: x.squeeze(), None),
]


@pytest.mark.parametrize(("shape", "formula", "expected"), [case[1:] for case in OPEN], ids=[case[0] for case in OPEN])
def test_shapes_of_which_a_run_tells_the_rest(shape: tuple[int, ...], formula: Callable[[Network, Tensor], Tensor],
                                              expected: tuple[int, ...] | None) -> None:
    net = Network()
    result = formula(net, net.input("x", np.float32, shape))
    assert result.shape == (expected if expected is not None else result.shape)
    net.output(result, "y")
    value = np.arange(2 * np.prod([max(dim, 1) for dim in shape]), dtype=np.float32)
    found = run(net, x=value.reshape([2 if dim < 0 else dim for dim in shape]))["y"]
    assert result.shape is None or all(dim in (-1, size) for dim, size in zip(result.shape, found.shape, strict=True))
