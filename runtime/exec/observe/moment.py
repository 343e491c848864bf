"""An operator as it runs: where in the model, in which iteration of which loops, on which values."""

from __future__ import annotations

from circlet.runtime.errors import Place
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Invocation:
    """An operator that is invoking a subgraph."""

    place: Place
    """Of the operator."""
    role: str
    """What the subgraph is to the operator, e.g. `body`."""
    iteration: int | None
    """Of the loop that the operator is, from 0; None where it is none."""

    def __str__(self) -> str:
        text = f"{self.place}, {self.role}"
        return text if self.iteration is None else f"{text}, iteration {self.iteration}"


@dataclass(frozen=True, eq=False)
class Moment:
    """An operator of the model, as the model was given, that is about to run or has just run.

    Arrays are read-only views of the buffers that the operator works on: whoever keeps a value copies it. They hold
    what `DType.numpy` says, as `Session.invoke` has it.
    """

    graph: Subgraph
    place: Place
    """Of the operator."""
    calls: tuple[Invocation, ...]
    """The operators that invoked the subgraph, the outermost first; none in an entry point."""
    inputs: tuple[Array | None, ...]
    """None where an input is absent, where a pass has made it part of the operator, and, after the operator has run,
    where it may have been overwritten."""
    outputs: tuple[Array, ...] = ()
    """None before the operator has run."""

    @property
    def operator(self) -> Operator:
        return self.graph.operators[self.place.operator]

    @property
    def loop(self) -> int:
        """The position among `calls` of the innermost loop around the operator; -1 outside of loops."""
        return max((k for k, each in enumerate(self.calls) if each.iteration is not None), default=-1)

    @property
    def iteration(self) -> int | None:
        """The iteration of the innermost loop around the operator, from 0; None outside of loops."""
        return self.calls[self.loop].iteration if self.loop >= 0 else None

    @property
    def values(self) -> dict[int, Array]:
        """What the operator reads and has written, by tensor of the subgraph."""
        operator = self.operator
        found = {tensor: value for tensor, value in zip(operator.inputs, self.inputs, strict=True)
                 if tensor != ABSENT and value is not None}
        return {**found, **dict(zip(operator.outputs, self.outputs, strict=False))}

    @property
    def path(self) -> str:
        """The place with the operators around it, e.g. `0[3] WHILE #7 body > 2[0] ADD`."""
        calls = (f"{each.place.subgraph}[{each.place.operator}] {each.place.operator_name}"
                 f"{'' if each.iteration is None else f' #{each.iteration}'} {each.role}" for each in self.calls)
        return " > ".join((*calls, f"{self.place.subgraph}[{self.place.operator}] {self.place.operator_name}"))
