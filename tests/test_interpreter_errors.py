"""What LiteRT's interpreter refuses circlet's refuses too, by errors of the same types and much the same texts."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import circlet
import circlet.interpreter as ours
from tests.interpreters import BOTH, CONTENT, FOLDER, create, ones


@dataclass(frozen=True)
class Refusal:
    """A call that fails, after others that do not."""

    method: str
    arguments: tuple[Any, ...]
    error: type[Exception]
    text: str | None = None
    model: str = "dense_batch"
    before: tuple[tuple[Any, ...], ...] = (("allocate_tensors",),)

    def __str__(self) -> str:
        arguments = (f"{each.dtype}{list(each.shape)}" if isinstance(each, np.ndarray) else repr(each)
                     for each in self.arguments)
        return f"{self.model}.{self.method}({', '.join(arguments)})"


INDEXED: list[tuple[Any, ...]] = [("get_tensor",), ("set_tensor", ones(1, 8))]
RESIZED = (("allocate_tensors",), ("resize_tensor_input", 0, [2, 8]))
REFUSALS = [
    Refusal("invoke", (), RuntimeError, "Invoke called on model that is not ready", before=()),
    Refusal("get_tensor", (0,), ValueError, "Tensor data is null. Run allocate_tensors", before=()),
    Refusal("get_tensor", (6,), ValueError, "Tensor data is null. Run allocate_tensors", before=()),
    Refusal("set_tensor", (0, ones(1, 8)), ValueError, "Tensor is unallocated. Try calling allocate_", before=()),
    Refusal("set_tensor", (0, ones(1, 6)), ValueError, "Got 6 but expected 8 for dimension 1 of input 0", before=()),
    Refusal("invoke", (), RuntimeError, "Invoke called on model that is not ready", before=RESIZED),
    Refusal("get_tensor", (0,), ValueError, "Tensor data is null. Run allocate_tensors", before=RESIZED),
    Refusal("set_tensor", (0, ones(2, 8)), ValueError, "Tensor is unallocated. Try calling", before=RESIZED),
    Refusal("set_tensor", (0, ones(8)), ValueError, "Dimension mismatch. Got 1 but expected 2 for input 0"),
    Refusal("set_tensor", (0, ones(2, 8)), ValueError, "Got 2 but expected 1 for dimension 0 of input 0"),
    Refusal("set_tensor", (6, ones(1, 8)), ValueError, "Got 8 but expected 4 for dimension 1 of input 6"),
    Refusal("set_tensor", (0, [[[1.0], [2.0, 3.0]]]), ValueError, "Failed to convert value into readable tensor"),
    *(Refusal("set_tensor", (0, value), ValueError, f"Got value of type {name} but expected type FLOAT32 for input 0, "
                                                    "name: serving_default_x:0")
      for name, value in {"FLOAT64": np.ones((1, 8)), "INT64": [[1] * 8], "BOOL": ones(1, 8) > 0, "STRING": None,
                          "UINT32": np.ones((1, 8), np.uint32), "FLOAT16": np.ones((1, 8), np.float16),
                          "COMPLEX64": np.ones((1, 8), np.complex64), "NOTYPE": np.zeros((1, 8), "M8[s]")}.items()),
    *(Refusal(method, (index, *more), ValueError, f"Invalid tensor index {index} exceeds max tensor index")
      for index in (-1, 99) for method, *more in INDEXED),
    *(Refusal(method, (index, *more), TypeError)
      for index in (0.0, "0", None) for method, *more in [*INDEXED, ("resize_tensor_input", [1, 8])]),
    Refusal("get_tensor", (0, -1), ValueError, "Invalid subgraph index -1 exceeds max subgraph index 1"),
    Refusal("get_tensor_details", (1,), ValueError, "subgraph_index is out of range: 1 for the model, which has"),
    Refusal("get_tensor_details", (-1,), ValueError, "subgraph_index is out of range: -1 for the model"),
    *(Refusal("resize_tensor_input", (index, [1, 8]), RuntimeError) for index in (-1, 99, 1)),
    Refusal("resize_tensor_input", (1, [1, 8]), RuntimeError, "Attempting to resize"),
    Refusal("resize_tensor_input", (0, [-1, 8]), RuntimeError),
    Refusal("resize_tensor_input", (0, 6), ValueError, "Shape should be 1D instead of 0"),
    Refusal("resize_tensor_input", (0, [[1, 8]]), ValueError, "Shape should be 1D instead of 2"),
    Refusal("resize_tensor_input", (0, "ab"), ValueError),
    Refusal("resize_tensor_input", (0, None), TypeError),
    Refusal("resize_tensor_input", (0, [2, 7], True), RuntimeError,
            "Attempting to resize dimension 1 of tensor 0 with value 8 to 7. ResizeInputTensorStrict only allows"),
    Refusal("resize_tensor_input", (0, [2, 8, 1], True), RuntimeError, r"dims.size\(\).*\(2 != 3\)"),
    Refusal("resize_tensor_input", (0, [5], True), RuntimeError, "with value 4 to 5", model="cond"),
    Refusal("allocate_tensors", (), RuntimeError, model="cnn_batch",
            before=(("resize_tensor_input", 0, [1, 8, 8, 4]),)),
    Refusal("get_signature_runner", ("zz",), ValueError, 'Invalid signature_key provided: "zz"'),
    Refusal("get_signature_runner", ("",), ValueError, "None signature_key provided"),
    Refusal("get_signature_runner", (), ValueError, "signature_key is None and model has 2 Signatures. None is only",
            model="signatures"),
    Refusal("set_tensor", (1, 1), ValueError, "Got value of type INT64 but expected type INT32", model="string_gather"),
    Refusal("set_tensor", (0, np.array([1])), ValueError, "Got value of type INT64 but expected type STRING",
            model="string_gather"),
    Refusal("set_tensor", (0, np.array([1], object)), ValueError, model="string_gather"),
    Refusal("invoke", (), RuntimeError, model="string_gather", before=(
        ("allocate_tensors",), ("set_tensor", 0, np.array([b"a"], object)), ("set_tensor", 1, np.int32(7)))),
]


@BOTH
@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(face: ModuleType, case: Refusal) -> None:
    interpreter = create(face, case.model)
    for method, *arguments in case.before:
        getattr(interpreter, method)(*arguments)
    with pytest.raises(case.error, match=case.text):
        getattr(interpreter, case.method)(*case.arguments)


UNMAKABLE: list[tuple[dict[str, Any], type[Exception], str | None]] = [
    ({}, ValueError, "`model_path` or `model_content` must be specified"),
    ({"model_content": b""}, ValueError, "`model_path` or `model_content` must be specified"),
    ({"model_path": "a", "model_content": b"b"}, ValueError, "Can't both provide `model_path` and `model_content`"),
    ({"model_path": "nowhere.tflite"}, ValueError, "Could not open 'nowhere.tflite'"),
    ({"model_path": str(FOLDER)}, ValueError, None),
    ({"model_path": 5}, TypeError, "expected str, bytes or os.PathLike object, not int"),
    ({"model_content": "text"}, TypeError, None),
    ({"model_content": b"xx"}, ValueError, "model"),
    ({"model_content": b"x" * 400}, ValueError, "model"),
    ({"model_content": CONTENT[:1000]}, ValueError, None),
    ({"model_content": CONTENT, "num_threads": 0}, ValueError, "num_threads should >= 1"),
    ({"model_content": CONTENT, "num_threads": -1}, ValueError, "num_threads should >= 1"),
    ({"model_content": CONTENT, "num_threads": 1.0}, ValueError, "type of num_threads should be int"),
    ({"model_content": CONTENT, "num_threads": "1"}, ValueError, "type of num_threads should be int"),
    ({"model_content": CONTENT, "experimental_op_resolver_type": 1}, ValueError,
     "Unrecognized passed in op resolver type: 1"),
    ({"model_content": CONTENT, "experimental_op_resolver_type": None}, ValueError, "Unrecognized passed in"),
]


@BOTH
@pytest.mark.parametrize(("arguments", "error", "text"), UNMAKABLE)
def test_refused_constructors(face: ModuleType, arguments: dict[str, Any], error: type[Exception],
                              text: str | None) -> None:
    with pytest.raises(error, match=text):
        face.Interpreter(**arguments)


RUNNER_REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({}, "Invalid number of inputs provided for running a SignatureDef, expected 1 vs provided 0"),
    ({"by": np.int32(1), "x": np.int32(1)}, "expected 1 vs provided 2"),
    ({"x": np.int32(1)}, r"Invalid Input name \(x\) for SignatureDef"),
    ({"by": np.float32(1)}, "Got value of type FLOAT32 but expected type INT32 for input 0, name: increment_by:0"),
]


@BOTH
@pytest.mark.parametrize(("inputs", "text"), RUNNER_REFUSALS)
def test_refusals_of_runners(face: ModuleType, inputs: dict[str, Any], text: str) -> None:
    runner = create(face, "counter").get_signature_runner("increment")
    with pytest.raises(ValueError, match=text):
        runner(**inputs)


HERE: list[tuple[str, tuple[Any, ...], str]] = [
    ("set_tensor", (3, ones(6)), r"Cannot set tensor: 3 \('Relu;add'\) is a constant"),
    ("set_tensor", (4, ones(1, 6)), "Tensor is unallocated"),
    ("get_tensor", (4,), r"Tensor data is null. Tensor 4 \('MatMul;Relu;add'\) is no input, output or constant"),
    ("get_tensor", (7,), "Invalid tensor index 7 exceeds max tensor index 7"),
    ("get_tensor", (0, 1), "Invalid subgraph index 1 exceeds max subgraph index 1"),
]


@pytest.mark.parametrize(("method", "arguments", "text"), HERE)
def test_refusals_where_litert_crashes_or_gives_garbage(method: str, arguments: tuple[Any, ...], text: str) -> None:
    interpreter = create(ours, "dense_batch")
    interpreter.allocate_tensors()
    with pytest.raises(circlet.InputError, match=text):
        getattr(interpreter, method)(*arguments)


def test_results_whose_shapes_follow_from_values_are_there_after_a_run() -> None:
    interpreter = create(ours, "grow_concat")
    interpreter.allocate_tensors()
    grown = interpreter.get_output_details()[1]["index"]
    with pytest.raises(circlet.InputError, match=rf"The shape of tensor {grown} .* follows from values: run invoke"):
        interpreter.get_tensor(grown)
    interpreter.invoke()
    assert interpreter.get_tensor(grown).ndim == 1


def test_only_inputs_are_resized() -> None:
    with pytest.raises(RuntimeError, match="is not an input; inputs are"):
        create(ours, "dense_batch").resize_tensor_input(6, [2, 4])


def test_delegates_are_refused() -> None:
    with pytest.raises(circlet.UnsupportedError, match="experimental_delegates must be empty"):
        create(ours, "cond", experimental_delegates=[object()])


@BOTH
@pytest.mark.parametrize("error", [OSError, ValueError])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_delegates_that_are_not_there(face: ModuleType, error: type[Exception]) -> None:
    """LiteRT has an OSError where there is no such library, and a ValueError where it gives no delegate."""
    if face is ours or error is OSError:
        for load in (face.load_delegate, face.Delegate):
            with pytest.raises(error, match=r"libnowhere\.so"):
                load("libnowhere.so.1", {"device": "usb"})


@BOTH
def test_custom_operators_are_refused(face: ModuleType) -> None:
    assert face.InterpreterWithCustomOps(model_content=CONTENT).num_subgraphs() == 3
    assert face.InterpreterWithCustomOps([], model_content=CONTENT, num_threads=2).num_subgraphs() == 3
    with pytest.raises(ValueError, match="RegisterNothing" if face is not ours else "custom_op_registerers"):
        face.InterpreterWithCustomOps(["RegisterNothing"], model_content=CONTENT)


@BOTH
def test_runners_need_an_interpreter_and_a_key(face: ModuleType) -> None:
    with pytest.raises(ValueError, match="None interpreter provided"):
        face.SignatureRunner()
    with pytest.raises(ValueError, match="None signature_key provided"):
        face.SignatureRunner(interpreter=create(face, "counter"))
    with pytest.raises(ValueError, match="Invalid node index"):
        create(face, "counter")._get_op_details(99)
    with pytest.raises(TypeError):
        pickle.dumps(create(face, "counter"))


@pytest.mark.parametrize("error", [circlet.ModelError, circlet.UnsupportedError, circlet.InputError,
                                   circlet.ExecutionError, circlet.LimitError, circlet.CancelledError,
                                   ours.InterpreterError])
def test_errors_are_caught_by_what_was_written_for_litert(error: type[Exception]) -> None:
    assert issubclass(error, (ValueError, RuntimeError))
