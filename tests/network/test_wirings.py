"""Layers wired at random: what builds means what the layers say, and all else is refused as malformed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import circlet
from circlet import LoopOutput, Network
from circlet.network import Conditional, Loop, Recurrence, Tensor

SEQUENCE = (3, -1, 4)
KINDS = ("add", "subtract", "maximum", "conditional", "enter", "enter", "leave", "leave", "loop", "recurrence",
         "recurrence", "iterator", "last", "last", "collect")
RECENT = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5])
"""How far back an operand lies; what is near is likelier to be in the same construct."""
State: TypeAlias = Mapping[Loop, tuple[int, Mapping[int, int]]]
"""For each loop in progress the iteration and what its recurrences are."""


@dataclass
class Wiring:
    """A network under construction, and what each of its values means."""

    net: Network
    values: list[Tensor]
    conditionals: list[Conditional] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    recurrences: list[Recurrence] = field(default_factory=list)
    meanings: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    following: dict[int, Tensor] = field(default_factory=dict)

    def add(self, tensor: Tensor, *meaning: Any) -> None:
        self.values.append(tensor)
        self.meanings[tensor.layer.number] = meaning

    def step(self, kind: str, a: int, b: int) -> None:
        """Adds a layer or a construct; `a` and `b` choose operands from the latest values."""
        x, y = self.values[-1 - a % len(self.values)], self.values[-1 - b % len(self.values)]
        if kind in ("add", "subtract", "maximum"):
            made = {"add": lambda: x + y, "subtract": lambda: x - y, "maximum": lambda: self.net.maximum(x, y)}[kind]()
            self.add(made, kind, x, y)
        elif kind == "conditional":
            self.conditionals.append(self.net.conditional(x < y))
            self.meanings[self.conditionals[-1].predicate.layer.number] = ("less", x, y)
        elif kind == "loop":
            self.loops.append(self.net.loop())
            self.loops[-1].trip_limit(a % 4)
        elif kind in ("enter", "leave") and self.conditionals:
            conditional = self.conditionals[-1 - a % len(self.conditionals)]
            if kind == "enter":
                self.add(conditional.input(y), "same", y)
            else:
                self.add(conditional.output(x, y), "choice", conditional.predicate, x, y)
        elif kind in ("recurrence", "iterator", "collect") and self.loops:
            self.step_loop(kind, self.loops[-1 - a % len(self.loops)], y)
        elif kind == "last" and self.recurrences:
            r = self.recurrences[-1 - a % len(self.recurrences)]
            self.add(r.loop.output(r), "last", r.loop, r)

    def step_loop(self, kind: str, loop: Loop, y: Tensor) -> None:
        if kind == "recurrence":
            self.recurrences.append(loop.recurrence(y))
            self.add(self.recurrences[-1], "recurrence", loop)
        elif kind == "iterator":
            self.add(loop.iterator(np.array(SEQUENCE, np.int32)), "iterator", loop)
        else:
            self.add(loop.output(y, LoopOutput.CONCATENATE).sum(0), "collect", loop, y)

    def finish(self, choices: Sequence[int]) -> None:
        """Gives each recurrence a next value, and each conditional an output."""
        for k, each in enumerate(self.recurrences):
            chosen = self.values[-1 - choices[k % len(choices)] % len(self.values)]
            each.set_next(chosen)
            self.following[each.layer.number] = chosen
        for conditional in self.conditionals:
            if not conditional.exits:
                conditional.output(0, 1)

    def value(self, tensor: Tensor, state: State) -> int:
        """What a value is, by what its layer means."""
        if tensor.data is not None:
            return int(tensor.data)
        kind, *rest = self.meanings[tensor.layer.number]
        if kind in ("iterator", "recurrence"):
            iteration, carried = state[rest[0]]
            return SEQUENCE[iteration] if kind == "iterator" else carried[tensor.layer.number]
        if kind in ("last", "collect"):
            loop, inside = rest
            return self.loop_value(kind, loop, inside, state)
        if kind == "choice":
            return self.value(rest[1 if self.value(rest[0], state) else 2], state)
        x, *y = (self.value(each, state) for each in rest)
        formulas: dict[str, Callable[[], int]] = {
            "add": lambda: x + y[0], "subtract": lambda: x - y[0], "maximum": lambda: max(x, y[0]),
            "less": lambda: x < y[0], "same": lambda: x}
        return formulas[kind]()

    def loop_value(self, kind: str, loop: Loop, tensor: Tensor, state: State) -> int:
        assert loop.count is not None
        own = [each for each in self.recurrences if each.loop is loop]
        carried = {each.layer.number: self.value(each.layer.operands[0], state) for each in own}  # type: ignore[arg-type]
        total = 0
        for iteration in range(self.value(loop.count, state)):
            inside = {**state, loop: (iteration, carried)}
            if kind == "collect":
                total += self.value(tensor, inside)
            carried = {each.layer.number: self.value(self.following[each.layer.number], inside) for each in own}
        return total if kind == "collect" else carried[tensor.layer.number]


STEPS = st.lists(st.tuples(st.sampled_from(KINDS), RECENT, RECENT), min_size=6, max_size=16)
CHOICES = st.lists(RECENT, min_size=1, max_size=4)
INPUTS = st.tuples(st.integers(-3, 3), st.integers(-3, 3))


def check(steps: Sequence[tuple[str, int, int]], choices: Sequence[int], inputs: tuple[int, int]) -> None:
    net = Network()
    names = dict(zip("xy", inputs, strict=True))
    wiring = Wiring(net, [net.input(name, np.int32) for name in names])
    for tensor, value in zip(wiring.values, inputs, strict=True):
        wiring.meanings[tensor.layer.number] = ("same", net.constant(value))
    for each in steps:
        wiring.step(*each)
    wiring.finish(choices)
    net.output(wiring.values[-1], "out")
    try:
        model = net.build()
    except circlet.ModelError as error:
        event(f"refused: {str(error).partition('expected ')[2][:30]}")
        return
    event(f"built: {len(model.subgraphs)} subgraphs")
    expected = wiring.value(wiring.values[-1], {})
    found = circlet.Session(model, backend="cpu").run({name: np.int32(value) for name, value in names.items()})
    assert found["out"] == expected


@settings(max_examples=60, deadline=None)
@given(STEPS, CHOICES, INPUTS)
def test_wiring(steps: list[tuple[str, int, int]], choices: list[int], inputs: tuple[int, int]) -> None:
    check(steps, choices, inputs)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(STEPS, CHOICES, INPUTS)
def test_many_wirings(steps: list[tuple[str, int, int]], choices: list[int], inputs: tuple[int, int]) -> None:
    check(steps, choices, inputs)
