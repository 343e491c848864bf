"""Subgraphs as formulas, from which the control-flow cases are put together."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less, LessEqual
from circlet.runtime.ops.controlflow import If, While
from circlet.runtime.ops.elementwise import Add, FloorMod
from circlet.runtime.ops.pad import Pad, Tile
from circlet.runtime.ops.reduce import ReduceMax, Sum
from circlet.runtime.ops.shape import Fill, Reshape

Array: TypeAlias = npt.NDArray[Any]
Formula: TypeAlias = Callable[[SubgraphBuilder, Sequence[Value]], Sequence[Value]]
"""Applies operators to the inputs of a subgraph and gives its outputs."""

ELISION = (True, False)


def add(g: SubgraphBuilder, a: Value, b: Value) -> Value:
    return g.apply(Add(), a, b)


def plus(g: SubgraphBuilder, a: Value, amount: int | float = 1) -> Value:
    return add(g, a, g.constant(amount))


def less(g: SubgraphBuilder, a: Value, b: Value) -> Value:
    return g.apply(Less(), a, b)


def modulo(g: SubgraphBuilder, a: Value, divisor: int) -> Value:
    return g.apply(FloorMod(), a, g.constant(divisor))


def declared(name: str, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(name, dtype, shape)


def at_most(bound: int, slot: int = 0) -> Formula:
    """`inputs[slot] <= bound`; the other inputs are not used."""
    return lambda g, v: [g.apply(LessEqual(), v[slot], g.constant(bound))]


def greatest_at_most(bound: int) -> Formula:
    """`max(inputs[0]) <= bound`"""
    return lambda g, v: [g.apply(LessEqual(), g.apply(ReduceMax(), v[0], g.constant(0)), g.constant(bound))]


def below(bound: float, slot: int = 0) -> Formula:
    return lambda g, v: [g.apply(Less(), v[slot], g.constant(bound))]


def counter(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [plus(g, v[0])]


def accumulate(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    count = plus(g, v[0])
    return [count, add(g, count, v[1])]


def deep(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    count = plus(g, v[0])
    return [count, plus(g, add(g, count, v[1]))]


def large(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    total = add(g, v[0], v[1])
    return [g.apply(Sum(), v[1], g.constant(-1)), plus(g, total, 4)]


def pad(before: int, after: int) -> Formula:
    def formula(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [plus(g, v[0]), g.apply(Pad(), v[1], g.constant([[before, after]]))]

    return formula


def large_pad(before: int, after: int) -> Formula:
    def formula(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        first = plus(g, v[0])
        second = plus(g, add(g, v[0], v[2]))
        return [plus(g, first), second, g.apply(Pad(), second, g.constant([[before, after]]))]

    return formula


def forwarded(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [plus(g, v[0]), add(g, v[1], v[2]), v[2]]


def forwarded_elsewhere(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [v[1], add(g, v[0], v[1])]


def all_in_place(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    count, first, second, third, step = v
    times = reshaped(g, count)
    return [
        add(g, count, step), add(g, add(g, first, step), step), g.apply(Tile(), second, times),
        add(g, g.apply(Tile(), third, times), step), step,
    ]


def unused_input_allocated(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    tiled = g.apply(Tile(), v[2], reshaped(g, v[0]))
    return [plus(g, v[0]), add(g, plus(g, v[1]), tiled), tiled]


def increasing(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    tiled = g.apply(Tile(), v[1], reshaped(g, v[0]))
    return [plus(g, v[0]), plus(g, tiled), plus(g, plus(g, v[2])), plus(g, plus(g, v[3]))]


def aliases(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    total = add(g, add(g, v[1], v[2]), add(g, v[3], v[4]))
    third = plus(g, total, 3)
    return [plus(g, v[0]), plus(g, total, 1), plus(g, total, 2), third, third]


def not_consumed(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [add(g, v[0], v[1]), g.apply(Tile(), v[0], reshaped(g, v[2])), g.constant([1])]


def string_fill(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    count = plus(g, v[2])
    return [v[0], g.apply(Fill(), reshaped(g, count), v[0]), count]


def doubled(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    one, other = add(g, v[0], v[1]), add(g, v[0], v[1])
    return [add(g, one, other), add(g, one, other)]


def reshaped(g: SubgraphBuilder, scalar: Value) -> Value:
    """An int32 of any shape with one element as a vector."""
    return g.apply(Reshape(), scalar, g.constant([1]))


def define(b: ModelBuilder, name: str, formula: Formula, kinds: Sequence[tuple[DType, tuple[int, ...]]]) -> int:
    """Adds a subgraph; returns its index."""
    g = b.subgraph(name)
    g.output(*formula(g, [g.input(f"{name}_{k}", dtype, shape) for k, (dtype, shape) in enumerate(kinds)]))
    return g.index


def kind(array: Array, loose: bool) -> tuple[DType, tuple[int, ...]]:
    """The declared type of a case's input; `loose` leaves the lengths open."""
    return DType.of(array.dtype), tuple(-1 for _ in array.shape) if loose else array.shape


def while_model(cond: Formula, body: Formula, inputs: Sequence[Array], loose: bool = False,
                exported: Sequence[int] | None = None) -> Model:
    """A model whose main subgraph is one WHILE; `exported` are the outputs that the model returns (all)."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds = [kind(each, loose) for each in inputs]
    op = While(define(b, "cond", cond, kinds), define(b, "body", body, kinds))
    given = [main.input(f"in_{k}", *each) for k, each in enumerate(kinds)]
    results = main.op(op, *given, count=len(given))
    main.output(*(results[k] for k in (range(len(results)) if exported is None else exported)))
    return typed(b.build(), [dtype for dtype, _ in kinds])


def if_model(then: Formula, other: Formula, inputs: Sequence[Array], loose: bool = False,
             count: int | None = None) -> Model:
    """A model whose main subgraph is one IF over a BOOL input and the others."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds = [kind(each, loose) for each in inputs]
    op = If(define(b, "then", then, kinds), define(b, "else", other, kinds))
    cond = main.input("cond", DType.BOOL, ())
    given = [main.input(f"in_{k}", *each) for k, each in enumerate(kinds)]
    results = main.op(op, cond, *given, count=len(b.build().subgraphs[op.then_subgraph_index].outputs)
                      if count is None else count)
    main.output(*results)
    built = b.build()
    branch = built.subgraphs[op.then_subgraph_index]
    return typed(built, [branch.tensors[each].dtype for each in branch.outputs])


def typed(model: Model, dtypes: Sequence[DType]) -> Model:
    """Gives the results of the main subgraph's only operator their element types."""
    main = model.subgraphs[0]
    kinds = dict(zip(main.operators[0].outputs, dtypes, strict=True))
    tensors = tuple(replace(each, dtype=kinds.get(k, each.dtype)) for k, each in enumerate(main.tensors))
    return replace(model, subgraphs=(replace(main, tensors=tensors), *model.subgraphs[1:]))


def memory_of(act: Callable[[], object]) -> int:
    """The bytes that Python and numpy take at the most while something is done."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def run(session: circlet.Session, inputs: Sequence[npt.ArrayLike]) -> list[Array]:
    """The outputs in order."""
    return list(session.run(list(inputs)).values())


def i32(value: npt.ArrayLike) -> Array:
    return np.array(value, np.int32)


def f32(value: npt.ArrayLike) -> Array:
    return np.array(value, np.float32)


def text(value: Any) -> Array:
    array = np.empty(np.shape(value), object)
    array[...] = value
    return array


def assert_equal(found: Sequence[Array], expected: Sequence[Array]) -> None:
    """Same types, shapes and bits."""
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)
