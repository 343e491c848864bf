"""IF and STABLEHLO_CASE: one of several subgraphs, chosen by a value."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.controlflow.call import (
    Invocation,
    bind_dynamic,
    expect_space,
    invoke_dynamic,
    present,
    site_of,
)
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.controlflow import Branch, one_element
from circlet.runtime.passes.analyses.transfer import Stage


class BranchKernel:
    """Binds every branch to the operator's own buffers and runs the chosen one."""

    def __init__(self, call: Call, executors: ExecutorMap) -> None:
        assert isinstance(call.op, Branch)
        self._op = call.op
        self._edge = (call.place.subgraph, call.place.operator)
        self._executors = executors
        self._invocation = Invocation(executors, call)

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        selector, *operands = present(inputs)
        try:
            expect_space(run)
            plan = self._executors.planner.call(self._op, tuple(each.shape for each in operands),
                                                site_of(operands, outputs))
        except Unknown:
            return bind_dynamic(self, present(inputs), outputs, run)
        branches = [
            self._invocation.bind(index, plan.at(k, Stage.ENTER), operands, plan.at(k, Stage.LEAVE), outputs,
                                  plan.given_up, run)[0]
            for k, index in enumerate(self._op.branches())
        ]
        select = self._op.select
        value = selector.item

        def step() -> None:
            branches[select(value())]()

        return step

    def evaluate(self, inputs: Sequence[Array | None], run: Run) -> Sequence[Array]:
        selector, *operands = present(inputs)
        one_element(selector.shape)
        index = self._op.branches()[self._op.select(selector.item())]
        return invoke_dynamic(self._executors, index, operands, run, self._edge)
