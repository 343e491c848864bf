"""Compares code for any lengths with code for one length, at that length: an operator or few in a model.

    python -m benchmarks.open_code [--rounds N] [--all] [NAME...]
"""

from __future__ import annotations

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import circlet
from benchmarks.open_cases import CASES, Case
from circlet.runtime.ir.types import Array
from circlet.tools.tables import duration_text

SAMPLE = 2e-3
"""Seconds of a sample, which short runs are repeated for."""
SLOWER = 1.05
"""What is told of by default: the part of the time of code for one length that code for any may take."""

AGAIN = 3
"""How many times as many samples are taken of what seems to take longer: other work on the machine makes one of the two
look slow as often as the other."""


def _time(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the processor for a run."""
    begin = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - begin) / repeats


def _compare(sessions: Sequence[circlet.Session], x: Array, rounds: int) -> tuple[float, ...]:
    """The shortest run of each session, which are measured by turns."""
    runs = [partial(each.invoke, 0, [x]) for each in sessions]
    for each in runs:
        each()
    repeats = [max(int(SAMPLE / _time(each, 3)), 1) for each in runs]
    samples = [[_time(*each) for each in zip(runs, repeats, strict=True)] for _ in range(rounds)]
    return tuple(map(min, zip(*samples, strict=True)))


def _measure(name: str, case: Case, rounds: int, least: float) -> None:
    general = circlet.Session(case.model(case.shape), backend="native")
    for lengths in case.lengths:
        alone = circlet.Session(case.model(case.at(lengths)), backend="native")
        x = case.input(lengths)
        open_one, fixed = _compare((general, alone), x, rounds)
        if open_one / fixed >= SLOWER:
            again = _compare((general, alone), x, AGAIN * rounds)
            open_one, fixed = map(min, zip((open_one, fixed), again, strict=True))
        if open_one / fixed >= least:
            size = " x ".join(map(str, lengths))
            times = "".join(f"{duration_text(each):>10}" for each in (open_one, fixed))
            print(f"{name:32}{size:>14}{times}{open_one / fixed:8.2f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.open_code", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="of the cases in open_cases.py; all by default")
    parser.add_argument("--rounds", type=int, default=30, help="samples of each (default: 30)")
    parser.add_argument("--all", action="store_true", help=f"print what takes less than {SLOWER} times as long, too")
    arguments = parser.parse_args()
    print(f"{'':32}{'lengths':>14}{'any':>10}{'one':>10}{'ratio':>8}")
    for name in arguments.names or CASES:
        _measure(name, CASES[name], arguments.rounds, 0 if arguments.all else SLOWER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
