"""Times runs of one model in several runtimes, in turns, so that a disturbance hits all of them alike."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

import numpy as np

from circlet.tools.measuring.agreement import Agreement, agreement
from circlet.tools.measuring.peers import Peer, Run, ready
from circlet.tools.measuring.work import Work
from circlet.tools.results import Value

SAMPLE = 0.02
"""Seconds that a sample lasts at least; short runs are repeated within it."""
LEAST = 3
"""Samples that are taken however long they last."""
Hear = Callable[[str, float], object]
"""Is told what is being done, and how much of all is done, from 0 to 1."""


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        samples: of each runtime; None: as many as fit into `seconds`, but three.
        seconds: that all runtimes together are measured for.
        warmup: runs of each runtime that are not measured, after the first.
        clock: what tells the time of runs, in seconds.
    """

    samples: int | None = None
    seconds: float = 5.0
    warmup: int = 3
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class Measured:
    """What was measured of one runtime.

    Attributes:
        peer: the runtime.
        first: seconds from the model's path to the first result.
        samples: seconds for a run, one for each sample.
        agreement: how its results compare with those of the first runtime that ran; None if it did not run.
        failure: why it did not run.
    """

    peer: str
    first: float | None = None
    samples: Sequence[float] = field(default=())
    agreement: Agreement | None = None
    failure: str | None = None

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def minimum(self) -> float:
        return min(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """What a tenth of the samples are below, and what a tenth are above."""
        if len(self.samples) == 1:
            return self.samples[0], self.samples[0]
        found = quantiles(self.samples, n=10, method="inclusive")
        return found[0], found[-1]


@dataclass
class _Contestant:
    run: Run
    outputs: Mapping[str, Value]
    first: float
    clock: Callable[[], float]
    repeats: int = 1
    samples: list[float] = field(default_factory=list)

    def warm(self, runs: int) -> None:
        """Runs it, and finds how often to run it in a sample."""
        for _ in range(runs):
            self.run()
        self.repeats = max(1, math.ceil(SAMPLE / max(timed(self.run, self.clock), 1e-7)))

    def sample(self) -> None:
        self.samples.append(timed(self.run, self.clock, self.repeats) / self.repeats)


def measure(work: Work, peers: Sequence[Peer], effort: Effort, hear: Hear = lambda *_: None) -> list[Measured]:
    """Runs a model in every runtime; those that cannot run it say why. Results are compared, then runs are timed."""
    entered: dict[str, _Contestant] = {}
    failures: dict[str, str] = {}
    for peer in peers:
        hear(f"{peer.name}: first result", 0.0)
        try:
            entered[peer.name] = _enter(peer, work, effort.clock)
        except Exception as error:
            failures[peer.name] = _reason(error)
    contestants = list(entered.values())
    agreements = {name: agreement(each.outputs, contestants[0].outputs) for name, each in entered.items()}
    for name, each in entered.items():
        hear(f"{name}: warming up", 0.0)
        each.warm(effort.warmup)
    _sample(contestants, effort, hear)
    return [
        Measured(each.name, failure=failures[each.name]) if each.name in failures else
        Measured(each.name, entered[each.name].first, entered[each.name].samples, agreements[each.name])
        for each in peers
    ]


def _sample(contestants: Sequence[_Contestant], effort: Effort, hear: Hear) -> None:
    """Takes samples in turns, each time beginning with another one."""
    begin, turn = time.perf_counter(), 0
    while contestants:
        spent = (time.perf_counter() - begin) / effort.seconds if effort.seconds else 1.0
        done = turn / effort.samples if effort.samples else min(spent, turn / LEAST)
        hear("measuring", min(done, 1.0))
        if done >= 1:
            return
        for index in range(len(contestants)):
            contestants[(index + turn) % len(contestants)].sample()
        turn += 1


def _enter(peer: Peer, work: Work, clock: Callable[[], float]) -> _Contestant:
    """Loads the model and runs it once."""
    ready(peer, work)
    begin = time.perf_counter()
    run = peer.load(work)
    outputs = run()
    taken = time.perf_counter() - begin
    return _Contestant(run, {name: np.array(each) if isinstance(each, np.ndarray) else each
                             for name, each in outputs.items()}, taken, clock)


def _reason(error: Exception) -> str:
    """Why a runtime does not run, on one line: the first that is more than a heading."""
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    text = next((each for each in lines if not each.endswith(":")), lines[0] if lines else "")
    kind = type(error).__name__
    return text if kind == "RefusedError" else f"{kind}: {text}" if text else kind


def timed(run: Run, clock: Callable[[], float], repeats: int = 1) -> float:
    """The seconds that some runs take, while Python looks for no garbage."""
    gc.disable()
    try:
        start = clock()
        for _ in range(repeats):
            run()
        return clock() - start
    finally:
        gc.enable()
