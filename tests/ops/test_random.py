"""Operators that draw random numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Operand, Operands, Unknown
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.random import (
    Algorithm,
    Multinomial,
    Random,
    RandomStandardNormal,
    RandomUniform,
    StablehloRngBitGenerator,
)
from circlet.schema.files import dump_model
from circlet.session import Session
from tests.ops.cases import Case, T
from tests.ops.run_cases import case_test

SHAPE = T([2, 3], constant=True)
INF = np.inf

SECOND_DRAW = [
    Case("uniform", RandomUniform(1, 2), [SHAPE],
         [[[0.8690897, 0.04222715, 0.35364604], [0.23803174, 0.06833863, 0.4921664]]], tolerance=1e-7),
    Case("normal", RandomStandardNormal(1, 2), [SHAPE],
         [[[0.13890629, 0.51119745, 1.4377704], [0.10832275, 0.1139762, -2.3137782]]], tolerance=1e-6),
    Case("low-bits-of-seeds", RandomUniform(-5, (7 << 32) + 9), [[5]],
         [[0.054724574, 0.33086216, 0.93299246, 0.7029903, 0.37755597]], tolerance=1e-7),
    Case("nothing", RandomUniform(1, 2), [np.array([0, 3], np.int64)], [np.zeros((0, 3), np.float32)]),
    Case("classes", Multinomial(1, 2), [[[0.0, 1.0, 2.0], [3.0, 1.0, 1.0], [0.0, -INF, 0.0]], T(7, constant=True)],
         [np.array([[1, 2, 1, 0, 2, 1, 0], [0, 0, 1, 0, 0, 2, 0], [0, 0, 2, 2, 2, 2, 2]], np.int64)]),
    Case("classes-int32", Multinomial(3), [np.zeros((1, 4), np.float32), [6]], [[[2, 2, 1, 3, 1, 1]]]),
    Case("no-samples", Multinomial(1), [[[1.0]], 0], [np.zeros((1, 0), np.int32)]),
    Case("matrix", RandomUniform(), [[[2]]], [0.0], error=r"shape: expected rank 1, found shape \(1, 1\)"),
    Case("negative", RandomUniform(), [[-1]], [0.0], error=r"sizes that are not negative, found \(-1,\)"),
    Case("vector", Multinomial(), [[1.0], 1], [[[0]]], error=r"logits of shape \(rows, classes\), found \(1,\)"),
    Case("no-classes", Multinomial(), [np.zeros((1, 0), np.float32), 1], [[[0]]], error=r"found \(1, 0\)"),
    Case("counts", Multinomial(), [[[1.0]], [1, 1]], [[[0]]], error=r"exactly one element, found shape \(2,\)"),
    Case("negative", Multinomial(), [[[1.0]], -1], [[[0]]], error="no negative number, found -1"),
    Case("no-distribution", Multinomial(1), [[[0.0, 0.0], [INF, np.nan]], 1], [[[0], [0]]],
         error="row 1 of the logits has no finite element"),
    Case("float-result", Multinomial(1), [[[1.0]], 1], [[[0.0]]], error="output type float32"),
    Case("float64", Multinomial(1), [np.array([[1.0]], np.float64), 1], [[[0]]], error="element type float64"),
]

test_random = case_test(SECOND_DRAW)

STATES = {2: ([1, 2], [2**64 - 1, 2**64 - 2], [2**32 - 1, 2**32 - 1]), 3: ([1, 2, 3], [5, 2**64 - 1, 2**63 + 5])}
THREEFRY = StablehloRngBitGenerator(Algorithm.THREEFRY)


def u64(*values: int) -> Array:
    return np.array(values, np.uint64)


# the first words of the generators' authors for keys and counters of zeros and of ones, `kat_vectors` of Random123
BITS = [
    Case("threefry", THREEFRY, [u64(0, 0)], [u64(0, 1), np.array([0x6B200159, 0x99BA4EFE], np.uint32)]),
    Case("threefry-ones", THREEFRY, [u64(2**64 - 1, 2**64 - 1)], [u64(2**64 - 1, 0), u64(0xBB002BE71CB996FC)[0]]),
    Case("philox", StablehloRngBitGenerator(), [u64(0, 0)],
         [u64(0, 1), np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C], np.uint32)]),
    Case("philox-ones", StablehloRngBitGenerator(Algorithm.PHILOX), [u64(*[2**64 - 1] * 3)],
         [u64(2**64 - 1, 0, 2**64 - 1), u64(0x41C83B0E408F276D, 0x6D5451FDA20BC7C6)]),
    Case("nothing", THREEFRY, [u64(7, 8)], [u64(7, 8), np.zeros((2, 0), np.int64)]),
    Case("state", THREEFRY, [u64(1, 2, 3)], [u64(1, 2, 3), u64(0)], error=r"expected shape \(2,\), found \(3,\)"),
    Case("long", StablehloRngBitGenerator(), [u64(1)], [u64(1), u64(0)], error=r"\(2,\) or \(3,\), found \(1,\)"),
    Case("next", THREEFRY, [u64(1, 2)], [u64(1, 2, 3), u64(0)], error=r"a state of shape \(3,\) after one of \(2,\)"),
    Case("floats", THREEFRY, [u64(1, 2)], [u64(1, 2), np.zeros(2, np.float32)], error="output type float32"),
    Case("int64", THREEFRY, [np.array([1, 2], np.int64)], [np.array([1, 2], np.int64), u64(0)],
         error="element type int64 of input 0"),
]
test_bits = case_test(BITS)


@pytest.mark.parametrize("shape", [(), (3, 7), (2, 32)])
@pytest.mark.parametrize("dtype", [DType.INT32, DType.UINT64])
@pytest.mark.parametrize(("algorithm", "length"), [*((each, 2) for each in Algorithm), (Algorithm.PHILOX, 3)])
def test_bits_are_those_of_litert(algorithm: Algorithm, length: int, dtype: DType, shape: Shape) -> None:
    interpreter: Any = pytest.importorskip("ai_edge_litert.interpreter")
    b = ModelBuilder()
    main = b.subgraph("main")
    made = [Tensor("after", DType.UINT64, (length,)), Tensor("bits", dtype, shape)]
    main.output(*main.op(StablehloRngBitGenerator(algorithm), main.input("state", np.uint64, (length,)), outputs=made))
    content = dump_model(b.build(), "tflite")
    other = interpreter.Interpreter(model_content=content)
    other.allocate_tensors()
    sessions = [Session(content, backend) for backend in ("native", "cpu")]
    for state in STATES[length]:
        other.set_tensor(other.get_input_details()[0]["index"], u64(*state))
        other.invoke()
        wanted = [other.get_tensor(each["index"]) for each in other.get_output_details()]
        for session, name in zip(sessions, ("native", "cpu"), strict=True):
            for found, expected in zip(session.invoke(0, [u64(*state)]), wanted, strict=True):
                np.testing.assert_array_equal(found, expected)
            assert session.backend_of(0) == (name,)


def _uniform(op: Random) -> Model:
    builder = ModelBuilder()
    main = builder.subgraph()
    main.output(main.apply(op, main.constant(np.array([1000], np.int32))))
    return builder.build()


def _draw(session: Session) -> Array:
    (numbers,) = session.run([]).values()
    return np.array(numbers)


def test_runs_go_on_and_a_reset_starts_again() -> None:
    session = Session(_uniform(RandomUniform(1, 2)))
    first, second = _draw(session), _draw(session)
    assert not np.array_equal(first, second)
    session.reset_state()
    np.testing.assert_array_equal(_draw(session), first)
    np.testing.assert_array_equal(_draw(Session(_uniform(RandomUniform(1, 2)))), first)


def test_bindings_of_one_kernel_share_its_numbers() -> None:
    kernel = CpuBackend().kernel(Call(RandomUniform(1, 2), (SHAPE.tensor,), (T(np.zeros((2, 3), np.float32)).tensor,)))
    run, outputs = Run(Variables()), [np.zeros((2, 3), np.float32) for _ in range(2)]
    for output in outputs:
        kernel.bind([SHAPE.array], [output], run)()
    np.testing.assert_allclose(outputs[1], SECOND_DRAW[0].expected[0].array, rtol=1e-6)


@pytest.mark.parametrize("op", [RandomUniform(), RandomStandardNormal(), RandomUniform(1 << 32)])
def test_zero_seeds_draw_other_numbers_in_each_session(op: Random) -> None:
    first, second = (_draw(Session(_uniform(op))) for _ in range(2))
    assert not np.array_equal(first, second)


def test_distributions() -> None:
    uniform, normal = (_draw(Session(_uniform(op))) for op in (RandomUniform(7), RandomStandardNormal(7)))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.05
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1) < 0.1


def test_shape_is_unknown_until_the_values_are() -> None:
    with pytest.raises(Unknown):
        RandomUniform().infer(Operands((Operand(DType.INT32, (2,)),), 1))
    with pytest.raises(Unknown):
        Multinomial().infer(Operands((Operand(DType.FLOAT32, (2, 2)), Operand(DType.INT32, ())), 1))


def test_a_shape_that_changes_is_held_to_the_bound_one() -> None:
    shape = np.array([3], np.int32)
    call = Call(RandomUniform(), (replace(SHAPE, constant=False).tensor,), (T(np.zeros(3, np.float32)).tensor,))
    step = CpuBackend().kernel(call).bind([shape], [np.zeros(3, np.float32)], Run(Variables()))
    step()
    shape[0] = 4
    with pytest.raises(ExecutionError, match=r"the result has shape \(4,\), the model declares \(3,\)"):
        step()


def test_a_run_that_fails_draws_nothing() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    place = main.input("place", DType.INT32)
    main.output(main.apply(Gather(), main.apply(RandomUniform(1, 2), main.constant([3])), place))
    model = b.build()
    session, other = Session(model), Session(model)
    with pytest.raises(ExecutionError, match="GATHER"):
        session.invoke(0, [np.array(3, np.int32)])
    for _ in range(2):
        (found,), (wanted,) = (each.invoke(0, [np.array(2, np.int32)]) for each in (session, other))
        np.testing.assert_array_equal(found, wanted)
