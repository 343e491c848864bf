"""Where a model invokes subgraphs: the operators that do, how often, and what passes there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.ir.model import ABSENT
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.controlflow import Branch, CallOnce, ControlFlow, Invoke, PreTestedLoop
from circlet.runtime.ops.loop import Loop


@dataclass(frozen=True)
class Passed:
    """The values that pass between an operator and its subgraphs.

    Attributes:
        kind: `loop`, `branch` or `call`.
        types: the element type and shape of each.
    """

    kind: str
    types: tuple[tuple[DType, Shape], ...]

    @property
    def text(self) -> str:
        """The types, e.g. `int32[], float32[1,8] x 2`."""
        found = Counter(f"{dtype.value}[{','.join(map(str, shape))}]" for dtype, shape in self.types)
        return ", ".join(name if count == 1 else f"{name} x {count}" for name, count in found.items()) or "nothing"


@dataclass
class Site:
    """An operator that invokes subgraphs.

    Attributes:
        subgraph: where it is.
        operator: its number there.
        name: what it is called.
        passed: what passed when it first ran.
        times: how often it ran.
        invocations: how often it invoked each subgraph.
        body: the body of a loop.
    """

    subgraph: int
    operator: int
    name: str
    passed: Passed
    times: int = 0
    invocations: Counter[int] = field(default_factory=Counter)
    body: int | None = None

    @property
    def count(self) -> int:
        """Turns of a loop, else how often the operator ran."""
        return self.times if self.body is None else self.invocations[self.body]


class Surveyor(Listener):
    """Finds the sites of a run."""

    def __init__(self) -> None:
        self.sites: dict[tuple[int, int], Site] = {}
        self._around: list[Site] = []

    def will_compute(self, moment: Moment) -> None:
        op = moment.operator.op
        if not isinstance(op, ControlFlow) or isinstance(op, CallOnce):
            return
        place = moment.place
        key = place.subgraph, place.operator
        if key not in self.sites:
            self.sites[key] = Site(*key, place.operator_name, _passed(op, moment), body=_body(op))
        self.sites[key].times += 1
        self._around.append(self.sites[key])

    def did_compute(self, moment: Moment) -> None:
        key = moment.place.subgraph, moment.place.operator
        if self._around and (self._around[-1].subgraph, self._around[-1].operator) == key:
            self._around.pop()

    def will_invoke(self, subgraph: int) -> None:
        if self._around:
            self._around[-1].invocations[subgraph] += 1


def _body(op: Op) -> int | None:
    """The body of a loop."""
    return op.body_subgraph_index if isinstance(op, (PreTestedLoop, Loop)) else None


def _passed(op: Op, moment: Moment) -> Passed:
    """What passes between an operator and its subgraphs."""
    types = [_type(moment, position) for position in range(len(moment.operator.inputs))]
    if isinstance(op, Loop):
        first = len(("trip count", "condition"))
        return Passed("loop", _known(types[first:first + len(op.carried) + len(op.invariants)]))
    if isinstance(op, Branch):
        return Passed("branch", _known(types[1:]))
    return Passed("call" if isinstance(op, Invoke) else "loop", _known(types))


def _type(moment: Moment, position: int) -> tuple[DType, Shape] | None:
    """The type of an input of an operator; None if there is none."""
    tensor = moment.operator.inputs[position]
    if tensor == ABSENT:
        return None
    declared, value = moment.graph.tensors[tensor], moment.inputs[position]
    return declared.dtype, declared.shape if value is None else value.shape


def _known(types: Sequence[tuple[DType, Shape] | None]) -> tuple[tuple[DType, Shape], ...]:
    return tuple(each for each in types if each is not None)
