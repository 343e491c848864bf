"""What is said of copies between subgraphs in native code, and of what computes a model, is what runs do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.model import Model
from circlet.runtime.ops.controlflow import PreTestedLoop
from circlet.runtime.passes.analyses.transfer import Action
from tests.models.expectations import Expectation, read
from tests.native.test_models import MODELS

QUICK = ("bubble_sort", "collatz", "cond_nested", "duplicate", "k_means", "list_update", "map_rows", "matrix_power",
         "nested_while", "shift_register", "swap")


def crossed(model: Model, edge: CopyEdge, invocations: Counter[int]) -> int:
    """How often a run crossed an edge of an operator none of whose subgraphs is invoked by others."""
    calls = model.subgraphs[edge.subgraph].operators[edge.operator].op.calls()
    *role, what, _ = edge.edge.split()
    if what == "carry":
        role = ["body"]
    if not role:
        return invocations[edge.subgraph]
    (callee,) = (each.subgraph for each in calls if len(calls) == 1 or each.role == " ".join(role))
    return invocations[callee]


def has_one_caller_each(model: Model) -> bool:
    callers = Counter(callee for subgraph in model.subgraphs for operator in subgraph.operators
                      for callee in operator.op.callees())
    return all(count == 1 for count in callers.values())


def is_native(session: circlet.Session, model: Model) -> bool:
    names = (name for index in range(len(model.subgraphs)) for name in session.backend_of(index))
    return set(names) <= {"native", "none", "cpu"}


def copies(edges: Iterable[CopyEdge], model: Model, invocations: Counter[int]) -> tuple[int, int]:
    """How many copies the edges stand for in a run, and their bytes."""
    made = [(crossed(model, each, invocations), each.bytes or 0) for each in edges if each.action is Action.COPY]
    return sum(times for times, _ in made), sum(times * size for times, size in made)


def leaves_a_loop(model: Model, edge: CopyEdge) -> bool:
    """Whether a copy is made only where the loop ends after some numbers of turns; then two values that have each
    other's buffer take three."""
    op = model.subgraphs[edge.subgraph].operators[edge.operator].op
    return isinstance(op, PreTestedLoop) and edge.edge.startswith("output")


def has_declared_shapes(model: Model, call: Expectation) -> bool:
    entry = next((each for each in model.signatures if each.key == call.signature), None)
    if entry is None:
        return True
    tensors = model.subgraphs[entry.subgraph].tensors
    return all(np.shape(call.inputs[name]) == tensors[index].shape for name, index in entry.inputs.items())


@pytest.mark.parametrize("elide", [True, False], ids=["elision", "copies"])
@pytest.mark.parametrize("path", [pytest.param(each, id=each.stem, marks=() if each.stem in QUICK else pytest.mark.slow)
                                  for each in MODELS])
def test_copies_are_those_that_a_run_counts(path: Path, elide: bool) -> None:
    session = circlet.Session(circlet.load(path), "native", copy_elision=elide)
    edges = session.copies()
    for call in read(path.with_suffix(".npz")):
        counter = circlet.Counter()
        runner = session.signature(call.signature) if call.signature else session
        runner.run(call.inputs, listener=counter)
        if not (has_declared_shapes(session.model, call) and has_one_caller_each(session.executed)
                and is_native(session, session.model) and None not in [each.bytes for each in edges]):
            assert path.stem not in QUICK
            pytest.skip("shapes are not as declared, not all is native code, or subgraphs have several callers")
        always = [each for each in edges if not leaves_a_loop(session.executed, each)]
        least = copies(always, session.executed, counter.invocations)
        most = copies(edges, session.executed, counter.invocations)
        for found, low, high in zip((counter.copies, counter.copied_bytes), least, most, strict=True):
            assert low <= found <= low + 3 * (high - low) // 2


PATHS = {each.stem: each for each in MODELS}


def computed_by(session: Session) -> list[dict[str, str]]:
    """By subgraph, what computes the operators, by their name."""
    return [dict(zip([each.name for each in subgraph.operators], session.backend_of(index), strict=True))
            for index, subgraph in enumerate(session.model.subgraphs)]


@pytest.mark.parametrize("name", ["collatz", "nested_while", "loop_switch"])
def test_loops_and_branches_in_a_native_function_are_native(name: str) -> None:
    session = circlet.Session(circlet.load(PATHS[name]), "native")
    assert "controlflow" in computed_by(session)[0].values()
    expected = computed_by(session.survey())
    assert {each for names in expected for each in names.values()} == {"native"}
    session.run(read(PATHS[name].with_suffix(".npz"))[0].inputs)
    assert computed_by(session) == expected


def test_a_loop_whose_shapes_change_is_not_native_though_its_body_is() -> None:
    session = circlet.Session(circlet.load(PATHS["grow_concat"]), "native")
    session.run({"n": 3})
    main, _, body = computed_by(session)
    assert main["WHILE"] == "controlflow"
    assert set(body.values()) == {"native"}


def test_operators_that_native_code_calls_numpy_for_are_numpys() -> None:
    session = circlet.Session(circlet.load(PATHS["spectrum"]), "native")
    assert computed_by(session.survey())[0]["RFFT2D"] == "cpu"
    assert computed_by(session.survey())[0]["MUL"] == "native"


def test_a_survey_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path))
    session = circlet.Session(circlet.load(PATHS["collatz"]), "native")
    assert {each.action for each in session.copies()} == {Action.REGISTER}
    assert not list(tmp_path.iterdir())
    assert session.run({"n": 27})["steps"] == 111
    assert list(tmp_path.iterdir())
