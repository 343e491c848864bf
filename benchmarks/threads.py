"""Measures how many runs a second threads make of one session, beside LiteRT with an interpreter for each thread.

    python -m benchmarks.threads [--rounds N] [--models DIR]
"""

from __future__ import annotations

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import circlet
from benchmarks.cases import EXTERNAL, SHIPPED, SHIPPED_CASES, Case, suite
from benchmarks.overhead import Inputs, Run, litert, ready, repeats_of
from circlet.tools.measuring.environment import environment
from circlet.tools.tables import duration_text

THREADS = (1, 2, 4, 8)
NAMES = ("cond", "collatz", "nested", "transformer", "mobilenet_v2")
"""Cases from small to large; a folder of models has some of them."""
PERIOD = 0.1
"""Seconds for which runs are counted."""
BATCH = 0.001
"""Seconds of runs between two looks at the clock."""


def _rate(parts: Sequence[Run], repeats: int) -> float:
    """Runs a second of threads that do one of the parts each, so many times between two looks at the clock."""
    start, counts = Barrier(len(parts) + 1), [0] * len(parts)

    def work(number: int) -> None:
        run = parts[number]
        start.wait()
        end = time.perf_counter() + PERIOD
        while time.perf_counter() < end:
            for _ in range(repeats):
                run()
            counts[number] += repeats

    threads = [Thread(target=work, args=(number,)) for number in range(len(parts))]
    for each in threads:
        each.start()
    start.wait()
    begin = time.perf_counter()
    for each in threads:
        each.join()
    return sum(counts) / (time.perf_counter() - begin)


def _shared(path: Path, inputs: Inputs) -> list[Run]:
    """One session for all threads, each with a dictionary of its own."""
    session = circlet.Session(path)
    return [partial(session.run, dict(inputs)) for _ in range(max(THREADS))]


def _apart(peer: Any, path: Path, inputs: Inputs) -> list[Run]:
    """An interpreter for each thread."""
    return [partial(ready(peer, path).get_signature_runner(), **inputs) for _ in range(max(THREADS))]


def _lines(case: Case, folder: Path, peer: Any, rounds: int) -> None:
    path, inputs = case.file(folder), case.inputs(folder)
    sides = [_shared(path, inputs)] + ([] if peer is None else [_apart(peer, path, inputs)])
    repeats = [repeats_of(each[0], BATCH) for each in sides]
    for each in sides:
        for run in each:
            run()
    best = {(side, count): 0.0 for side in range(len(sides)) for count in THREADS}
    for _ in range(rounds):
        for side, count in best:
            best[side, count] = max(best[side, count], _rate(sides[side][:count], repeats[side]))
    for count in THREADS:
        rates = [best[side, count] for side in range(len(sides))]
        shown = "".join(f"{each:>12.0f}{duration_text(1 / each):>10}{each / best[side, 1]:>8.2f}"
                        for side, each in enumerate(rates))
        print(f"{case.name if count == THREADS[0] else '':14}{count:>8}{shown}"
              + (f"{rates[0] / rates[1]:>8.2f}" if len(rates) > 1 else ""), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="periods of each (default: %(default)s)")
    parser.add_argument("--models", type=Path, default=EXTERNAL, metavar="DIR",
                        help="folder of models (default: %(default)s)")
    options = parser.parse_args()
    folder, cases = suite(options.models)
    known = {each.name: each for each in (*(replace(each, folder=SHIPPED) for each in SHIPPED_CASES), *cases)}
    peer = litert()
    print(", ".join(f"{name} {value}" for name, value in environment().items()))
    print(f"{os.cpu_count()} processors; one session for all threads, an interpreter of LiteRT for each; the best of "
          f"{options.rounds} periods of {PERIOD:g} s\n")
    print(f"{'':14}{'threads':>8}{'circlet':>12}{'of a run':>10}{'gain':>8}"
          + ("" if peer is None else f"{'LiteRT':>12}{'of a run':>10}{'gain':>8}{'ratio':>8}"))
    for name in NAMES:
        if name in known:
            _lines(known[name], folder, peer, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
