"""Measures from loading a model to its first result, and the peak of memory, in a process of each runtime's own.

    python -m benchmarks.start [--rounds N] [MODEL...]
"""

from __future__ import annotations

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeAlias

import numpy as np

from benchmarks.cases import EXTERNAL, SHIPPED
from benchmarks.peers import Array
from benchmarks.report import seconds
from tests.models.expectations import read

First: TypeAlias = "Callable[[Path, dict[str, Array]], object]"
"""Loads a model and runs it once."""


def _circlet() -> First:
    import circlet

    return lambda path, inputs: circlet.Session(circlet.load(path)).run(inputs)


def _litert() -> First:
    from ai_edge_litert.interpreter import Interpreter

    def first(path: Path, inputs: dict[str, Array]) -> object:
        interpreter = Interpreter(model_path=str(path), num_threads=1)
        interpreter.allocate_tensors()
        for details, value in zip(interpreter.get_input_details(), inputs.values(), strict=True):
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    return first


RUNTIMES: dict[str, Callable[[], First]] = {"circlet": _circlet, "LiteRT": _litert}


def measure_here(runtime: str, path: Path) -> None:
    """Prints the seconds and the peak of memory in MB of this process."""
    import resource

    inputs = {name: np.array(value) for name, value in read(path.with_suffix(".npz"))[0].inputs.items()}
    first = RUNTIMES[runtime]()
    begin = time.perf_counter()
    first(path, inputs)
    print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _measured(runtime: str, path: Path, cache: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.start", "--here", runtime, str(path)]
    found = subprocess.run(command, check=True, capture_output=True, text=True,
                           env={**os.environ, "CIRCLET_CACHE_DIR": cache})
    taken, peak = map(float, found.stdout.split())
    return taken, peak


def _line(name: str, samples: list[tuple[float, float]]) -> str:
    taken, peak = (median(each) for each in zip(*samples, strict=True))
    return f"  {name:24}{seconds(taken):>10}{peak:8.0f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="with a .npz of inputs beside it")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each (default: %(default)s)")
    parser.add_argument("--here", choices=RUNTIMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    models = options.models or [EXTERNAL / "straight" / "mobilenet_v2.tflite"]
    if not all(each.exists() for each in models):
        models = [SHIPPED / "cnn.tflite"]
    if options.here:
        measure_here(options.here, models[0])
        return 0
    for path in models:
        print(f"{path.stem}: load to first result, and peak memory of the process")
        with tempfile.TemporaryDirectory() as cache:
            print(_line("circlet, compiling", [_measured("circlet", path, cache)]))
            for runtime in RUNTIMES:
                print(_line(runtime, [_measured(runtime, path, cache) for _ in range(options.rounds)]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
