"""Models that append to what they keep: a variable has another shape in each run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallOnce, If
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.shape import BroadcastTo, ShapeOf
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle

ROWS, I32 = (-1, -1, 2), DType.INT32
"""Sequences of pairs."""


def handle(s: SubgraphBuilder, name: str) -> Value:
    return s.op(VarHandle("", name), outputs=[Tensor(name, DType.RESOURCE, ())])[0]


def read(s: SubgraphBuilder, name: str, dtype: DType = I32, shape: tuple[int, ...] = ROWS) -> Value:
    declared = Tensor("value", dtype, tuple(abs(each) for each in shape), shape)
    return s.op(ReadVariable(), handle(s, name), outputs=[declared])[0]


def assign(s: SubgraphBuilder, name: str, value: Value) -> None:
    s.op(AssignVariable(), handle(s, name), value, outputs=[])


def set_once(b: ModelBuilder, s: SubgraphBuilder, name: str, value: npt.ArrayLike) -> None:
    """Gives a variable a constant in the first run."""
    init = b.subgraph(f"{name}/init")
    assign(init, name, init.constant(value))
    s.op(CallOnce(init.index), outputs=[])


def computed_first(b: ModelBuilder, s: SubgraphBuilder, x: Value, name: str, is_flagged: bool = False) -> Value:
    """A variable; as long as it has no value, none of as many sequences as x has."""
    flag = f"{name}/flag"
    set_once(b, s, flag, np.array(is_flagged))
    rank = Tensor("sizes", I32, (1,))
    count = s.op(Gather(), s.op(ShapeOf(I32), x, outputs=[Tensor("shape", I32, (3,))])[0],
                 s.constant(np.array([0], np.int32)), outputs=[rank])[0]
    sizes = s.op(Concatenation(0), count, s.constant(np.array([0, 2], np.int32)), outputs=[Tensor("all", I32, (3,))])[0]
    none = s.op(BroadcastTo(), s.constant(np.int32(0)), sizes, outputs=[Tensor("none", I32, (1, 0, 2), (-1, 0, 2))])[0]
    then, other = b.subgraph(f"{name}/then"), b.subgraph(f"{name}/else")
    then.input("none", I32, (-1, 0, 2))
    then.output(read(then, name))
    other.output(other.input("none", I32, (-1, 0, 2)))
    return s.op(If(then.index, other.index), read(s, flag, DType.BOOL, ()), none,
                outputs=[Tensor("kept", I32, (1, 1, 2), ROWS)])[0]


def append(s: SubgraphBuilder, kept: Value, x: Value) -> Value:
    return s.op(Concatenation(1), kept, x, outputs=[Tensor("all", I32, (1, 1, 2), ROWS)])[0]


def appending(is_computed: bool, is_shown: bool = False) -> Model:
    """Appends x: int32[?,?,2] to a variable and gives sums over all that there is; perhaps that, too. Without a first
    value that is computed, there is one sequence."""
    b = ModelBuilder()
    s = b.subgraph("main")
    x = s.input("x", I32, ROWS)
    if is_computed:
        kept = computed_first(b, s, x, "rows")
    else:
        set_once(b, s, "rows", np.zeros((1, 0, 2), np.int32))
        kept = read(s, "rows")
    found = append(s, kept, x)
    assign(s, "rows", found)
    if is_computed:
        assign(s, "rows/flag", s.constant(np.array(True)))
    s.output(s.op(Sum(), found, s.constant(np.array([1], np.int32)), outputs=[Tensor("sum", I32, (1, 2), (-1, 2))])[0])
    if is_shown:
        s.output(found)
    return b.build()
