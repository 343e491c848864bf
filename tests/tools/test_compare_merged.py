"""Operators that native code merges are compared together as well."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array
from circlet.tools.comparing.found import Findings
from circlet.tools.comparing.merged import MergedReplay
from circlet.tools.comparing.replay import Compute, native
from circlet.tools.comparing.statistics import Tolerance
from circlet.tools.debug import PASSES
from tests.models.expectations import read
from tests.needs import NATIVE
from tests.tools.conftest import Program

MODELS = Path(__file__).parents[1] / "models"
pytestmark = NATIVE


def compared(name: str, make: object = native) -> tuple[Findings, Model]:
    path = MODELS / f"{name}.tflite"
    model, call = circlet.load(path), read(path.with_suffix(".npz"))[0]
    findings = Findings(Tolerance(None, None, 0))
    session = circlet.Session(model, "cpu", passes=PASSES)
    session.run(call.inputs, MergedReplay(model, findings, make))  # type: ignore[arg-type]
    return findings, model


@pytest.mark.parametrize("name", ["lstm", "gru", "collatz", "mandelbrot", "residual_int8"])
def test_merged_operators_agree(name: str) -> None:
    made: list[Model] = []

    def make(model: Model) -> Compute:
        made.append(model)
        return native(model)

    findings, model = compared(name, make)
    assert (findings.first, findings.skipped) == (None, {})
    together = [each for each in made if len(each.subgraphs[0].operators) > 1]
    executed = circlet.Session(model, "native").executed
    groups = [[model.subgraphs[index].operators[each].name for each in operator.op.parts()]
              for index in range(len(model.subgraphs)) for operator in executed.subgraphs[index].operators
              if operator.op.parts()]
    found = [[each.name for each in one.subgraphs[0].operators] for one in together]
    assert groups
    assert all(each in groups for each in found)
    assert found
    for one in together:
        again = circlet.Session(one, "native").executed.subgraphs[0].operators
        assert [len(each.op.parts()) for each in again if each.op.parts()] == [len(one.subgraphs[0].operators)]


def test_what_differs_only_together_is_named() -> None:
    def broken(model: Model) -> Compute:
        compute = native(model)
        is_wrong = len(model.subgraphs[0].operators) > 1

        def run(arrays: Sequence[Array]) -> Sequence[Array]:
            return [np.logical_xor(each, is_wrong) if each.dtype == bool else each + each.dtype.type(is_wrong)
                    for each in compute(arrays)]

        return run

    findings, _ = compared("lstm", broken)
    assert findings.first is not None
    assert len(findings.first.merged.split("+")) > 1
    assert findings.first.moment.place.operator_name == findings.first.merged.split("+")[-1]


def test_the_program_says_what_was_merged(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circlet.tools.comparing.merged._Group.compute", lambda group, make: [np.full(128, np.nan)])
    code, text, _ = program("compare", MODELS / "lstm.tflite")
    assert code == 1
    assert ", as it is merged: " in text
