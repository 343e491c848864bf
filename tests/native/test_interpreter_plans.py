"""Interpreters of models that were run before do not read them, and take new lengths without binding anew."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.interpreter import Interpreter
from circlet.runtime.exec import executor_map
from circlet.runtime.exec.frames.open_frame import OpenFrame
from circlet.runtime.exec.limits import Limits
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.elementwise import Add, Div
from circlet.runtime.ops.index import GatherNd, Where
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.recurrent import Rnn
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.unary import Neg
from circlet.schema.files import dump_model
from tests.models.expectations import Expectation, read
from tests.native.test_plans import COLLATZ, MODELS, QUICK, forbid_reading


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("CIRCLET_BACKEND", "native")


def opened(name: str, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(name, dtype, tuple(map(abs, shape)), shape)


def overwriting(length: int = -1) -> bytes:
    """-(-x) + 1 and x for x of any length: values that may lie where x does, and an input that is a result."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (length,))
    main.output(main.apply(Add(), main.apply(Neg(), main.apply(Neg(), x)), main.constant(np.float32(1))))
    main.output(x)
    return dump_model(b.build(), "tflite")


def viewing() -> bytes:
    """x of any length as a column, and as a row + 1."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1,))
    column, row = (main.op(Reshape(), x, main.constant(np.array(shape, np.int32)), outputs=[
        opened("viewed", DType.FLOAT32, shape)])[0] for shape in ((-1, 1), (1, -1)))
    main.output(column)
    main.output(main.op(Add(), row, main.constant(np.float32(1)), outputs=[opened("sum", DType.FLOAT32, (1, -1))])[0])
    return dump_model(b.build(), "tflite")


def selecting() -> bytes:
    """Where x of any length is not 0, and x there."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1,))
    (places,) = main.op(Where(), x, outputs=[opened("places", DType.INT64, (-1, 1))])
    main.output(places)
    main.output(main.op(GatherNd(), x, places, outputs=[opened("found", DType.FLOAT32, (-1,))])[0])
    return dump_model(b.build(), "tflite")


def weighing() -> bytes:
    """The softmax of x (n, 4) times a matrix."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, 4))
    (weighed,) = main.op(FullyConnected(), x, main.constant(np.ones((3, 4), np.float32)), None, outputs=[
        opened("weighed", DType.FLOAT32, (-1, 3))])
    main.output(main.op(Softmax(1.0), weighed, outputs=[opened("shares", DType.FLOAT32, (-1, 3))])[0])
    return dump_model(b.build(), "tflite")


def dividing() -> bytes:
    """x // y for integers of any length."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = (main.input(name, DType.INT32, (-1,)) for name in "xy")
    main.output(main.apply(Div(), x, y))
    return dump_model(b.build(), "tflite")


def recalling() -> bytes:
    """An RNN of one step, which adds x to half of what it gave before."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (1, 3))
    state = main.tensor(Tensor("state", DType.FLOAT32, (1, 3), is_variable=True))
    once, half = (main.constant(factor * np.eye(3, dtype=np.float32)) for factor in (1, 0.5))
    bias = main.constant(np.zeros(3, np.float32))
    main.output(main.apply(Rnn(fused_activation_function=Activation.NONE), x, once, half, bias, state))
    return dump_model(b.build(), "tflite")


def called(interpreter: Interpreter, *values: Array) -> list[Array]:
    """The results for some inputs, which must still hold these values then."""
    indices = [each["index"] for each in interpreter.get_input_details()]
    for index, value in zip(indices, values, strict=True):
        interpreter.resize_tensor_input(index, value.shape)
    interpreter.allocate_tensors()
    for index, value in zip(indices, values, strict=True):
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    for index, value in zip(indices, values, strict=True):
        np.testing.assert_array_equal(interpreter.get_tensor(index), value)
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]


def told(interpreter: Interpreter) -> list[Any]:
    """All that an interpreter tells, as text."""
    every = [interpreter.get_tensor_details(each) for each in range(interpreter.num_subgraphs())]
    return [repr(each) for each in (interpreter, interpreter.get_input_details(), interpreter.get_output_details(),
                                    interpreter.get_signature_list(), interpreter._get_ops_details(), *every)]


def story(path: Path) -> list[Any]:
    """What calls give that are kept beside a model, by name and by index, and what the interpreter tells after each."""
    by_name, by_index = Interpreter(path), Interpreter(path)
    keys = [each.key for each in circlet.load(path).signatures if each.subgraph == 0]
    found: list[Any] = [told(by_name)]
    for call in read(path.with_suffix(".npz")):
        if call.signature:
            found.append(tried(partial(named, by_name, call)))
        if call.signature in (keys or [""])[:1]:
            found += [tried(partial(called, by_index, *ordered(by_index, call))), told(by_index)]
    return [*found, told(by_name)]


def named(interpreter: Interpreter, call: Expectation) -> dict[str, Any]:
    return interpreter.get_signature_runner(call.signature)(**call.inputs)


def ordered(interpreter: Interpreter, call: Expectation) -> list[Array]:
    """The inputs of a call, as subgraph 0 takes them."""
    signature = interpreter._get_full_signature_list().get(call.signature or "", {"inputs": {}})
    names = {index: name for name, index in signature["inputs"].items()}
    indices = ((each["index"], str(each["name"])) for each in interpreter.get_input_details())
    return [np.asarray(call.inputs[names.get(index, name)]) for index, name in indices]


def tried(call: Callable[[], Any]) -> str:
    """What a call gives, or its error."""
    try:
        return repr(call())
    except (circlet.CircletError, TypeError) as error:
        return f"{type(error)}: {error}"


@pytest.mark.parametrize("path", [
    pytest.param(each, id=each.stem, marks=() if each.stem in QUICK else pytest.mark.slow) for each in MODELS])
def test_all_is_as_in_the_first_interpreter(path: Path) -> None:
    assert story(path) == story(path) == story(path)


def lengths(*sizes: int) -> list[Array]:
    return [np.arange(each, dtype=np.float32) - 2 for each in sizes]


@pytest.mark.parametrize("content", [overwriting, viewing, selecting], ids=lambda each: each.__name__)
def test_models_of_any_lengths_are_not_read(content: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    given, model = lengths(5, 3, 8, 3, 1, 200, 5), content()
    session = circlet.Session(model, "cpu")
    wanted = [session.invoke(0, [each]) for each in given]
    for number in range(3):
        interpreter = Interpreter(model_content=model)
        found = [called(interpreter, each) for each in given]
        for some, others in zip(found, wanted, strict=True):
            assert [each.tolist() for each in some] == [each.tolist() for each in others]
        if not number:
            forbid_reading(monkeypatch)


@pytest.mark.parametrize("make", [lambda: COLLATZ.read_bytes(), lambda: overwriting(4)], ids=["collatz", "overwriting"])
def test_models_of_fixed_lengths_are_not_read(make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    first = Interpreter(model_content=model)
    shape = first.get_input_details()[0]
    given = [np.full(shape["shape"], each, shape["dtype"]) for each in (27, 7)]
    wanted = [called(first, each) for each in given]
    forbid_reading(monkeypatch)
    second = Interpreter(model_content=model)
    for _ in range(2):
        for one, value in zip(wanted, given, strict=True):
            for each, other in zip(one, called(second, value), strict=True):
                np.testing.assert_array_equal(each, other)


def test_variable_tensors_are_kept_by_models_that_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    litert: Any = pytest.importorskip("ai_edge_litert.interpreter")
    given, model = [np.array([[1, 2, each]], np.float32) for each in range(4)], recalling()
    other = litert.Interpreter(model_content=model)
    wanted = [called(other, each) for each in given]
    for number in range(3):
        interpreter = Interpreter(model_content=model)
        found = [called(interpreter, each) for each in given]
        np.testing.assert_array_equal(found, wanted)
        interpreter.reset_all_variables()
        np.testing.assert_array_equal(called(interpreter, given[0]), wanted[0])
        if not number:
            forbid_reading(monkeypatch)


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[OpenFrame]:
    """The frames for any lengths that are made from now on."""
    made: list[OpenFrame] = []

    class Counted(OpenFrame):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(self)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(executor_map, "OpenFrame", Counted)
    return made


def test_new_lengths_take_the_frame_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _counted(monkeypatch)
    interpreter = Interpreter(model_content=overwriting())
    for each in lengths(5, 3, 8, 3, 200, 5):
        called(interpreter, each)
    assert len(made) == 1


def test_models_without_operators_have_no_frame_for_any_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    constant = np.arange(3, dtype=np.float32)
    main.output(main.input("x", DType.FLOAT32, (-1, -1)), main.constant(constant))
    made, session, random = _counted(monkeypatch), circlet.Session(builder.build(), "native"), np.random.default_rng(3)
    for shape in ((2, 3), (1, 1), (5, 7), (0, 4)):
        given = random.random(shape, np.float32)
        for found, wanted in zip(session.run([given]).values(), (given, constant), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    assert not made


def test_shapes_of_other_tensors_are_those_of_the_present_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Interpreter(model_content=weighing()) for _ in range(2))
    monkeypatch.setenv("CIRCLET_BACKEND", "cpu")
    other = Interpreter(model_content=weighing())
    for size in (6, 4, 6, 9):
        for each in (first, second, other) if size != 4 else (first,):
            each.resize_tensor_input(0, (size, 4))
            each.allocate_tensors()
    assert told(first) == told(second) == told(other)
    assert [9, 3] in [each["shape"].tolist() for each in second.get_tensor_details() if each["name"] == "weighed"]


def test_results_are_zeros_before_the_first_run_and_after_one_that_failed() -> None:
    for _ in range(2):
        interpreter = Interpreter(model_content=dividing())
        for size in (3, 2):
            value = np.full(size, 6, np.int32)
            assert called(interpreter, value, value // 2)[0].tolist() == [2] * size
            result = interpreter.get_output_details()[0]["index"]
            interpreter.set_tensor(1, value * 0)
            with pytest.raises(RuntimeError, match="by zero"):
                interpreter.invoke()
            assert interpreter.get_tensor(result).tolist() == [0] * size
            interpreter.resize_tensor_input(0, (5,))
            interpreter.resize_tensor_input(1, (5,))
            interpreter.allocate_tensors()
            assert interpreter.get_tensor(result).tolist() == [0] * 5


def test_arrays_of_inputs_stay_where_they_are() -> None:
    for _ in range(2):
        interpreter = Interpreter(model_content=overwriting())
        called(interpreter, *lengths(4))
        given = interpreter.tensor(0)()
        given[...] = 5
        interpreter.invoke()
        assert interpreter.tensor(0)() is given
        results = [interpreter.get_tensor(each["index"]).tolist() for each in interpreter.get_output_details()]
        assert results == [[6] * 4, [5] * 4]


def test_limits_and_closing_hold_for_new_lengths() -> None:
    for _ in range(2):
        interpreter = Interpreter(model_content=overwriting(), limits=Limits(memory=1 << 20))
        called(interpreter, *lengths(4))
        interpreter.resize_tensor_input(0, (1 << 22,))
        with pytest.raises(circlet.LimitError):
            interpreter.allocate_tensors()
        assert called(interpreter, *lengths(4))[0].tolist() == [-1, 0, 1, 2]
        interpreter.session.close()
        interpreter.resize_tensor_input(0, (5,))
        with pytest.raises(circlet.ClosedError):
            interpreter.allocate_tensors()


def test_profiles_see_new_lengths() -> None:
    for _ in range(2):
        interpreter = Interpreter(model_content=overwriting())
        called(interpreter, *lengths(4))
        with circlet.profile(interpreter) as profile:
            for each in lengths(3, 6):
                assert called(interpreter, each)[0].tolist() == (each + 1).tolist()
        assert profile.root.count == 2
        assert called(interpreter, *lengths(2))[0].tolist() == [-1, 0]


