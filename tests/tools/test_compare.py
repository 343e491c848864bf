"""`circlet compare`: statistics of differences, and the first operator that differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import circlet
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ops.matmul import EmbeddingLookup
from circlet.runtime.ops.unary import Neg
from circlet.tools.comparing.inputs import extremes
from circlet.tools.comparing.statistics import Statistics, Tolerance, statistics
from tests.needs import NATIVE, ONNX, OPENVINO
from tests.tools.conftest import Program

COLLATZ = "examples/collatz.tflite"
EXACT = Tolerance(0.0, 0.0)
LITERT = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="LiteRT is not installed")


def of(dtype: DType, found: object, expected: object, tolerance: Tolerance = EXACT,
       quantization: Quantization | None = None) -> Statistics:
    element = dtype.numpy if dtype.element is None else dtype.element
    one, other = (np.array(each, element) for each in (found, expected))
    return statistics(Tensor("x", dtype, one.shape, quantization=quantization), dtype.stored(one),
                      dtype.stored(other), tolerance)


@pytest.mark.parametrize(("dtype", "found", "expected", "wanted"), [
    (DType.FLOAT32, [1.0, 2.0, 4.5], [1.0, 2.5, 4.0], {
        "compared": 3, "different": 2, "beyond": 2, "max_abs": 0.5, "max_rel": 0.2, "sum_abs": 1.0, "worst": (1,)}),
    (DType.FLOAT32, [np.nan, np.nan, np.inf, -0.0], [np.nan, 1.0, -np.inf, 0.0], {
        "different": 2, "non_finite": 2, "beyond": 2, "worst": (1,), "max_abs": 0.0, "max_ulps": 0}),
    (DType.FLOAT32, [np.nextafter(np.float32(1), np.float32(2))], [1.0], {"max_ulps": 1}),
    (DType.FLOAT32, [np.float32(1e-45)], [np.float32(-1e-45)], {"max_ulps": 2}),
    (DType.FLOAT64, [np.finfo(np.float64).max], [np.finfo(np.float64).min], {
        "max_ulps": 2 * 0x7FEFFFFFFFFFFFFF}),
    (DType.FLOAT16, [1.0], [1.001], {"max_ulps": 1}),
    (DType.BFLOAT16, [1.0], [1.0078125], {"max_ulps": 1, "max_abs": 0.0078125}),
    (DType.COMPLEX64, [1 + 2j], [1 + 3j], {"max_abs": 1.0, "worst": (0, 1)}),
    (DType.INT8, [127, 0], [-128, 0], {"max_abs": 255.0, "different": 1, "beyond": 1, "max_steps": None,
                                       "worst": (0,)}),
    (DType.INT64, [2**63 - 1], [-2**63], {"max_abs": float(2**64 - 1)}),
    (DType.UINT64, [2**64 - 1], [0], {"max_abs": float(2**64 - 1)}),
    (DType.BOOL, [True, False], [False, False], {"different": 1, "worst": (0,)}),
    (DType.STRING, [b"a", b"b"], [b"a", b"c"], {"different": 1, "beyond": 1, "worst": (1,)}),
    (DType.INT32, [], [], {"compared": 0, "different": 0, "worst": None}),
    (DType.FLOAT32, [], [], {"compared": 0, "different": 0, "worst": None}),
])
def test_statistics(dtype: DType, found: object, expected: object, wanted: Mapping[str, object]) -> None:
    actual = of(dtype, found, expected)
    for name, value in wanted.items():
        own = getattr(actual, name)
        assert own == pytest.approx(value) if isinstance(value, float) else own == value, name


def test_what_is_overlooked() -> None:
    steps = Quantization((0.5,), (0,))
    assert not of(DType.INT8, [3], [1], Tolerance(steps=2), steps).differs
    assert of(DType.INT8, [4], [1], Tolerance(steps=2), steps).differs
    assert of(DType.INT8, [4], [1], Tolerance(steps=2), steps).max_steps == 3
    assert of(DType.INT8, [2], [1], Tolerance(steps=2)).differs
    assert not of(DType.FLOAT32, [1.00009], [1.0], Tolerance()).differs
    assert of(DType.FLOAT32, [1.0002], [1.0], Tolerance()).differs
    assert not of(DType.FLOAT16, [1.005], [1.0], Tolerance()).differs
    assert of(DType.FLOAT32, [np.nan], [1.0], Tolerance(1e9, 1e9)).differs
    assert of(DType.FLOAT32, [1.0, 2.0], [1.0], Tolerance()).fault == "float32[2] instead of float32[1]"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(hnp.arrays(np.float32, 6), hnp.arrays(np.float32, 6))
def test_parts_add_up(one: np.ndarray, other: np.ndarray) -> None:
    """Statistics of the whole are those of its halves together."""
    whole = of(DType.FLOAT32, one, other)
    halves = of(DType.FLOAT32, one[:3], other[:3]) + of(DType.FLOAT32, one[3:], other[3:])
    for name in ("compared", "different", "beyond", "non_finite", "max_abs", "max_rel", "max_ulps"):
        assert getattr(whole, name) == getattr(halves, name), name
    assert not of(DType.FLOAT32, one, one).different


@settings(deadline=None)
@given(st.sampled_from([DType.INT8, DType.UINT8, DType.INT64, DType.UINT64, DType.INT4, DType.FLOAT16, DType.BFLOAT16,
                        DType.FLOAT32, DType.FLOAT64, DType.COMPLEX64]))
def test_extremes_are_of_the_type(dtype: DType) -> None:
    value = extremes(Tensor("x", dtype, (200,)), np.random.default_rng(0))
    assert isinstance(value, np.ndarray)
    assert value.dtype == dtype.element
    assert value.shape == (200,)
    if value.dtype.kind in "iu" or "int" in dtype.value:
        limits = ml_dtypes.iinfo(value.dtype)  # type: ignore[no-untyped-call]
        assert {int(limits.min), int(limits.max)} <= {int(each) for each in value}
    else:
        assert np.isnan(value).any()
        assert np.isinf(value).any()


@NATIVE
@pytest.mark.parametrize("against", ["native", "cpu"])
def test_native_code_is_compared_operator_by_operator(program: Program, against: str) -> None:
    found = program.json("compare", COLLATZ, "-i", "n=6", "--against", against)
    assert (found["differs"], found["first"], found["skipped"]) == (False, None, [])
    model = circlet.load(COLLATZ)
    computed = {(index, model.subgraphs[index].tensors[each].name) for index in range(1, len(model.subgraphs))
                for operator in model.subgraphs[index].operators if not operator.op.callees()
                for each in operator.outputs}
    assert {(each["subgraph"], each["tensor"]) for each in found["tensors"]} == computed
    text = program.text("compare", COLLATZ, "-i", "n=6", "--against", against)
    assert text.endswith("all equal\n")


@NATIVE
def test_tables_of_few_bits_are_looked_up(program: Program, tmp_path: Path) -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    table = main.tensor(Tensor("table", DType.INT4, (3, 4), data=np.arange(6, dtype=np.uint8),
                               quantization=Quantization((0.5, 0.25, 2.0), (0, 0, 0), 0)))
    rows = main.op(EmbeddingLookup(), main.input("ids", DType.INT32, (2,)), table,
                   outputs=[Tensor("rows", DType.FLOAT32, (2, 4))])
    main.output(main.apply(Neg(), *rows))
    circlet.save(builder.build(), tmp_path / "table.tflite")
    found = program.json("compare", tmp_path / "table.tflite", "-i", "ids=[2, 0]")
    assert (found["differs"], len(found["tensors"]), len(found["skipped"])) == (False, 1, 1)


@LITERT
def test_litert(program: Program) -> None:
    code, out, _ = program("compare", COLLATZ, "-i", "n=6", "--against", "litert")
    assert code == 0
    assert out.endswith("all equal\n")
    assert "each operator computed alone by LiteRT" in out


@pytest.mark.parametrize("against", [pytest.param("onnxruntime", marks=pytest.mark.skipif(
    find_spec("onnxruntime") is None, reason="ONNX Runtime is not installed")),
    pytest.param("openvino", marks=OPENVINO)])
@ONNX
def test_tensors_of_the_main_graph_are_compared(program: Program, against: str) -> None:
    found = program.json("compare", "examples/sum_even.onnx", "-i", "items=[1, 2, 3]", "--against", against)
    assert (found["differs"], [each["tensor"] for each in found["tensors"]]) == (False, ["shape", "count", "s"])


def changed(model: Model, subgraph: int, operator: int) -> Model:
    """The model with 1 added to the first integer constant that an operator reads."""
    graph = model.subgraphs[subgraph]
    index = next(each for each in graph.operators[operator].inputs if graph.tensors[each].is_constant)
    data = graph.tensors[index].data
    assert data is not None
    tensors = list(graph.tensors)
    tensors[index] = replace(tensors[index], data=np.asarray(data + data.dtype.type(1)))
    subgraphs = list(model.subgraphs)
    subgraphs[subgraph] = replace(graph, tensors=tuple(tensors))
    return replace(model, subgraphs=tuple(subgraphs))


def test_the_place_of_a_difference(program: Program, tmp_path: Path) -> None:
    """A loop that counts in steps of 2 differs from iteration 0 on; one that has no iteration does not."""
    model = circlet.load(COLLATZ)
    other = tmp_path / "other.tflite"
    circlet.save(changed(model, 4, 0), other)
    code, out, err = program("compare", COLLATZ, "-i", "n=6", "--against", other)
    assert (code, err) == (1, "")
    name = model.subgraphs[4].tensors[model.subgraphs[4].operators[0].outputs[0]].name
    assert out.endswith(f"the first operator that differs is @4[0] ADD in while_body, iteration 0, tensor {name}\n")
    assert "steps   8" in out
    code, out, _ = program("compare", COLLATZ, "-i", "n=6", "--against", other, "--json")
    assert code == 1
    assert '"iterations": [0]' in out
    assert '"differs": true' in out
    assert program.text("compare", COLLATZ, "-i", "n=1", "--against", other).endswith("all equal\n")


@NATIVE
def test_no_tolerance(program: Program) -> None:
    """Native sums of floats have another order than numpy's; what is overlooked decides."""
    model = "tests/models/lstm.tflite"
    assert program("compare", model)[0] == 0
    code, out, _ = program("compare", model, "--rtol", "0", "--atol", "0")
    equal = "all equal" in program("compare", model)[1]
    assert (code, "the first operator that differs is" in out) == ((0, False) if equal else (1, True))


@pytest.mark.parametrize(("arguments", "message"), [
    (["--against", "onnxruntime"], "ONNX Runtime: it reads .onnx, not .tflite"),
    (["--against", "zzz.tflite"], "zzz.tflite: No such file or directory"),
    (["--against", "native", "-i", "m=1"], "no input 'm'; the entry point takes n"),
    (["--max-iterations", "1", "-i", "n=6"],
     "subgraph 0 ('main'), operator 0 (WHILE): the run needs more than max_iterations=1 loop iterations"),
])
def test_errors(program: Program, arguments: list[str], message: str) -> None:
    assert program.error("compare", COLLATZ, *arguments) == message


def test_a_runtime_that_is_not_installed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circlet.tools.measuring.peers.find_spec", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "ai_edge_litert.interpreter", None)
    assert program.error("compare", COLLATZ, "-i", "n=6", "--against", "litert") == (
        "LiteRT: not installed (pip install ai-edge-litert)")
