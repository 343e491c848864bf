"""WHILE: a body run while a condition holds."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.controlflow.call import bind_dynamic, expect_space, present
from circlet.runtime.exec.copying import copy_steps
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.frame import Contract, Frame
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.controlflow import PreTestedLoop, one_element
from circlet.runtime.passes.analyses.elide_copies import Action, LoopPlan


class LoopKernel:
    """Rebinds the carried values simultaneously: the body reads one state and writes the next."""

    def __init__(self, call: Call, executors: ExecutorMap) -> None:
        assert isinstance(call.op, PreTestedLoop)
        self._executors = executors
        self._op = call.op
        self._edge = (call.place.subgraph, call.place.operator)

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        carried = present(inputs)
        try:
            expect_space(run)
            plan = self._executors.planner.loop(self._op, tuple(each.shape for each in carried))
        except Unknown:
            return bind_dynamic(self, carried, outputs, run)
        if self._executors.elide:
            return self._lending(plan, carried, outputs, run)
        return self._copying(carried, outputs, run)

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

    def _frame(self, index: int, state: Sequence[Array], run: Run, contract: Contract) -> Frame:
        return self._executors.frame(index, tuple(each.shape for each in state), run, contract)

    def _lending(self, plan: LoopPlan, carried: Sequence[Array], outputs: Sequence[Array], run: Run) -> Step:
        """The state lies in `first`; values that need two buffers alternate between `first` and `second`."""
        invariant = [slot.action is Action.INVARIANT for slot in plan.slots]
        first = tuple(source if keep else target
                      for source, target, keep in zip(carried, outputs, invariant, strict=True))
        second = tuple(run.room.allocate(each.shape, each.dtype) if slot.double else each
                       for each, slot in zip(first, plan.slots, strict=True))
        turns = [(first, second), (second, first)] if plan.alternates else [(first, first)]
        conds = [self._frame(self._op.cond_subgraph_index, now, run, Contract(now, edge=self._edge))
                 for now, _ in turns]
        bodies = [self._frame(self._op.body_subgraph_index, now, run,
                              Contract(now, then, plan.destroyable, self._edge)) for now, then in turns]
        enter = copy_steps(zip(first, carried, strict=True), run, self._edge, "input")
        leave = [copy_steps(zip(outputs, now, strict=True), run, self._edge, "output") for now, _ in turns]
        return _loop(enter, conds, bodies, leave, self._turn(run))

    def _copying(self, carried: Sequence[Array], outputs: Sequence[Array], run: Run) -> Step:
        """The textbook loop: the state lies in the operator's outputs and is copied in and out of each callee."""
        cond = self._frame(self._op.cond_subgraph_index, carried, run, Contract(edge=self._edge))
        body = self._frame(self._op.body_subgraph_index, carried, run, Contract(edge=self._edge))

        def copies(targets: Sequence[Array], sources: Sequence[Array], label: str) -> list[Step]:
            return copy_steps(zip(targets, sources, strict=True), run, self._edge, label)

        enter = copies(outputs, carried, "input")
        test = [*copies(cond.inputs, outputs, "cond input"), cond.invoke]
        turn = [*copies(body.inputs, outputs, "body input"), body.invoke, *copies(outputs, body.outputs, "body output")]
        flag, next_turn = cond.outputs[0], self._turn(run)

        def step() -> None:
            for each in enter:
                each()
            while True:
                for each in test:
                    each()
                if not flag.item():
                    return
                next_turn()
                for each in turn:
                    each()

        return step


def _loop(enter: Sequence[Step], conds: Sequence[Frame], bodies: Sequence[Frame], leave: Sequence[Sequence[Step]],
          turn: Step) -> Step:
    tests = [cond.invoke for cond in conds]
    flags = [cond.outputs[0].item for cond in conds]
    turns = [body.invoke for body in bodies]
    period = len(turns)

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
            phase = (phase + 1) % period
        for each in leave[phase]:
            each()

    return step
