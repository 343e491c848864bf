"""A group of operators where it is computed with numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.lower.fused import Fused
from circlet.runtime.exec.kernel import Call, Kernel
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import Operand, Operands, Unknown
from circlet.runtime.ir.tensor import types_of
from circlet.runtime.ir.types import Array, Shape


class FusedKernel:
    """A group of operators computed one by one with numpy."""

    def __init__(self, call: Call, op: Fused, cpu: CpuBackend) -> None:
        self._call = call
        self._op = op
        self._kernels = [cpu.kernel(Call.of_tensors(op.tensors, each.operator, call.place)) for each in op.members]

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        """Binds the members one after the other, with buffers for what they hand on; in each run, where the shapes of
        that follow from what the inputs hold then."""
        arrays: dict[int, Array | None] = {ABSENT: None, **dict(zip(self._op.sources, inputs, strict=True))}
        try:
            shapes = self._op.shapes({tensor: array for tensor, array in arrays.items() if array is not None})
        except Unknown:
            return partial(self._compute, arrays, outputs, run)
        for member in self._op.members[:-1]:
            for each in member.operator.outputs:
                arrays[each] = self._buffer(each, shapes[each], run)
        last = self._op.members[-1].operator
        arrays.update(zip(last.outputs, outputs, strict=True))
        steps = [_bound(kernel, arrays, member.operator, run)
                 for kernel, member in zip(self._kernels, self._op.members, strict=True)]

        def step() -> None:
            for each in steps:
                each()

        return step

    def _compute(self, inputs: Mapping[int, Array | None], outputs: Sequence[Array], run: Run) -> None:
        """Binds each member when those before it were computed, and computes it."""
        arrays, last = dict(inputs), self._op.members[-1].operator
        for kernel, member in zip(self._kernels, self._op.members, strict=True):
            operator = member.operator
            if operator is last:
                arrays.update(zip(last.outputs, outputs, strict=True))
            else:
                operands = tuple(None if (array := arrays[each]) is None else Operand.of(
                    self._op.tensors[each], array) for each in operator.inputs)
                shapes = operator.op.infer(Operands(operands, len(operator.outputs),
                                                    declared=types_of(self._op.tensors, operator.outputs)))
                arrays.update({each: self._buffer(each, shape, run)
                               for each, shape in zip(operator.outputs, shapes, strict=True)})
            _bound(kernel, arrays, operator, run)()

    def _buffer(self, tensor: int, shape: Shape, run: Run) -> Array:
        return run.room.allocate(shape, self._op.tensors[tensor].dtype.numpy)


def _bound(kernel: Kernel, arrays: Mapping[int, Array | None], operator: Operator, run: Run) -> Step:
    """The step of a member, which counts as an operator."""
    inputs = [arrays[each] for each in operator.inputs]
    outputs = [array for each in operator.outputs if (array := arrays[each]) is not None]
    return run.watch.after(kernel.bind(inputs, outputs, run), (*inputs, *outputs))
