"""Measures models that are compiled ahead of time: bytes, time on this machine, instructions on Cortex-M4 and M7.

    python -m benchmarks.embed [--rounds N] [CASE...]

Beside them is TensorFlow Lite for Microcontrollers where its package `tflite-micro` is installed. Instructions are
counted by qemu, from the call to its end; without the programs for that the columns are empty.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import circlet
from benchmarks.cases import EXTERNAL, SHIPPED, Array
from circlet.embed import compile_model
from circlet.embed.compiled import Compiled
from circlet.embed.example import example
from circlet.embed.files import files
from circlet.embed.names import identifier
from circlet.runtime.records import dataclass
from tests.embed.library import Library
from tests.models.expectations import Expectation, read

MAKEFILE = Path(__file__).parents[1] / "examples" / "embed" / "cortex-m" / "Makefile"
TICK = 40
"""Instructions of a tick of the counter, under qemu with `-icount shift=0`."""
BOARDS = ("cortex-m4", "cortex-m7")
PROGRAMS = ("make", "arm-none-eabi-gcc", "qemu-system-arm")
NAMES = ("count", "nested", "collatz", "lstm_while", "gru", "okay_nabu", "mnist_quantized", "mobilenet_v2_int8")
MICRO_ARENA = 1 << 24
MOST_BYTES = 4 << 20
"""Of constants, or of an arena, that the emulated boards have room for."""


@dataclass(frozen=True)
class Case:
    """A model and the call that is measured."""

    name: str
    path: Path
    call: Expectation


def cases() -> Iterator[Case]:
    """The models that are here."""
    found = {path.stem: path for folder in (SHIPPED, EXTERNAL) for path in sorted(folder.rglob("*.tflite"))}
    for name in NAMES:
        path = found.get(name)
        if path is not None and path.with_suffix(".npz").exists():
            yield Case(name, path, read(path.with_suffix(".npz"))[0])


def compiled(case: Case, target: str, is_small: bool) -> Compiled:
    """The case for a target."""
    shapes = {name: value.shape for name, value in case.call.inputs.items()}
    return compile_model(circlet.load(case.path), target, identifier(case.name), case.call.signature or None, shapes,
                         is_small)


def seconds(call: Callable[[], object], rounds: int) -> float:
    """The shortest of some calls, after one that is not measured."""
    call()
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found)


@dataclass(frozen=True, eq=False)
class Entered:
    """A call with the memory that it reads and writes."""

    library: Library
    arrays: Sequence[Array]
    enter: Callable[[], int]

    def __call__(self) -> None:
        assert self.enter() == 0, "a run failed"


def entered(library: Library, inputs: Mapping[str, Array]) -> Callable[[], object]:
    """A call of the function alone, on arrays that are made before."""
    entry = library.found.interfaces[0]
    given = {identifier(name): np.ascontiguousarray(value) for name, value in inputs.items()}
    arrays = [given[each.name] for each in entry.inputs]
    made = [np.zeros(each.count, each.tensor.dtype.numpy) for each in entry.outputs]
    structs = [(ctypes.c_void_p * max(len(each), 1))(*(one.ctypes.data for one in each)) for each in (arrays, made)]
    function = library.function(f"{entry.name}_run")
    arguments = (*structs, ctypes.c_void_p(library.arena.ctypes.data), ctypes.c_void_p(library.state.ctypes.data))

    return Entered(library, (*arrays, *made), partial(function, *arguments))


def instructions(case: Case, cpu: str) -> int | None:
    """Of a run on an emulated board, on the call's inputs; None where that cannot be told."""
    found = compiled(case, cpu, is_small=True)
    sizes = found.contents.data_bytes, found.code.arena_bytes + found.code.state.nbytes
    if any(shutil.which(each) is None for each in PROGRAMS) or max(sizes) > MOST_BYTES:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files(found).items():
            Path(folder, name).write_bytes(content)
        given = {identifier(name): value for name, value in case.call.inputs.items()}
        Path(folder, "main.c").write_text(example(found, given))
        command = ["make", "-s", "-f", str(MAKEFILE), f"BUILD={folder}", f"CPU={cpu}", "run"]
        written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ticks = re.search(r"status 0, (\d+) ticks", written)
    assert ticks is not None, written
    return int(ticks[1]) * TICK


def micro(case: Case, rounds: int) -> float | None:
    """The seconds of TensorFlow Lite for Microcontrollers, in a process of its own, as it ends the process for some
    models; None if it is not here, or does not run the model."""
    command = [sys.executable, "-m", "benchmarks.embed", "--rounds", str(rounds), "--micro", case.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def micro_alone(case: Case, rounds: int) -> float:
    """The same in this process."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_file(str(case.path), arena_size=MICRO_ARENA)
    for number, value in enumerate(case.call.inputs.values()):
        interpreter.set_input(np.array(value), number)
    return seconds(interpreter.invoke, rounds)


def row(case: Case, rounds: int, folder: Path) -> list[str]:
    """The figures of a model."""
    small, fast = compiled(case, "cortex-m4", True), compiled(case, "host", False)
    here = seconds(entered(Library(fast, folder), case.call.inputs), rounds)
    other = micro(case, rounds)
    counts = [instructions(case, cpu) for cpu in BOARDS]
    return [case.name, f"{small.contents.code_bytes:,}", f"{small.contents.data_bytes:,}",
            f"{small.code.arena_bytes:,}", f"{small.code.state.nbytes:,}",
            *("" if each is None else f"{each:,}" for each in counts), f"{1e6 * here:.1f}",
            "" if other is None else f"{1e6 * other:.0f}", "" if other is None else f"{other / here:.0f}"]


HEAD = ("model", "code", "constants", "arena", "state", "M4", "M7", "here us", "TFLM us", "ratio")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="runs of each, of which the shortest counts")
    parser.add_argument("case", nargs="*", help="the models (default: all)")
    parser.add_argument("--micro", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.micro:
        print(micro_alone(next(each for each in cases() if each.name in options.case), options.rounds))
        return
    print("Bytes and instructions: --optimize size, for Cortex-M4; time: --optimize speed, for this machine.")
    print(" | ".join(HEAD))
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if not options.case or case.name in options.case:
                print(" | ".join(row(case, options.rounds, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
