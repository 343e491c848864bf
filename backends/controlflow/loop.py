"""WHILE: a body run while a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from circlet.backends.controlflow.call import Invocation, bind_dynamic, expect_space, present, site_of
from circlet.runtime.exec.copying import copy_step
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.memory import retype
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.controlflow import PreTestedLoop, one_element
from circlet.runtime.passes.analyses.elide_copies import LoopPlan, Site
from circlet.runtime.passes.analyses.transfer import Action, Stage
from circlet.runtime.records import dataclass


class LoopKernel:
    """Rebinds the carried values simultaneously: the body reads one state and writes the next."""

    def __init__(self, call: Call, executors: ExecutorMap) -> None:
        assert isinstance(call.op, PreTestedLoop)
        self._executors = executors
        self._op = call.op
        self._edge = (call.place.subgraph, call.place.operator)
        self._invocation = Invocation(executors, call)

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        carried = present(inputs)
        try:
            expect_space(run)
            plan = self._executors.planner.loop(self._op, tuple(each.shape for each in carried),
                                                self._site(carried, outputs))
        except Unknown:
            return bind_dynamic(self, carried, outputs, run)
        return self._bound(plan, carried, outputs, run)

    def evaluate(self, inputs: Sequence[Array | None], run: Run) -> Sequence[Array]:
        """Runs the loop whatever becomes of the shapes; every turn copies the state in and out."""
        op, invoke, edge = self._op, self._executors.invoke, self._edge
        state = present(inputs)
        while True:
            self._tell(run, "cond input", state)
            flag = invoke(op.cond_subgraph_index, state, run)[0]
            one_element(flag.shape)
            if not flag.item():
                return state
            self._turn(run)()
            self._tell(run, "body input", state)
            state = [each.copy() for each in invoke(op.body_subgraph_index, state, run)]
            if run.observer.is_on:
                for position, each in enumerate(state):
                    run.observer.did_copy(*edge, f"body output {position}", each.nbytes)

    def _turn(self, run: Run) -> Step:
        """What comes before each turn."""
        return run.watch.turn if self._op.counts else run.watch.check

    def _tell(self, run: Run, label: str, state: Sequence[Array]) -> None:
        if run.observer.is_on:
            for position, each in enumerate(state):
                run.observer.did_copy(*self._edge, f"{label} {position}", each.nbytes)

    def _site(self, carried: Sequence[Array], outputs: Sequence[Array]) -> Site:
        site = site_of(carried, outputs)
        return replace(site, is_read=partial(self._executors.planner.is_read, *self._edge),
                       begins_apart=self._executors.begins_apart(self._edge[0]))

    def _bound(self, plan: LoopPlan, carried: Sequence[Array], outputs: Sequence[Array], run: Run) -> Step:
        """The loop on its buffers, with a condition and a body for each turn after which values lie elsewhere."""
        invariant = {each.position for each in plan.at(Stage.CARRY) if each.action is Action.INVARIANT}
        places = [source if k in invariant else target
                  for k, (source, target) in enumerate(zip(carried, outputs, strict=True))]
        places += [run.room.allocate(carried[k].shape, carried[k].dtype) for k in plan.rotation.spares]
        enter = self._invocation.copies(plan.at(Stage.ENTER), places, carried, run)
        places += carried
        course, phases = plan.course, range(len(plan.course.places))
        states = [[retype(places[place], each.shape, each.dtype)
                   for place, each in zip(course.places[phase], carried, strict=True)] for phase in phases]
        turns = [self._phase(plan, phase, states[phase], states[course.following(phase)], run) for phase in phases]
        leave = [[copy_step(places[target], places[source], run, self._edge,
                            f"{Stage.LEAVE.value} {plan.rotation.moved((target, source))}")
                  for target, source in course.moves(phase, plan.unread)] for phase in phases]
        return _loop(enter, turns, leave, self._turn(run), course.lead)

    def _phase(self, plan: LoopPlan, phase: int, now: Sequence[Array], then: Sequence[Array], run: Run) -> _Phase:
        bind = self._invocation.bind
        test, cond = bind(self._op.cond_subgraph_index, plan.at(Stage.CONDITION), now, (), (), frozenset(), run)
        turn, _ = bind(self._op.body_subgraph_index, plan.at(Stage.TURN), now,
                       (*plan.at(Stage.RETURN), *plan.at(Stage.CARRY)), then, plan.given_up(phase), run)
        return _Phase(test, cond.outputs[0].item, turn)


@dataclass(frozen=True)
class _Phase:
    """A turn of a loop, for one way in which the carried values lie in its buffers."""

    test: Step
    flag: Callable[[], bool]
    turn: Step


def _loop(enter: Sequence[Step], phases: Sequence[_Phase], leave: Sequence[Sequence[Step]], turn: Step,
          lead: int) -> Step:
    """The loop as a step; after the last phase comes again that of number `lead`."""
    tests = [each.test for each in phases]
    flags = [each.flag for each in phases]
    turns = [each.turn for each in phases]
    following = [*range(1, len(phases)), lead]

    def step() -> None:
        for each in enter:
            each()
        phase = 0
        while True:
            tests[phase]()
            if not flags[phase]():
                break
            turn()
            turns[phase]()
            phase = following[phase]
        for each in leave[phase]:
            each()

    return step
