"""ONNX models as text, and what they must give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.parser

import circlet
from circlet.runtime.ir.model import Model
from circlet.schema.onnx.format import AbsentCond


def parse(text: str, opset: int = 16) -> bytes:
    """The file of a model given as a graph in ONNX's textual form."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return bytes(onnx.parser.parse_model(f"{head} {text}").SerializeToString())


def load(text: str, opset: int = 16, absent_cond: AbsentCond = "spec") -> Model:
    """The model that a graph in ONNX's textual form describes."""
    return circlet.load(parse(text, opset), onnx_absent_cond=absent_cond)


@dataclass(frozen=True)
class Case:
    """A graph, inputs, and what it must give."""

    id: str
    text: str
    inputs: Mapping[str, Any]
    outputs: Sequence[Any]
    """In order; lists are sequences."""
    opset: int = 16
    options: Mapping[str, Any] = field(default_factory=dict)
    """For `load`."""

    def __str__(self) -> str:
        return self.id


def check(case: Case, backend: str = "cpu") -> None:
    """Runs a case twice and compares."""
    session = circlet.Session(load(case.text, case.opset, **case.options), backend=backend)
    for _ in range(2):
        found = list(session.run(case.inputs).values())
        assert len(found) == len(case.outputs)
        for one, other in zip(found, case.outputs, strict=True):
            same(one, other)


def same(found: Any, expected: Any) -> None:
    """Compares a result with a value, or with a list for a sequence."""
    if isinstance(expected, list):
        assert isinstance(found, list)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
        return
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-7, strict=True)


def f32(*values: Any) -> Any:
    """One value as it is, several as a vector."""
    return np.array(values[0] if len(values) == 1 else values, np.float32)


def i64(*values: Any) -> Any:
    return np.array(values[0] if len(values) == 1 else values, np.int64)
