"""Random programs of nested branches and loops, built in both ways: what runs agrees with plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet import LoopOutput, Network
from circlet.network import Tensor
from tests.network.runs import WAYS

ARITHMETIC = ("add", "subtract", "multiply", "maximum", "constant")
INPUTS = 3


@dataclass(frozen=True)
class Arithmetic:
    """A value made of two earlier ones."""

    name: str
    a: int
    b: int


@dataclass(frozen=True)
class Choice:
    """`then` where one value is less than another, else `otherwise`; each gives as many values."""

    a: int
    b: int
    then: Block
    otherwise: Block
    traced: bool
    entered: frozenset[int]
    """The earlier values that enter by an input of the conditional, not directly."""


@dataclass(frozen=True)
class Repeat:
    """The body, `values[count] % 4` times, on carried values that start as `first`; after them the sum over all
    iterations of the first one's next values."""

    count: int
    first: tuple[int, ...]
    body: Block
    traced: bool


Statement: TypeAlias = Arithmetic | Choice | Repeat


@dataclass(frozen=True)
class Block:
    """Statements over the values around them, and which of all values it gives."""

    statements: tuple[Statement, ...]
    results: tuple[int, ...]


def given_by(statement: Statement) -> int:
    """How many values a statement adds."""
    if isinstance(statement, Choice):
        return len(statement.then.results)
    return len(statement.first) + 1 if isinstance(statement, Repeat) else 1


@st.composite
def blocks(draw: st.DrawFn, around: int, results: int, depth: int) -> Block:
    statements: list[Statement] = []
    for _ in range(draw(st.integers(0, 3))):
        value = st.integers(0, around - 1)
        kind = draw(st.sampled_from(["arithmetic", "choice", "repeat"])) if depth else "arithmetic"
        traced = draw(st.booleans())
        if kind == "choice":
            count = draw(st.integers(1, 2))
            inner = blocks(around, count, depth - 1)
            found: Statement = Choice(draw(value), draw(value), draw(inner), draw(inner), traced,
                                      draw(st.frozensets(value)))
        elif kind == "repeat":
            first = draw(st.lists(value, min_size=1, max_size=2).map(tuple))
            found = Repeat(draw(value), first, draw(blocks(around + len(first), len(first), depth - 1)), traced)
        else:
            found = Arithmetic(draw(st.sampled_from(ARITHMETIC)), draw(value), draw(value))
        statements.append(found)
        around += given_by(found)
    return Block(tuple(statements), tuple(draw(st.integers(0, around - 1)) for _ in range(results)))


def wrapped(value: int) -> int:
    return (value + 2 ** 31) % 2 ** 32 - 2 ** 31


def interpret(block: Block, around: Sequence[int]) -> list[int]:
    values = list(around)
    for each in block.statements:
        if isinstance(each, Choice):
            values += interpret(each.then if values[each.a] < values[each.b] else each.otherwise, values)
        elif isinstance(each, Repeat):
            carried, total = [values[k] for k in each.first], 0
            for _ in range(values[each.count] % 4):
                carried = interpret(each.body, [*values, *carried])
                total = wrapped(total + carried[0])
            values += [*carried, total]
        else:
            a, b = values[each.a], values[each.b]
            values.append(wrapped({"add": a + b, "subtract": a - b, "multiply": a * b, "maximum": max(a, b),
                                   "constant": each.a}[each.name]))
    return [values[k] for k in block.results]


def record(net: Network, block: Block, around: Sequence[Tensor]) -> list[Tensor]:
    values = list(around)
    for each in block.statements:
        if isinstance(each, Choice):
            values += (record_traced_choice if each.traced else record_choice)(net, each, values)
        elif isinstance(each, Repeat):
            values += (record_traced_repeat if each.traced else record_repeat)(net, each, values)
        else:
            a, b = values[each.a], values[each.b]
            made: dict[str, Callable[[], Tensor]] = {
                "add": lambda a=a, b=b: a + b, "subtract": lambda a=a, b=b: a - b,  # type: ignore[misc]
                "multiply": lambda a=a, b=b: a * b, "maximum": lambda a=a, b=b: net.maximum(a, b),  # type: ignore[misc]
                "constant": lambda each=each: net.constant(each.a)}  # type: ignore[misc]
            values.append(made[each.name]())
    return [values[k] for k in block.results]


def record_choice(net: Network, choice: Choice, values: Sequence[Tensor]) -> list[Tensor]:
    conditional = net.conditional(values[choice.a] < values[choice.b])
    inside = [conditional.input(value) if k in choice.entered else value for k, value in enumerate(values)]
    then, otherwise = record(net, choice.then, inside), record(net, choice.otherwise, inside)
    return [conditional.output(a, b) for a, b in zip(then, otherwise, strict=True)]


def record_traced_choice(net: Network, choice: Choice, values: Sequence[Tensor]) -> list[Tensor]:
    return net.cond(values[choice.a] < values[choice.b], lambda: record(net, choice.then, values),
                    lambda: record(net, choice.otherwise, values))


def record_repeat(net: Network, repeat: Repeat, values: Sequence[Tensor]) -> list[Tensor]:
    loop = net.loop()
    loop.trip_limit(values[repeat.count] % 4)
    carried = [loop.recurrence(values[k]) for k in repeat.first]
    following = record(net, repeat.body, [*values, *carried])
    for each, value in zip(carried, following, strict=True):
        each.set_next(value)
    collected = loop.output(following[0], LoopOutput.CONCATENATE)
    return [*map(loop.output, carried), collected.sum(0)]


def record_traced_repeat(net: Network, repeat: Repeat, values: Sequence[Tensor]) -> list[Tensor]:
    limit = values[repeat.count] % 4

    def body(i: Tensor, carried: list[Tensor], total: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        following = record(net, repeat.body, [*values, *carried])
        return i + 1, following, total + following[0]

    _, last, total = net.while_loop(lambda i, carried, total: i < limit, body,
                                    (0, [values[k] for k in repeat.first], 0))
    return [*last, total]


def check(program: Block, inputs: Sequence[int], ways: Sequence[dict[str, object]]) -> None:
    net = Network()
    names = [f"x{k}" for k in range(INPUTS)]
    for k, value in enumerate(record(net, program, [net.input(name, np.int32) for name in names])):
        net.output(value, f"y{k}")
    model = net.build()
    expected = interpret(program, inputs)
    for options in ways:
        found = circlet.Session(model, **options).run({  # type: ignore[arg-type]
            name: np.int32(value) for name, value in zip(names, inputs, strict=True)})
        assert [found[f"y{k}"].item() for k in range(len(expected))] == expected


PROGRAMS = blocks(INPUTS, 2, 2)
VALUES = st.lists(st.integers(-5, 5), min_size=INPUTS, max_size=INPUTS)


@settings(max_examples=40, deadline=None)
@given(PROGRAMS, VALUES)
def test_random_program(program: Block, inputs: list[int]) -> None:
    check(program, inputs, list(WAYS.values()))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(blocks(INPUTS, 2, 3), VALUES)
def test_deep_random_program(program: Block, inputs: list[int]) -> None:
    check(program, inputs, list(WAYS.values()))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(PROGRAMS, VALUES)
def test_random_program_native(program: Block, inputs: list[int]) -> None:
    check(program, inputs, [{"backend": "native"}])
