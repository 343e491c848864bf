"""Models built with the `openvino` package: saved by it, read by circlet, and run by both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import circlet

ov = pytest.importorskip("openvino")
op = pytest.importorskip("openvino.opset13")

Array = npt.NDArray[Any]
PRECISE = {"INFERENCE_PRECISION_HINT": "f32"}
f32, i32, i64 = np.float32, np.int32, np.int64


def draw(*shape: int, seed: int = 0) -> Array:
    """Normally distributed float32."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(f32)


def const(values: npt.ArrayLike) -> Any:
    """A constant; Python floats are float32, integers int64."""
    array = np.array(values)
    is_python = not isinstance(values, np.ndarray)
    return op.constant(array.astype(f32) if is_python and array.dtype == np.float64 else array)


def ports(made: Any) -> list[Any]:
    """The outputs of nodes, or of a node."""
    if isinstance(made, (list, tuple)):
        return [each if isinstance(each, ov.Output) else each.output(0) for each in made]
    return [made] if isinstance(made, ov.Output) else list(made.outputs())


def save(folder: Path, outputs: Sequence[Any], parameters: Sequence[Any], sinks: Sequence[Any] = ()) -> Path:
    """The `.xml` file of a model."""
    path = folder / "model.xml"
    model = ov.Model(list(outputs), list(sinks), list(parameters)) if sinks else ov.Model(list(outputs),
                                                                                         list(parameters))
    ov.serialize(model, path)
    return path


def run(path: Path, inputs: Sequence[npt.ArrayLike], **options: Any) -> list[Array]:
    """What circlet computes, with numpy unless `options` say otherwise."""
    session = circlet.Session(circlet.load(path), **{"backend": "cpu", **options})
    return list(session.run(list(inputs)).values())


def run_openvino(path: Path, inputs: Sequence[npt.ArrayLike]) -> list[Array]:
    """What OpenVINO computes."""
    compiled = ov.Core().compile_model(path, "CPU", PRECISE)
    request = compiled.create_infer_request()
    request.infer([np.asarray(each) for each in inputs])
    return [np.array(request.get_output_tensor(k).data) for k in range(len(compiled.outputs))]


@dataclass(frozen=True)
class Case:
    """A part of a model: the nodes that a function makes of parameters, and the parameters' values."""

    id: str
    make: Callable[..., Any]
    inputs: Sequence[Array]
    expected: Sequence[npt.ArrayLike] | None = None
    """By default what OpenVINO computes."""
    dynamic: bool = True
    """Whether it is tried with dimensions that are not known too."""
    tolerance: float = 1e-5


def check(folder: Path, cases: Sequence[Case], dynamic: bool) -> None:
    """Checks all cases in one model."""
    cases = [case for case in cases if case.dynamic or not dynamic]
    parameters: list[Any] = []
    outputs: list[Any] = []
    inputs: list[Array] = []
    owners: list[tuple[Case, int]] = []
    for case in cases:
        own = [op.parameter([-1] * each.ndim if dynamic else list(each.shape), each.dtype) for each in case.inputs]
        made = ports(case.make(*own))
        parameters += own
        inputs += case.inputs
        outputs += made
        owners += [(case, k) for k in range(len(made))]
    path = save(folder, outputs, parameters)
    found = run(path, inputs)
    wanted = run_openvino(path, inputs)
    for (case, k), mine, theirs in zip(owners, found, wanted, strict=True):
        expected = theirs if case.expected is None else np.asarray(case.expected[k], theirs.dtype)
        same(mine, expected, f"{case.id}, output {k}", case.tolerance)


def same(found: Array, expected: Array, name: str, tolerance: float = 1e-5) -> None:
    """Asserts that two arrays have one type, one shape and, within a tolerance for floats, one value."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)
