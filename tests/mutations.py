"""Changes model files and models in memory at random, and runs what comes of it.

As a program: `python -m tests.mutations SEED COUNT BACKEND [MODEL ...]` changes the given models, or all that are
shipped, and prints what came of it as JSON.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import random
import struct
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import circlet
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType

MODELS = Path(__file__).parent / "models"
LIMITS = circlet.Limits(max_iterations=1000, deadline=0.3)
MOST_BYTES = 1 << 22
"""Inputs that together are larger are not passed in."""
HANG = 20.0
"""Seconds after which a program gives up, with a traceback."""
MEMORY = 3 << 30
"""Bytes of address space that a program may use, so that a mutation does not fill the machine."""
WORDS = (0, 1, 2, 3, 4, 8, 16, 100, 255, 256, 1000, 65535, 1 << 20, 1 << 28, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
NUMBERS = (0, 1, -1, 2, 3, 4, 7, -2, 16, 100, 1 << 20, (1 << 31) - 1, -(1 << 31))
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e30, 1e-30, float("inf"), float("nan"))


def names() -> list[str]:
    """The shipped models."""
    return sorted(path.stem for path in MODELS.glob("*.tflite"))


@cache
def content(name: str) -> bytes:
    return (MODELS / f"{name}.tflite").read_bytes()


@cache
def original(name: str) -> Model:
    return circlet.load(content(name))


def mutated_file(name: str, r: random.Random) -> Model:
    """What a file with a few changed bits, bytes or words holds."""
    changed = bytearray(content(name))
    for _ in range(r.choice((1, 1, 1, 2, 5))):
        position = r.randrange(8, len(changed) - 4)
        aligned = position & ~3
        word = r.choice((*WORDS, struct.unpack_from("<I", changed, r.randrange(len(changed) // 4) * 4)[0]))
        r.choice((
            lambda at=position: changed.__setitem__(at, changed[at] ^ 1 << r.randrange(8)),
            lambda at=position: changed.__setitem__(at, r.randrange(256)),
            lambda at=aligned, new=word: struct.pack_into("<I", changed, at, new),
            lambda at=aligned, new=word: struct.pack_into("<H", changed, at, new & 0xFFFF),
        ))()
    return circlet.load(bytes(changed[:r.randrange(len(changed))] if r.random() < 0.02 else changed))


def mutated_model(name: str, r: random.Random) -> Model:
    """The model with one to three values in it changed, wherever they are."""
    model = original(name)
    for _ in range(r.choice((1, 1, 2, 3))):
        model = dataclasses.replace(model, subgraphs=mutated(model.subgraphs, r))
    return model


def mutated(value: Any, r: random.Random) -> Any:
    """A value of the same type that differs in one place, mostly."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = r.choice([each.name for each in dataclasses.fields(value)] or [""])
        return dataclasses.replace(value, **{name: mutated(getattr(value, name), r)}) if name else value
    if isinstance(value, tuple):
        return _mutated_tuple(value, r)
    if isinstance(value, np.ndarray):
        return _mutated_array(value, r)
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        return r.choice(list(type(value)))
    if isinstance(value, int):
        return r.choice((*NUMBERS, value + 1, value - 1, value * 2))
    if isinstance(value, float):
        return r.choice((*FLOATS, value * 2, -value))
    return value


def _mutated_tuple(value: tuple[Any, ...], r: random.Random) -> tuple[Any, ...]:
    items, how = list(value), r.random()
    if not items:
        return value
    index = r.randrange(len(items))
    if how < 0.1:
        del items[index]
    elif how < 0.2:
        items.insert(index, r.choice(items))
    elif how < 0.3:
        items[index] = r.choice(items)
    else:
        items[index] = mutated(items[index], r)
    return tuple(items)


def _mutated_array(value: np.ndarray[Any, Any], r: random.Random) -> np.ndarray[Any, Any]:
    if not value.size or value.dtype.kind not in "iuf":
        return value
    changed = value.copy()
    number = r.choice(FLOATS if value.dtype.kind == "f" else NUMBERS)
    with np.errstate(all="ignore"):
        changed.reshape(-1)[r.randrange(value.size)] = np.array(number).astype(value.dtype)
    changed.flags.writeable = False
    return changed


def run(model: Model, backend: str = "cpu") -> None:
    """Runs the primary entry point on zeros."""
    session = circlet.Session(model, backend, limits=LIMITS)
    tensors = [model.subgraphs[0].tensors[each] for each in model.subgraphs[0].inputs]
    if sum(each.dtype.numpy.itemsize * float(np.prod(each.shape, dtype=np.float64)) for each in tensors) > MOST_BYTES:
        return
    session.invoke(0, [np.full(each.shape, b"" if each.dtype is DType.STRING else 0, each.dtype.numpy)
                       for each in tensors])


@dataclass
class Report:
    """What came of mutations."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """How many worked, and how many ended with each of circlet's errors."""
    foreign: list[str] = field(default_factory=list)
    """Those that ended with something else, and how to make them again."""
    slowest: float = 0.0
    """Seconds."""


KINDS: Mapping[str, Callable[[str, random.Random], Model]] = {"file": mutated_file, "model": mutated_model}


def load(model: Model, backend: str = "cpu") -> None:
    """Makes a session, which runs nothing."""
    circlet.Session(model, backend, limits=LIMITS)


def campaign(cases: Iterator[tuple[str, str, int]], backend: str = "cpu",
             use: Callable[[Model, str], None] = run) -> Report:
    """Makes mutations, each given by kind, model and seed, and uses them."""
    report = Report()
    for kind, name, seed in cases:
        begin = time.perf_counter()
        try:
            use(KINDS[kind](name, random.Random(seed)), backend)
            report.outcomes["worked"] += 1
        except circlet.CircletError as error:
            report.outcomes[type(error).__name__] += 1
        except Exception as error:
            report.foreign.append(f"{kind} {name} {seed}: {type(error).__name__}: {error}")
        report.slowest = max(report.slowest, time.perf_counter() - begin)
    return report


def main(seed: int, count: int, backend: str, *chosen: str) -> None:
    """Changes each of the chosen models, or of all, `count` times each way, and prints a report."""
    warnings.simplefilter("error")
    _limit_memory()
    cases = ((kind, name, seed * 1_000_003 + k) for k in range(count) for name in chosen or names() for kind in KINDS)

    def watched() -> Iterator[tuple[str, str, int]]:
        for case in cases:
            faulthandler.dump_traceback_later(HANG, exit=True)
            print(*case, file=sys.stderr)
            yield case
        faulthandler.cancel_dump_traceback_later()

    print(json.dumps(vars(campaign(watched(), backend))))


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
