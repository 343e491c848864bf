"""Loops whose carried values change their shapes from turn to turn are loops of one native function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, FloorDiv, Mul
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather, Where
from circlet.runtime.ops.layout import Concatenation, ReverseV2, Slice, StridedSlice, Transpose
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor
from circlet.runtime.ops.shape import ShapeOf
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32
from tests.needs import NATIVE

pytestmark = NATIVE
F32 = DType.FLOAT32
Body = Callable[[SubgraphBuilder, Value, Sequence[Value]], Sequence[Value]]
"""From the number of the turn, from 0, and carried values to the next ones."""


def op(s: SubgraphBuilder, kind: Op, *inputs: Value, rank: int, dtype: DType = F32) -> Value:
    """An operator whose result has lengths that only the run tells."""
    return s.op(kind, *inputs, outputs=[Tensor("", dtype, (1,) * rank, (-1,) * rank)])[0]


def joined(s: SubgraphBuilder, *values: Value, axis: int = 0, rank: int = 1) -> Value:
    return op(s, Concatenation(axis), *values, rank=rank)


def in_front(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    (x,) = v
    return [joined(s, s.constant(f32([7])), x)]


def doubling(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    (x,) = v
    return [joined(s, g.plus(s, x, 1.0), x)]


def both_axes(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    (x,) = v
    return [g.plus(s, op(s, Pad(), x, s.constant(i32([[1, 0], [0, 2]])), rank=2), 1.0)]


def turned(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """Rows and columns change places; one is added."""
    (x,) = v
    padded = op(s, Pad(), x, s.constant(i32([[0, 1], [0, 0]])), rank=2)
    return [op(s, Transpose(), padded, s.constant(i32([1, 0])), rank=2)]


def alike(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """Two that stay equally long, and are added up."""
    x, y = v
    return [joined(s, s.constant(f32([1])), g.add(s, x, y)), joined(s, y, s.constant(f32([2])))]


def apart(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """Two of which one grows faster; they change places."""
    x, y = v
    return [joined(s, y, s.constant(f32([3, 4]))), joined(s, x, s.constant(f32([5])))]


def shrinking(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """Down to nothing."""
    (x,) = v
    begin, end, step = (s.constant(i32([each])) for each in (1, 0, 1))
    return [op(s, StridedSlice(end_mask=1), x, begin, end, step, rank=1)]


def halving(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """Sums of two neighbours each, without the one that is left over."""
    (x,) = v
    two, step = s.constant(i32([2])), s.constant(i32([1]))
    length = op(s, ShapeOf(DType.INT32), x, rank=1, dtype=DType.INT32)
    even = op(s, Mul(), op(s, FloorDiv(), length, two, rank=1, dtype=DType.INT32), two, rank=1, dtype=DType.INT32)
    whole = op(s, StridedSlice(begin_mask=1), x, s.constant(i32([0])), even, step, rank=1)
    first, second = (op(s, StridedSlice(end_mask=1), whole, s.constant(i32([begin])), s.constant(i32([0])), two, rank=1)
                     for begin in (0, 1))
    return [op(s, Add(), first, second, rank=1)]


def pairs(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """The same by slices of the value itself, the second of which begins behind the first element."""
    (x,) = v
    two = s.constant(i32([2]))
    length = op(s, ShapeOf(DType.INT32), x, rank=1, dtype=DType.INT32)
    even = op(s, Mul(), op(s, FloorDiv(), length, two, rank=1, dtype=DType.INT32), two, rank=1, dtype=DType.INT32)
    parts = [op(s, StridedSlice(), x, s.constant(i32([begin])), even, two, rank=1) for begin in (0, 1)]
    return [op(s, Add(), *parts, rank=1)]


def set_item(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """A row is put between what is before it and behind it, of which nobody knows that it is one row."""
    x, row = v
    place = g.modulo(s, k, 3)
    at, after = (g.reshaped(s, each) for each in (place, g.plus(s, place)))
    head = op(s, Slice(), x, s.constant(i32([0])), at, rank=1)
    tail = op(s, Slice(), x, after, s.constant(i32([-1])), rank=1)
    return [joined(s, head, g.plus(s, row, 1.0), tail), g.plus(s, row, 1.0)]


def some(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """As many elements are added as are not 0."""
    (x,) = v
    found = op(s, Where(), op(s, ReverseV2(), x, s.constant(i32([0])), rank=1), rank=2, dtype=DType.INT64)
    picked = op(s, Gather(0, 0), x, op(s, Slice(), found, s.constant(np.array([0, 0])), s.constant(np.array([-1, 1])),
                                       rank=2, dtype=DType.INT64), rank=2)
    total = s.op(Sum(), picked, s.constant(i32([0])), outputs=[Tensor("", F32, (1,))])[0]
    return [joined(s, x, total)]


def behind(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """A row is appended along the first axis that is not 1, computed from the rows that there are."""
    (x,) = v
    total = s.op(Sum(True), x, s.constant(i32([1])), outputs=[Tensor("", F32, (1, 1, 2))])[0]
    return [joined(s, x, g.plus(s, total, 1.0), axis=1, rank=3)]


def read_later(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """The old value is read when the new one is made, which is written over last."""
    x, total = v
    longer = joined(s, x, s.constant(f32([1])))
    old = s.op(Sum(True), x, s.constant(i32([0])), outputs=[Tensor("", F32, (1,))])[0]
    return [s.op(DynamicUpdateSlice(), longer, old, s.constant(i32([0])), outputs=[Tensor("", F32, (1,), (-1,))])[0],
            g.add(s, total, old)]


def in_two_ways(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """One value becomes two, each with something else behind it."""
    x, _ = v
    return [joined(s, x, s.constant(f32([1]))), joined(s, x, s.constant(f32([2])))]


def itself(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    (x,) = v
    return [joined(s, x, x)]


def columns(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """What is appended lies between rows."""
    (x,) = v
    first = op(s, Slice(), x, s.constant(i32([0, 0])), s.constant(i32([-1, 1])), rank=2)
    return [joined(s, x, first, axis=1, rank=2)]


def first_of_table(s: SubgraphBuilder, x: Value) -> Value:
    """As many rows of a table of 40 as x has, or all of them."""
    length = s.op(ShapeOf(DType.INT32), x, outputs=[Tensor("", DType.INT32, (1,))])[0]
    begin, step = (s.constant(i32([each])) for each in (0, 1))
    return op(s, StridedSlice(), s.constant(np.arange(40, dtype=np.float32)), begin, length, step, rank=1)


def placed(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """Places are added, which a table has."""
    (x,) = v
    return [joined(s, g.add(s, x, first_of_table(s, x)), s.constant(f32([1])))]


def beyond_table(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """A sum of places is appended; there may be more of them than a table has."""
    (x,) = v
    total = s.op(Sum(True), first_of_table(s, x), s.constant(i32([0])), outputs=[Tensor("", F32, (1,))])[0]
    return [joined(s, x, total)]


def smaller(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """Half as tall and wide, which fails where nothing is left."""
    return [halved(s, x, kind) for x, kind in zip(v, (ResizeNearestNeighbor(), ResizeBilinear()), strict=True)]


def halved(s: SubgraphBuilder, x: Value, kind: Op) -> Value:
    length, pair = op(s, ShapeOf(DType.INT32), x, rank=1, dtype=DType.INT32), Tensor("", DType.INT32, (2,))
    size = s.op(Slice(), length, s.constant(i32([1])), s.constant(i32([2])), outputs=[pair])[0]
    return op(s, kind, x, s.op(FloorDiv(), size, s.constant(i32(2)), outputs=[pair])[0], rank=4)


IMAGES = [np.random.default_rng(k).integers(-8, 8, (1, 48, 64, 2)).astype(np.float32) for k in range(2)]
"""Of which the half is every second row and column, whatever lies between."""


@dataclass(frozen=True)
class Case:
    body: Body
    values: Sequence[Array]
    turns: Sequence[int] = (0, 1, 5, 70, 3, 150)
    """Of runs one after another, some of which need more room than there is."""


CASES: Mapping[str, Case] = {each.body.__name__: each for each in (
    Case(in_front, [f32([1, 2])]),
    Case(doubling, [f32([1])], (0, 1, 2, 9, 4, 12)),
    Case(both_axes, [f32([[1, 2], [3, 4]])]),
    Case(turned, [f32([[1, 2, 3]])]),
    Case(alike, [f32([1, 2]), f32([3, 4])]),
    Case(apart, [f32([1]), f32([2, 3, 4])]),
    Case(shrinking, [np.arange(200, dtype=np.float32)]),
    Case(halving, [np.arange(203, dtype=np.float32)], (0, 1, 5, 9, 2)),
    Case(pairs, [np.arange(203, dtype=np.float32)], (0, 1, 5, 9, 2)),
    Case(set_item, [f32([1, 2, 3, 4]), f32([9])]),
    Case(some, [f32([1, *[0] * 58, 2])], (0, 1, 5, 20)),
    Case(behind, [f32([[[1, 2]]])], (0, 1, 5, 70, 3, 100)),
    Case(read_later, [f32([1, 2]), f32([0])], (0, 1, 5, 70, 3, 100)),
    Case(in_two_ways, [f32([1]), f32([2])]),
    Case(itself, [f32([1, 2])], (0, 1, 9, 3)),
    Case(columns, [f32([[-1, 1], [3, -4]])]),
    Case(placed, [f32([1, 2])], (0, 1, 38, 3)),
    Case(beyond_table, [f32([1, 2])], (0, 1, 38, 39, 70, 3)),
    Case(smaller, IMAGES, (0, 1, 5, 3)),
)}


def looping(body: Body, values: Sequence[Array], declared: bool = True) -> Model:
    """`n` turns; the values are inputs, whose lengths are declared or left open."""
    b = ModelBuilder()
    main = b.subgraph("main")
    scalars = [(DType.INT32, ()), (DType.INT32, ())]
    loose = [(F32, (-1,) * each.ndim) for each in values]
    kinds = [(F32, each.shape) for each in values] if declared else loose

    def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [g.plus(s, v[0]), v[1], *body(s, v[0], v[2:])]

    loop = While(g.define(b, "cond", lambda s, v: [g.less(s, v[0], v[1])], [*scalars, *loose]),
                 g.define(b, "body", turn, [*scalars, *loose]))
    inputs = [main.input(f"x{k}", *each) for k, each in enumerate([scalars[1], *kinds])]
    results = main.op(loop, main.constant(0), *inputs, outputs=[
        Tensor("", dtype, (1,) * len(shape), shape if shape else None) for dtype, shape in [*scalars, *loose]])
    main.output(*results[2:])
    return b.build()


def compare(model: Model, runs: Sequence[Sequence[Array]]) -> circlet.Session:
    """Runs have the bits of numpy's, and are native."""
    session, expected = circlet.Session(model, "native"), circlet.Session(model, "cpu")
    for each in runs:
        g.assert_equal(session.invoke(0, each), expected.invoke(0, each))
    assert session.backend_of(0)[0] == "native"
    return session


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "open"])
@pytest.mark.parametrize("name", CASES)
def test_bits(name: str, declared: bool) -> None:
    case = CASES[name]
    compare(looping(case.body, case.values, declared), [[i32(turns), *case.values] for turns in case.turns])


@pytest.mark.parametrize("name", CASES)
def test_no_access_is_outside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CHECK_BOUNDS", "1")
    case = CASES[name]
    compare(looping(case.body, case.values), [[i32(turns), *case.values] for turns in case.turns])


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(2, 90)), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_open_lengths_before_the_loop(runs: list[tuple[int, int]]) -> None:
    compare(ALIKE, [[i32(turns), *(np.arange(length, dtype=np.float32) * k for k in (1, 2))] for turns, length in runs])


ALIKE = looping(alike, CASES["alike"].values, False)


def test_iterations_are_those_of_the_last_attempt() -> None:
    """What was begun anew with more room is not counted twice."""
    model, x = looping(in_front, [f32([1])]), f32([1])
    session = circlet.Session(model, limits=circlet.Limits(max_iterations=300))
    assert session.invoke(0, [i32(300), x])[0].shape == (301,)
    with pytest.raises(circlet.LimitError, match="max_iterations=300"):
        session.invoke(0, [i32(301), x])
    assert session.invoke(0, [i32(3), x])[0].shape == (4,)


def test_what_grows_without_end_is_stopped() -> None:
    session = circlet.Session(looping(doubling, [f32([1])]), limits=circlet.Limits(memory=1 << 24))
    with pytest.raises(circlet.LimitError, match="memory=16777216"):
        session.invoke(0, [i32(1 << 30), f32([1])])
    assert session.invoke(0, [i32(10), f32([1])])[0].shape == (1 << 10,)
    session.limits = circlet.Limits(deadline=0.2)
    with pytest.raises(circlet.LimitError):
        session.invoke(0, [i32(1 << 30), f32([1])])


def test_an_error_in_a_turn_has_its_place() -> None:
    def body(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
        found = s.op(Gather(0, 0), s.constant(f32([1, 2, 3])), k, outputs=[Tensor("", F32, ())])[0]
        return [joined(s, g.reshaped(s, found), v[0])]

    session = compare(looping(body, [f32([5])]), [[i32(3), f32([5])]])
    with pytest.raises(circlet.ExecutionError, match=r"subgraph 2 \('body'\).*GATHER.*index 3 is out of range"):
        session.invoke(0, [i32(4), f32([5])])


def test_images_are_resized_until_nothing_is_left() -> None:
    session = compare(looping(smaller, IMAGES, False), [[i32(5), *IMAGES]])
    with pytest.raises(circlet.ExecutionError, match="cannot resize 1 x 2 to 0 x 1"):
        session.invoke(0, [i32(6), *IMAGES])


def test_inputs_are_read_again() -> None:
    """A loop that would overwrite its input has it unchanged when it begins anew."""
    model = looping(lambda s, k, v: [joined(s, v[0], v[1]), g.plus(s, v[1], 1.0)], [f32([0]), f32([0])])
    session = circlet.Session(model)
    for turns in (5, 100, 1000):
        found = session.invoke(0, [i32(turns), f32([-1]), f32([0])])
        g.assert_equal(found, [np.arange(-1, turns, dtype=np.float32), f32([turns])])


def test_what_is_kept_grows_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later session finds the function with its plan, and reads no model."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "model.tflite"
    circlet.save(circlet.convert(looping(both_axes, CASES["both_axes"].values)), path)
    expected = circlet.Session(path, "cpu")
    for _ in range(2):
        session = circlet.Session(path, "native")
        for turns in (3, 100, 5):
            arrays = [i32(turns), *CASES["both_axes"].values]
            g.assert_equal(session.invoke(0, arrays), expected.invoke(0, arrays))


@pytest.mark.parametrize("name", ["both_axes", "alike", "apart"])
def test_threads_share_out_what_grows(name: str) -> None:
    """Loops over lengths that change are shared out like others."""
    case = CASES[name]
    values = [np.random.default_rng(1).random([400] * each.ndim, np.float32) for each in case.values]
    model = looping(case.body, values)
    one, two = (circlet.Session(model, "native", num_threads=count) for count in (1, 2))
    for turns in (3, 300):
        g.assert_equal(two.invoke(0, [i32(turns), *values]), one.invoke(0, [i32(turns), *values]))


def test_a_loop_in_a_loop() -> None:
    """The inner one grows what the outer one gives it, and adds it up."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds = [(DType.INT32, ()), (F32, ())]
    grown = [(DType.INT32, ()), (DType.INT32, ()), (F32, (-1,))]

    def inner(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [g.plus(s, v[0]), v[1], joined(s, s.constant(f32([2])), v[2])]

    within = While(g.define(b, "less", lambda s, v: [g.less(s, v[0], v[1])], grown), g.define(b, "grow", inner, grown))

    def outer(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        made = s.op(within, s.constant(0), v[0], s.constant(f32([1])), outputs=[
            Tensor("", DType.INT32, ()), Tensor("", DType.INT32, ()), Tensor("", F32, (1,), (-1,))])[2]
        total = s.op(Sum(), made, s.constant(i32([0])), outputs=[Tensor("", F32, ())])[0]
        return [g.plus(s, v[0]), g.add(s, v[1], total)]

    loop = While(g.define(b, "cond", g.below(100), kinds), g.define(b, "body", outer, kinds))
    main.output(*main.op(loop, *(main.input(f"x{k}", *each) for k, each in enumerate(kinds)), count=2))
    compare(b.build(), [[i32(k), f32(0)] for k in (99, 90, 0, 50)])
