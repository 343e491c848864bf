"""What was measured of one run of a model: `circlet bench` shows it of any model, `make bench` of many."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from circlet.tools.measuring.charts import Bar, Chart
from circlet.tools.measuring.peers import Peer
from circlet.tools.measuring.sampling import Effort, Hear, Measured, measure
from circlet.tools.measuring.work import Work
from circlet.tools.results import json_shape
from circlet.tools.tables import plural


@dataclass(frozen=True, eq=False)
class Benched:
    """A run of a model in several runtimes, circlet first."""

    work: Work
    found: Sequence[Measured]

    @property
    def title(self) -> str:
        return f"{self.work.path}, {plural(self.work.threads, 'thread')}"

    @property
    def reference(self) -> Measured | None:
        """The runtime that others are compared with: circlet, if it ran."""
        return self.found[0] if self.found[0].samples else None

    def ratio(self, each: Measured) -> float | None:
        """How many times as long as circlet a runtime takes."""
        return each.median / self.reference.median if self.reference is not None and each.samples else None

    def chart(self, title: str) -> Chart:
        """Medians as bars."""
        return Chart(title, [Bar(each.peer, each.median, *each.spread) for each in self.found if each.samples])

    def to_json(self, random: Collection[str] = ()) -> dict[str, Any]:
        """An object for `json.dumps`, times in seconds.

        Args:
            random: the inputs that have values by chance.
        """
        return {
            "model": str(self.work.path),
            "signature": self.work.signature,
            "threads": self.work.threads,
            "inputs": [{"name": name, "shape": json_shape(value), "random": name in random}
                       for name, value in self.work.inputs.items()],
            "runtimes": [self._runtime(each) for each in self.found],
        }

    def _runtime(self, each: Measured) -> dict[str, Any]:
        compared = each.agreement
        if each.failure is not None or compared is None:
            return {"runtime": each.peer, "failure": each.failure}
        low, high = each.spread
        # JSON has no infinity.
        largest = compared.largest if compared.largest is None or compared.largest < float("inf") else None
        return {
            "runtime": each.peer, "failure": None, "first_seconds": each.first, "median": each.median, "p10": low,
            "p90": high, "minimum": each.minimum, "samples": list(each.samples), "times_circlet": self.ratio(each),
            "agrees": compared.agrees, "difference": compared.text, "largest_difference": largest,
        }


def bench(work: Work, peers: Sequence[Peer], effort: Effort, hear: Hear = lambda *_: None) -> Benched:
    """Compares the results of a run in all runtimes, warms these up, then measures them in turns."""
    return Benched(work, measure(work, peers, effort, hear))
