"""A group of operators where it is computed with numpy."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.lower.fused import Fused
from circlet.runtime.exec.kernel import Call, Kernel
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array


class FusedKernel:
    """A group of operators computed one by one with numpy."""

    def __init__(self, call: Call, op: Fused, cpu: CpuBackend) -> None:
        self._call = call
        self._op = op
        self._kernels = [cpu.kernel(Call.of_tensors(op.tensors, each.operator, call.place)) for each in op.members]

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        """Binds the members one after the other, with buffers for what they hand on."""
        arrays: dict[int, Array | None] = dict(zip(self._op.sources, inputs, strict=True))
        arrays[-1] = None
        shapes = self._op.shapes({tensor: array for tensor, array in arrays.items() if array is not None})
        for member in self._op.members[:-1]:
            for each in member.operator.outputs:
                arrays[each] = run.room.allocate(shapes[each], self._op.tensors[each].dtype.numpy)
        last = self._op.members[-1].operator
        arrays.update(zip(last.outputs, outputs, strict=True))
        steps = [
            _bound(kernel, [arrays[each] for each in member.operator.inputs],
                   [array for each in member.operator.outputs if (array := arrays[each]) is not None], run)
            for kernel, member in zip(self._kernels, self._op.members, strict=True)
        ]

        def step() -> None:
            for each in steps:
                each()

        return step


def _bound(kernel: Kernel, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
    """The step of a member, which counts as an operator."""
    return run.watch.after(kernel.bind(inputs, outputs, run), (*inputs, *outputs))
