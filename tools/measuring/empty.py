"""Models whose subgraphs do nothing but pass on their values, and what a turn or a call of them takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.elementwise import Add
from circlet.tools.measuring.peers import Peer, RefusedError, Run, ready
from circlet.tools.measuring.sampling import timed
from circlet.tools.measuring.sites import Passed
from circlet.tools.measuring.work import Work
from circlet.tools.results import Value as Given

TURNS, FLAG = "turns", "flag"
"""The inputs that say how often the loop turns, and what is branched on."""
COUNTER: tuple[DType, Shape] = (DType.INT32, ())
"""The type of what counts turns."""
CLOCK = time.thread_time
"""Of what the thread computes, so that what else the machine does does not count."""
ENOUGH = 0.02
"""Seconds that the longer of the two runs takes which are compared: a choice, far beyond what a timer is off."""
FEWEST, MOST = 16, 1 << 24
"""Turns of the longer run, at least and at most."""
LESS = 4
"""How many times as many turns the longer run makes as the shorter one: a choice."""


@dataclass(frozen=True)
class Slope:
    """What a turn takes: the difference between two runs over the difference in turns.

    Attributes:
        seconds: of a turn; not below zero, as times that differ by less than what they vary have none.
        turns: of the longer run.
    """

    seconds: float
    turns: int


def empty_model(passed: Passed, is_bare: bool = False) -> Model:
    """A loop of as many turns as an input says whose body counts them and passes on values: of a `branch` or `call`
    through one more subgraph, unless it is to be bare. A `loop` counts by the first int32 among its values, if there is
    one, so that it carries no more than the model's.

    Raises:
        RefusedError: values of a type that arrays do not hold would pass.
    """
    for dtype, _ in passed.types:
        if dtype in (DType.RESOURCE, DType.VARIANT) or dtype.element is None:
            raise RefusedError(f"values of type {dtype.value} pass")
    b = ModelBuilder()
    main, condition, body = (b.subgraph(name) for name in ("main", "condition", "body"))
    left, *_ = _carried(condition, passed)
    condition.output(condition.apply(Less(), condition.constant(0), left))
    left, *rest = _carried(body, passed)
    if passed.kind == "branch" and not is_bare:
        rest[1:] = _through(b, body, passed, rest[0], rest[1:])
    elif passed.kind == "call" and not is_bare:
        rest = _through(b, body, passed, None, rest)
    body.output(body.apply(Add(), left, body.constant(-1)), *rest)
    given = _carried(main, passed)
    main.output(*main.op(While(condition.index, body.index), *given, count=len(given)))
    return b.build()


def _carried(s: SubgraphBuilder, passed: Passed) -> list[Value]:
    """What the loop carries: the turns that are left, what is branched on, values."""
    found = [s.input(TURNS, DType.INT32)]
    if passed.kind == "branch":
        found.append(s.input(FLAG, DType.BOOL))
    return [*found, *_values(s, beside_counter(passed))]


def beside_counter(passed: Passed) -> tuple[tuple[DType, Shape], ...]:
    """The types of the values beside the number that an empty loop counts by."""
    if passed.kind != "loop" or COUNTER not in passed.types:
        return passed.types
    position = passed.types.index(COUNTER)
    return passed.types[:position] + passed.types[position + 1:]


def _values(s: SubgraphBuilder, types: Sequence[tuple[DType, Shape]]) -> list[Value]:
    return [s.input(f"value_{k}", dtype, shape) for k, (dtype, shape) in enumerate(types)]


def _through(b: ModelBuilder, body: SubgraphBuilder, passed: Passed, flag: Value | None,
             values: list[Value]) -> list[Value]:
    """The values once they went through a subgraph that returns them."""
    called = [b.subgraph(name) for name in (("then", "else") if flag is not None else ("callee",))]
    for each in called:
        each.output(*_values(each, passed.types))
    results = [Tensor(f"passed_{k}", dtype, shape) for k, (dtype, shape) in enumerate(passed.types)]
    if flag is not None:
        return list(body.op(If(*(each.index for each in called)), flag, *values, outputs=results))
    return list(body.op(CallSubgraph(called[0].index), *values, outputs=results))


class Probe:
    """Measures what passing some values takes, in any runtime."""

    def __init__(self, passed: Passed, folder: Path, rounds: int) -> None:
        """
        Args:
            passed: the values.
            folder: where models may be written.
            rounds: how often the shorter and the longer run are timed; the least times count.

        Raises:
            RefusedError: there is no such model.
        """
        self._rounds = rounds
        self._works = [self._work(passed, folder / f"{name}.tflite", is_bare)
                       for name, is_bare in (("full", False), ("bare", True))[:1 if passed.kind == "loop" else 2]]

    def _work(self, passed: Passed, path: Path, is_bare: bool) -> Work:
        model = empty_model(passed, is_bare)
        circlet.save(circlet.convert(model), path)
        values: dict[str, Given] = {TURNS: np.array(0, np.int32)}
        if passed.kind == "branch":
            values[FLAG] = np.array(True)
        for k, (dtype, shape) in enumerate(beside_counter(passed)):
            values[f"value_{k}"] = np.full(shape, b"" if dtype is DType.STRING else 0, dtype.element)
        outputs = [model.subgraphs[0].tensors[each].name for each in model.subgraphs[0].outputs]
        return Work(path, values, outputs)

    def seconds(self, peer: Peer) -> float:
        """What a turn of an empty loop takes, or what a call of an empty subgraph adds to that."""
        full, *bare = [each.seconds for each in slopes([self._turning(peer, each) for each in self._works],
                                                       self._rounds)]
        return full if not bare else max(full - bare[0], 0.0)

    def _turning(self, peer: Peer, work: Work) -> Turning:
        ready(peer, work)
        turns = work.inputs[TURNS]
        assert isinstance(turns, np.ndarray), "a number of turns"
        return Turning(peer.load(work), turns)


@dataclass(frozen=True, eq=False)
class Turning:
    """A run of a loop which reads anew each time from an array how often it turns."""

    run: Run
    turns: Array

    def seconds(self, number: int) -> float:
        """What a run of so many turns takes."""
        self.turns[...] = number
        return timed(self.run, CLOCK)

    def enough(self) -> int:
        """How many turns take `ENOUGH`."""
        self.seconds(FEWEST)
        many = FEWEST
        while self.seconds(many) < ENOUGH and many < MOST:
            many = min(many * LESS, MOST)
        return many


def slopes(loops: Sequence[Turning], rounds: int) -> list[Slope]:
    """What a turn of each loop takes; shorter and longer runs of all take turns."""
    most = [each.enough() for each in loops]
    found = [[(each.seconds(many // LESS), each.seconds(many)) for each, many in zip(loops, most, strict=True)]
             for _ in range(rounds)]
    slopes = []
    for many, pairs in zip(most, zip(*found, strict=True), strict=True):
        shorter, longer = (min(each) for each in zip(*pairs, strict=True))
        slopes.append(Slope(max(longer - shorter, 0.0) / (many - many // LESS), many))
    return slopes


def distinct(sites: Sequence[Passed]) -> list[Passed]:
    """Each once, in order."""
    return list(dict.fromkeys(sites))
