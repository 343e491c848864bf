"""Length 1 is a length like others: one function serves it, too, unless it would serve no other length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from benchmarks.open_cases import CASES, Case
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.elementwise import Add, Mul, Sub
from circlet.runtime.ops.layout import Concatenation, Transpose
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.pad import Tile
from circlet.runtime.ops.quantize import Cast, Dequantize
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.shape import BroadcastArgs, BroadcastTo, ExpandDims, ShapeOf, Squeeze
from tests.native.test_lengths import MODELS, Graph, floats, layers, model, weights
from tests.ops.cases import check, q
from tests.properties import holds

TOLD_APART = {"cut": "columns are cut from the second one on, of which there is none"}
"""Cases of which code for some length of 1 is for no other, and why."""
Build: TypeAlias = Callable[[Graph, Value, Value, int], Value]
"""A matrix from two others and 0 or 1."""


def sessions(made: Model) -> tuple[circlet.Session, circlet.Session]:
    return circlet.Session(made, backend="native"), circlet.Session(made, backend="cpu")


def lengths_with_one(case: Case) -> Sequence[tuple[int, ...]]:
    """Each length 1, alone and with others, before and after the lengths of a case."""
    shortest, *_ = case.lengths
    ones = [tuple(each) for each in product(*((1, length) for length in shortest)) if 1 in each]
    return [*ones, *map(tuple, case.lengths[:2]), *ones]


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_length_one(name: str, folder: object, compiled: list[str]) -> None:
    case = CASES[name]
    native, cpu = sessions(case.model(case.shape))
    for lengths in lengths_with_one(case):
        x = case.input(lengths)
        for found, expected in zip(native.invoke(0, [x]), cpu.invoke(0, [x]), strict=True):
            check(found, expected, 2e-4)
    assert len(compiled) == 1 + (name in TOLD_APART)


@pytest.mark.parametrize("name", sorted({*MODELS} - {"loop"}))
def test_one_function_serves_models_at_length_one(name: str, folder: object, compiled: list[str]) -> None:
    made, inputs = MODELS[name]
    native, cpu = sessions(made)
    for n in (1, 40, 7, 1):
        given = inputs(n)
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1


def test_an_axis_of_one_that_is_spread_has_code_of_its_own(folder: object, compiled: list[str]) -> None:
    """(n, 4) and (m, 4): equal, or one of them 1."""
    def write(g: Graph) -> Sequence[Value]:
        return [g(Add(), *(g.builder.input(name, DType.FLOAT32, (-1, 4)) for name in "xy"))]

    native, cpu = sessions(model(write))
    for n, m in ((1, 1), (5, 5), (1, 5), (1, 9), (7, 1), (1, 1), (3, 3)):
        given = floats(n, 4), floats(m, 4)
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)
    assert len(compiled) == 3
    with pytest.raises(circlet.ExecutionError):
        native.invoke(0, [floats(2, 4), floats(3, 4)])


def test_an_axis_that_is_left_out_is_one(folder: object, compiled: list[str]) -> None:
    def write(g: Graph) -> Sequence[Value]:
        return [g(Squeeze((0,)), g.builder.input("x", DType.FLOAT32, (-1, -1)))]

    native, _ = sessions(model(write))
    for n in (1, 4, 9):
        x = floats(1, n)
        check(native.invoke(0, [x])[0], x[0], 0)
    assert len(compiled) == 1
    with pytest.raises(circlet.ExecutionError):
        native.invoke(0, [floats(2, 4)])


def test_what_takes_code_of_its_own_is_known_at_the_next_start(folder: object, compiled: list[str]) -> None:
    """An axis of 1 is spread where it is repeated, others are copied."""
    def write(g: Graph) -> Sequence[Value]:
        return [g(Tile(), g.builder.input("x", DType.FLOAT32, (-1, 30)), g.ints(5, 1))]

    given = [floats(1, 30)]
    for expected in (1, 0):
        compiled.clear()
        native, cpu = sessions(model(write))
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 0)
        assert len(compiled) == expected


@pytest.mark.parametrize("dtype", [DType.BOOL, DType.INT8, DType.FLOAT32])
def test_elements_that_are_repeated_are_spread(dtype: DType, folder: Path, compiled: list[str]) -> None:
    """LLVM would write the turns of a loop around one turn one after the other, and make vectors of what is around."""
    def write(g: Graph) -> Sequence[Value]:
        x = g.builder.input("x", dtype, (-1, -1))
        return [g(Tile(), g(ExpandDims(), x, g.number(-1), dtype=dtype), g.ints(1, 1, 32),
                  dtype=dtype)]

    native, _ = sessions(model(write))
    for rows, columns in ((2, 70), (1, 3), (5, 1), (3, 64)):
        x = np.random.default_rng(rows).integers(0, 2, (rows, columns)).astype(dtype.numpy)
        check(native.invoke(0, [x])[0], np.repeat(x[..., None], 32, -1), 0)
    assert len(compiled) == 1
    assert max(each.stat().st_size for each in folder.iterdir() if each.suffix == ".o") < 40_000


def test_floats_that_are_exact_for_few_lengths_are_left_to_the_run(folder: object, compiled: list[str]) -> None:
    """As how fast positions are turned, which models of language compute from how many there are: float32 has 1 times
    0.6324555, and next to none of the others."""
    def write(g: Graph) -> Sequence[Value]:
        x = g.builder.input("x", DType.FLOAT32, (-1, 8))
        scale = g(Mul(), g(Cast(), g.length(x, 0)), g.number(0.6324555))
        return [g(Sum(), g(Mul(), x, scale), g.ints(0)), scale]

    native, cpu = sessions(model(write))
    for n in (9, 1, 30, 1):
        x = floats(n, 8)
        check(native.invoke(0, [x])[0], cpu.invoke(0, [x])[0], 0)
    assert len(compiled) == 1


def test_a_row_by_a_large_matrix_is_multiplied_by_the_code_for_any_rows(folder: object, compiled: list[str]) -> None:
    """Which reads the matrix row by row then."""
    def write(g: Graph) -> Sequence[Value]:
        return [g(BatchMatMul(), *(g.builder.input(name, DType.FLOAT32, (-1, -1)) for name in "xy"))]

    native, cpu = sessions(model(write))
    for rows, depth, columns in ((1, 300, 300), (9, 300, 300), (1, 7, 5), (2, 200, 40), (1, 129, 128), (1, 1, 40000)):
        given = floats(rows, depth), floats(depth, columns)
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-4)
    assert len(compiled) == 1


def test_a_constant_matrix_is_multiplied_by_any_rows(folder: object, compiled: list[str]) -> None:
    def write(g: Graph) -> Sequence[Value]:
        x = g.builder.input("x", DType.FLOAT32, (-1, 200))
        return [g(BatchMatMul(), x, g.builder.constant(weights(200, 330)))]

    native, cpu = sessions(model(write))
    for n in (1, 30, 4, 1):
        x = floats(n, 200)
        check(native.invoke(0, [x])[0], cpu.invoke(0, [x])[0], 1e-4)
    assert len(compiled) == 1


@pytest.mark.parametrize("is_file", [True, False])
def test_files_that_say_what_lengths_are_have_code_for_these(is_file: bool, tmp_path: Path, folder: object,
                                                             compiled: list[str]) -> None:
    """Which lengths come first makes no difference to any bit, nor in the next process."""
    made = model(layers)
    if is_file:
        circlet.save(made, tmp_path / "layers.tflite")
    x = {n: floats(n, 24) for n in (1, 5)}
    results: list[Array] = []
    for order in ((5,), (1, 5, 1), (5, 1, 1)):
        with circlet.Session(tmp_path / "layers.tflite" if is_file else made, backend="native") as session:
            found = [session.invoke(0, [x[n]])[0] for n in order]
            results += [each for each in found if len(each) == 1]
    for each in results:
        np.testing.assert_array_equal(each, results[0])
    assert len(compiled) == 1 + is_file


def test_data_decides_lengths_in_one_function_where_a_file_says_one(tmp_path: Path, folder: object,
                                                                   compiled: list[str]) -> None:
    """At the length that the file says, too; and the next start finds it."""
    circlet.save(MODELS["chosen"][0], tmp_path / "chosen.tflite")
    x = floats(1, 4) + 9
    for expected in (1, 0):
        compiled.clear()
        with circlet.Session(tmp_path / "chosen.tflite", backend="native") as native:
            found = native.invoke(0, [x])
        for one, other in zip(found, circlet.Session(MODELS["chosen"][0], backend="cpu").invoke(0, [x]), strict=True):
            check(one, other, 1e-5)
        assert len(compiled) == expected


def summed(g: Graph, a: Value, b: Value, k: int) -> Value:
    return g(Sum(keep_dims=True), a, g.ints(k), dtype=DType.INT32)


def spread(g: Graph, a: Value, b: Value, k: int) -> Value:
    shapes = [g(ShapeOf(DType.INT32), each, dtype=DType.INT32) for each in (a, b)]
    return g(BroadcastTo(), a, g(BroadcastArgs(), *shapes, dtype=DType.INT32), dtype=DType.INT32)


STEPS: dict[str, Build] = {
    "add": lambda g, a, b, k: g(Add(), a, b, dtype=DType.INT32),
    "multiply": lambda g, a, b, k: g(Mul(), a, b, dtype=DType.INT32),
    "subtract": lambda g, a, b, k: g(Sub(), b, a, dtype=DType.INT32),
    "transpose": lambda g, a, b, k: g(Transpose(), a, g.ints(1, 0), dtype=DType.INT32),
    "join": lambda g, a, b, k: g(Concatenation(k), a, b, dtype=DType.INT32),
    "sum": summed,
    "spread": spread,
}
SHAPES = ((-1, 4), (4, -1), (-1, -1), (1, -1), (-1, 1), (3, -1))
Step: TypeAlias = tuple[str, int, int, int]
"""A kind, two values by number, and 0 or 1."""


def outcome(session: circlet.Session, given: Sequence[Array]) -> Array | None:
    try:
        return session.invoke(0, given)[0]
    except circlet.ExecutionError:
        return None


@holds(st.tuples(st.sampled_from(SHAPES), st.sampled_from(SHAPES)),
       st.lists(st.tuples(st.sampled_from(sorted(STEPS)), *(st.integers(0, 9),) * 2, st.integers(0, 1)), min_size=1,
                max_size=5),
       st.lists(st.lists(st.sampled_from((1, 2, 4)), min_size=4, max_size=4), min_size=2, max_size=5),
       few=5, many=150)
def test_random_graphs_are_what_numpy_computes(shapes: tuple[tuple[int, int], ...], steps: Sequence[Step],
                                               lengths: Sequence[Sequence[int]]) -> None:
    """Whatever lengths are 1, and in whatever order; what does not fit is refused by both."""
    def write(g: Graph) -> Sequence[Value]:
        values = [g.builder.input(name, DType.INT32, shape) for name, shape in zip("xy", shapes, strict=True)]
        for kind, one, other, k in steps:
            values.append(STEPS[kind](g, values[-1 - one % len(values)], values[-1 - other % len(values)], k))
        return [values[-1]]

    native, cpu = sessions(model(write))
    for each in ([1, 1, 1, 1], *lengths, [1, 1, 1, 1]):
        size = iter(each)
        given = [np.arange(16, dtype=np.int32)[:np.prod(shape)].reshape(shape) for shape in (
            tuple(next(size) if axis < 0 else axis for axis in shape) for shape in shapes)]
        found, expected = outcome(native, given), outcome(cpu, given)
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            np.testing.assert_array_equal(found, expected)


def test_shapes_that_are_declared_for_length_one_alone_ask_nothing(folder: object, compiled: list[str]) -> None:
    """Quantisers declare what they put between operators as float32[1, 4], without saying that the length is open."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.INT8, (-1, 4), q(0.05, 3))
    (floats,) = main.op(Dequantize(), x, outputs=[Tensor("floats", DType.FLOAT32, (1, 4))])
    (made,) = main.op(Softmax(1.0), floats, outputs=[Tensor("made", DType.FLOAT32, (1, 4), (-1, 4))])
    (total,) = main.op(Sum(), made, main.constant(np.array([1], np.int32)),
                       outputs=[Tensor("total", DType.FLOAT32, (1,))])
    main.output(total, made)
    native, cpu = sessions(builder.build())
    for n in (3, 1, 8, 1):
        given = [np.arange(4 * n, dtype=np.int8).reshape(n, 4)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-6)
    assert len(compiled) == 1
