"""What a comparison has found, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.tools.comparing.statistics import Statistics, Tolerance, statistics


@dataclass(frozen=True, eq=False)
class First:
    """The first operator that differs."""

    moment: Moment
    tensor: Tensor
    found: Statistics
    merged: str
    """The operators that were merged, the last of which it is; empty where it was computed alone."""


class Findings:
    """Statistics of all values that were compared, in the order in which tensors were computed first."""

    def __init__(self, tolerance: Tolerance, tell: Callable[[str], None] = lambda text: None) -> None:
        """
        Args:
            tolerance: what is overlooked.
            tell: hears now and then what is being done.
        """
        self._tolerance, self._tell = tolerance, tell
        self.tensors: dict[tuple[int, int], tuple[Tensor, Statistics]] = {}
        """By subgraph and tensor."""
        self.operators: dict[tuple[int, int], Moment] = {}
        """The operator that computes each of them, as it ran first."""
        self.skipped: dict[tuple[int, int], str] = {}
        """Operators that could not be compared, and why."""
        self.first: First | None = None
        self.compared = 0
        """How often operators were compared."""

    def compare(self, moment: Moment, found: Sequence[Array | None], merged: str = "") -> None:
        """Notes how an operator's outputs differ from others; None is one that is not known. `merged` are the operators
        that the others were computed by at once."""
        self.compared += 1
        self._tell(moment.path)
        for index, expected, value in zip(moment.operator.outputs, moment.outputs, found, strict=True):
            if value is None:
                continue
            tensor, key = moment.graph.tensors[index], (moment.place.subgraph, index)
            result = statistics(tensor, value, expected, self._tolerance)
            before = self.tensors.get(key, (tensor, Statistics()))[1]
            self.tensors[key] = tensor, before + result
            self.operators.setdefault(key, moment)
            if result.differs and self.first is None:
                self.first = First(moment, tensor, result, merged)

    def skip(self, moment: Moment, reason: str) -> None:
        self.skipped.setdefault((moment.place.subgraph, moment.place.operator), reason)
