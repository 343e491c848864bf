"""Random loops over several values: elision on, elision off and plain Python agree to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import If, While
from circlet.runtime.ops.elementwise import Add, Maximum, Mul, Sub
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import ReverseV2
from circlet.runtime.ops.shape import Reshape
from tests.exec import graphs as g
from tests.exec.graphs import Array, i32
from tests.properties import holds

LENGTH = 4
ROW = (DType.INT32, (LENGTH,))
BINARY: dict[str, tuple[Op, Callable[[Array, Array], Array]]] = {
    "add": (Add(), np.add), "sub": (Sub(), np.subtract), "mul": (Mul(), np.multiply), "max": (Maximum(), np.maximum),
}


@dataclass(frozen=True)
class Instruction:
    """One operation on two earlier values; `view`, `reverse` and `constant` use fewer."""

    name: str
    a: int
    b: int


@dataclass(frozen=True)
class Program:
    """A straight-line body: instructions over the inputs and each other's results, then what it returns."""

    inputs: int
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]


@st.composite
def programs(draw: st.DrawFn, inputs: int, outputs: int) -> Program:
    names = st.sampled_from([*BINARY, "view", "reverse", "update", "constant", "nothing"])
    instructions = []
    for k in range(draw(st.integers(0, 6))):
        earlier = st.integers(0, inputs + k - 1)
        instructions.append(Instruction(draw(names), draw(earlier), draw(earlier)))
    results = st.integers(0, inputs + len(instructions) - 1)
    return Program(inputs, tuple(instructions), tuple(draw(results) for _ in range(outputs)))


def emit(program: Program, s: SubgraphBuilder, inputs: Sequence[Value]) -> list[Value]:
    values = list(inputs)
    for each in program.instructions:
        a, b = values[each.a], values[each.b]
        if each.name in BINARY:
            values.append(s.apply(BINARY[each.name][0], a, b))
        elif each.name == "view":
            square = s.apply(Reshape(), a, s.constant([2, 2]))
            values.append(s.apply(Reshape(), square, s.constant([LENGTH])))
        elif each.name == "reverse":
            values.append(s.apply(ReverseV2(), a, s.constant([0])))
        elif each.name == "update":
            element = s.apply(Reshape(), s.constant([7]), s.constant([1]))
            values.append(s.apply(DynamicUpdateSlice(), a, element, s.constant([each.b % LENGTH])))
        elif each.name == "constant":
            values.append(s.constant(i32([each.a, each.b, 3, 4])))
        else:
            values.append(a)
    return [values[k] for k in program.outputs]


def interpret(program: Program, inputs: Sequence[Array]) -> list[Array]:
    values = list(inputs)
    for each in program.instructions:
        a, b = values[each.a], values[each.b]
        if each.name in BINARY:
            values.append(BINARY[each.name][1](a, b))
        elif each.name == "reverse":
            values.append(a[::-1].copy())
        elif each.name == "update":
            updated = a.copy()
            updated[each.b % LENGTH] = 7
            values.append(updated)
        elif each.name == "constant":
            values.append(i32([each.a, each.b, 3, 4]))
        else:
            values.append(a)
    return [values[k] for k in program.outputs]


SLOTS = 3


def loop_model(body: Program, then: Program, other: Program) -> Model:
    """`for i in range(n): rows = body(*(then if i % 2 else other)(*rows))`, the choice being an IF in the body."""
    b = ModelBuilder()
    main = b.subgraph("main")
    rows = [ROW] * SLOTS
    branch = If(g.define(b, "then", lambda s, v: emit(then, s, v), rows),
                g.define(b, "else", lambda s, v: emit(other, s, v), rows))
    kinds = [(DType.INT32, ()), (DType.INT32, ()), *rows]

    def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        odd = g.less(s, s.constant(0), g.modulo(s, v[0], 2))
        chosen = s.op(branch, odd, *v[2:], outputs=[g.declared(f"row_{k}", *ROW) for k in range(SLOTS)])
        return [g.plus(s, v[0]), v[1], *emit(body, s, chosen)]

    op = While(g.define(b, "cond", lambda s, v: [g.less(s, v[0], v[1])], kinds), g.define(b, "body", turn, kinds))
    given_rows = [main.input(f"x{k}", *ROW) for k in range(SLOTS)]
    results = main.op(op, main.constant(0), main.input("n", DType.INT32), *given_rows, count=len(kinds))
    main.output(*results[2:])
    return b.build()


def expected(body: Program, then: Program, other: Program, turns: int, rows: Sequence[Array]) -> list[Array]:
    state = list(rows)
    for turn in range(turns):
        state = interpret(body, interpret(then if turn % 2 else other, state))
    return state


START = [i32([1, 2, 3, 4]), i32([5, 6, 7, 8]), i32([-1, 0, 1, 2])]


@holds(programs(SLOTS, SLOTS), programs(SLOTS, SLOTS), programs(SLOTS, SLOTS), few=40, many=300)
def test_elision_changes_nothing(body: Program, then: Program, other: Program) -> None:
    model = loop_model(body, then, other)
    sessions = [circlet.Session(model, copy_elision=elide) for elide in g.ELISION]
    for turns in (3, 0, 4, 1):
        wanted = expected(body, then, other, turns, START)
        for session in sessions:
            g.assert_equal(list(session.run([*START, np.int32(turns)]).values()), wanted)
