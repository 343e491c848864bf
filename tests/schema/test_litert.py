"""LiteRT loads and runs what circlet writes, and gets the same results as from the original file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.builder import ModelBuilder, declared
from circlet.runtime.ir.model import Model, Signature
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import If
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.unary import Neg, Relu
from circlet.runtime.records import replace
from circlet.schema.files import dump_model, load_model
from tests.models.expectations import Expectation, read
from tests.schema import samples
from tests.schema.samples import assert_same

interpreter: Any = pytest.importorskip("ai_edge_litert.interpreter")

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = ROOT.parent / "shared" / "models"
"""Models beside the repository, where there are any."""
FILES = [*(ROOT / "tests" / "models").glob("*.tflite"), *SHARED.glob("*/*.tflite"), *SHARED.glob("*/*.circle")]
TFLITE = sorted(file for file in FILES if file.suffix == ".tflite" and file.with_suffix(".npz").exists())
READS_MEMORY_IT_NEVER_WROTE = {"cond_duplicate"}
"""Models for which LiteRT's results are not the same twice."""


def make(content: bytes) -> Any:
    """An interpreter that runs every operator itself."""
    kinds = interpreter.OpResolverType
    return interpreter.Interpreter(
        model_content=content, experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def run(content: bytes, calls: Iterable[Expectation]) -> list[dict[str, Array]] | str:
    """The outputs of each call, or why there are none."""
    runner = make(content)
    try:
        return [runner.get_signature_runner(call.signature)(**call.inputs) if call.signature else
                _primary(runner, call.inputs) for call in calls]
    except (RuntimeError, ValueError) as problem:
        return str(problem)


def _primary(runner: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    details = runner.get_input_details()
    for each in details:
        runner.resize_tensor_input(each["index"], inputs[each["name"]].shape)
    runner.allocate_tensors()
    for each in details:
        runner.set_tensor(each["index"], inputs[each["name"]])
    runner.invoke()
    return {each["name"]: runner.get_tensor(each["index"]) for each in runner.get_output_details()}


@pytest.mark.parametrize("file", TFLITE, ids=[file.stem for file in TFLITE])
@pytest.mark.parametrize("external_bytes", [None, 64])
def test_results_stay_the_same(file: Path, external_bytes: int | None) -> None:
    if file.stem in READS_MEMORY_IT_NEVER_WROTE:
        pytest.skip("LiteRT's results are not the same twice")
    calls = read(file.with_suffix(".npz"))
    expected = run(file.read_bytes(), calls)
    actual = run(dump_model(load_model(file), "tflite", external_bytes), calls)
    if isinstance(expected, str) or isinstance(actual, str):
        assert actual == expected
        return
    for left, right in zip(actual, expected, strict=True):
        assert left.keys() == right.keys()
        for name, value in right.items():
            np.testing.assert_array_equal(left[name], value, strict=True)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_models_survive_both_formats(file: Path) -> None:
    model = load_model(file)
    for format in ("tflite", "circle"):
        assert_same(load_model(dump_model(model, format)), model)


@pytest.mark.parametrize("model", [
    samples.branches(), samples.chain(), samples.convolution(), samples.dense(), samples.documented(),
    samples.chain(1000), samples.chain(share=True),
], ids=["branches", "chain", "convolution", "dense", "documented", "long", "shared"])
@pytest.mark.parametrize("external_bytes", [None, 0])
def test_samples_load(model: Model, external_bytes: int | None) -> None:
    runner = make(dump_model(model, "tflite", external_bytes))
    runner.allocate_tensors()
    main = model.subgraphs[0]
    names = {each["name"] for each in runner.get_input_details()}
    assert names == {main.tensors[index].name for index in main.inputs}
    assert set(runner.get_signature_list()) == {each.key for each in model.signatures}


def test_a_chain_computes_its_sum() -> None:
    runner = make(dump_model(samples.chain(10), "tflite", 0))
    runner.resize_tensor_input(0, (2, 3))
    runner.allocate_tensors()
    runner.set_tensor(0, np.ones((2, 3), np.float32))
    runner.invoke()
    assert (runner.get_tensor(runner.get_output_details()[0]["index"]) == 46).all()


def test_strings_are_litert_s() -> None:
    content = dump_model(samples.strings(), "tflite")
    runner = make(content)
    runner.allocate_tensors()
    expected = load_model(content).subgraphs[0].tensors[0].data
    assert expected is not None
    assert runner.get_tensor(0).tolist() == [[b"", b"a"], ["ü".encode(), b"\0\xff"]] == expected.tolist()


def test_signatures_may_name_what_is_no_output() -> None:
    """AI Edge Quantizer puts DEQUANTIZE behind an output that is read as well, and leaves the name where it was."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (3,))
    negated = main.apply(Neg(), x)
    main.output(main.apply(Relu(), negated))
    made = replace(builder.build(), signatures=(Signature("key", 0, {"x": x.index}, {"y": negated.index}),))
    content, given = dump_model(made, "tflite"), np.array([-1.0, 0.0, 2.0], np.float32)
    expected = make(content).get_signature_runner("key")(x=given)["y"]
    np.testing.assert_array_equal(circlet.Session(content).run({"x": given})["y"], expected)
    found = circlet.Interpreter(model_content=content).get_signature_runner("key")(x=given)["y"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("tensor", [0, 1], ids=["input", "constant"])
def test_signatures_name_what_an_operator_gives(tensor: int) -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (3,))
    main.output(main.apply(Add(), x, main.constant(np.ones(3, np.float32))))
    made = replace(builder.build(), signatures=(Signature("key", 0, {"x": x.index}, {"y": tensor}),))
    with pytest.raises(ModelError, match=f"output 'y': expected an output of subgraph 0 .*, found tensor {tensor}"):
        circlet.Session(dump_model(made, "tflite"))


def test_inputs_of_a_branch_may_be_one_tensor() -> None:
    builder = ModelBuilder()
    main, then, other = (builder.subgraph(name) for name in ("main", "then", "else"))
    for graph, op in ((then, Neg()), (other, Relu())):
        x = graph.input("x", np.float32, (-1,))
        graph.input("again", np.float32, (-1,))
        graph.output(graph.apply(op, x))
    flag, x, y = main.input("flag", np.bool_), main.input("x", np.float32, (-1,)), main.input("y", np.float32, (-1,))
    main.output(*main.op(If(then.index, other.index), flag, x, y, outputs=[declared("", DType.FLOAT32, (-1,))]))
    made = builder.build()
    content = dump_model(replace(made, subgraphs=(made.subgraphs[0], *(
        replace(each, inputs=(0, 0)) for each in made.subgraphs[1:]))), "tflite")
    session = circlet.Session(content)
    for flag_given, length in ((True, 4), (False, 3), (True, 1)):
        given = [np.array(flag_given), np.arange(length, dtype=np.float32), np.arange(-1, length - 1, dtype=np.float32)]
        runner = make(content)
        for detail, array in zip(runner.get_input_details(), given, strict=True):
            runner.resize_tensor_input(detail["index"], array.shape)
        runner.allocate_tensors()
        for detail, array in zip(runner.get_input_details(), given, strict=True):
            runner.set_tensor(detail["index"], array)
        runner.invoke()
        np.testing.assert_array_equal(session.invoke(0, given)[0],
                                      runner.get_tensor(runner.get_output_details()[0]["index"]))
    assert_same(circlet.load(dump_model(circlet.load(content), "tflite")), circlet.load(content))
