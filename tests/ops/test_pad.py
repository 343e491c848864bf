"""Operators that enlarge a tensor."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.pad import (
    Continuation,
    ContinuedPad,
    Dilate,
    MirrorPad,
    MirrorPadMode,
    Pad,
    PadV2,
    StablehloPad,
    Tile,
)
from tests.ops.arrays import const, f32, i8, i16, i64, strings, u8
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
V = np.arange(3, dtype=np.float32)
SYMMETRIC = MirrorPadMode.SYMMETRIC

PAD = [
    Case("constant", Pad(), [X, const([[1, 0], [0, 2]])], [np.pad(X, [(1, 0), (0, 2)])]),
    Case("run-time", Pad(), [X, i64([[1, 0], [0, 2]])], [np.pad(X, [(1, 0), (0, 2)])]),
    Case("none", Pad(), [X, const([[0, 0], [0, 0]])], [X]),
    Case("scalar", Pad(), [7.0, const(np.zeros((0, 2)))], [7.0]),
    Case("bool", Pad(), [[True], const([[1, 1]], np.int8)], [[False, True, False]]),
    Case("string", Pad(), [strings(b"x"), const([[1, 0]])], [strings(b"", b"x")]),
    Case("rank-6", Pad(), [np.ones((1,) * 6, np.int8), const([[0, 1]] * 6)],
         [np.pad(np.ones((1,) * 6, np.int8), [(0, 1)])]),
    Case("int8", Pad(), [T(i8([5]), q=q(0.5, -3)), const([[1, 1]])], [T(i8([-3, 5, -3]), q=q(0.5, -3))]),
    Case("int16", Pad(), [T(i16([5]), q=q(0.5)), const([[1, 1]])], [T(i16([0, 5, 0]), q=q(0.5))]),
    Case("int32", Pad(), [T([5], q=q(0.5, 3)), const([[1, 1]])], [T([0, 5, 0], q=q(0.5, 3))]),
    Case("negative", Pad(), [V, [[-1, 2]]], [V], error=r"not negative, found \[\(-1, 2\)\]"),
    Case("shape", Pad(), [X, [[1, 0]]], [X], error=r"paddings: expected shape \(2, 2\), found \(1, 2\)"),
    Case("value", PadV2(), [V, const([[1, 2]]), 9.0], [f32([9, 0, 1, 2, 9, 9])]),
    Case("vector", PadV2(), [V, [[0, 1]], [9.0]], [f32([0, 1, 2, 9])]),
    Case("string", PadV2(), [strings(b"x"), const([[1, 0]]), T(b"pad", DType.STRING)], [strings(b"pad", b"x")]),
    Case("quantised", PadV2(), [T(u8([5]), q=q(0.5, 3)), const([[1, 0]]), T(u8(7), q=q(0.5, 3))],
         [T(u8([7, 5]), q=q(0.5, 3))]),
    Case("values", PadV2(), [V, const([[1, 0]]), V], [V], error=r"padding value: expected exactly one .* \(3,\)"),
]

MIRROR = [
    Case("reflect", MirrorPad(), [V, const([[2, 1]])], [f32([2, 1, 0, 1, 2, 1])]),
    Case("symmetric", MirrorPad(SYMMETRIC), [V, const([[3, 2]])], [f32([2, 1, 0, 0, 1, 2, 2, 1])]),
    Case("axes", MirrorPad(), [X, i64([[1, 1], [0, 2]])], [np.pad(X, [(1, 1), (0, 2)], "reflect")]),
    Case("corners", MirrorPad(SYMMETRIC), [X, [[2, 1], [3, 3]]], [np.pad(X, [(2, 1), (3, 3)], "symmetric")]),
    Case("string", MirrorPad(SYMMETRIC), [strings(b"a", b"b"), const([[1, 1]])], [strings(b"a", b"a", b"b", b"b")]),
    Case("reflect-all", MirrorPad(), [V, const([[3, 0]])], [V], error=r"expected at most 2 for axis 0 of \(3,\)"),
    Case("symmetric-more", MirrorPad(SYMMETRIC), [V, [[0, 4]]], [V], error="expected at most 3 for axis 0"),
    Case("negative", MirrorPad(), [V, [[-1, 0]]], [V], error="paddings: expected counts that are not negative"),
]

CONTINUED = [
    Case("edge", ContinuedPad(Continuation.EDGE), [V, const([[2, 1]])], [f32([0, 0, 0, 1, 2, 2])]),
    Case("reflect", ContinuedPad(Continuation.REFLECT), [V, const([[2, 1]])], [f32([2, 1, 0, 1, 2, 1])]),
    Case("reflect-again", ContinuedPad(Continuation.REFLECT), [V, [[5, 6]]],
         [f32([1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0])]),
    Case("reflect-one", ContinuedPad(Continuation.REFLECT), [f32([7]), [[2, 1]]], [f32([7, 7, 7, 7])]),
    Case("wrap", ContinuedPad(Continuation.WRAP), [V, const([[1, 2]])], [f32([2, 0, 1, 2, 0, 1])]),
    Case("wrap-again", ContinuedPad(Continuation.WRAP), [V, [[4, 5]]], [f32([2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1])]),
    Case("cut", ContinuedPad(Continuation.EDGE), [X, [[-1, 1], [1, -2]]], [f32([[4, 4], [4, 4]])]),
    Case("beyond", ContinuedPad(Continuation.WRAP), [V, const([[-4, 3]])], [f32([1, 2])]),
    *(Case(f"far-{each.value}-{amounts[0]}", ContinuedPad(each), [V, const([amounts])], [f32(expected)])
      for each, amounts, expected in (
          (Continuation.REFLECT, (5, -6), [1, 0]), (Continuation.WRAP, (5, -6), [1, 2]),
          (Continuation.EDGE, (5, -6), [0, 0]), (Continuation.REFLECT, (-6, 5), [2, 1]),
          (Continuation.WRAP, (-6, 5), [0, 1]), (Continuation.EDGE, (-6, 5), [2, 2]))),
    Case("of a constant", ContinuedPad(Continuation.REFLECT), [const(f32([1, 2, 4]), np.float32), [[1, 2]]],
         [f32([2, 1, 2, 4, 2, 1])]),
    Case("axes", ContinuedPad(Continuation.WRAP), [X, i64([[1, 1], [0, 2]])], [np.pad(X, [(1, 1), (0, 2)], "wrap")]),
    Case("first", ContinuedPad(Continuation.EDGE), [X, [[1, 2], [0, 0]]], [np.pad(X, [(1, 2), (0, 0)], "edge")]),
    Case("string", ContinuedPad(Continuation.WRAP), [strings(b"a", b"b"), const([[1, 1]])],
         [strings(b"b", b"a", b"b", b"a")]),
    Case("nothing", ContinuedPad(Continuation.EDGE), [V[:0], const([[0, 0]])], [V[:0]]),
    Case("scalar", ContinuedPad(Continuation.EDGE), [f32(3), const(np.zeros((0, 2)))], [f32(3)]),
    Case("of-nothing", ContinuedPad(Continuation.EDGE), [V[:0], const([[1, 0]])], [V], error="elements to go on with"),
    Case("of-none", ContinuedPad(Continuation.WRAP), [V[:0], [[1, 0]]], [V], error="elements to go on with"),
    Case("over-cut", ContinuedPad(Continuation.EDGE), [V, [[-2, -2]]], [V], error="sizes that are not negative"),
    Case("shape", ContinuedPad(Continuation.EDGE), [X, [[1, 0]]], [X],
         error=r"expected shape \(2, 2\), found \(1, 2\)"),
]

SPREAD = [
    Case("edges", StablehloPad((1, -1), (2, 0), (1, 0)), [X, 9.0],
         [f32([[9, 9], [2, 3], [9, 9], [5, 6], [9, 9], [9, 9]])]),
    Case("cut-interior", StablehloPad((-1,), (-1,), (2,)), [V, 9.0], [f32([9, 9, 1, 9, 9])]),
    Case("all-cut", StablehloPad((-1,), (-2,), (0,)), [V, 9.0], [V[:0]]),
    Case("empty", StablehloPad((1,), (1,), (3,)), [V[:0], 9.0], [f32([9, 9])]),
    Case("over-cut", StablehloPad((-2,), (-2,), (0,)), [V, 9.0], [V], error="sizes that are not negative"),
    Case("rank", StablehloPad((1,), (1,), (0,)), [X, 9.0], [X], error="for each axis"),
    Case("constant", Dilate(), [X, const([2, 1]), 9.0], [f32([[1, 2, 3], [9, 9, 9], [4, 5, 6]])]),
    Case("run-time", Dilate(), [V, [3], 9.0], [f32([0, 9, 9, 1, 9, 9, 2])]),
    Case("step", Dilate(), [V, [0], 9.0], [V], error=r"dilations: expected steps of at least 1, found \(0,\)"),
]

TILE = [
    Case("constant", Tile(), [X, const([2, 3])], [np.tile(X, (2, 3))]),
    Case("run-time", Tile(), [X, i64([1, 2])], [np.tile(X, (1, 2))]),
    Case("none", Tile(), [X, const([2, 0])], [np.tile(X, (2, 0))]),
    Case("scalar", Tile(), [7.0, const([])], [7.0]),
    Case("string", Tile(), [strings(b"a", b"b"), [2]], [strings(b"a", b"b", b"a", b"b")]),
    Case("negative", Tile(), [V, [-1]], [V], error=r"multiples: expected counts that are not negative, found \(-1,\)"),
    Case("short", Tile(), [X, [2]], [X], error=r"multiples: expected shape \(2,\), found shape \(1,\)"),
]

test_pad = case_test(PAD)
test_mirror = case_test(MIRROR)
test_continued = case_test(CONTINUED)
test_spread = case_test(SPREAD)
test_tile = case_test(TILE)


def test_padding_of_another_quantisation_is_refused() -> None:
    x, value = T(i8([1]), q=q(0.5, 1)).tensor, T(i8(1), q=q(0.25, 1)).tensor
    call = Call(PadV2(), (x, const([[1, 0]]).tensor, value), (T(i8([1, 1]), q=q(0.5, 1)).tensor,))
    assert "different quantisation" in (CpuBackend().refuses(call) or "")
