"""What is said of copies between subgraphs, and of what computes a model, is what runs do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import circlet
from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.model import Model
from circlet.runtime.ops.controlflow import PreTestedLoop
from circlet.runtime.passes.analyses.course import Course
from circlet.runtime.passes.analyses.elide_copies import BEGINS_ELSEWHERE
from circlet.runtime.passes.analyses.transfer import Action
from tests.exec.test_rotation import START, Program, loop_model, programs
from tests.models.expectations import Expectation, read
from tests.native.hosted import spectrum
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


class Invoked(Listener):
    """The subgraphs that were invoked, in order."""

    def __init__(self) -> None:
        self.order: list[int] = []

    def will_invoke(self, subgraph: int) -> None:
        self.order.append(subgraph)


def turns_of(op: PreTestedLoop, order: Iterable[int]) -> list[int]:
    """How many turns a loop took each time that it was entered; its condition is invoked once more than its body."""
    found: list[int] = []
    goes_on = False
    for each in order:
        if each == op.body_subgraph_index:
            found[-1] += 1
            goes_on = True
        elif each == op.cond_subgraph_index:
            found += [] if goes_on else [0]
            goes_on = False
    return found


def leaving(op: PreTestedLoop, course: Course, edges: Sequence[CopyEdge], order: Sequence[int]) -> Iterator[int]:
    """The bytes of each copy made where a loop ends; `edges` are those of the loop over which that may happen."""
    copied = {int(each.edge.split()[-1]): each for each in edges}
    others = set(range(course.rotation.values)) - copied.keys()
    for turns in turns_of(op, order):
        for move in course.moves(course.phase(turns), others):
            yield copied[course.rotation.moved(move)].bytes or 0


def course_of(session: Session, op: PreTestedLoop, edges: Iterable[CopyEdge]) -> Course:
    """Where a loop's values lie, by what is said of their first turn."""
    body = session.executed.subgraphs[op.body_subgraph_index]
    shapes = tuple(body.tensors[each].shape for each in body.inputs)
    lent = frozenset(int(each.edge.split()[-1]) for each in edges if each.reason == BEGINS_ELSEWHERE)
    found = session._executors.planner.course(op, shapes, lent)
    assert isinstance(found, Course)
    return found


def planned(session: Session, edges: Sequence[CopyEdge], order: Sequence[int]) -> tuple[int, int]:
    """How many copies a run makes by the plan, and their bytes, if it invokes subgraphs in this order."""
    model, invocations = session.executed, Counter(order)
    made: list[int] = []
    for (subgraph, operator), listed in groupby(edges, key=lambda each: each.position):
        group = list(listed)
        op = model.subgraphs[subgraph].operators[operator].op
        own = [each for each in group if each.action is Action.COPY]
        last = [each for each in own if isinstance(op, PreTestedLoop) and each.edge.startswith("output")]
        made += [each.bytes or 0 for each in own if each not in last for _ in range(crossed(model, each, invocations))]
        if last:
            assert isinstance(op, PreTestedLoop)
            made += leaving(op, course_of(session, op, group), last, order)
    return len(made), sum(made)


def has_declared_shapes(model: Model, call: Expectation) -> bool:
    entry = next((each for each in model.signatures if each.key == call.signature), None)
    if entry is None:
        return True
    tensors = model.subgraphs[entry.subgraph].tensors
    return all(np.shape(call.inputs[name]) == tensors[index].shape for name, index in entry.inputs.items())


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("elide", [True, False], ids=["elision", "copies"])
@pytest.mark.parametrize("path", [pytest.param(each, id=each.stem, marks=() if each.stem in QUICK else pytest.mark.slow)
                                  for each in MODELS])
def test_copies_are_those_that_a_run_counts(path: Path, elide: bool, backend: str) -> None:
    """Where a loop ends, they depend on how often it turned each time, which a run that is listened to tells."""
    counted, heard = (circlet.Session(circlet.load(path), backend, copy_elision=elide) for _ in range(2))
    edges = counted.copies()
    for call in read(path.with_suffix(".npz")):
        counter, invoked = circlet.Counter(), Invoked()
        for session, listener in ((counted, counter), (heard, invoked)):
            runner = session.signature(call.signature) if call.signature else session
            runner.run(call.inputs, listener=listener)
        if not (has_declared_shapes(counted.model, call) and has_one_caller_each(counted.executed)
                and None not in [each.bytes for each in edges]):
            assert path.stem not in QUICK
            pytest.skip("shapes are not as declared, or subgraphs have several callers")
        assert counter.invocations == Counter(invoked.order)
        assert (counter.copies, counter.copied_bytes) == planned(counted, edges, invoked.order)


@settings(max_examples=150, deadline=None)
@given(programs())
def test_copies_of_random_rotations_are_those_that_a_run_counts(program: Program) -> None:
    session = circlet.Session(loop_model(program), "cpu")
    edges = session.copies()
    for turns in range(7):
        counter, invoked = circlet.Counter(), Invoked()
        inputs = [*START[:program.count], np.int32(turns)]
        session.run(inputs, listener=counter)
        session.run(inputs, listener=invoked)
        assert (counter.copies, counter.copied_bytes) == planned(session, edges, invoked.order)


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


def test_a_loop_whose_shapes_become_smaller_is_native() -> None:
    session = circlet.Session(circlet.load(PATHS["shrink"]), "native")
    session.run(read(PATHS["shrink"].with_suffix(".npz"))[0].inputs)
    main, condition, body = computed_by(session)
    assert {*main.values(), *condition.values(), *body.values()} == {"native"}


def test_operators_that_native_code_calls_numpy_for_are_numpys() -> None:
    session = circlet.Session(spectrum(), "native")
    assert computed_by(session.survey())[0]["RFFT2D"] == "cpu"
    assert computed_by(session.survey())[0]["MUL"] == "native"


def test_a_survey_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path))
    session = circlet.Session(circlet.load(PATHS["collatz"]), "native")
    assert {each.action for each in session.copies()} == {Action.REGISTER}
    assert not list(tmp_path.iterdir())
    assert session.run({"n": 27})["steps"] == 111
    assert list(tmp_path.iterdir())
