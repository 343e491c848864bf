"""Measures a process of each runtime's own, from its start to the first result, and its memory.

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

from benchmarks.cases import EXTERNAL, SHIPPED, Array
from tests.models.expectations import read

Sample: TypeAlias = tuple[float, ...]
First: TypeAlias = "Callable[[Path, dict[str, Array]], object]"
"""Loads a model and runs it once."""


def _circlet() -> First:
    import circlet

    return lambda path, inputs: circlet.Session(path).run(inputs)


def _circlet_loaded() -> First:
    import circlet

    return lambda path, inputs: circlet.Session(circlet.load(path)).run(inputs)


def _compiled() -> First:
    from circlet.compiled import load

    return lambda path, inputs: load(_file(path), fallback=False).run(inputs)


def _file(path: Path) -> Path:
    """Where the file with the model and its code is."""
    return Path(os.environ["CIRCLET_CACHE_DIR"]) / f"{path.stem}.circlet"


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


RUNTIMES: dict[str, Callable[[], First]] = {
    "circlet": _circlet, "circlet.load": _circlet_loaded, "circlet.compiled": _compiled, "LiteRT": _litert}
"""By path, by a model that `circlet.load` gave, by code out of a file, as where there is no LLVM, and LiteRT."""


def measure_here(runtime: str, path: Path) -> None:
    """Prints of this process the seconds to import the runtime, those from there to the first result, of processors so
    far, the peak of memory in MB, and how much of that came after numpy."""
    inputs = {name: np.array(value) for name, value in read(path.with_suffix(".npz"))[0].inputs.items()}
    before, size = time.process_time(), _peak()
    begin = time.perf_counter()
    first = RUNTIMES[runtime]()
    imported = time.perf_counter()
    first(path, inputs)
    print(imported - begin, time.perf_counter() - imported, time.process_time() - before,
          _peak(), _peak() - size)


def _peak() -> float:
    """The most memory that this program had, in MB; what `getrusage` tells counts the program that started it, too."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


def _measured(runtime: str, path: Path, cache: str) -> Sample:
    command = [sys.executable, "-m", "benchmarks.start", "--here", runtime, str(path)]
    lacks = {"CIRCLET_WITHOUT": "llvm"} if runtime == "circlet.compiled" else {}
    found = subprocess.run(command, check=True, capture_output=True, text=True,
                           env={**os.environ, "CIRCLET_CACHE_DIR": cache, **lacks})
    return tuple(map(float, found.stdout.split()))


def _compile(path: Path, folder: Path) -> None:
    """Writes the file with a model and its code for this machine."""
    from circlet import load  # not in the processes that are measured
    from circlet.embed.container import container

    content = container(load(path), ("host",), path.stem, shapes={
        name: value.shape for name, value in read(path.with_suffix(".npz"))[0].inputs.items()})
    (folder / f"{path.stem}.circlet").write_bytes(content)


def _line(name: str, samples: list[Sample]) -> str:
    from circlet.tools.tables import duration_text  # not in the processes that are measured

    imported, taken, processors, peak, added = (median(each) for each in zip(*samples, strict=True))
    return (f"  {name:24}{duration_text(imported):>10}{duration_text(taken):>10}{duration_text(imported + taken):>10}"
            f"{duration_text(processors):>10}{peak:8.0f} MB{added:8.1f} MB")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="with a .npz of inputs beside it")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each (default: %(default)s)")
    parser.add_argument("--here", choices=RUNTIMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    known = [EXTERNAL / "straight" / "mobilenet_v2.tflite", EXTERNAL / "straight" / "mobilenet_v2_int8.tflite",
             EXTERNAL / "real" / "okay_nabu.tflite", EXTERNAL / "real" / "mnist_quantized.tflite",
             SHIPPED / "collatz.tflite", SHIPPED / "cnn.tflite"]
    models = options.models or [each for each in known if each.exists()]
    if options.here:
        measure_here(options.here, models[0])
        return 0
    for path in models:
        print(f"{path.stem}, over numpy: {'import':>15}{'result':>10}{'both':>10}{'CPU':>10}{'peak':>11}{'added':>11}")
        with tempfile.TemporaryDirectory() as cache:
            print(_line("circlet, compiling", [_measured("circlet", path, cache)]))
            _compile(path, Path(cache))
            for runtime in RUNTIMES:
                print(_line(runtime, [_measured(runtime, path, cache) for _ in range(options.rounds)]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
