"""What `benchmarks.start` and `benchmarks.cold` measure: a program that does nothing but run a model once.

    python first_result.py BEGIN RUNTIME MODEL INPUT.npy...

BEGIN is when it was started, in seconds of the clock of `time.monotonic`, which all processes share.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.cases import Array

    First = Callable[[str, Sequence[Array]], object]
    """Loads a model and runs it once."""


def _circlet() -> First:
    import circlet

    return lambda path, inputs: circlet.Session(path).run(inputs)


def _circlet_loaded() -> First:
    import circlet

    return lambda path, inputs: circlet.Session(circlet.load(path)).run(inputs)


def _compiled() -> First:
    from circlet.compiled import load

    def first(path: str, inputs: Sequence[Array]) -> object:
        name = os.path.splitext(os.path.basename(path))[0]
        return load(os.path.join(os.environ["CIRCLET_CACHE_DIR"], f"{name}.circlet"), fallback=False).run(inputs)

    return first


def _interpreter() -> First:
    from circlet.interpreter import Interpreter

    return _first_of(Interpreter)


def _litert() -> First:
    from ai_edge_litert.interpreter import Interpreter

    return _first_of(Interpreter)


def _first_of(kind: Any) -> First:
    def first(path: str, inputs: Sequence[Array]) -> object:
        interpreter = kind(model_path=path, num_threads=1)
        interpreter.allocate_tensors()
        for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    return first


RUNTIMES: dict[str, Callable[[], First]] = {
    "circlet": _circlet, "circlet.load": _circlet_loaded, "circlet.Interpreter": _interpreter,
    "circlet.compiled": _compiled, "LiteRT": _litert}
"""By path, by a model that `circlet.load` gave, by what replaces LiteRT's class, by code out of a file, as where there
is no LLVM, and LiteRT."""


def _peak() -> float:
    """The most memory that this program had, in MB; what `getrusage` tells counts the program that started it, too."""
    with open("/proc/self/status", encoding="ascii") as file:
        return int(file.read().partition("VmHWM:")[2].split()[0]) / 1024


def main(begin: str, runtime: str, path: str, *files: str) -> None:
    """Prints seconds until numpy and the inputs are there, until the runtime is imported, and until the first result,
    those of the processor in all and since the runtime was imported, the peak of memory in MB, and how much of that
    came after numpy."""
    inputs = [np.load(each) for each in files]
    size = _peak()
    moments = [time.monotonic()]
    first = RUNTIMES[runtime]()
    moments.append(time.monotonic())
    spent = time.process_time()
    first(path, inputs)
    moments.append(time.monotonic())
    processors = time.process_time()
    print(*(each - float(begin) for each in moments), processors, processors - spent, _peak(), _peak() - size)


if __name__ == "__main__":
    main(*sys.argv[1:])
