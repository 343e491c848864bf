"""The numpy backend: readable, complete, and what every other backend is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.cpu.rule import RULES, Node, Rule
from circlet.runtime.exec.kernel import Call, Kernel
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass


@dataclass(frozen=True, eq=False)
class CpuKernel:
    """A rule and the call it is for."""

    rule: Rule[Op]
    call: Call

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        return self.rule.bind(Node(self.call.op, self.call, inputs, outputs, run))


@dataclass(frozen=True, eq=False)
class MakingCpuKernel(CpuKernel):
    """A kernel that can make its own results."""

    def evaluate(self, inputs: Sequence[Array | None], run: Run) -> Sequence[Array]:
        assert self.rule.evaluate is not None
        return self.rule.evaluate(Node(self.call.op, self.call, inputs, (), run))


class CpuBackend:
    """Computes each operator with numpy."""

    name = "cpu"

    def computes_with(self, call: Call) -> str:
        return self.name

    def refuses(self, call: Call) -> str | None:
        found = RULES.of(type(call.op))
        return "not implemented" if found is None else found.refuses(call)

    def kernel(self, call: Call) -> Kernel:
        found = RULES.of(type(call.op))
        assert found is not None, f"{call.op.name} has no rule, and was refused"
        return CpuKernel(found, call) if found.evaluate is None else MakingCpuKernel(found, call)
