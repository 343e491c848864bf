"""Times runs of one model in several runtimes, in turns, so that a disturbance hits all of them alike."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.peers import REFERENCES, Array, Peer, Run

SAMPLE = 0.02
"""Seconds that a sample lasts at least; short runs are repeated within it."""
TOLERANCE = 1e-3
"""Of float results: the largest difference as a part of the largest value."""


@dataclass(frozen=True)
class Result:
    """What was measured of one runtime on one model."""

    case: str
    peer: str
    iterations: int | None
    reference: str
    """The runtime that the others are compared with."""
    samples: Sequence[float] = field(default=())
    """Seconds for a run, one for each round."""
    difference: str | None = None
    """How its outputs differ from those of the first runtime."""
    failure: str | None = None
    """Why it did not run."""

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def minimum(self) -> float:
        return min(self.samples)

    @property
    def per_iteration(self) -> float | None:
        return self.median / self.iterations if self.iterations else None


@dataclass
class _Contestant:
    peer: Peer
    run: Run
    outputs: Mapping[str, Array]
    repeats: int
    samples: list[float] = field(default_factory=list)

    def sample(self) -> None:
        self.samples.append(_time(self.run, self.repeats) / self.repeats)


def measure(
    case: str, path: Path, inputs: Mapping[str, Array], iterations: int | None, peers: Sequence[Peer], rounds: int,
    threads: int = 1,
) -> list[Result]:
    """Runs a model in every runtime that reads its kind of file; results are in the order of `peers`."""
    peers, reference = [each for each in peers if path.suffix in each.reads], REFERENCES[path.suffix]
    entered: dict[str, _Contestant] = {}
    failures: dict[str, str] = {}
    for peer in peers:
        try:
            entered[peer.name] = _enter(peer, threads, path, inputs)
        except Exception as error:
            failures[peer.name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    contestants = list(entered.values())
    for turn in range(rounds):
        for index in range(len(contestants)):
            contestants[(index + turn) % len(contestants)].sample()
    return [
        Result(case, peer.name, iterations, reference, failure=failures[peer.name]) if peer.name in failures else
        Result(case, peer.name, iterations, reference, entered[peer.name].samples,
               _difference(entered[peer.name].outputs, contestants[0].outputs))
        for peer in peers
    ]


def _enter(peer: Peer, threads: int, path: Path, inputs: Mapping[str, Array]) -> _Contestant:
    """Loads the model, warms it up and finds how often to run it in a sample."""
    run = peer.load(threads, path, inputs)
    outputs = {name: np.array(value) for name, value in run().items()}
    return _Contestant(peer, run, outputs, max(1, math.ceil(SAMPLE / max(_time(run, 1), 1e-7))))


def _time(run: Run, repeats: int) -> float:
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        return time.perf_counter() - start
    finally:
        gc.enable()


def _difference(found: Mapping[str, Array], expected: Mapping[str, Array]) -> str | None:
    """How outputs differ from others, in words; None where they agree."""
    if found.keys() != expected.keys():
        return f"outputs {', '.join(found)} instead of {', '.join(expected)}"
    for name, value in expected.items():
        other = found[name]
        if other.shape != value.shape or other.dtype != value.dtype:
            return f"{name} is {other.dtype}{list(other.shape)} instead of {value.dtype}{list(value.shape)}"
        if value.dtype.kind in "fc":
            distance = _distance(other, value)
            if distance > TOLERANCE:
                return f"{name} by {distance:.2%} of the largest value"
        elif not np.array_equal(other, value):
            return f"{name} in {np.count_nonzero(other != value)} of {value.size} elements"
    return None


def _distance(found: Array, expected: Array) -> float:
    """The largest difference as a part of the largest finite expected value; infinite where NaN or infinity differ."""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)) or not np.array_equal(found[~finite], expected[~finite], True):
        return math.inf
    largest = float(np.max(np.abs(expected[finite]), initial=0.0))
    return float(np.max(np.abs(found[finite] - expected[finite]), initial=0.0)) / (largest or 1.0)
