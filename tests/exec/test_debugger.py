"""Runs stop where they are asked to, and show what was computed until there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.exec.observe.breakpoints import breakpoint_at
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.exec.observe.non_finite import NonFinite, non_finite
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Div, Mul, Sub
from tests.exec import graphs as g
from tests.models.expectations import read

FOLDER = Path(__file__).parents[1] / "models"
NESTED = circlet.load(FOLDER / "nested_while.tflite")
INPUTS = read(FOLDER / "nested_while.npz")[0].inputs


class Follow(circlet.Debugger):
    """Goes on as it is told, then to the end."""

    def __init__(self, resumes: list[circlet.Resume], *where: str,
                 begin: circlet.Resume = circlet.Resume.CONTINUE) -> None:
        super().__init__([breakpoint_at(NESTED, each) for each in where], begin=begin)
        self.rest = iter(resumes)
        self.paths: list[str] = []
        self.iterations: list[int | None] = []

    def stopped(self, stop: circlet.Stop) -> circlet.Resume:
        self.paths.append(stop.moment.path)
        self.iterations.append(stop.moment.iteration)
        return next(self.rest, circlet.Resume.CONTINUE)


def all_moments() -> list[Moment]:
    recorder = circlet.ValueRecorder()
    circlet.Session(NESTED).signature().run(INPUTS, listener=recorder)
    return recorder.moments


MOMENTS = all_moments()


def follow(debugger: Follow) -> Follow:
    circlet.Session(NESTED).signature().run(INPUTS, listener=debugger)
    return debugger


def test_stepping_stops_at_every_operator() -> None:
    found = follow(Follow([circlet.Resume.STEP] * len(MOMENTS), begin=circlet.Resume.STEP))
    assert found.paths == [each.path for each in MOMENTS]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, len(MOMENTS) - 1), st.sampled_from([circlet.Resume.NEXT, circlet.Resume.OUT]))
def test_next_and_out_pass_what_is_deeper(start: int, resume: circlet.Resume) -> None:
    """The next stop is the first one that is no deeper, or less deep."""
    found = follow(Follow([*[circlet.Resume.STEP] * start, resume], begin=circlet.Resume.STEP))
    depth = len(MOMENTS[start].calls) - (resume is circlet.Resume.OUT)
    rest = [each.path for each in MOMENTS[start + 1:] if len(each.calls) <= depth]
    assert found.paths[start + 1:] == rest[:1]


@pytest.mark.parametrize(("where", "matches"), [
    ("MUL", lambda each: each.place.operator_name == "MUL"),
    ("op=ADD", lambda each: each.place.operator_name == "ADD"),
    ("while/while_body:0", lambda each: (each.place.subgraph, each.place.operator) == (2, 0)),
    ("while_body:ADD@iteration=1", lambda each: (each.place.subgraph, each.place.operator_name) == (4, "ADD")
     and each.iteration == 1),
])
def test_breakpoints_on_operators(where: str, matches: Callable[[Moment], bool]) -> None:
    assert follow(Follow([], where)).paths == [each.path for each in MOMENTS if matches(each)]


def test_breakpoints_on_tensors() -> None:
    for graph in NESTED.subgraphs:
        for operator in graph.operators:
            name = graph.tensors[operator.outputs[0]].name
            expected = [each.path for each in MOMENTS
                        if name in [each.graph.tensors[k].name for k in each.operator.outputs]]
            assert follow(Follow([], f"tensor={name}")).paths == expected


@pytest.mark.parametrize("index", range(1, len(NESTED.subgraphs)))
def test_breakpoints_on_subgraphs_stop_once_in_each_invocation(index: int) -> None:
    counter = circlet.Counter()
    circlet.Session(NESTED, "cpu").signature().run(INPUTS, listener=counter)
    found = follow(Follow([], f"@{index}"))
    assert len(found.paths) == counter.invocations[index]
    once = follow(Follow([], f"@{index}@iteration=1"))
    assert {*once.iterations} == {1}
    assert len(once.paths) == found.iterations.count(1)


def test_the_next_iteration() -> None:
    found = follow(Follow([circlet.Resume.ITERATION] * 3, "@2@iteration=0"))
    assert found.iterations[:2] == [0, 1]


def test_a_subgraph_has_the_name_of_the_role_that_only_it_has() -> None:
    collatz = circlet.load("examples/collatz.tflite")
    assert breakpoint_at(collatz, "body:3@iteration=100") == breakpoint_at(collatz, "while_body:3@iteration=100")
    assert breakpoint_at(collatz, "cond") == breakpoint_at(collatz, "while_cond")


@pytest.mark.parametrize(("where", "message"), [
    ("whlie_body", "no subgraph, tensor or operator 'whlie_body'"),
    ("1:99", "no operator 99 in subgraph 1"), ("1:ZZZ", "no operator 'ZZZ' in subgraph 1"),
    ("body:0", "several subgraphs are a body: @2, @4"), ("tensor=zzz", "no tensor 'zzz'"),
    ("subgraph=@99", "no subgraph '@99'"),
])
def test_wrong_breakpoints(where: str, message: str) -> None:
    with pytest.raises(circlet.InputError, match=message):
        breakpoint_at(NESTED, where)


def test_values_at_a_stop_are_those_that_were_computed() -> None:
    """Of every tensor of the subgraphs in progress, also where buffers were used again since."""
    kept: list[dict[str, g.Array]] = []

    class Look(circlet.Debugger):
        def stopped(self, stop: circlet.Stop) -> circlet.Resume:
            own = {tensor.name: stop.find(tensor.name)[1] for index, tensor in enumerate(stop.moment.graph.tensors)
                   if index in stop.levels[-1].values}
            kept.append(own)
            return circlet.Resume.STEP

    circlet.Session(NESTED).signature().run(INPUTS, listener=Look(begin=circlet.Resume.STEP))
    assert len(kept) == len(MOMENTS)
    for own, moment in zip(kept, MOMENTS, strict=True):
        for index, value in zip(moment.operator.outputs, moment.outputs, strict=True):
            np.testing.assert_array_equal(own[moment.graph.tensors[index].name], value, strict=True)


def test_tensors_that_are_not_there() -> None:
    class Look(circlet.Debugger):
        def stopped(self, stop: circlet.Stop) -> circlet.Resume:
            with pytest.raises(circlet.InputError, match="no tensor 'zzz' here"):
                stop.find("zzz")
            last = stop.moment.graph.tensors[stop.moment.graph.operators[-1].outputs[0]]
            if len(stop.moment.graph.operators) > 1:
                with pytest.raises(circlet.InputError, match="has no value yet"):
                    stop.find(last.name)
            return circlet.Resume.CONTINUE

    circlet.Session(NESTED).signature().run(INPUTS, listener=Look([breakpoint_at(NESTED, "@2@iteration=0")]))


def _divide(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    left = s.apply(Sub(), v[0], s.constant(np.float32(1)))
    return [left, s.apply(Mul(), s.apply(Div(), s.constant(np.float32(1)), left), left)]


DIVIDING = g.while_model(lambda s, v: [g.less(s, s.constant(np.float32(0)), v[0])], _divide, [g.f32(3), g.f32(0)])
"""Counts down from 3 and divides by what is left: infinity in iteration 2, which times 0 is NaN."""


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("infinities", "what"), [(True, "operator 1 .DIV.*infinity"), (False, "operator 2 .MUL.*NaN")])
def test_a_guard_ends_the_run_at_the_first_operator(backend: str, infinities: bool, what: str) -> None:
    session = circlet.Session(DIVIDING, backend)
    with pytest.raises(circlet.ExecutionError, match=f"{what} in tensor .*WHILE.*, body, iteration 2") as caught:
        session.run([g.f32(3), g.f32(0)], listener=circlet.NanGuard(infinities))
    assert caught.value.place is not None
    assert caught.value.place.subgraph == 2
    session.run([g.f32(-1), g.f32(0)], listener=circlet.NanGuard())


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.BFLOAT16, DType.COMPLEX64])
@pytest.mark.parametrize("kind", NonFinite)
def test_where_a_tensor_is_not_finite(dtype: DType, kind: NonFinite) -> None:
    element = dtype.numpy if dtype.element is None else dtype.element
    value = np.zeros((2, 3, 4), element)
    tensor = Tensor("x", dtype, value.shape)
    assert non_finite(tensor, dtype.stored(value)) is None
    value[1, 2, 0] = value[1, 2, 3] = np.nan if kind is NonFinite.NAN else -np.inf
    found = non_finite(tensor, dtype.stored(value))
    assert found is not None
    assert (found.kind, found.index, found.count) == (kind, (1, 2, 0), 2)
    other = next(each for each in NonFinite if each is not kind)
    assert non_finite(tensor, dtype.stored(value), {other}) is None


def test_integers_are_finite() -> None:
    assert non_finite(Tensor("x", DType.INT8, (2,)), np.array([1, 2], np.int8)) is None
    assert non_finite(Tensor("x", DType.STRING, (1,)), np.array([b"nan"], object)) is None


def test_a_recorder_keeps_what_it_is_asked_for() -> None:
    recorder, name = circlet.ValueRecorder(["left"]), DIVIDING.subgraphs[2].tensors[
        DIVIDING.subgraphs[2].operators[0].outputs[0]].name
    circlet.Session(DIVIDING).run([g.f32(3), g.f32(0)], listener=recorder)
    assert not recorder.moments
    recorder = circlet.ValueRecorder([name])
    circlet.Session(DIVIDING).run([g.f32(3), g.f32(0)], listener=recorder)
    g.assert_equal(recorder.values(name), [g.f32(2), g.f32(1), g.f32(0)])
    assert [each.iteration for each in recorder.moments] == [0, 1, 2]
