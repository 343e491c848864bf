"""CALL, STABLEHLO_COMPOSITE, CALL_ONCE and CALL_ON_VARIABLES: unconditional invocation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.copying import copy_step, same_memory
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.frame import Contract, Frame
from circlet.runtime.exec.kernel import Call, DynamicKernel
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step, in_turn
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Array
from circlet.runtime.late import LOADING
from circlet.runtime.ops.controlflow import CallOnVariables, Invoke
from circlet.runtime.passes.analyses.elide_copies import Site
from circlet.runtime.passes.analyses.transfer import Action, Stage, Transfer


class Invocation:
    """Binds subgraphs to the buffers of an operator that invokes them."""

    def __init__(self, executors: ExecutorMap, call: Call) -> None:
        self._executors = executors
        self._edge = (call.place.subgraph, call.place.operator)

    def bind(self, index: int, entering: Sequence[Transfer], inputs: Sequence[Array], leaving: Sequence[Transfer],
             outputs: Sequence[Array], given_up: frozenset[int], run: Run) -> tuple[Step, Frame]:
        """A step that runs a subgraph, and the frame that it runs.

        Args:
            index: the subgraph.
            entering: how `inputs` come to it; what is not named is lent.
            inputs: buffers of the operator.
            leaving: how the results come to `outputs`, likewise.
            outputs: buffers of the operator; none where results are read in the frame.
            given_up: the inputs that the subgraph may overwrite.
            run: what the frame serves.
        """
        contract = Contract(_lent(entering, inputs), _lent(leaving, outputs), given_up)
        frame = self._executors.frame(index, tuple(each.shape for each in inputs), run, contract, is_planned=True)
        return in_turn([*self.copies(entering, frame.inputs, inputs, run), frame.invoke,
                        *self.copies(leaving, outputs, frame.outputs, run)]), frame

    def copies(self, transfers: Sequence[Transfer], targets: Sequence[Array], sources: Sequence[Array],
               run: Run) -> list[Step]:
        """The copies that a plan has of the values at its positions, from sources to targets."""
        return [copy_step(targets[each.position], sources[each.position], run, self._edge, each.label)
                for each in transfers if each.action is Action.COPY]


def _lent(transfers: Sequence[Transfer], buffers: Sequence[Array]) -> tuple[Array | None, ...]:
    copied = {each.position for each in transfers if each.action is Action.COPY}
    return tuple(None if k in copied else buffer for k, buffer in enumerate(buffers))


def site_of(operands: Sequence[Array], results: Sequence[Array]) -> Site:
    """What the buffers of an operator say of it."""
    return Site(lambda result, operand: same_memory(results[result], operands[operand]))


def bind_dynamic(kernel: DynamicKernel, inputs: Sequence[Array], outputs: Sequence[Array], run: Run) -> Step:
    """A step for outputs whose shapes the model promises, though only running the operator makes them."""

    def step() -> None:
        for position, (target, source) in enumerate(zip(outputs, kernel.evaluate(inputs, run), strict=True)):
            if source.shape != target.shape:
                raise ExecutionError(f"output {position} has shape {source.shape}, the model declares {target.shape}")
            np.copyto(target, source)

    return step


def invoke_dynamic(executors: ExecutorMap, index: int, inputs: Sequence[Array], run: Run,
                   edge: tuple[int, int]) -> Sequence[Array]:
    """Runs a subgraph of any shapes on copies; observers hear of what goes in and of what comes out."""
    results = executors.invoke(index, inputs, run)
    if run.observer.is_on:
        for label, values in (("input", inputs), ("output", results)):
            for position, each in enumerate(values):
                run.observer.did_copy(*edge, f"{label} {position}", each.nbytes)
    return results


def present(inputs: Sequence[Array | None]) -> list[Array]:
    """The inputs of an operator none of whose inputs is optional."""
    return [each for each in inputs if each is not None]


def expect_space(run: Run) -> None:
    """Raises Unknown where no more subgraphs are to be bound ahead."""
    if run.is_crowded:
        raise Unknown


class InvokeKernel:
    """Runs a subgraph on the operator's inputs."""

    def __init__(self, call: Call, executors: ExecutorMap) -> None:
        assert isinstance(call.op, Invoke)
        self._executors = executors
        self._op = call.op
        self._callees = call.op.callees()
        self._edge = (call.place.subgraph, call.place.operator)
        self._invocation = Invocation(executors, call)

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        given = present(inputs)
        try:
            expect_space(run)
            plan = self._executors.planner.call(self._op, tuple(each.shape for each in given), site_of(given, outputs))
        except Unknown:
            return bind_dynamic(self, given, outputs, run)
        return self._invocation.bind(self._callees[0], plan.at(0, Stage.ENTER), given, plan.at(0, Stage.LEAVE), outputs,
                                     plan.given_up, run)[0]

    def evaluate(self, inputs: Sequence[Array | None], run: Run) -> Sequence[Array]:
        return invoke_dynamic(self._executors, self._callees[0], present(inputs), run, self._edge)


class CallOnceKernel:
    """Runs an initialisation subgraph unless the session has already run it."""

    def __init__(self, call: Call, executors: ExecutorMap) -> None:
        self._executors = executors
        self._index = call.op.callees()[0]

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        return partial(self._step, run, run.variables.called(self._index))

    def _step(self, run: Run, is_called: Array) -> None:
        if not is_called:
            self._executors.invoke(self._index, (), run)
            is_called.fill(1)


class StatefulKernel:
    """Runs a subgraph on the operator's inputs and values, and makes values of what it gives."""

    def __init__(self, call: Call, executors: ExecutorMap) -> None:
        assert isinstance(call.op, CallOnVariables)
        with LOADING:
            from circlet.runtime.exec.values.words import speller

        self._spell = speller(call.op.words)
        self._executors = executors
        self._op = call.op
        self._edge = (call.place.subgraph, call.place.operator)

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        return bind_dynamic(self, present(inputs), outputs, run)

    def evaluate(self, inputs: Sequence[Array | None], run: Run) -> Sequence[Array]:
        with LOADING:
            from circlet.runtime.exec.state.lifted import LiftedVariables

        given, variables = present(inputs), LiftedVariables(self._op, run.variables)
        values = variables.values(lambda: self._invoke(self._op.first_subgraph, given, run))
        results = self._invoke(self._op.subgraph, [*given, *values], run)
        count = len(results) - len(self._op.assigned)
        variables.assign(results[count:], is_given=False)
        return self._spell(list(results[:count]))

    def _invoke(self, subgraph: int, inputs: Sequence[Array], run: Run) -> Sequence[Array]:
        return invoke_dynamic(self._executors, subgraph, inputs, run, self._edge)
