"""The controlflow backend: kernels that reach other subgraphs through the executor map."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from circlet.backends.controlflow.branch import BranchKernel
from circlet.backends.controlflow.call import CallOnceKernel, InvokeKernel, StatefulKernel
from circlet.backends.controlflow.loop import LoopKernel
from circlet.runtime.exec.executor_map import NOT_MINE, ExecutorMap
from circlet.runtime.exec.kernel import Call, Kernel
from circlet.runtime.ir.op import Op
from circlet.runtime.ops.controlflow import (
    CallOnce,
    CallOnVariables,
    CallSubgraph,
    Composite,
    If,
    LoopRounds,
    StablehloCase,
    StablehloWhile,
    While,
)

Make: TypeAlias = Callable[[Call, ExecutorMap], Kernel]

KERNELS: dict[type[Op], Make] = {
    If: BranchKernel,
    StablehloCase: BranchKernel,
    While: LoopKernel,
    StablehloWhile: LoopKernel,
    CallSubgraph: InvokeKernel,
    Composite: InvokeKernel,
    CallOnce: CallOnceKernel,
    LoopRounds: LoopKernel,
    CallOnVariables: StatefulKernel,
}


class ControlflowBackend:
    """Invokes subgraphs; it computes nothing itself."""

    name = "controlflow"

    def __init__(self, executors: ExecutorMap) -> None:
        self._executors = executors

    def computes_with(self, call: Call) -> str:
        return self.name

    def refuses(self, call: Call) -> str | None:
        return None if type(call.op) in KERNELS else NOT_MINE

    def kernel(self, call: Call) -> Kernel:
        return KERNELS[type(call.op)](call, self._executors)
