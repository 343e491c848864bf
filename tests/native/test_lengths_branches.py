"""Branches that make results of different lengths are branches of one native function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.comparison import Greater
from circlet.runtime.ops.controlflow import If, StablehloCase
from circlet.runtime.ops.elementwise import Add, Sub
from circlet.runtime.ops.index import GatherNd, Where
from circlet.runtime.ops.layout import Concatenation, Pack, ReverseV2, Slice
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.reduce import ReduceMax, Sum
from circlet.runtime.ops.shape import ShapeOf
from circlet.runtime.ops.unary import Relu
from tests.exec import graphs
from tests.native.test_lengths import Graph, floats
from tests.native.test_plans import is_prepared
from tests.needs import NATIVE
from tests.ops.cases import check

pytestmark = NATIVE
Write = Callable[[Graph, Value], Sequence[Value]]
"""What a branch makes of (n, 3)."""
ANY = Tensor("", DType.FLOAT32, (), has_rank=False)


def itself(g: Graph, x: Value) -> Sequence[Value]:
    return [x]


def positive(g: Graph, x: Value) -> Sequence[Value]:
    return [g(Relu(), x)]


def twice(g: Graph, x: Value) -> Sequence[Value]:
    return [g(Concatenation(0), x, x)]


def ten(g: Graph, x: Value) -> Sequence[Value]:
    return [g(Slice(), g(Concatenation(0), *[x] * 5), g.ints(0, 0), g.ints(10, 3))]


def some(g: Graph, x: Value) -> Sequence[Value]:
    """As many rows as have elements above 1; the run tells how many those are."""
    found = g(Where(), g(Greater(), x, g.number(1.0), dtype=DType.BOOL), dtype=DType.INT64)
    return [g(GatherNd(), g(Concatenation(0), x, x), found)]


def flat(g: Graph, x: Value) -> Sequence[Value]:
    return [g(ReduceMax(), x, g.ints(1))]


def two(first: Write, second: Write) -> Write:
    return lambda g, x: [*first(g, x), *second(g, x)]


def alike(g: Graph, x: Value) -> Sequence[Value]:
    """Two of one length, which is another one in the other branch."""
    return [x, g(ReverseV2(), x, g.ints(0))]


CASES: Mapping[str, tuple[Write, ...]] = {
    "itself or twice": (itself, twice),
    "twice or itself": (twice, itself),
    "positive or ten": (positive, ten),
    "some or flat": (some, flat),
    "two results": (two(itself, twice), two(twice, itself)),
    "alike": (alike, two(twice, twice)),
    "one result differs": (two(positive, itself), two(positive, twice)),
    "three": (positive, twice, ten),
}


def branching(branches: Sequence[Write]) -> Model:
    """Which branch is taken, an int32, and rows of three to what that makes of them, and the greatest of its first
    result."""
    b = ModelBuilder()
    main = Graph(b.subgraph("main"))
    which, x = main.builder.input("which", DType.INT32, ()), main.builder.input("x", DType.FLOAT32, (-1, 3))
    made: list[tuple[int, int]] = []
    for number, write in enumerate(branches):
        g = Graph(b.subgraph(f"branch{number}"))
        results = write(g, g.builder.input("x", DType.FLOAT32, (-1, 3)))
        g.builder.output(*results)
        made.append((g.builder.index, len(results)))
    indices = tuple(index for index, _ in made)
    selector = main(Greater(), which, main.number(0), dtype=DType.BOOL) if len(made) == 2 else which
    op = If(*indices) if len(made) == 2 else StablehloCase(indices)
    results = main.builder.op(op, selector, x, outputs=[ANY] * made[0][1])
    main.builder.output(*results, main(ReduceMax(), results[0], main.ints(0)))
    return b.build()


RUNS = [(which, n) for n in (5, 2, 40, 17) for which in (0, 1, 2)]


def compared(branches: Sequence[Write], runs: Sequence[tuple[int, int]] = RUNS) -> circlet.Session:
    model = branching(branches)
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for which, n in runs:
        given: list[Array] = [np.array(which, np.int32), floats(n, 3)]
        graphs.assert_equal(native.invoke(0, given), cpu.invoke(0, given))
    return native


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_branches_and_lengths(name: str, folder: object, compiled: list[str]) -> None:
    session = compared(CASES[name])
    assert set(session.backend_of(0)) == {"native"}
    assert len(compiled) == 1


def nested() -> Model:
    """Of x (n, 3) and y (m, 3) both where n > m, else y or, where its sum is above 0, twice y."""
    b = ModelBuilder()

    def branch(name: str, write: Callable[[Graph, Value, Value], Sequence[Value]]) -> int:
        g = Graph(b.subgraph(name))
        x, y = (g.builder.input(each, DType.FLOAT32, (-1, 3)) for each in "xy")
        g.builder.output(*write(g, x, y))
        return g.builder.index

    main = Graph(b.subgraph("main"))
    x, y = (main.builder.input(each, DType.FLOAT32, (-1, 3)) for each in "xy")
    same, double = branch("same", lambda g, x, y: [y]), branch("double", lambda g, x, y: twice(g, y))
    both = branch("both", lambda g, x, y: [g(Concatenation(0), x, y)])

    def by_sum(g: Graph, x: Value, y: Value) -> Sequence[Value]:
        above = g(Greater(), g(Sum(), y, g.ints(0, 1)), g.number(0.0), dtype=DType.BOOL)
        return g.builder.op(If(double, same), above, x, y, outputs=[ANY])

    shapes = [main(ShapeOf(DType.INT32), each, dtype=DType.INT32) for each in (x, y)]
    rows = [main(Slice(), each, main.ints(0), main.ints(1), dtype=DType.INT32) for each in shapes]
    found = main.builder.op(If(both, branch("by_sum", by_sum)), main(Greater(), *rows, dtype=DType.BOOL), x, y,
                            outputs=[ANY])
    main.builder.output(*found, main(ReduceMax(), found[0], main.ints(0)))
    return b.build()


def test_values_choose_in_a_branch_that_lengths_chose(folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(nested(), backend=each) for each in ("native", "cpu"))
    for n, m in ((5, 2), (2, 5), (17, 40), (40, 17), (3, 9)):
        for sign in (1, -1):
            given: list[Array] = [floats(n, 3), np.abs(floats(m, 3)) * np.float32(sign)]
            graphs.assert_equal(native.invoke(0, given), cpu.invoke(0, given))
    assert set(native.backend_of(0)) == {"native"}
    assert len(compiled) == 2, "one function for each answer"


@pytest.mark.parametrize("name", CASES)
def test_no_access_is_outside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CHECK_BOUNDS", "1")
    compared(CASES[name])


def test_lengths_of_none_and_one() -> None:
    compared(CASES["itself or twice"], [(which, n) for n in (1, 3, 0, 4, 1) for which in (0, 1)])


def first_ten(g: Graph, x: Value) -> Sequence[Value]:
    return [g(Slice(), x, g.ints(0, 0), g.ints(10, 3))]


def up_to_ten(g: Graph, x: Value) -> Sequence[Value]:
    """Of more rows than ten there is none."""
    missing = g(Sub(), g.number(10), g.length(x, 0), dtype=DType.INT32)
    nothing = g(Pack(2), g.number(0), g.number(0), dtype=DType.INT32)
    after = g(Pack(2), g.number(0), missing, dtype=DType.INT32)
    return [g(Pad(), x, g(Pack(2), after, nothing, dtype=DType.INT32))]


@pytest.mark.parametrize("branches", [(ten, twice), (first_ten, up_to_ten)], ids=["any", "one each"])
def test_the_branch_is_known_by_the_length(branches: Sequence[Write], folder: object, compiled: list[str]) -> None:
    """One beyond ten rows, the other up to ten, with which the first one cannot be computed: one function for each."""
    b = ModelBuilder()
    main = Graph(b.subgraph("main"))
    x = main.builder.input("x", DType.FLOAT32, (-1, 3))
    indices = []
    for write in branches:
        g = Graph(b.subgraph(write.__name__))
        g.builder.output(*write(g, g.builder.input("x", DType.FLOAT32, (-1, 3))))
        indices.append(g.builder.index)
    longer = main(Greater(), main.length(x, 0), main.number(10), dtype=DType.BOOL)
    (found,) = main.builder.op(If(*indices), longer, x, outputs=[ANY])
    main.builder.output(main(Relu(), found))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for n in (20, 5, 33, 7, 11, 9):
        given = floats(n, 3)
        graphs.assert_equal(native.invoke(0, [given]), cpu.invoke(0, [given]))
    assert "controlflow" not in native.backend_of(0)
    assert len(compiled) == 2


@pytest.mark.parametrize("rows", [-1, 5])
def test_what_is_turned_around_is_not_written_over_itself(rows: int) -> None:
    """Where the shape of the result is not declared, so that it may be that of the value which is read last here."""
    b = ModelBuilder()
    main, *branches = (Graph(b.subgraph(name)) for name in ("main", "then", "else"))
    for g in branches:
        x = g.builder.input("x", DType.FLOAT32, (rows, 4))
        added = g(Add(), x, g.builder.constant(np.arange(4, dtype=np.float32)))
        g.builder.output(g(ReverseV2(), added, g.ints(0)) if g is branches[0] else added)
    x = main.builder.input("x", DType.FLOAT32, (rows, 4))
    is_positive = main(Greater(), main(Sum(), x, main.ints(0, 1)), main.number(0.0), dtype=DType.BOOL)
    main.builder.output(main(If(1, 2), is_positive, x))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for sign in (1, -1):
        given = sign * np.abs(floats(5, 4))
        graphs.assert_equal(native.invoke(0, [given]), cpu.invoke(0, [given]))


RATES = """g (float[n, k] x, bool flag) => (float[n, 2] y) {
    y = If(flag)<then_branch = wide () => (float[n, 2] one) {
        w = Constant<value = float[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}>() wide_x = Tanh(x) one = MatMul(wide_x, w) },
                 else_branch = narrow () => (float[n, 2] other) {
        v = Constant<value = float[3, 2] {8, 7, 6, 5, 4, 3}>() other = MatMul(x, v) }> }"""
"""As a detector of voices has a branch for each rate, of windows as long as that has them."""


def test_the_only_branch_that_can_be_computed(folder: Path, compiled: list[str], tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import parse

    path = tmp_path / "model.onnx"
    path.write_bytes(parse(RATES, 17))
    native, cpu = (circlet.Session(path, each) for each in ("native", "cpu"))
    for n, is_wide in ((5, True), (2, False), (9, True), (1, False), (7, False), (1, True)):
        given = [floats(n, 4 if is_wide else 3), np.array(is_wide)]
        check(native.run(given)["y"], cpu.run(given)["y"], 1e-5)
    assert len(compiled) == 2
    for n, is_wide in ((5, True), (4, False)):
        with pytest.raises(circlet.CircletError, match=r"MATMUL|FULLY_CONNECTED"):
            native.run([floats(n, 3 if is_wide else 4), np.array(is_wide)])
    second = circlet.Session(path, "native")
    second.run([floats(6, 4), np.array(True)])
    assert is_prepared(second)
