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
from circlet.runtime.ir.types import Array, DType
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
    """A loop of as many turns as an input says whose body passes on values: of a `branch` or `call` through one more
    subgraph, unless it is to be bare.

    Raises:
        RefusedError: values of a type that arrays do not hold would pass.
    """
    for dtype, _ in passed.types:
        if dtype in (DType.RESOURCE, DType.VARIANT) or dtype.element is None:
            raise RefusedError(f"values of type {dtype.value} pass")
    b = ModelBuilder()
    main, condition, body = (b.subgraph(name) for name in ("main", "condition", "body"))
    index, turns, *_ = _carried(condition, passed)
    condition.output(condition.apply(Less(), index, turns))
    index, turns, flag, *values = _carried(body, passed)
    if passed.kind != "loop" and not is_bare:
        values = _through(b, body, passed, flag, values)
    body.output(body.apply(Add(), index, body.constant(1)), turns, flag, *values)
    given = [main.input(TURNS, DType.INT32), main.input(FLAG, DType.BOOL), *_values(main, passed)]
    results = main.op(While(condition.index, body.index), main.constant(0), *given, count=len(given) + 1)
    main.output(results[0], *results[3:])
    return b.build()


def _carried(s: SubgraphBuilder, passed: Passed) -> list[Value]:
    """What the loop carries."""
    return [s.input("index", DType.INT32), s.input(TURNS, DType.INT32), s.input(FLAG, DType.BOOL), *_values(s, passed)]


def _values(s: SubgraphBuilder, passed: Passed) -> list[Value]:
    return [s.input(f"value_{k}", dtype, shape) for k, (dtype, shape) in enumerate(passed.types)]


def _through(b: ModelBuilder, body: SubgraphBuilder, passed: Passed, flag: Value, values: list[Value]) -> list[Value]:
    """The values once they went through a subgraph that returns them."""
    called = [b.subgraph(name) for name in (("then", "else") if passed.kind == "branch" else ("callee",))]
    for each in called:
        each.output(*_values(each, passed))
    results = [Tensor(f"passed_{k}", dtype, shape) for k, (dtype, shape) in enumerate(passed.types)]
    if passed.kind == "branch":
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
        values: dict[str, Given] = {TURNS: np.array(0, np.int32), FLAG: np.array(True)}
        for k, (dtype, shape) in enumerate(passed.types):
            values[f"value_{k}"] = np.full(shape, b"" if dtype is DType.STRING else 0, dtype.element)
        outputs = [model.subgraphs[0].tensors[each].name for each in model.subgraphs[0].outputs]
        return Work(path, values, outputs)

    def seconds(self, peer: Peer) -> float:
        """What a turn of an empty loop takes, or what a call of an empty subgraph adds to that."""
        full, *bare = [self._slope(peer, each).seconds for each in self._works]
        return full if not bare else max(full - bare[0], 0.0)

    def _slope(self, peer: Peer, work: Work) -> Slope:
        ready(peer, work)
        turns = work.inputs[TURNS]
        assert isinstance(turns, np.ndarray), "a number of turns"
        return slope(peer.load(work), turns, self._rounds)


def slope(run: Run, turns: Array, rounds: int) -> Slope:
    """What a turn of a run takes, which reads the number of turns from an array each time."""
    def seconds(number: int) -> float:
        turns[...] = number
        return timed(run, CLOCK)

    seconds(FEWEST)
    many = FEWEST
    while seconds(many) < ENOUGH and many < MOST:
        many = min(many * LESS, MOST)
    few = many // LESS
    pairs = [(seconds(few), seconds(many)) for _ in range(rounds)]
    shorter, longer = (min(each) for each in zip(*pairs, strict=True))
    return Slope(max(longer - shorter, 0.0) / (many - few), many)


def distinct(sites: Sequence[Passed]) -> list[Passed]:
    """Each once, in order."""
    return list(dict.fromkeys(sites))
