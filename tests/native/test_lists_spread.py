"""Lists that loops and branches fill, and pieces that they read by position, are part of the code for any lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import StablehloCase
from circlet.runtime.ops.sequence import SequenceConcat, SequenceConstruct
from circlet.runtime.passes.pipelines import INTERPRETED
from circlet.runtime.passes.transforms.lists.spread_lists import spread_lists
from tests.native.test_lengths import floats
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

NUMBERS = """zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>()
    three = Constant<value = int64 {3}>() none = Constant<value = int64[1] {0}>()
    yes = Constant<value = bool {1}>() least = Constant<value = int64 {-1}>()"""
HEAD = "g (float[b, t, 2] x, int64[k] lengths) => (float[m, r, s] y) {" + NUMBERS + """
    size = Shape(x) first = Gather(size, zero) steps = Gather(size, one) state = ReduceSum<keepdims = 0>(x, ones)
    ones = Constant<value = int64[1] {1}>() """
TURN = "(int64 i, bool c, float[b, 2] v, seq(float) items) => (bool more, float[n, 2] next, seq(float) longer)"
ROW = "more = Identity(yes) row = Gather<axis = 1>(x, i) sum = Add(v, row) next = Tanh(sum) "
LOOP = HEAD + "list = SequenceEmpty() last, all = Loop(steps, yes, state, list)<body = body " + TURN + " {"


def rows(x: np.ndarray) -> list[np.ndarray]:
    """What the state is after each turn."""
    found, state = list[Any](), x.sum(1)
    for k in range(x.shape[1]):
        state = np.tanh(state + x[:, k])
        found.append(state)
    return found


def attending(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Each state has the sum of all before added."""
    found, state = list[Any](), x.sum(1)
    for k in range(x.shape[1]):
        state = np.tanh(state + x[:, k])
        if found:
            state = state + np.stack(found, 1).sum(1)
        found.append(state)
    return np.stack(found, 1)


def looking_back(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Each state has the one three turns before added."""
    found, state = list[Any](), x.sum(1)
    for k in range(x.shape[1]):
        state = np.tanh(state + x[:, k])
        if len(found) > 3:
            state = state + found[-3] + found[k - 3]
        found.append(state)
    return np.stack(found, 1)


def pieces(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The sum of each part of three columns."""
    return np.stack([x[:, k:k + 3].sum(1) for k in range(0, x.shape[1], 3)], 1)


def named(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The sum of parts of lengths that are given."""
    return np.stack([each.sum(1) for each in np.split(x, np.cumsum(lengths)[:-1], 1)], 1)


def chosen(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Every other row."""
    return np.stack(rows(x)[1::2], 1)


def joined(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Parts of three columns, squashed."""
    found: np.ndarray = np.tanh(x)
    return found


def windows(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Parts of four columns, each with what the one before ends with added."""
    found, state = list[Any](), x.sum(1)[:, None]
    for k in range(0, x.shape[1], 4):
        found.append(np.tanh(x[:, k:k + 4] + state))
        state = found[-1][:, -1:]
    return np.concatenate(found, 1)


def traced(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Which state is the greater one in each turn, last turn first, of lists that nothing joins."""
    return np.stack([each.argmax(-1) for each in rows(x)[::-1]], 1)[..., None].astype(np.float32)


def unpadded(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """What lengths say of each of the first rows, one behind another."""
    found = [x[k % len(x), :each] for k, each in enumerate(lengths)]
    joint: np.ndarray = np.tanh(np.concatenate(found))[None]
    return joint


def repeated(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Rows as often as is said of each."""
    found: np.ndarray = np.repeat(x[0, :len(lengths)], lengths, 0)[None]
    return found


def paired(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The sum of each two rows, of which turns say where they begin."""
    return np.stack([x[0, k:k + 2].sum(0) for k in range(0, x.shape[1] - 1, 2)])[None]


def summed(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Parts of lengths that are given, one behind another, then the sum of each."""
    found = np.split(np.tanh(x[0]), np.cumsum(lengths)[:-1])
    return np.concatenate([*found, np.stack([each.sum(0) for each in found])])[None]


STACK = "y = ConcatFromSequence<axis = 1, new_axis = 1>(all) }"
SPLIT = HEAD + """list = SplitToSequence<axis = 1>(x, BY) count = SequenceLength(list)
    z = Loop(count, yes)<body = body (int64 i, bool c) => (bool more, float[n, 2] sum) { more = Identity(yes)
        part = SequenceAt(list, i) sum = ReduceSum<keepdims = 0>(part, ones) }> y = Transpose<perm = [1, 0, 2]>(z) }"""
CASES: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "attending": (LOOP + ROW.replace("next =", "new =") + """some = Greater(i, zero)
        next = If(some)<then_branch = then () => (float[n, 2] with) {
            all_of = ConcatFromSequence<axis = 1, new_axis = 1>(items) sums = ReduceSum<keepdims = 0>(all_of, ones)
            with = Add(new, sums) },
            else_branch = else () => (float[n, 2] same) { same = Identity(new) }>
        longer = SequenceInsert(items, next) }> """ + STACK, attending),
    "looking back": (LOOP + ROW.replace("next =", "new =") + """
        count = SequenceLength(items) some = Greater(count, three)
        next = If(some)<then_branch = then () => (float[n, 2] with) { back = Sub(i, three) behind = Neg(three)
            one_of = SequenceAt(items, behind) other = SequenceAt(items, back) both = Add(one_of, new)
            with = Add(both, other) },
            else_branch = else () => (float[n, 2] same) { same = Identity(new) }>
        longer = SequenceInsert(items, next) }> """ + STACK, looking_back),
    "pieces": (SPLIT.replace("BY", "three"), pieces),
    "named": (SPLIT.replace("BY", "lengths"), named),
    "chosen": (LOOP + ROW + """two = Add(one, one) rest = Mod(i, two) odd = Equal(rest, one)
        longer = If(odd)<then_branch = then () => (seq(float) with) { with = SequenceInsert(items, next) },
            else_branch = else () => (seq(float) same) { same = Identity(items) }> }> """ + STACK, chosen),
    "windows": (HEAD + """list = SequenceEmpty() start = Unsqueeze(state, ones) four = Constant<value = int64 {4}>()
        more_of = Add(steps, three) count = Div(more_of, four) last, all = Loop(count, yes, start, list)<body = body
            (int64 i, bool c, float[b, 1, 2] v, seq(float) items) => (bool more, float[n, 1, 2] next, seq(float) longer)
            { more = Identity(yes) from = Mul(i, four) to = Add(from, four) begin = Reshape(from, ones)
            end = Reshape(to, ones) part = Slice(x, begin, end, ones) sum = Add(part, v) z = Tanh(sum)
            minus = Reshape(least, ones) great = Constant<value = int64[1] {9223372036854775807}>()
            next = Slice(z, minus, great, ones) longer = SequenceInsert(items, z) }>
        y = ConcatFromSequence<axis = 1>(all) }""", windows),
    "unpadded": (HEAD + """many = Shape(lengths) often = Gather(many, zero) list = SequenceEmpty()
        all = Loop(often, yes, list)<body = body (int64 i, bool c, seq(float) items) => (bool more, seq(float) longer) {
            more = Identity(yes) at = Mod(i, first) row = Gather(x, at) count = Gather(lengths, i)
            end = Reshape(count, ones) axis = Reshape(zero, ones) part = Slice(row, none, end, axis)
            longer = SequenceInsert(items, part) }>
        rows_of = ConcatFromSequence<axis = 0>(all) z = Tanh(rows_of) y = Unsqueeze(z, none) }""", unpadded),
    "repeated": (HEAD + """many = Shape(lengths) often = Gather(many, zero) list = SequenceEmpty()
        each = ConstantOfShape<value = int64[1] {1}>(many) counts = SplitToSequence<axis = 0>(lengths, each)
        width = Reshape(steps, ones) every = ConstantOfShape<value = int64[1] {1}>(width) of = Gather(x, zero)
        parts = SplitToSequence<axis = 0>(of, every)
        all = Loop(often, yes, list)<body = body (int64 i, bool c, seq(float) items) => (bool more, seq(float) longer) {
            more = Identity(yes) count = SequenceAt(counts, i) part = SequenceAt(parts, i) row = Unsqueeze(part, ones)
            two = Constant<value = int64[1] {2}>() size = Concat<axis = 0>(ones, count, two) rank = Shape(size)
            unit = ConstantOfShape<value = int64[1] {1}>(rank) minus = Neg(unit) same = Equal(size, minus)
            wanted = Where(same, unit, size) wide = Expand(row, wanted) flat = Constant<value = int64[2] {-1, 2}>()
            rows = Reshape(wide, flat) longer = SequenceInsert(items, rows) }>
        rows_of = ConcatFromSequence<axis = 0>(all) y = Unsqueeze(rows_of, none) }""", repeated),
    "paired": (HEAD + """list = SequenceEmpty() of = Gather(x, zero)
        last, all = Loop(steps, yes, zero, list)<body = body (int64 i, bool c, int64 at, seq(float) items)
            => (bool more, int64 start, seq(float) longer) { more = Identity(yes) next = Add(i, one)
            two = Add(one, one) rest = Mod(i, two) odd = Equal(rest, one)
            start, longer = If(odd)<then_branch = then () => (int64 end, seq(float) with) { end = Identity(next)
                    from = Reshape(at, ones) to = Reshape(next, ones) part = Slice(of, from, to, none)
                    sum = ReduceSum<keepdims = 0>(part, none) with = SequenceInsert(items, sum) },
                else_branch = else () => (int64 same, seq(float) still) { same = Identity(at)
                    still = Identity(items) }> }>
        z = ConcatFromSequence<axis = 0, new_axis = 1>(all) y = Unsqueeze(z, none) }""", paired),
    "summed": (HEAD + """many = Shape(lengths) often = Gather(many, zero) list = SequenceEmpty() other = SequenceEmpty()
        of = Gather(x, zero) last, parts, all = Loop(often, yes, zero, list, other)<body = body
            (int64 i, bool c, int64 at, seq(float) items, seq(float) sums)
            => (bool more, int64 end, seq(float) longer, seq(float) further) { more = Identity(yes)
            count = Gather(lengths, i) end = Add(at, count) from = Reshape(at, ones) to = Reshape(end, ones)
            part = Slice(of, from, to, none) z = Tanh(part) like = Shape(part) row = Reshape(z, like)
            longer = SequenceInsert(items, row) sum = ReduceSum<keepdims = 0>(row, none)
            further = SequenceInsert(sums, sum) }>
        rows_of = ConcatFromSequence<axis = 0>(parts) sums_of = ConcatFromSequence<axis = 0, new_axis = 1>(all)
        both = Concat<axis = 0>(rows_of, sums_of) y = Unsqueeze(both, none) }""", summed),
    "traced": (LOOP.replace("seq(float)", "seq(int64)").replace("Empty()", "Empty<dtype = 7>()") + ROW + """
        kind = ArgMax<axis = 1, keepdims = 0>(next) longer = SequenceInsert(items, kind) }>
        z = Loop(steps, yes)<body = back (int64 j, bool d) => (bool again, float[n] part) { again = Identity(yes)
            of = SequenceLength(all) end = Sub(of, one) at = Sub(end, j) found = SequenceAt(all, at)
            part = Cast<to = 1>(found) }>
        turned = Transpose<perm = [1, 0]>(z) minus = Reshape(least, ones) y = Unsqueeze(turned, minus) }""", traced),
    "joined": (HEAD + """
        list = SequenceEmpty() parts = SplitToSequence<axis = 1>(x, three) count = SequenceLength(parts)
        all = Loop(count, yes, list)<body = body (int64 i, bool c, seq(float) items) => (bool more, seq(float) longer) {
            more = Identity(yes) part = SequenceAt(parts, i) z = Tanh(part) longer = SequenceInsert(items, z) }>
        y = ConcatFromSequence<axis = 1>(all) }""", joined),
}
SIZES = ((2, 7), (3, 40), (1, 6), (4, 2), (2, 100), (2, 7), (1, 3))


def given(name: str, size: tuple[int, int]) -> dict[str, Any]:
    batch, length = size
    x = np.random.default_rng(size).standard_normal((batch, length, 2)).astype(np.float32)
    return {"x": x, "lengths": np.array([length // 2, length - length // 2], np.int64)}


def names(model: Model) -> set[str]:
    """Of all operators."""
    return {each.name for graph in model.subgraphs for each in graph.operators}


def runs(name: str) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Inputs, and what y is of them."""
    inputs = [given(name, size) for size in SIZES]
    return [(each, CASES[name][1](each["x"], each["lengths"])) for each in inputs]


def expect(session: circlet.Session, wanted: Sequence[tuple[dict[str, Any], np.ndarray]], tolerance: float) -> None:
    """Of a model with the result y."""
    for inputs, y in wanted:
        np.testing.assert_allclose(session.run(inputs)["y"], y, tolerance, tolerance)


def expect_tensors(model: Model, operators: set[str], wanted: Sequence[tuple[dict[str, Any], np.ndarray]],
                   tolerance: float) -> None:
    """As `expect` by numpy, of a model with lists and of what it becomes, which has one of some operators."""
    changed = spread_lists(INTERPRETED.run(model))
    assert names(changed) & operators
    for each in (model, changed):
        expect(circlet.Session(each, "cpu"), wanted, tolerance)


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    expect(circlet.Session(load(CASES[name][0], 17), "native"), runs(name), 1e-4)
    assert len(compiled) == 1


def test_a_model_of_one_batch_that_says_any_is_one_function(folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(CASES["repeated"][0].replace("of = Gather(x, zero)", "of = Squeeze(x, none)"), 17),
                              "native")
    for _, length in SIZES:
        inputs = given("", (1, length))
        np.testing.assert_array_equal(session.run(inputs)["y"], repeated(inputs["x"], inputs["lengths"]))
    assert len(compiled) == 1


def test_lengths_that_must_be_equal_need_no_common_name(folder: Path, compiled: list[str]) -> None:
    """Of rows, and of a mask of each row's steps."""
    text = CASES["traced"][0].replace("next = Tanh(sum)", """new = Tanh(sum) steps_of = Gather<axis = 1>(valid, i)
        are = Unsqueeze(steps_of, ones) next = Where(are, new, v)""").replace("int64[k] lengths", "bool[c, s] valid")
    session = circlet.Session(load(text, 17), "native")
    for size in SIZES:
        x = given("", size)["x"]
        valid = np.arange(size[1]) < np.arange(1, size[0] + 1)[:, None]
        found, state = list[Any](), x.sum(1)
        for k in range(size[1]):
            state = np.where(valid[:, k, None], np.tanh(state + x[:, k]), state)
            found.append(state.argmax(-1))
        np.testing.assert_array_equal(session.run({"x": x, "valid": valid})["y"][..., 0], np.stack(found[::-1], 1))
    assert len(compiled) == 1


@pytest.mark.parametrize("first", [3, 2], ids=["alike at first", "others at first"])
def test_elements_may_differ_where_other_lengths_must_be_equal(first: int, folder: Path) -> None:
    """Of x, which is multiplied by some others as long, and of y."""
    session = circlet.Session(load(f"g (float[a, 2] x, float[b, 2] by, float[c, 2] y, int64 k) => (float[e, 2] z) {{"
                                   f"{NUMBERS}" + """
        all = Mul(x, by) list = SequenceConstruct(all, y) longer = Loop(k, yes, list)<body = body
            (int64 i, bool c, seq(float) items) => (bool more, seq(float) longer) { more = Identity(yes)
            one_of = SequenceAt(items, i) new = Tanh(one_of) longer = SequenceInsert(items, new) }>
        z = SequenceAt(longer, k) }""", 17), "native")
    for k, (rows, others) in enumerate(((3, first), (4, 2), (3, 3), (1, 5), (2, 1))):
        x, by, y = floats(rows, 2), floats(rows, 2), floats(others, 2)
        found = [x * by, y]
        for i in range(k):
            found.append(np.tanh(found[i]))
        inputs = {"x": x, "by": by, "y": y, "k": np.array(k)}
        np.testing.assert_allclose(session.run(inputs)["z"], found[k], 1e-6)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_lists(name: str) -> None:
    expect_tensors(load(CASES[name][0], 17), {"LIST_APPEND", "LIST_PART"}, runs(name), 1e-4)


@pytest.mark.parametrize(("lengths", "message"), [
    ([3, 3], "expected lengths that sum to 7"), ([8, -1], "expected lengths that sum to 7")])
def test_lengths_that_do_not_fit_are_errors(lengths: Sequence[int], message: str, folder: Path) -> None:
    text, expected = CASES["named"]
    session = circlet.Session(load(text, 17), "native")
    x = floats(2, 7, 2)
    for _ in range(2):
        good = np.array([3, 4], np.int64)
        np.testing.assert_allclose(session.run({"x": x, "lengths": good})["y"], expected(x, good), 1e-4, 1e-4)
        with pytest.raises(circlet.CircletError, match=message):
            session.run({"x": x, "lengths": np.array(lengths, np.int64)})


RAGGED = HEAD + """list = SequenceEmpty() all = Loop(steps, yes, list)<body = body (int64 i, bool c, seq(float) items)
    => (bool more, seq(float) longer) { more = Identity(yes) next = Add(i, one) end = Reshape(next, ones)
        part = Slice(x, none, end, ones) longer = SequenceInsert(items, part) }> y = SequenceAt(all, one) }"""


def test_elements_of_several_shapes_stay_lists(folder: Path) -> None:
    model = load(RAGGED, 17)
    inputs = given("", (2, 5))
    np.testing.assert_array_equal(circlet.Session(model, "native").run(inputs)["y"], inputs["x"][:, :2])
    np.testing.assert_array_equal(circlet.Session(model, "native").run(given("", (3, 70)))["y"].shape, (3, 2, 2))


def test_lists_that_go_elsewhere_stay() -> None:
    """Which of several branches has the list is said by a number."""
    b = ModelBuilder()
    main = b.subgraph("main")
    branches = [b.subgraph(f"branch {k}") for k in range(2)]
    for each in branches:
        each.output(each.input("items", DType.VARIANT, ()))
    number, x = main.input("number", DType.INT32, ()), main.input("x", DType.FLOAT32, (3, 2))
    items = main.op(SequenceConstruct(), x, x, outputs=[Tensor("items", DType.VARIANT, ())])[0]
    case = StablehloCase(tuple(each.index for each in branches))
    same = main.op(case, number, items, outputs=[Tensor("same", DType.VARIANT, ())])[0]
    main.output(*main.op(SequenceConcat(0, True), same, outputs=[Tensor("y", DType.FLOAT32, (2, 3, 2))]))
    model = b.build()
    assert spread_lists(model) is model
    given = floats(3, 2)
    np.testing.assert_array_equal(circlet.Session(model, "native").invoke(0, [np.int32(1), given])[0],
                                  [given, given])


@pytest.mark.parametrize("read", ["", "count = SequenceLength(items) "], ids=["collected", "spread"])
def test_errors_name_the_operators_of_the_model(read: str) -> None:
    """Of a row behind the last one, which the model reads in a turn."""
    model = load(LOOP + ROW.replace("x, i)", "x, at)").replace("row =", "at = Gather(lengths, i) row =") + read + """
        longer = SequenceInsert(items, next) }> """ + STACK)
    found = []
    for backend in ("cpu", "native"):
        session = circlet.Session(model, backend)
        with pytest.raises(circlet.ExecutionError) as error:
            session.run({"x": floats(2, 3, 2), "lengths": np.array([0, 1, 9])})
        found.append(str(error.value))
    number = next(k for k, each in enumerate(model.subgraphs) if each.name == "body")
    assert found[0] == found[1]
    assert found[0].startswith(f"subgraph {number} ('body'), operator ")
    assert found[0].endswith("(GATHER): index 9 is out of range for an axis of size 3")
