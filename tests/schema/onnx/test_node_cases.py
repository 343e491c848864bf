"""The node cases of the package `onnx`, through the backend class that users get."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from circlet import onnx_backend
from circlet.runtime.errors import UnsupportedError
from tests.schema.onnx.node_cases import Outcome, all_cases, cases_of, control_flow_cases, run_case


def test_every_case_with_control_flow_passes() -> None:
    results = [run_case(case) for case in control_flow_cases().values()]
    assert [each for each in results if each.outcome is not Outcome.PASSED] == []
    assert len(results) >= 44


@pytest.mark.parametrize("module", [
    "conv", "dequantizelinear", "einsum", "gathernd", "gridsample", "lstm", "pad", "slice"])
def test_some_operators(module: str) -> None:
    results = [run_case(case) for case in cases_of(module)]
    assert [each for each in results if each.outcome is Outcome.FAILED] == []
    assert sum(each.outcome is Outcome.PASSED for each in results) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("module", ["averagepool", "gru", "loop", "resize", "scan"])
def test_native_code_gives_the_same(module: str) -> None:
    assert [each for case in cases_of(module) if (each := run_case(case, "native")).outcome is not Outcome.PASSED] == []


@pytest.mark.slow
def test_no_case_gives_a_wrong_result() -> None:
    results = [run_case(case) for case in all_cases()]
    assert [each for each in results if each.outcome is Outcome.FAILED] == []
    assert sum(each.outcome is Outcome.PASSED for each in results) >= 0.75 * len(results)


def test_backend_runs_nodes_and_models() -> None:
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(onnx_backend.run_node(node, [x, x])[0], x + x)
    with pytest.raises(UnsupportedError, match="device 'CUDA'"):
        onnx_backend.run_node(node, [x, x], device="CUDA")
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA:0")


@pytest.mark.parametrize(("operator", "expected"), [("ReduceLogSum", [1, 2]), ("ReduceLogSumExp", [2, 9]),
                                                    ("ReduceL2", [2, 9])])
def test_roots_and_logarithms_of_integers_are_cut_off(operator: str, expected: list[int]) -> None:
    node = onnx.helper.make_node(operator, ["x", "axes"], ["y"], keepdims=0)
    found = onnx_backend.run_node(node, [np.array([[1, 2], [0, 9]], np.int32), np.array([1], np.int64)])
    np.testing.assert_array_equal(found[0], np.array(expected, np.int32), strict=True)
