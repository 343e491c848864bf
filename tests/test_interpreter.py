"""One script on circlet's and on LiteRT's interpreter: details and results are the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import circlet
import circlet.interpreter as ours
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Blockwise, DimensionSparsity, DType, Quantization, Sparsity
from circlet.schema.files import dump_model
from tests.interpreters import BOTH, CONTENT, FOLDER, create, litert, ones
from tests.models.expectations import Expectation, agrees, read

MODELS = sorted(FOLDER.glob("*.tflite"))
SHARED = sorted(each for each in (Path(__file__).parents[2] / "shared" / "models").glob("*/*.tflite")
                if each.with_suffix(".npz").exists())
WRONG = frozenset({"fibonacci_push", "swap", "rotate", "cond_duplicate"})
"""What LiteRT computes wrongly."""
FAILING = frozenset({"cache_additive", "computed_shapes", "layout", "list_dynamic", "list_dynamic_update"})
"""What LiteRT cannot run."""
SHARING = frozenset({"counter", "window"})
"""Whose signatures share variables, so that what one returns depends on calls of others."""
FORGETFUL = frozenset({"string_gather", "hash_table"})
"""Whose string inputs lose `shape_signature` in LiteRT once they are set."""


def differences(theirs: Any, mine: Any, where: str = "") -> list[str]:
    """Where two answers differ, in type or value."""
    if isinstance(theirs, dict) and isinstance(mine, dict) and list(theirs) == list(mine):
        return [each for key in theirs for each in differences(theirs[key], mine[key], f"{where}[{key!r}]")]
    if isinstance(theirs, (list, tuple)) and type(theirs) is type(mine) and len(theirs) == len(mine):
        pairs = enumerate(zip(theirs, mine, strict=True))
        return [each for k, (one, other) in pairs for each in differences(one, other, f"{where}[{k}]")]
    same = type(theirs) is type(mine) and (
        agrees(np.asarray(mine), np.asarray(theirs)) if isinstance(theirs, (np.ndarray, np.generic))
        else theirs == mine)
    return [] if same else [f"{where}: {theirs!r} there, {mine!r} here"]


def assert_same(theirs: Any, mine: Any) -> None:
    found = differences(theirs, mine)
    assert not found, "\n".join(found)


def assert_expected(call: Expectation, found: dict[str, Any]) -> None:
    assert found.keys() == call.outputs.keys()
    for name, expected in call.outputs.items():
        assert agrees(np.asarray(found[name]), expected), f"call {call.number}, {name}: {found[name]}, not {expected}"


def describe(face: ModuleType, model: str | Path | bytes, **options: Any) -> Any:
    """Everything that an interpreter tells before it runs."""
    interpreter = create(face, model, **options)
    return {
        "inputs": interpreter.get_input_details(),
        "outputs": interpreter.get_output_details(),
        "tensors": [interpreter.get_tensor_details(k) for k in range(interpreter.num_subgraphs())],
        "operators": interpreter._get_ops_details(),
        "signatures": interpreter.get_signature_list(),
        "indices": interpreter._get_full_signature_list(),
    }


def run(interpreter: Any, call: Expectation) -> dict[str, Any]:
    """Makes a call of subgraph 0 by tensor index; returns its outputs by name."""
    signature = interpreter._get_full_signature_list().get(call.signature)
    inputs, outputs = (
        {each["name"]: each["index"] for each in details} if signature is None else signature[side]
        for side, details in (("inputs", interpreter.get_input_details()),
                              ("outputs", interpreter.get_output_details())))
    for name, value in call.inputs.items():
        interpreter.resize_tensor_input(inputs[name], value.shape)
    interpreter.allocate_tensors()
    for name, value in call.inputs.items():
        interpreter.set_tensor(inputs[name], value)
    interpreter.invoke()
    return {name: interpreter.get_tensor(outputs[name]) for name in call.outputs}


def calls_of_entry(path: Path) -> list[Expectation]:
    """The calls of subgraph 0."""
    named = [each.key for each in circlet.load(path).signatures if each.subgraph == 0] or [""]
    return [each for each in read(path.with_suffix(".npz")) if each.signature == named[0]]


@pytest.mark.parametrize("path", MODELS + SHARED, ids=lambda path: path.stem)
def test_details(path: Path) -> None:
    assert_same(describe(litert, path), describe(ours, path))


def by_index(face: ModuleType, path: Path) -> list[Any]:
    interpreter = create(face, path)
    story: list[Any] = []
    for call in calls_of_entry(path):
        story.append(run(interpreter, call))
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
        story += [inputs, outputs, [interpreter.get_tensor(each["index"]) for each in (*inputs, *outputs)]]
    return story


def by_name(face: ModuleType, path: Path) -> list[Any]:
    interpreter = create(face, path)
    story: list[Any] = []
    for call in read(path.with_suffix(".npz")):
        runner = interpreter.get_signature_runner(call.signature)
        story += [runner(**call.inputs), runner.get_input_details(), runner.get_output_details()]
    return story


@pytest.mark.parametrize("play", [by_index, by_name])
@pytest.mark.parametrize("path", [path for path in MODELS if path.stem not in WRONG | FAILING],
                         ids=lambda path: path.stem)
def test_calls(play: Callable[[ModuleType, Path], Any], path: Path) -> None:
    found = differences(play(litert, path), play(ours, path))
    if path.stem in FORGETFUL:
        found = [each for each in found if "shape_signature" not in each]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", MODELS + SHARED, ids=lambda path: path.stem)
def test_results_by_name(path: Path) -> None:
    interpreter = create(ours, path)
    for call in read(path.with_suffix(".npz")):
        if call.signature:
            assert_expected(call, interpreter.get_signature_runner(call.signature)(**call.inputs))


@pytest.mark.parametrize("path", [path for path in MODELS + SHARED if path.stem not in SHARING],
                         ids=lambda path: path.stem)
def test_results_by_index(path: Path) -> None:
    interpreter = create(ours, path)
    for call in calls_of_entry(path):
        assert_expected(call, run(interpreter, call))


SPARSE = Sparsity((0, 1), (), (DimensionSparsity(2), DimensionSparsity(0, (0, 1, 3), (2, 0, 1))))
BLOCKS = Sparsity((0, 1, 2), (1,), (
    DimensionSparsity(2), DimensionSparsity(0, (0, 1, 2), (1, 0)), DimensionSparsity(2)))
UNUSUAL: dict[str, Tensor] = {
    **{each.value: Tensor("t", each, (2,)) for each in DType
       if not each.name.startswith(("GGML", "MX"))},
    "packed int4": Tensor("t", DType.INT4, (2, 2), data=np.array([0x21, 0xF8], np.uint8)),
    "odd int4": Tensor("t", DType.INT4, (3,), data=np.array([0x21, 0x0F], np.uint8)),
    "packed uint4": Tensor("t", DType.UINT4, (3,), data=np.array([0x21, 0x0F], np.uint8)),
    "packed int2": Tensor("t", DType.INT2, (5,), data=np.array([0b11100100, 0x01], np.uint8)),
    "strings": Tensor("t", DType.STRING, (2,), data=np.array([b"ab", b""], object)),
    "a string": Tensor("t", DType.STRING, (), data=np.array(b"a\0b", object)),
    "a number": Tensor("t", DType.INT16, (), data=np.array(5, np.int16)),
    "sparse": Tensor("t", DType.FLOAT32, (2, 4), data=np.array([1, 2, 3], np.float32).view(np.uint8), sparsity=SPARSE),
    "blocks": Tensor("t", DType.FLOAT32, (2, 4), data=np.array([1, 2, 3, 4], np.float32).view(np.uint8),
                     sparsity=BLOCKS),
} | {
    name: Tensor("t", DType.INT8, (3, 2), data=np.arange(6, dtype=np.int8).reshape(3, 2), quantization=quantization)
    for name, quantization in {
        "per tensor": Quantization((0.1,), (3,)),
        "no zero point": Quantization((0.5,)),
        "per axis": Quantization((0.5, 0.25), (0, 0), 1),
        "zero points": Quantization((0.5, 0.25), (1, 0), 1),
        "one zero point": Quantization((0.5, 0.25), (0,), 1),
        "range": Quantization(minimum=(0.0,), maximum=(1.0,)),
        "one scale of an axis": Quantization((0.5,), (0,), 1),
    }.items()
} | {
    "in blocks": Tensor("t", DType.INT8, (2, 64), data=np.zeros((2, 64), np.int8),
                        quantization=Quantization(blockwise=Blockwise(2, -1, 32))),
}
SCALES = Tensor("scales", DType.FLOAT16, (2, 2), data=np.arange(4, dtype=np.float16).reshape(2, 2))


@pytest.mark.parametrize("compress", [False, True], ids=["", "compress"])
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_tensors(name: str, compress: bool) -> None:
    tensor = UNUSUAL[name]
    main = Subgraph("main", (Tensor("x", DType.FLOAT32, (2,)), tensor, SCALES), (0,), (0,), ())
    content = dump_model(Model((main,)), "tflite")
    answers = [describe(face, content, experimental_compress_quantization_zero_points=compress)
               for face in (litert, ours)]
    assert_same(*answers)
    if tensor.is_constant:
        assert_same(*(create(face, content).get_tensor(1) for face in (litert, ours)))


@BOTH
def test_accepted_arguments(face: ModuleType) -> None:
    accepted: list[dict[str, Any]] = [
        {"num_threads": 2}, {"num_threads": True}, {"experimental_delegates": []},
        {"experimental_disable_delegate_clustering": True}, {"experimental_default_delegate_latest_features": True},
        {"experimental_disable_delegate_node_fusion": True}, {"experimental_force_delegate_node_profiling": True}]
    for arguments in accepted:
        assert create(face, "dense_batch", **arguments).num_subgraphs() == 1
    for kind in face.OpResolverType:
        assert face.Interpreter(model_content=CONTENT, experimental_op_resolver_type=kind).num_subgraphs() == 3
    assert face.Interpreter("", CONTENT).num_subgraphs() == 3
    assert {each.name: each.value for each in face.OpResolverType} == {
        each.name: each.value for each in litert.OpResolverType}
    compressed = create(face, "cnn_int8", experimental_compress_quantization_zero_points=True)
    assert compressed.experimental_compress_quantization_zero_points is True


@BOTH
def test_views(face: ModuleType) -> None:
    """`tensor` reads and writes without copies."""
    interpreter = create(face, "dense_batch")
    source, result = interpreter.tensor(0), interpreter.tensor(6)
    interpreter.allocate_tensors()
    source()[...] = 2
    assert np.all(interpreter.get_tensor(0) == 2)
    interpreter.invoke()
    before = interpreter.get_tensor(6)
    assert np.array_equal(result(), before)
    source()[...] = 1
    interpreter.invoke()
    assert not np.array_equal(result(), before)


@BOTH
def test_shapes(face: ModuleType) -> None:
    interpreter = create(face, "dense_batch")
    interpreter.resize_tensor_input(np.int64(0), np.array([3, 8]), strict=True)

    def shapes() -> list[list[int]]:
        return [each["shape"].tolist() for each in interpreter.get_input_details() + interpreter.get_output_details()]

    assert shapes() == [[3, 8], [1, 4]]
    interpreter.allocate_tensors()
    assert shapes() == [[3, 8], [3, 4]]
    interpreter.set_tensor(0, ones(3, 8))
    interpreter.resize_tensor_input(0, (3, 8))
    interpreter.invoke()
    assert np.all(interpreter.get_tensor(0) == 1)
    interpreter.resize_tensor_input(0, (0, 8))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(6).shape == (0, 4)


@BOTH
def test_dynamic_outputs(face: ModuleType) -> None:
    interpreter = create(face, "grow_concat")
    interpreter.allocate_tensors()
    grown = interpreter.get_output_details()[1]
    assert grown["shape"].tolist() == [1]
    with pytest.raises(ValueError, match="Tensor data is null"):
        interpreter.get_tensor(grown["index"])
    for turns in (4, 2):
        interpreter.set_tensor(0, np.int32(turns))
        interpreter.invoke()
        interpreter.allocate_tensors()
        assert interpreter.get_output_details()[1]["shape"].tolist() == [turns + 1]
        assert interpreter.get_tensor(grown["index"]).shape == (turns + 1,)


@BOTH
def test_strings(face: ModuleType) -> None:
    interpreter = create(face, "string_gather")
    interpreter.set_tensor(0, np.array([b"early"], object))
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(0).tolist() == [b"early"]
    interpreter.resize_tensor_input(0, [2])
    interpreter.allocate_tensors()
    for words, stored in [(np.array(["a", "bé"]), [b"a", "bé".encode()]), (np.array([b"", b"xy"]), [b"", b"xy"]),
                          (np.array(["x", b"y\0"], object), [b"x", b"y\0"])]:
        interpreter.set_tensor(0, words)
        interpreter.set_tensor(1, np.int32(1))
        interpreter.invoke()
        assert interpreter.get_tensor(0).tolist() == stored
        assert_same(interpreter.get_tensor(3), np.array(stored[1], object))


@BOTH
def test_variables(face: ModuleType) -> None:
    """Variable tensors are reset on demand and on allocation; resource variables are not."""
    counter = create(face, "counter")
    counter.allocate_tensors()
    counter.get_signature_runner("increment")(by=np.int32(2))
    counter.reset_all_variables()
    counter.invoke()
    assert counter.get_tensor(1) == 12
    fused = create(face, "lstm_fused")
    state, shape = 5, fused.get_input_details()[0]["shape"]
    fused.allocate_tensors()
    assert not fused.get_tensor(state).any()
    fused.set_tensor(0, np.ones(shape, np.float32))
    fused.invoke()
    fused.allocate_tensors()
    assert fused.get_tensor(state).any()
    fused.reset_all_variables()
    assert not fused.get_tensor(state).any()
    fused.set_tensor(state, np.ones_like(fused.get_tensor(state)))
    assert fused.get_tensor(state).all()
    fused.resize_tensor_input(0, shape + np.array([0, 1, 0]))
    fused.allocate_tensors()
    assert not fused.get_tensor(state).any()


@BOTH
def test_calls_by_name_and_index_share_tensors(face: ModuleType) -> None:
    interpreter = create(face, "dense_batch")
    found = interpreter.get_signature_runner()(x=ones(3, 8))
    assert np.array_equal(interpreter.get_tensor(6), found["y"])
    assert interpreter.get_input_details()[0]["shape"].tolist() == [3, 8]
    interpreter.invoke()
    assert np.array_equal(interpreter.get_tensor(6), found["y"])


@pytest.mark.filterwarnings("ignore:Warning. Enabling")
@pytest.mark.parametrize("name", ["cnn_batch", "cond_nested", "elementwise_float", "reductions", "signatures", "switch",
                                  "transformer", "unique"])
def test_preserved_tensors(name: str) -> None:
    """What LiteRT keeps of subgraph 0 is kept, with the same values; and the results stay."""
    path = FOLDER / f"{name}.tflite"
    theirs, mine = (create(face, path, experimental_preserve_all_tensors=True) for face in (litert, ours))
    assert_same(theirs.get_output_details(), mine.get_output_details())
    for call in calls_of_entry(path):
        assert_same(run(theirs, call), run(mine, call))
        for index, details in enumerate(mine.get_tensor_details()):
            try:
                value = theirs.get_tensor(index)
            except ValueError:
                continue
            assert_same(value, mine.get_tensor(index))
            assert details["shape"].tolist() == list(value.shape)


def test_preserving_keeps_state() -> None:
    interpreter = create(ours, "window", experimental_preserve_all_tensors=True)
    for call in read(FOLDER / "window.npz"):
        assert_expected(call, interpreter.get_signature_runner(call.signature)(**call.inputs))


def test_views_may_be_held() -> None:
    interpreter = create(ours, "dense_batch")
    interpreter.allocate_tensors()
    view, runner = interpreter.tensor(0)(), interpreter.get_signature_runner()
    view[...] = 3
    interpreter.invoke()
    assert np.all(interpreter.get_tensor(0) == 3)
    assert np.array_equal(interpreter.get_tensor(6), runner(x=view)["y"])


def test_what_nobody_set_is_zero() -> None:
    interpreter = create(ours, "string_gather")
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(3).item() == b""


def test_copies_belong_to_the_caller() -> None:
    interpreter = create(ours, "dense_batch")
    interpreter.allocate_tensors()
    for index in (0, 3, 6):
        copy = interpreter.get_tensor(index)
        copy[...] = 7
        assert not np.array_equal(interpreter.get_tensor(index), copy)


def test_content_may_be_any_bytes() -> None:
    for content in (bytearray(CONTENT), memoryview(CONTENT)):
        assert ours.Interpreter(model_content=content).num_subgraphs() == 3


def public(module: ModuleType) -> dict[str, list[str]]:
    """The classes and functions of a module, and the parameters of each and of its public methods."""
    found = {}
    for name in litert_names():
        value = getattr(module, name)
        found[name] = list(inspect.signature(value).parameters)
        for method, function in inspect.getmembers(value, inspect.isfunction):
            if not method.startswith("_"):
                found[f"{name}.{method}"] = list(inspect.signature(function).parameters)
    return found


def litert_names() -> list[str]:
    return [name for name, value in vars(litert).items() if not name.startswith("_") and callable(value)]


def test_the_public_face_is_the_same() -> None:
    assert {"Interpreter", "InterpreterWithCustomOps", "SignatureRunner", "Delegate", "load_delegate",
            "OpResolverType"} <= set(litert_names())
    theirs, mine = public(litert), public(ours)
    mine["Interpreter"].remove("limits")
    assert {name: mine.get(name) for name in theirs} == theirs


NARROW = [DType.BFLOAT16, DType.INT4, DType.UINT4, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2]


def play_narrow(face: ModuleType, content: bytes, value: Any) -> Any:
    """Sets a tensor of few bits; gives what is read."""
    interpreter = face.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, value)
    interpreter.invoke()
    return interpreter.get_input_details()[0]["dtype"], interpreter.get_tensor(0), interpreter.tensor(0)().dtype


def narrow_model(dtype: DType) -> bytes:
    builder = ModelBuilder()
    main = builder.subgraph()
    main.output(main.input("x", dtype, (4,)))
    return dump_model(builder.build(), "tflite")


@pytest.mark.parametrize("given", [np.int8, np.uint8, np.uint16, np.float32, None], ids=str)
@pytest.mark.parametrize("dtype", NARROW)
def test_elements_that_numpy_lacks(dtype: DType, given: Any) -> None:
    """bfloat16 is that of `ml_dtypes`, the others stand in int8 or uint8."""
    content = narrow_model(dtype)
    value = np.array([1, 2, 3, 0]).astype(dtype.element if given is None else given)
    try:
        theirs = play_narrow(litert, content, value)
    except ValueError:
        if given is not None:
            with pytest.raises(circlet.InputError, match="Cannot set tensor"):
                play_narrow(ours, content, value)
        return
    assert_same(theirs, play_narrow(ours, content, value))


@pytest.mark.parametrize("dtype", [*NARROW, DType.INT2])
def test_elements_of_ml_dtypes(dtype: DType) -> None:
    value = np.array([1, -2, -1, 0] if "u" not in dtype.value else [1, 2, 3, 0]).astype(dtype.element)
    kind, found, _ = play_narrow(ours, narrow_model(dtype), value)
    expected = value if dtype is DType.BFLOAT16 else value.view(np.int8) if "float8" in dtype.value else \
        value.astype(kind)
    assert_same(expected, found)


def test_numbers_of_python_are_literals_for_runners() -> None:
    runner = create(ours, "counter").get_signature_runner("increment")
    assert runner(by=2)["count"] == 12
    with pytest.raises(circlet.InputError, match=r"input 'by': 1\.5 does not fit element type int32"):
        runner(by=1.5)
    with pytest.raises(circlet.InputError, match="Invalid Input name"):
        runner(x=1)


def test_interpreters_print_in_short() -> None:
    interpreter = create(ours, "cnn_batch")
    assert repr(interpreter).startswith("<Interpreter: (serving_default_")
    assert repr(interpreter.get_signature_runner()).startswith("<SignatureRunner 'serving_default': (")
    assert len(repr(interpreter)) < 200
