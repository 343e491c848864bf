"""Lists of elements that were joined of other lists, that branches make, or that a run finds, are part of the code for
any lengths, along the axis on which they differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet import session as sessions
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.model import Model
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = """g (float[b, t, c] x, int64[b, t] d) => (float[m, r, s] y) {
    zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() ones = Constant<value = int64[1] {1}>()
    none = Constant<value = int64[1] {0}>() yes = Constant<value = bool {1}>() half = Constant<value = float {0.5}>()
    empty = SequenceEmpty() size = Shape(x) batch = Gather(size, zero) steps = Gather(size, one) """
OUTER = """list = Loop(batch, yes, empty)<body = outer (int64 i, bool c, seq(float) items)
    => (bool more, seq(float) longer) { more = Identity(yes) image = Gather(x, i) counts = Gather(d, i) """
INNER = """first = SequenceEmpty() rows = Loop(steps, yes, first)<body = inner (int64 j, bool q, seq(float) given)
    => (bool goes, seq(float) taken) { goes = Identity(yes) row = Gather(image, j) n = Gather(counts, j)
    times = Reshape(n, ones) BODY }> """
ROWS = """flat = Unsqueeze(row, none) shape = Concat<axis = 0>(times, ones) part = Expand(flat, shape)
    taken = SequenceInsert(given, part) """
COLUMNS = """flat = Unsqueeze(row, ones) shape = Concat<axis = 0>(ones, times) part = Expand(flat, shape)
    taken = SequenceInsert(given, part) """
PUT = " longer = SequenceInsert(items, z) }> "
PADDED = """many = SequenceLength(list) most = Loop(many, yes, zero)<body = sizes (int64 k, bool c, int64 least)
    => (bool more, int64 greater) { more = Identity(yes) one_of = SequenceAt(list, k) its = Shape(one_of)
    length = Gather(its, AXIS) greater = Max(least, length) }> begun = SequenceEmpty()
    all = Loop(many, yes, begun)<body = pads (int64 k, bool c, seq(float) done) => (bool more, seq(float) padded) {
    more = Identity(yes) one_of = SequenceAt(list, k) its = Shape(one_of) length = Gather(its, AXIS)
    lacking = Sub(most, length) rest = Reshape(lacking, ones) edges = Concat<axis = 0>(none, none, REST)
    whole = Pad(one_of, edges) padded = SequenceInsert(done, whole) }>
    y = ConcatFromSequence<axis = 0, new_axis = 1>(all) }"""
OF_ROWS = PADDED.replace("AXIS", "zero").replace("REST", "rest, none")
OF_COLUMNS = PADDED.replace("AXIS", "one").replace("REST", "none, rest")
REPEATED = HEAD + OUTER + INNER.replace("BODY", ROWS)
SKIPPED = HEAD + OUTER + INNER.replace("SequenceEmpty()", "SequenceConstruct(begin)").replace("first =", """
    begin = Slice(image, none, ones, none) first =""").replace("BODY", """is_none = Equal(n, zero)
    taken = If(is_none)<then_branch = no () => (seq(float) same) { same = Identity(given) },
    else_branch = some () => (seq(float) others) { """ + ROWS.replace("taken", "others") + "}>")
ATTENDED = """z1 = ConcatFromSequence<axis = 0>(rows) turned = Transpose<perm = [1, 0]>(z1) scores = MatMul(z1, turned)
    weights = Softmax(scores) z = MatMul(weights, z1) """
BRANCHED = HEAD + OUTER + """count = Gather(counts, zero) end = Reshape(count, ones) short = Less(count, steps)
    longer = If(short)<then_branch = fewer () => (seq(float) cut) { part = Slice(image, none, end, none)
    cut = SequenceInsert(items, part) }, else_branch = twice () => (seq(float) more_of) {
    both = Concat<axis = 0>(image, image) more_of = SequenceInsert(items, both) }> }> """
FOUND = HEAD + """level = Gather<axis = 2>(x, zero) image = Gather(x, zero) its = Gather(level, zero)
    above = Greater(its, half) below = Less(its, half) a = Compress<axis = 0>(image, above)
    b = Compress<axis = 0>(image, below) list = SequenceConstruct(a, b) """

Rows = Callable[[np.ndarray, np.ndarray], list[np.ndarray]]


def padded(elements: list[np.ndarray], axis: int) -> np.ndarray:
    """Elements with zeros behind them up to the longest, stacked."""
    most = max((each.shape[axis] for each in elements), default=0)
    edges = [[(0, most - each.shape[axis] if k == axis else 0) for k in range(2)] for each in elements]
    return np.stack([np.pad(*each) for each in zip(elements, edges, strict=True)])


def repeated(x: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """Rows as often as is said."""
    return [np.repeat(*each, axis=0) for each in zip(x, d, strict=True)]


def columns(x: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """The same of columns, as which the rows are."""
    return [each.T for each in repeated(x, d)]


def attended(x: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """Means of such rows, by how alike they are."""
    found = []
    for each in repeated(x, d):
        scores = np.exp(each @ each.T)
        found.append(scores / scores.sum(1, keepdims=True) @ each)
    return found


def begun(x: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """Rows as often as is said, behind the first one."""
    return [np.concatenate([image[:1], each]) for image, each in zip(x, repeated(x, d), strict=True)]


def branched(x: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """Some first rows, or all of them twice."""
    return [each[:k] if k < len(each) else np.concatenate([each, each]) for each, k in zip(x, d[:, 0], strict=True)]


def found(x: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """The rows of the first image that begin with more than a half, and with less."""
    return [x[0][x[0, :, 0] > 0.5], x[0][x[0, :, 0] < 0.5]]


CASES: dict[str, tuple[str, Rows, int]] = {
    "rows": (REPEATED + "z = ConcatFromSequence<axis = 0>(rows)" + PUT + OF_ROWS, repeated, 0),
    "rows, of a known number of columns": (
        REPEATED.replace("t, c]", "t, 4]") + "z = ConcatFromSequence<axis = 0>(rows)" + PUT + OF_ROWS, repeated, 0),
    "columns": (HEAD + OUTER + INNER.replace("BODY", COLUMNS) + "z = ConcatFromSequence<axis = -1>(rows)" + PUT
                + OF_COLUMNS, columns, 1),
    "computed of rows": (REPEATED + "joined = ConcatFromSequence<axis = 0>(rows) z = Tanh(joined)" + PUT + OF_ROWS,
                         lambda x, d: list(map(np.tanh, repeated(x, d))), 0),
    "attended": (REPEATED + ATTENDED + PUT + OF_ROWS, attended, 0),
    "skipped": (SKIPPED + "z = ConcatFromSequence<axis = 0>(rows)" + PUT + OF_ROWS, begun, 0),
    "branched": (BRANCHED + OF_ROWS, branched, 0),
    "found": (FOUND + OF_ROWS, found, 0)}
SIZES = ((2, 3, 4), (3, 9, 4), (1, 1, 4), (4, 2, 4), (1, 17, 4), (2, 3, 4), (5, 4, 4))


def given(size: tuple[int, int, int]) -> dict[str, Any]:
    """So many images of so many rows, and how often each of these is taken."""
    random = np.random.default_rng(size)
    return {"x": random.standard_normal(size).astype(np.float32), "d": random.integers(1, 5, size[:2])}


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    text, of, axis = CASES[name]
    session = circlet.Session(load(text, 17), "native")
    for each in map(given, SIZES):
        np.testing.assert_allclose(session.run(each)["y"], padded(of(each["x"], each["d"]), axis), 1e-4, 1e-4)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", [each for each in CASES if each not in ("branched", "found")])
def test_rows_that_are_taken_no_times_are_left_out(name: str, folder: Path) -> None:
    text, of, axis = CASES[name]
    session, inputs = circlet.Session(load(text, 17), "native"), given((3, 5, 4))
    for times in (0, 1):
        inputs["d"][:, 1:4] = 0
        inputs["d"][1] = times
        np.testing.assert_allclose(session.run(inputs)["y"], padded(of(inputs["x"], inputs["d"]), axis), 1e-4, 1e-4)


def test_what_is_derived_of_a_model_answers_all_that_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Model] = []
    outlining = sessions._outlining

    def counted(model: Model) -> ExecutorMap | None:
        made.append(model)
        return outlining(model)

    monkeypatch.setattr(sessions, "_outlining", counted)
    circlet.Session(load(CASES["rows"][0], 17), "native")
    assert 0 < len(made) == len({id(each) for each in made})
