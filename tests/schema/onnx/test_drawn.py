"""Models that were drawn by chance, as short as still shows what was wrong, at one length after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.types import Array
from tests.native.conftest import compiled as compiled
from tests.needs import NATIVE
from tests.schema.onnx.graphs import parse, same

BRANCH = """g (float[n] x, float[m] z, int64 t, bool c, float[k] w) => (float[?] y) {
    sizes = Shape(x) most = Constant<value = int64 {8}>() few = Less(sizes, most)
    rows = If(few)<then_branch = then () => (float[p, q] a) {
        yes = Constant<value = bool {1}>()
        last, all = Loop(t, yes, x)<body = body (int64 i, bool d, float[r] s) => (bool e, float[r2] s2, float[r3] s3) {
            e = Identity(d) s2 = Identity(s) s3 = Neg(s) }> shape = Shape(all) a = ConstantOfShape(shape) },
      else_branch = else () => (float[p, q] b) { is = NonZero(z) b = Gather(z, is) }>
    y = If(c)<then_branch = then2 () => (float[u] f) {
            axis = Constant<value = int64[1] {0}>() f = ReduceSum<keepdims = 0>(rows, axis) },
        else_branch = else2 () => (float[u] h) { h = Neg(w) }> }"""
"""A branch that lengths rule out, in which a run tells a length."""
IN_PLACE = """g (int64[a, b] x, int64 m) => (float[n] y) {
    none = Constant<value = float {0.5}>() yes = Constant<value = bool {1}>()
    last, rows = Loop(m, yes, x)<body = body (int64 i, bool c, int64[p, q] s)
        => (bool d, int64[p, q] t, int64[p, q] u) { d = Identity(c) t = Identity(s) u = Identity(s) }>
    more = Loop(m, yes, rows)<body = body2 (int64 i2, bool c2, int64[o, p, q] s2) => (bool d2, int64[o, p, q] t2) {
        list = SequenceConstruct(s2, s2) one = Constant<value = int64 {1}>() t2 = Add(s2, one) d2 = Identity(c2) }>
    end, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], body = body3 (float s3, int64[o, q] e)
        => (float t3, float v) { t3 = Identity(s3) v = Identity(s3) }>(none, more) }"""
"""A value that a loop carries, as many bytes as the number of the turn if it has one element."""
SORTED = """g (float[t, b, 2] x) => (float[t, d, b, h] y) {
    sizes = Shape(x) zero = Constant<value = int64[1] {0}>() steps = Gather(sizes, zero)
    big, at = TopK<axis = 0>(x, steps) r = Constant<value = float[1, 3, 1] {0.5, -1.0, 0.25}>()
    w = Constant<value = float[1, 3, 2] {0.5, 1.0, -1.0, 0.25, 2.0, 0.5}>() y = GRU<hidden_size = 1>(big, w, r) }"""
"""A recurrent network over as many steps as a run tells."""

ENLARGED = """g (float[n, 1, 31, 6] x) => (float[n, 4, h, w] y) {
    one = Constant<value = int64[4] {1, 2, 3, 4}>() k = ConstantOfShape<value = float[1] {0.5}>(one)
    two = Constant<value = int64[4] {4, 2, 2, 3}>() l = ConstantOfShape<value = float[1] {0.25}>(two)
    three = Constant<value = int64[4] {4, 4, 2, 2}>() m = ConstantOfShape<value = float[1] {-0.5}>(three)
    big = ConvTranspose<pads = [1, 1, 0, 1], strides = [2, 1]>(x, k) small = Conv<strides = [3, 3]>(big, l)
    y = ConvTranspose<pads = [0, 1, 0, 1]>(small, m) }"""
"""An image of unknown size and number of channels, of which sizes that other operands have fit two."""

LISTED = """g (float[n, 2] x, float[m, 2] z) => (float[k, 2] y, float[2, n, 2] w, int64 count, float[n, 2] last) {
    two = Neg(x) list = SequenceConstruct(x, z) place = Constant<value = int64 {-1}>()
    more = SequenceInsert(list, two, place) all = SequenceInsert(more, z) y = ConcatFromSequence<axis = 0>(all)
    count = SequenceLength(all) one = Constant<value = int64 {1}>() last = SequenceAt(all, one)
    none = SequenceEmpty() first = SequenceInsert(none, x) both = SequenceInsert(first, last)
    w = ConcatFromSequence<axis = 0, new_axis = 1>(both) }"""
"""Lists of tensors that are named one by one."""
ERASED = """g (float[n, 2] x, float[m, 2] z) => (float[k, 2] y, float[j, 2] w, bool has, bool none) {
    list = SequenceConstruct(x, z, x) zero = Constant<value = int64 {0}>() fewer = SequenceErase(list, zero)
    y = ConcatFromSequence<axis = 0>(fewer) one = SequenceErase(fewer) w = ConcatFromSequence<axis = 0>(one)
    maybe = Optional(z) has = OptionalHasElement(maybe) none = Not(has) }"""
"""A list of which tensors are taken, and an optional that has one."""
HELD = """g (float[n, 2] x) => (float[n, 2] y) {
    some = Optional(x) held = OptionalGetElement(some) y = Neg(held) }"""
"""What an optional has."""
CUT = """g (float[n, 2, m] x) => (float[n, 2, m] y, float[2, m, n] w, float[n, 2, m] z, float[2, k] u, float[l, 2] v) {
    kept = SplitToSequence<axis = 0>(x) y = ConcatFromSequence<axis = -3>(kept)
    rows = SplitToSequence<axis = 0, keepdims = 0>(x) w = ConcatFromSequence<axis = -1, new_axis = 1>(rows)
    again = SplitToSequence<axis = -1, keepdims = 0>(x) z = ConcatFromSequence<axis = 2, new_axis = 1>(again)
    u = ConcatFromSequence<axis = -1>(rows) v = ConcatFromSequence<axis = 0>(again) }"""
"""Tensors that are cut and joined again."""
UNUSED = """g (float[n, 2] x, int64 m) => (float[n, 2] y) {
    yes = Constant<value = bool {1}>()
    y = Loop(m, yes, x)<body = body (int64 i, bool c, float[p, 2] s) => (bool d, float[p, 2] t) {
        list = SequenceConstruct(s, x) four = SequenceLength(list) t = Add(s, x) d = Identity(c) }> }"""
"""A list in a loop that nothing reads."""

EMPTY = """g (int64[1] e, bool[k] m, int64[12, a, b] x) => (int64[12, c, d, f] y) {
    zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
    at = NonZero(m) rows = Gather<axis = 2>(x, at) y = Slice(rows, zero, e, one) }"""
"""No rows of none, of which the run tells how many there are."""

CARRIED = """g (float[n, 3] x, bool[k] m, float[t, b] z) => (float[a, 3] y, float[t, b] w) {
    at = NonZero(m) axis = Constant<value = int64[1] {0}>() rows = Squeeze(at, axis) state = Gather(x, rows)
    y, w = Scan<num_scan_inputs = 1, body = body (float[a, 3] s, float[b] row) => (float[a, 3] r, float[b] out) {
        r = Add(s, s) out = Neg(row) }>(state, z) }"""
"""A Scan that carries what has a length that the run tells."""


@dataclass(frozen=True)
class Drawn:
    """A graph, the element type of each input, and the shapes of all, of several runs."""

    id: str
    text: str
    types: Mapping[str, str]
    shapes: Sequence[Sequence[Sequence[int]]]
    opset: int = 16
    is_whole: bool = False
    """Whether one function is to serve all these shapes."""

    def __str__(self) -> str:
        return self.id

    def inputs(self) -> Sequence[Mapping[str, Array]]:
        """Those of each run: small numbers, as ONNX Runtime ends where a Scan has no slices."""
        draw = np.random.default_rng(3)
        return [{name: np.asarray(draw.integers(1, 4, shape) % (2 if dtype == "?" else 4), dtype)
                 for (name, dtype), shape in zip(self.types.items(), run, strict=True)} for run in self.shapes]


TWO = [[[5, 2], [3, 2]], [[3, 2], [7, 2]], [[4, 2], [9, 2]]]
CASES = [
    Drawn("a branch that is not taken", BRANCH, {"x": "f4", "z": "f4", "t": "i8", "c": "?", "w": "f4"},
          [[[5], [3], [], [], [4]], [[4], [9], [], [], [3]], [[12], [7], [], [], [2]]]),
    Drawn("what lies where", IN_PLACE, {"x": "i8", "m": "i8"},
          [[[1, 1], []], [[2, 3], []], [[1, 1], []], [[3, 1], []]]),
    Drawn("no images", ENLARGED, {"x": "f4"}, [[[0, 1, 31, 6]], [[2, 1, 31, 6]]]),
    Drawn("no rows", EMPTY, {"e": "i8", "m": "?", "x": "i8"},
          [[[1], [3], [12, 2, 3]], [[1], [0], [12, 0, 0]], [[1], [0], [12, 4, 2]]]),
    Drawn("a told length is carried", CARRIED, {"x": "f4", "m": "?", "z": "f4"},
          [[[5, 3], [5], [4, 2]], [[9, 3], [9], [3, 7]], [[4, 3], [3], [2, 2]]], is_whole=True),
    Drawn("a list", LISTED, {"x": "f4", "z": "f4"}, TWO, is_whole=True),
    Drawn("an erased list", ERASED, {"x": "f4", "z": "f4"}, TWO, opset=18, is_whole=True),
    Drawn("an optional", HELD, {"x": "f4"}, [[[5, 2]], [[3, 2]], [[9, 2]]], opset=18, is_whole=True),
    Drawn("cut and joined", CUT, {"x": "f4"}, [[[5, 2, 3]], [[3, 2, 7]], [[4, 2, 9]]], is_whole=True),
    Drawn("an unused list", UNUSED, {"x": "f4", "m": "i8"}, [[[5, 2], []], [[3, 2], []], [[9, 2], []]], is_whole=True),
    Drawn("sorted steps", SORTED, {"x": "f4"}, [[[5, 1, 2]], [[3, 4, 2]], [[1, 2, 2]]]),
]


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_those_of_onnxruntime(case: Drawn, backend: str) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    data = parse(case.text, case.opset)
    peer, session = ort.InferenceSession(data), circlet.Session(circlet.load(data), backend=backend)
    for given in case.inputs():
        for one, other in zip(session.run(given).values(), peer.run(None, given), strict=True):
            same(one, other)


@pytest.mark.parametrize("case", [each for each in CASES if each.is_whole], ids=str)
@NATIVE
def test_one_function_serves_all_lengths(case: Drawn, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    session = circlet.Session(circlet.load(parse(case.text, case.opset)), backend="native")
    for given in case.inputs():
        session.run(given)
    assert len(compiled) == 1


@pytest.mark.parametrize("case", [each for each in CASES if each.text in (LISTED, ERASED, HELD)], ids=str)
@NATIVE
def test_lists_that_are_named_one_by_one_need_no_host(case: Drawn) -> None:
    session = circlet.Session(circlet.load(parse(case.text, case.opset)), backend="native")
    session.run(case.inputs()[0])
    assert {*session.backend_of(0)} - {"none"} == {"native"}
