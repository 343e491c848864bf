"""CALL, STABLEHLO_COMPOSITE and CALL_ONCE: unconditional invocation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.copying import copy_steps, same_memory
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.frame import Contract, Frame
from circlet.runtime.exec.kernel import Call, DynamicKernel
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Array
from circlet.runtime.passes.analyses.elide_copies import CallPlan


class Invocation:
    """Binds one subgraph to the buffers of an operator that invokes it."""

    def __init__(self, executors: ExecutorMap, call: Call) -> None:
        self._executors = executors
        self._edge = (call.place.subgraph, call.place.operator)

    def bind(self, index: int, plan: CallPlan, inputs: Sequence[Array], outputs: Sequence[Array], run: Run) -> Step:
        """A step that runs subgraph `index` on the buffers, lending them or, without elision, copying."""
        shapes = tuple(each.shape for each in inputs)
        if self._executors.elide:
            given_up = frozenset(position for output, position in plan.in_place
                                 if same_memory(outputs[output], inputs[position]))
            contract = Contract(tuple(inputs), tuple(outputs), given_up, self._edge)
            return self._executors.frame(index, shapes, run, contract).invoke
        frame = self._executors.frame(index, shapes, run, Contract(edge=self._edge))
        return self._copying(frame, inputs, outputs, run)

    def _copying(self, frame: Frame, inputs: Sequence[Array], outputs: Sequence[Array], run: Run) -> Step:
        steps = [
            *copy_steps(zip(frame.inputs, inputs, strict=True), run, self._edge, "input"),
            frame.invoke,
            *copy_steps(zip(outputs, frame.outputs, strict=True), run, self._edge, "output"),
        ]

        def step() -> None:
            for each in steps:
                each()

        return step


def bind_dynamic(kernel: DynamicKernel, inputs: Sequence[Array], outputs: Sequence[Array],
                 run: Run) -> Step:
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
        self._executors = executors
        self._callees = call.op.callees()
        self._edge = (call.place.subgraph, call.place.operator)
        self._invocation = Invocation(executors, call)

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        given = present(inputs)
        try:
            expect_space(run)
            plan = self._executors.planner.call(self._callees, tuple(each.shape for each in given))
        except Unknown:
            return bind_dynamic(self, given, outputs, run)
        return self._invocation.bind(self._callees[0], plan, given, outputs, run)

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
