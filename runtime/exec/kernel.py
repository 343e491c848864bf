"""The seam between the runtime and a backend: an operator becomes a kernel, a kernel is bound to buffers once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from circlet.runtime.errors import Place
from circlet.runtime.exec.crossing import CopyEdge, Position
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import OpenStep
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.ir.op import Op, Skip
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.passes.analyses.alias import Aliases
    from circlet.runtime.passes.analyses.specialize import Specialization

SKIP = Skip()
Step: TypeAlias = Callable[[], object]
"""Computes an operator once, from the buffers it was bound to into the buffers it was bound to."""


NOWHERE = Place(-1, "", -1, "")
"""The place of a call that belongs to no model."""


@dataclass(frozen=True, eq=False)
class Call:
    """One operator in its place, as a backend sees it when it makes a kernel."""

    op: Op
    inputs: tuple[Tensor | None, ...]
    """Declared input tensors; None where an optional one is absent."""
    outputs: tuple[Tensor, ...]
    version: int = 1
    custom_options: bytes = b""
    place: Place = NOWHERE
    intermediates: tuple[Tensor | None, ...] = ()
    """Declared tensors that hold nothing: their quantisation is that of values inside of the operator."""

    @classmethod
    def of(cls, subgraph: Subgraph, operator: Operator, place: Place) -> Call:
        """An operator of a subgraph."""
        return cls.of_tensors(subgraph.tensors, operator, place)

    @classmethod
    def of_tensors(cls, tensors: Sequence[Tensor], operator: Operator, place: Place) -> Call:
        """An operator over the tensors of a subgraph."""
        inputs, intermediates = (tuple(None if index == ABSENT else tensors[index] for index in indices)
                                 for indices in (operator.inputs, operator.intermediates))
        outputs = tuple(tensors[index] for index in operator.outputs)
        return cls(operator.op, inputs, outputs, operator.version, operator.custom_options, place, intermediates)

    def input(self, index: int) -> Tensor:
        """The tensor of a required input."""
        tensor = self.inputs[index]
        assert tensor is not None, f"input {index} of {self.op.name} is required; verify() checks it"
        return tensor

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None


class Kernel(Protocol):
    """An operator made ready by a backend, for any shapes."""

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        """Fixes the buffers. The step reads `inputs` and overwrites `outputs` each time it is called."""
        ...


class SkippedKernel:
    """The kernel of an operator that a pass took out."""

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], run: Run) -> Step:
        return lambda: None


@runtime_checkable
class DynamicKernel(Kernel, Protocol):
    """A kernel that can also make its own results, where only running it tells their shapes."""

    def evaluate(self, inputs: Sequence[Array | None], run: Run) -> Sequence[Array]:
        """Computes the operator once. The results are valid until the next call."""
        ...


class Backend(Protocol):
    """Turns operators into kernels."""

    def computes_with(self, call: Call) -> str:
        """The name of what computes an operator that is not refused."""
        ...

    def refuses(self, call: Call) -> str | None:
        """Why this backend cannot compute the operator as it stands; None where it can."""
        ...

    def kernel(self, call: Call) -> Kernel:
        """A kernel for an operator that is not refused."""
        ...


@runtime_checkable
class SpanBackend(Backend, Protocol):
    """A backend that can compute a run of operators at once."""

    def parts(self, subgraph: int, span: range) -> Sequence[range]:
        """The spans to bind instead of one, which together are the same operators."""
        ...

    def bind_span(self, span: Span) -> Step | None:
        """A step for all operators of a span; None where they are better bound one by one."""
        ...

    def bind_open(self, span: Span) -> OpenStep | None:
        """A step for a whole subgraph at any lengths; None where there is none.

        Raises:
            ToldApart: lengths of 1 take code of their own.
        """
        ...

    def close(self) -> None:
        """Lets go of what is kept for further runs, such as threads."""
        ...

    @property
    def computed(self) -> Mapping[Position, AbstractSet[str]]:
        """The names of what computes each operator of the spans that were bound so far, and of the subgraphs that they
        invoke; without the operators that other backends compute."""
        ...

    @property
    def reasons(self) -> Mapping[Position, str]:
        """Why other backends compute operators of the spans that were bound so far, as far as that was recorded."""
        ...

    @property
    def crossings(self) -> Mapping[Position, Sequence[CopyEdge]]:
        """For each operator that steps of this backend invoke subgraphs for, what crosses the border, as far as that
        was recorded when they were bound."""
        ...


@dataclass(frozen=True, eq=False)
class Span:
    """Consecutive operators of a subgraph at concrete shapes, and the buffers they are to use."""

    spec: Specialization
    operators: range
    aliases: Aliases
    arrays: Sequence[Array | None]
    """The buffer of each tensor that has one."""
    exported: frozenset[int]
    """The tensors that are read after the span, so that their buffers must hold them."""
    run: Run
    is_whole: bool = False
    """What has no buffer is the backend's to place, and no other step sees it."""

    @property
    def leading(self) -> int:
        """The first operator that passes left."""
        operators = self.spec.subgraph.operators
        return next((number for number in self.operators if operators[number].op != SKIP), self.operators.start)

    @property
    def with_objects(self) -> Sequence[int]:
        """The operators of which numpy alone has the values, as they are objects of Python."""
        return [number for number in self.operators if has_objects(self.spec, number)]


def uses_objects(subgraph: Subgraph) -> bool:
    """Whether Python's objects are read or made; there may be tensors of them that nothing makes any more."""
    used = chain(subgraph.inputs, subgraph.outputs, *((*each.inputs, *each.outputs) for each in subgraph.operators))
    return any(subgraph.tensors[each].dtype.numpy.hasobject for each in set(used) - {ABSENT})


def has_objects(spec: Specialization, number: int) -> bool:
    """Whether an operator reads or makes strings or sequences, which lie in no bytes, and is not known before it
    runs."""
    operator, tensors = spec.subgraph.operators[number], spec.subgraph.tensors
    return any(tensors[each].dtype.numpy.hasobject for each in (*operator.inputs, *operator.outputs)
               if each != ABSENT) and not (operator.outputs and all(each in spec.known for each in operator.outputs))
