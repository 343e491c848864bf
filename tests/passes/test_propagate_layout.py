"""Where transpositions stand after the layout pass; results stay the same."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.layout import Split, Transpose
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.passes.manager import Selection
from circlet.runtime.passes.transforms.propagate_layout import propagate_layout
from tests.schema.onnx.graphs import parse

X = np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype(np.float32)
W = "<float[2, 2, 3, 3] w = {" + ", ".join(f"{k % 7 - 3}.0" for k in range(36)) + "}>"
YES = "yes = Constant<value = bool {1}>()"
CONV = "Conv<pads = [1, 1, 1, 1]>"


def transposes(model: Model) -> list[int]:
    """How many transpositions each subgraph has."""
    return [sum(isinstance(operator.op, Transpose) for operator in each.operators) for each in model.subgraphs]


CASES = {
    "chain": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 3, 3] y) {W} {{ a = {CONV}(x, w) b = Relu(a) "
              f"k = Constant<value = float[2, 1, 1] {{1.0, 2.0}}>() c = Mul(b, k) d = {CONV}(c, w) "
              "y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(d) }", [2]),
    "residual": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {W} {{ a = {CONV}(x, w) b = Tanh(a) "
                 f"c = {CONV}(b, w) y = Add(c, a) }}", [2]),
    "global-pool": (f"g (float[1, 2, 6, 6] x) => (float[1, 2] y) {W} {{ a = {CONV}(x, w) "
                    "b = GlobalAveragePool(a) y = Flatten(b) }", [2]),
    "joined": (f"g (float[1, 2, 6, 6] x) => (float[1, 4, 8, 6] y) {W} {{ a = {CONV}(x, w) b = Neg(a) "
               "c = Concat<axis = 1>(a, b) p = Constant<value = int64[8] {0, 0, 1, 0, 0, 0, 1, 0}>() y = Pad(c, p) }",
               [2]),
    "joined-with-what-others-read": (
        f"g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {W} {{ a = {CONV}(x, w) f = Flatten(a) "
        f"m = ReduceMax<keepdims = 0>(f) b = {CONV}(a, w) c = Concat<axis = 1>(b, a) d, e = Split<axis = 1>(c) "
        f"h = {CONV}(d, w) s = Add(h, e) y = Mul(s, m) }}", [3]),
    "joined-for-none-that-takes-it": (
        f"g (float[1, 2, 6, 6] x) => (float[1, 144] y) {W} {{ a = {CONV}(x, w) f = Flatten(a) "
        f"m = ReduceMax<keepdims = 0>(f) b = {CONV}(a, w) c = Concat<axis = 1>(b, a) h = Flatten(c) y = Mul(h, m) }}",
        [3]),
    "split": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {W} {{ s = Constant<value = int64[2] {{2, 4}}>() "
              f"a = {CONV}(x, w) b, c = Split<axis = 1>(a) d, e = Split<axis = -2>(b, s) f = Concat<axis = 2>(e, d) "
              f"h = Concat<axis = 1>(c, f) y = {CONV}(h, w) }}", [2]),
    "sliced": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 4, 3] y) {W} {{ a = {CONV}(x, w) "
               "b = Constant<value = int64[2] {2, 1}>() e = Constant<value = int64[2] {99, 99}>() "
               "k = Constant<value = int64[2] {2, 3}>() "
               f"s = Constant<value = int64[2] {{1, 2}}>() c = Slice(a, b, e, k, s) y = {CONV}(c, w) }}", [2]),
    "cut-as-the-run-tells": (
        f"g (float[1, 2, H, W] x, int64[2] b, int64[2] e) => (float[1, 2, M, N] y) {W} {{ a = {CONV}(x, w) "
        f"k = Constant<value = int64[2] {{2, 3}}>() c = Slice(a, b, e, k) y = {CONV}(c, w) }}", [2]),
    "gathered": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 4] y) {W} {{ a = {CONV}(x, w) "
                 "k = Constant<value = int64[4] {1, 0, 5, 5}>() b = Gather<axis = 3>(a, k) "
                 f"y = {CONV}(b, w) }}", [2]),
    "measured": (f"g (float[1, 2, H, W] x) => (float[1, 2, M, N] y) {W} {{ a = {CONV}(x, w) s = Shape(a) "
                 "k = Constant<value = int64[4] {1, 10, 100, 0}>() t = Mul(s, k) u = Cast<to = 1>(t) "
                 f"v = ReduceSum<keepdims = 0>(u) b = Mul(a, v) y = {CONV}(b, w) }}", [2]),
    "named-constant": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {W} {{ a = {CONV}(x, w) "
                       "k = Constant<value = float[2, 1, 1] {1.0, 2.0}>() i = Identity(k) b = Mul(a, i) "
                       f"y = {CONV}(b, w) }}", [2]),
    "bias-of-the-run": (f"g (float[1, 2, 6, 6] x, float s) => (float[1, 2, 6, 6] y) {W} {{ a = {CONV}(x, w) "
                        "k = Constant<value = float[2, 1, 1] {1.0, 2.0}>() t = Mul(k, s) b = Add(t, a) "
                        f"y = {CONV}(b, w) }}", [3]),
    "scale-of-the-run": (f"g (float[1, 2, 6, 6] x, float s) => (float[1, 2, 6, 6] y) {W} {{ a = {CONV}(x, w) "
                         "k = Constant<value = int64[1] {1}>() t = Reshape(s, k) b = Mul(a, t) "
                         f"y = {CONV}(b, w) }}", [3]),
    "gate-of-the-run": (f"g (float[N, 2, 6, 6] x, float[N, 2] q) => (float[N, 2, 6, 6] y) {W} {{ a = {CONV}(x, w) "
                        "k = Constant<value = int64[2] {2, 3}>() t = Unsqueeze(q, k) b = Mul(a, t) "
                        f"y = {CONV}(b, w) }}", [3]),
    "range-of-the-run": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {W} {{ a = {CONV}(x, w) "
                         "m = ReduceMax<keepdims = 0>(a) n = Neg(m) b = Div(a, n) "
                         f"y = {CONV}(b, w) }}", [2]),
    "resized": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 3, 9] y) {W} {{ a = {CONV}(x, w) "
                "s = Constant<value = int64[4] {1, 2, 3, 9}>() "
                'b = Resize<mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel">(a, , , s) '
                f"y = {CONV}(b, w) }}", [2]),
    "loop": (f"g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {W} {{ M = Constant<value = int64 {{3}}>() {YES} "
             f'y = Loop(M, yes, x) <body = body (int64 i, bool c, float[1, 2, 6, 6] s) => (bool c, r) {{ '
             f"t = Constant<value = float {{0.01}}>() a = {CONV}(s, w) b = Mul(a, t) r = Relu(b) }}> }}", [2, 0]),
    "invariant": (f"g (float[1, 2, 6, 6] x, float s) => (float t) {W} {{ M = Constant<value = int64 {{3}}>() {YES} "
                  f't = Loop(M, yes, s) <body = body (int64 i, bool c, float u) => (bool c, float v) {{ '
                  f"a = {CONV}(x, w) b = ReduceSum<keepdims = 0>(a) v = Add(u, b) }}> }}", [1, 0]),
    "branches": (f"g (bool k, float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {W} {{ z = {CONV}(x, w) "
                 f"a = If(k) <then_branch = p () => (b) {{ b = {CONV}(z, w) }}, else_branch = q () => (d) "
                 f"{{ d = Relu(z) }}> y = Neg(a) }}", [1, 1, 1]),
}


@pytest.mark.parametrize("name", CASES)
def test_transpositions_move_to_where_they_cancel(name: str) -> None:
    text, left = CASES[name]
    content = parse(text)
    model = circlet.load(content)
    assert transposes(model) == left
    assert propagate_layout(model) is model
    given: dict[str, Any] = {"x": X, "s": np.array(1, np.float32), "k": np.array(True),
                             "b": np.array([2, 1], np.int64), "e": np.array([99, 5], np.int64),
                             "q": np.array([[3, -1]], np.float32)}
    inputs = {each: given[each] for each in model.signatures[0].inputs}
    (expected,) = ReferenceEvaluator(onnx.ModelProto.FromString(content)).run(None, inputs)
    for backend in ("cpu", "native"):
        (found,) = circlet.Session(model, backend=backend).run(inputs).values()
        np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("passes", "left"), [
    (None, [2, 0]), ("lower_loops", [2, 0]), (["propagate_layout", "lower_loops"], [2, 0]), (["lower_loops"], [0, 2])])
def test_sessions_choose_passes_of_loading(passes: Selection, left: list[int]) -> None:
    content = parse(CASES["loop"][0])
    session = circlet.Session(content, "cpu", passes=passes)
    assert transposes(session.model) == left
    (expected,) = circlet.Session(circlet.load(content), "cpu").run({"x": X}).values()
    for each in (session, pickle.loads(pickle.dumps(session))):
        np.testing.assert_allclose(each.run({"x": X})["y"], expected, rtol=1e-5, atol=1e-6)


def test_sessions_that_are_stopped_after_loading() -> None:
    session = circlet.Session(parse(CASES["chain"][0]), "cpu", passes="propagate_layout")
    assert session.executed is session.model
    assert transposes(session.model) == [2]


@pytest.mark.parametrize("axis", [1, -2, 5])
def test_parts_of_a_transposed_tensor(axis: int) -> None:
    """Are cut out of what was transposed; an axis that there is not is reported as before."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (2, 3, 4))
    turned = main.apply(Transpose(), x, main.constant([0, 2, 1], DType.INT32))
    parts = main.op(Split(2), main.constant(axis, DType.INT32), turned,
                    outputs=[Tensor(name, DType.FLOAT32, (2, 2, 3)) for name in "ab"])
    main.output(*parts)
    model = b.build()
    moved, given = propagate_layout(model), [np.arange(24, dtype=np.float32).reshape(2, 3, 4)]
    if axis == 5:
        with pytest.raises(circlet.ExecutionError, match=r"operator 1 \(SPLIT\): .*5"):
            circlet.Session(moved).run(given)
        return
    assert isinstance(moved.subgraphs[0].operators[0].op, Split)
    parts_of = [circlet.Session(each, "cpu").invoke(0, given) for each in (moved, model)]
    for found, expected in zip(*parts_of, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_axes_that_a_transposed_tensor_does_not_have() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (2, 3))
    (a,) = main.op(Transpose(), x, main.constant([1, 0], DType.INT32))
    main.output(*main.op(Sum(), a, main.constant([5], DType.INT32), outputs=[Tensor("y", DType.FLOAT32, (1,))]))
    model = propagate_layout(b.build())
    with pytest.raises(circlet.ExecutionError, match=r"operator 1 \(SUM\): .*found 5"):
        circlet.Session(model).run([X[0, 0, :2, :3]])


def test_padding_stays_behind_what_must_be_transposed_anyhow() -> None:
    model = circlet.load(parse(f"g (float[1, 2, 6, 6] x) => (float[1, 2, 3, 3] y) {W} "
                               "{ y = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w) }"))
    assert [each.name for each in model.subgraphs[0].operators] == ["TRANSPOSE", "PADV2", "CONV_2D", "TRANSPOSE"]


def test_outputs_that_are_transposed_alike() -> None:
    """Each stays a tensor of its own."""
    text = (f"g (float[1, 2, 4, 5] x) => (float[1, 5, 2, 4] y, float[1, 5, 2, 4] z) {W} {{ a = {CONV}(x, w) "
            "y = Transpose<perm = [0, 3, 1, 2]>(a) z = Transpose<perm = [0, 3, 1, 2]>(a) }")
    found = circlet.Session(parse(text), "cpu").run({"x": np.arange(40, dtype=np.float32).reshape(1, 2, 4, 5)})
    assert list(found) == ["y", "z"]
    assert found["y"].shape == (1, 5, 2, 4)
    np.testing.assert_array_equal(found["y"], found["z"])


def test_padding_that_a_run_tells() -> None:
    """Amounts for each axis go with the axes."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, amounts = main.input("x", DType.FLOAT32, (2, 3, 4)), main.input("amounts", DType.INT32, (3, 2))
    turned = main.apply(Transpose(), x, main.constant([0, 2, 1], DType.INT32))
    main.output(main.apply(Transpose(), main.apply(Pad(), turned, amounts), main.constant([0, 2, 1], DType.INT32)))
    moved = propagate_layout(b.build())
    assert transposes(moved) == [0]
    given = [np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([[0, 1], [2, 0], [1, 3]], np.int32)]
    (found,) = circlet.Session(moved, "cpu").invoke(0, given)
    np.testing.assert_array_equal(found, np.pad(given[0], [(0, 1), (1, 3), (2, 0)]))


@pytest.mark.parametrize("shape", [(1, 1, 2), (2,)])
def test_state_that_is_added_to_what_is_transposed(shape: tuple[int, ...]) -> None:
    """What is made of it is no state."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, order = main.input("x", DType.FLOAT32, (2, 3, 4)), main.constant([2, 1, 0], DType.INT32)
    state = main.tensor(Tensor("state", DType.FLOAT32, shape, is_variable=True))
    main.output(main.apply(Transpose(), main.apply(Add(), main.apply(Transpose(), x, order), state), order))
    moved = propagate_layout(b.build())
    assert [each.name for each in moved.subgraphs[0].tensors if each.is_variable] == ["state"]
    assert moved.subgraphs[0].operators[-2].name == "ADD"
    given = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for backend in ("cpu", "native"):
        np.testing.assert_array_equal(circlet.Session(moved, backend).invoke(0, [given])[0], given)
