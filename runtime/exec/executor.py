"""The immutable plan of one subgraph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

from circlet.runtime.errors import ExecutionError, LimitError, Place
from circlet.runtime.exec.kernel import DynamicKernel, Kernel, SpanBackend
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.faults import FAULTS, raise_located
from circlet.runtime.ir.model import ABSENT, Subgraph
from circlet.runtime.ir.op import Operand, Operands, Unknown
from circlet.runtime.ir.tensor import types_of
from circlet.runtime.ir.types import Array, Shape


class Executor:
    """One subgraph with a kernel for each of its operators. It holds no memory: frames do."""

    def __init__(self, index: int, subgraph: Subgraph, kernels: tuple[Kernel, ...],
                 named: tuple[Callable[[], str], ...],
                 span_backends: tuple[SpanBackend, ...]) -> None:
        self.index = index
        self.subgraph = subgraph
        self.kernels = kernels
        self._named = named
        self.span_backends = span_backends
        """The backends that can compute several operators at once, in order of preference."""

    @cached_property
    def backends(self) -> tuple[str, ...]:
        """The name of the backend that computes each operator, as far as can be told before it is bound."""
        return tuple(each() for each in self._named)

    @cached_property
    def last_reads(self) -> Mapping[int, int]:
        """For each tensor the last operator that reads it, by index; what the subgraph gives is read after all."""
        operators = self.subgraph.operators
        found = {tensor: number for number, each in enumerate(operators) for tensor in each.inputs}
        return {**found, **dict.fromkeys(self.subgraph.outputs, len(operators))}

    def bind(self, operator: int, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        """The kernel of an operator bound to buffers. If that fails the step does, as it may never be reached.

        Raises:
            LimitError: there is not memory enough.
        """
        try:
            return self.kernels[operator].bind(inputs, outputs, run)
        except (LimitError, MemoryError) as error:
            raise_located(error, self.place(operator))
        except FAULTS as error:
            return partial(raise_located, error, self.place(operator))

    def shapes(self, operator: int, inputs: Sequence[Array | None]) -> tuple[Shape, ...] | None:
        """The shapes of an operator's results on some inputs; None where only running it tells.

        Raises:
            ShapeError: the inputs do not fit.
        """
        found = self.subgraph.operators[operator]
        tensors = [None if each == ABSENT else self.subgraph.tensors[each] for each in found.inputs]
        operands = tuple(None if tensor is None or array is None else
                         Operand.of(tensor, array) for tensor, array in zip(tensors, inputs, strict=True))
        try:
            return found.op.infer(Operands(operands, len(found.outputs),
                                           declared=types_of(self.subgraph.tensors, found.outputs)))
        except Unknown:
            return None

    def evaluate(self, operator: int, inputs: Sequence[Array | None], run: Run) -> Sequence[Array]:
        """The results of an operator that makes them itself, as only running it tells their shapes; they are valid
        until the next call.

        Raises:
            ExecutionError: it does not.
        """
        kernel = self.kernels[operator]
        if not isinstance(kernel, DynamicKernel):
            raise ExecutionError("the shape of the result cannot be told", self.place(operator))
        return kernel.evaluate(inputs, run)

    def place(self, operator: int) -> Place:
        """Where an operator of this subgraph is, for messages."""
        return self.subgraph.place(self.index, operator)
