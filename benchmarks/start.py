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
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks import first_result
from benchmarks.cases import EXTERNAL, SHIPPED, Array
from circlet import Session, load
from circlet.embed.container import container
from circlet.tools.tables import duration_text
from tests.models.expectations import read

_PEER = "LiteRT"
_KNOWN = (EXTERNAL / "straight" / "mobilenet_v2.tflite", EXTERNAL / "straight" / "mobilenet_v2_int8.tflite",
          EXTERNAL / "real" / "okay_nabu.tflite", EXTERNAL / "real" / "mnist_quantized.tflite",
          EXTERNAL / "control" / "count.tflite", EXTERNAL / "control" / "nested.tflite", SHIPPED / "collatz.tflite",
          SHIPPED / "cnn.tflite")


class Sample(NamedTuple):
    """What a process told: seconds since its start, then MB."""

    ready: float
    """numpy and the inputs are there."""
    imported: float
    done: float
    """The first result is there."""
    processors: float
    """Seconds of processors up to there."""
    spent: float
    """Of these since the runtime was imported."""
    peak: float
    added: float
    """Of that since numpy was there."""


def measured(runtime: str, path: Path, folder: Path, inputs: Sequence[Path]) -> Sample:
    """A process that runs a model once, with functions kept in a folder."""
    lacks = {"CIRCLET_WITHOUT": "llvm"} if runtime == "circlet.compiled" else {}
    places = {"CIRCLET_CACHE_DIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[1])}
    begin = time.monotonic()
    found = subprocess.run([sys.executable, first_result.__file__, str(begin), runtime, str(path), *map(str, inputs)],
                           check=True, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL,
                           env={**os.environ, **places, **lacks})
    return Sample(*map(float, found.stdout.split()))


def inputs_beside(path: Path) -> list[Array]:
    """The inputs of a model that a file beside it holds, in the model's order."""
    found = read(path.with_suffix(".npz"))[0].inputs
    return [found[name] for name in Session(path, "cpu").inputs]


def write_inputs(values: Iterable[Array], folder: Path) -> list[Path]:
    """Files with the inputs of a run, one each."""
    files = []
    for number, value in enumerate(values):
        files.append(folder / f"{number}.npy")
        np.save(files[-1], np.array(value))
    return files


def _compile(path: Path, folder: Path) -> None:
    """Writes the file with a model and its code for this machine."""
    content = container(load(path), ("host",), path.stem, shapes={
        name: value.shape for name, value in read(path.with_suffix(".npz"))[0].inputs.items()})
    (folder / f"{path.stem}.circlet").write_bytes(content)


def _line(name: str, samples: Sequence[Sample], peer: float) -> str:
    found = Sample(*map(median, zip(*samples, strict=True)))
    parts = (found.imported - found.ready, found.done - found.imported, found.done)
    return (f"  {name:22}" + "".join(f"{duration_text(each):>10}" for each in parts) + f"{peer / found.done:8.2f}"
            f"{duration_text(found.processors):>10}{found.peak:8.0f} MB{found.added:8.1f} MB")


def _print_table(path: Path, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = write_inputs(inputs_beside(path), folder)
        compiling = measured("circlet", path, folder, inputs)
        _compile(path, folder)
        taken: dict[str, list[Sample]] = {runtime: [] for runtime in first_result.RUNTIMES}
        for _ in range(rounds):
            for runtime, samples in taken.items():
                samples.append(measured(runtime, path, folder, inputs))
    peer = median(each.done for each in taken[_PEER])
    print(f"{path.stem:24}{'import':>10}{'result':>10}{'in all':>10}{'ratio':>8}{'CPU':>10}{'peak':>11}{'added':>11}")
    for runtime, samples in {"circlet, compiling": [compiling], **taken}.items():
        print(_line(runtime, samples, peer), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="with a .npz of inputs beside it")
    parser.add_argument("--rounds", type=int, default=7, help="processes of each (default: %(default)s)")
    options = parser.parse_args()
    for path in options.models or [each for each in _KNOWN if each.exists()]:
        _print_table(path, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
