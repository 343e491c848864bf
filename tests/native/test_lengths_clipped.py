"""Numbers that only a run tells, that shapes follow from, and that may be negative: code for any of them is one
function where they are clipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import Value
from circlet.runtime.ops.elementwise import Add, FloorMod, Maximum, Minimum, Mul, Sub
from circlet.runtime.ops.layout import Concatenation, Pack, StridedSlice
from circlet.runtime.ops.pad import Tile
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import ReduceMax, Sum
from circlet.runtime.ops.resize import ResizeBilinear
from circlet.runtime.ops.shape import Fill, Range, Reshape
from circlet.runtime.ops.unary import Neg, Relu, Tanh
from circlet.runtime.passes.analyses.told import Teller
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS, Write, model
from tests.ops.cases import check

Clip: TypeAlias = Callable[[Graph, Value], Value]


def maximum(g: Graph, k: Value) -> Value:
    return g(Maximum(), k, g.number(0), dtype=INTS)


def greatest_of_two(g: Graph, k: Value) -> Value:
    both = g(Concatenation(0), g(Reshape(), k, g.ints(1), dtype=INTS), g.ints(0), dtype=INTS)
    return g(ReduceMax(), both, g.ints(0), dtype=INTS)


def pasted(clip: Clip) -> Write:
    """The rows of x (n, 6) from place k on of 20, of which those outside are left out, as masks are put into images."""
    def write(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        end = g(Add(), k, g.length(x, 0), dtype=INTS)
        top, bottom = clip(g, k), g(Minimum(), end, g.number(20), dtype=INTS)
        begin, stop = (g(Reshape(), g(Sub(), each, k, dtype=INTS), g.ints(1), dtype=INTS) for each in (top, bottom))
        above, below = (g(Fill(), g(Pack(2), each, g.number(6), dtype=INTS), g.number(0.5)) for each in (
            top, g(Sub(), g.number(20), bottom, dtype=INTS)))
        return [g(Concatenation(0), above, g(StridedSlice(), x, begin, stop, g.ints(1)), below)]

    return write


@pytest.mark.parametrize("clip", [maximum, greatest_of_two])
def test_one_function_serves_negative_numbers(clip: Clip, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(pasted(clip)), backend=each) for each in ("native", "cpu"))
    for rows, k in ((8, 3), (8, -2), (30, -5), (5, 18), (12, 0), (400, -200), (2, -1)):
        given = [floats(rows, 6), np.array(k, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], None)
    assert len(compiled) == 1


@pytest.mark.parametrize("least", [0, 2])
@pytest.mark.parametrize("first", [Maximum, Minimum])
def test_one_function_serves_numbers_that_are_clipped_on_both_sides(first: type[Maximum | Minimum], least: int,
                                                                    folder: object, compiled: list[str]) -> None:
    """As `k.clamp(0, 4)` in either order, times as many rows."""
    def write(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        ends = [(Maximum(), least), (Minimum(), 4)]
        for op, end in ends if first is Maximum else ends[::-1]:
            k = g(op, k, g.number(end), dtype=INTS)
        return [g(Tanh(), g(Tile(), x, g(Pack(2), k, g.number(1), dtype=INTS)))]

    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for rows, k in ((8, 3), (5, 1), (30, 9), (7, 2), (1, 4), (12, -2), (3, -40), (4, 3)):
        given = [floats(rows, 6), np.array(k, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)
    assert {*native.backend_of(0)} <= {"native", "none"}
    assert len(compiled) == 1
    for rows, k in ((6, 2**31 - 1), (2, -(2**31)), (7, 2)):
        given = [floats(rows, 6), np.array(k, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)


def test_what_is_made_of_a_number_twice_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it is: 2 ** 14 ways lead from the number to the size."""
    def write(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        for op in [Add()] * 13 + [Sub()]:
            k = g(op, g(Neg(), k, dtype=INTS), k, dtype=INTS)
        return [g(Tanh(), g(Tile(), x, g(Pack(2), maximum(g, k), g.number(1), dtype=INTS)))]

    calls, real = [], Teller._shape

    def shape(self: Teller, tensor: int, *rest: Any) -> Any:
        calls.append(tensor)
        return real(self, tensor, *rest)

    monkeypatch.setattr(Teller, "_shape", shape)
    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    given = [floats(3, 6), np.array(-2, np.int32)]
    check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)
    assert 0 < len(calls) < 1 << 14


def test_clipped_numbers_are_sizes_that_must_not_be_zero(folder: object, compiled: list[str]) -> None:
    """An image of `k.clamp(0, 4)` rows, which is an error where there are none."""
    def write(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        rows = g(Minimum(), g(Maximum(), k, g.number(0), dtype=INTS), g.number(4), dtype=INTS)
        image = g(Reshape(), x, g.ints(1, -1, 6, 1))
        return [g(Tanh(), g(ResizeBilinear(), image, g(Pack(2), rows, g.number(3), dtype=INTS)))]

    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for rows, k in ((8, 3), (5, 1), (30, 9), (7, 2), (1, 4)):
        given = [floats(rows, 6), np.array(k, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)
    assert {*native.backend_of(0)} <= {"native", "none"}
    assert len(compiled) == 1
    for k in (0, -3):
        with pytest.raises(circlet.CircletError, match="RESIZE_BILINEAR"):
            native.invoke(0, [floats(8, 6), np.array(k, np.int32)])
    given = [floats(9, 6), np.array(2, np.int32)]
    check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)


def between(g: Graph, k: Value) -> Value:
    """0 to 6, as `tf.clip_by_value` is written."""
    return maximum(g, g(Minimum(), k, g.number(6), dtype=INTS))


def beyond(g: Graph, k: Value) -> Value:
    """How much k is more than 2."""
    return maximum(g, g(Sub(), k, g.number(2), dtype=INTS))


def short_of(g: Graph, k: Value) -> Value:
    """How much is left of k to 9, and 1 more."""
    return maximum(g, g(Add(), g(Sub(), g.number(9), k, dtype=INTS), g.number(1), dtype=INTS))


def doubled(g: Graph, k: Value) -> Value:
    return maximum(g, g(Mul(), k, g.number(2), dtype=INTS))


def negated(g: Graph, k: Value) -> Value:
    """How much k is less than 0, and 1 more."""
    return maximum(g, g(Add(), g(Neg(), k, dtype=INTS), g.number(1), dtype=INTS))


def clipped_below(g: Graph, k: Value) -> Value:
    """What is clipped by less than 0 first."""
    least = g(Maximum(), k, g.number(-3), dtype=INTS)
    return maximum(g, g(Add(), least, g.number(2), dtype=INTS))


@pytest.mark.parametrize("clip", [between, beyond, short_of, doubled, negated, clipped_below])
@pytest.mark.parametrize("first", [3, 0, -4])
def test_one_function_serves_what_is_clipped_to_sizes(clip: Clip, first: int, folder: object,
                                                             compiled: list[str]) -> None:
    def write(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        added = g(Fill(), g(Pack(2), clip(g, k), g.number(6), dtype=INTS), g.number(0.5))
        return [g(Tanh(), g(Concatenation(0), x, added))]

    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for rows, k in ((8, first), (5, 3), (3, -2), (7, 1), (12, 0), (4, 30), (9, -60), (1, 15)):
        given = [floats(rows, 6), np.array(k, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)
    assert len(compiled) == 1


@pytest.mark.parametrize("divisor", ["number", "length"])
def test_remainders_of_negative_numbers_are_sizes(divisor: str, folder: object, compiled: list[str]) -> None:
    def write(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        whole = g(Cast(), g(Cast(), k), dtype=INTS)
        rows = g(FloorMod(), whole, g.number(6) if divisor == "number" else g.length(x, 0), dtype=INTS)
        return [g(Tanh(), g(Concatenation(0), x, g(Fill(), g(Pack(2), rows, g.number(6), dtype=INTS), g.number(0.5))))]

    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for rows, k in ((8, 3), (5, -2), (7, -7), (12, 0), (4, 62), (9, -64), (5, 15)):
        given = [floats(rows, 6), np.array(k, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)
    assert len(compiled) == 1
    for k in (5000, -5000, 2**31 - 1, -(2**31)):
        given = [floats(8, 6), np.array(k, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)


def least_of_one(g: Graph, x: Value) -> Value:
    return g(Maximum(), g.number(1.0), x)


def rectified(g: Graph, x: Value) -> Value:
    return g(Relu(), x)


@pytest.mark.parametrize("clip", [least_of_one, rectified])
def test_numbers_that_are_not_negative_are_clipped_and_sizes(clip: Clip, folder: object, compiled: list[str]) -> None:
    """How many frames durations come to, of which PyTorch writes a range up to the greatest of them and 0."""
    def write(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        total = g(Add(), g(Sum(), x, g.ints(0, 1)), g(Cast(), k))
        count = g(ReduceMax(), g(Cast(), g(Reshape(), clip(g, total), g.ints(1)), dtype=INTS), g.ints(0), dtype=INTS)
        places = g(Range(), g.number(0), maximum(g, count), g.number(1), dtype=INTS)
        return [g(Reshape(), g(Cast(), places), g(Pack(2), g.number(1), count, dtype=INTS))]

    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for rows, k in ((8, 30), (3, 9), (30, 200), (4, -50), (5, 40), (2, 31)):
        given = [floats(rows, 6), np.array(k, np.int32)]
        np.testing.assert_array_equal(native.invoke(0, given)[0], cpu.invoke(0, given)[0])
    assert len(compiled) == 1


def test_axis_zero_is_no_number_that_clips(folder: object, compiled: list[str]) -> None:
    def write(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        rows = g(ReduceMax(), g(Reshape(), k, g.ints(1), dtype=INTS), g.ints(0), dtype=INTS)
        return [g(Tanh(), g(Concatenation(0), x, g(Fill(), g(Pack(2), rows, g.number(6), dtype=INTS), g.number(0.5))))]

    session = circlet.Session(model(write), backend="native")
    for rows, k in ((8, 3), (5, 18), (12, 1), (2, 100)):
        x = floats(rows, 6)
        expected = np.tanh(np.pad(x, ((0, k), (0, 0)), constant_values=0.5))
        check(session.invoke(0, [x, np.array(k, np.int32)])[0], expected, 1e-6)
    assert {*session.backend_of(0)} <= {"native", "none"}
    assert len(compiled) == 1


TO_THE_END = """g (float[b, t, 8] x, int64 k, float[8, 24] w, float[24, 24] v) => (float[r, 24] y) {
    none = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
    columns = Constant<value = int64[1] {8}>() end = Constant<value = int64[1] {9223372036854775807}>()
    sizes = Shape(x) batch = Gather(sizes, none) several = Unsqueeze(k, none)
    times = Concat<axis = 0>(one, several, one) first = ReduceMean<axes = [1], keepdims = 1>(x)
    many = Tile(first, times) rows = Mul(batch, several) shape = Concat<axis = 0>(rows, columns)
    flat = Reshape(many, shape) all = Slice(flat, none, end, none, one)
    a = MatMul(all, w) b = MatMul(a, v) c = MatMul(b, v) d = MatMul(c, v)
    e = Add(a, b) f = MatMul(e, v) h = Add(c, f) y = Add(h, d) }"""


def test_as_many_rows_as_several_batches_have_are_sliced_to_their_end(folder: object, compiled: list[str]) -> None:
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import load
    native, cpu = (circlet.Session(load(TO_THE_END, 17), each) for each in ("native", "cpu"))
    for batch, steps, times in ((2, 5, 3), (3, 4, 2), (4, 9, 5)):
        given = {"x": floats(batch, steps, 8), "k": np.array(times), "w": floats(8, 24), "v": floats(24, 24)}
        np.testing.assert_allclose(native.run(given)["y"], cpu.run(given)["y"], 1e-4, 1e-3)
    assert len(compiled) == 1
