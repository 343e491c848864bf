"""Lists as tensors."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ops.lists import ListAppend, ListAppendPart, ListBegin, ListEmpty, ListEnds, ListJoin, ListPart
from tests.ops.cases import Case, T
from tests.ops.run_cases import case_test

I64 = np.int64
X = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
ROW = np.array([[7, 8, 9], [1, 2, 3]], np.float32)
NONE = np.zeros((2, 0, 3), np.float32)
ENDS = np.array([1, 1, 4], I64)
BEYOND = np.array([1, 1, 9], I64)

CASES = [
    Case("joined", ListEmpty(1, False, (2, 5, 3)), [], [NONE]),
    Case("stacked", ListEmpty(1, True, (2, 3)), [], [NONE]),
    Case("axis", ListEmpty(3, True, (2, 3)), [], [NONE], error="axis 3: expected one that counts from the front"),
    Case("filled", ListBegin(1, True), [X, np.zeros((5, 5), np.float32)], [X]),
    Case("from behind", ListBegin(-2), [X], [X], error="axis -2: expected one of a list"),
    Case("no such axis", ListBegin(3), [X], [X], error="axis 3: expected one of a list"),
    Case("stacked", ListAppend(1, True), [X, ROW], [np.concatenate([X, ROW[:, None]], 1)]),
    Case("in front", ListAppend(0, True), [X, X[0]], [np.concatenate([X, X[:1]])]),
    Case("behind", ListAppend(2, True), [X, X[..., 0]], [np.concatenate([X, X[..., :1]], 2)]),
    Case("joined", ListAppend(1), [X, X[:, :3]], [np.concatenate([X, X[:, :3]], 1)]),
    Case("joined, nothing", ListAppend(1), [X, NONE], [X]),
    Case("from behind", ListAppend(-2), [X, X[:, :3]], [X], error="axis -2: expected one that counts from the front"),
    Case("first", ListAppend(1), [np.zeros((0, 0, 3), np.float32), X], [X]),
    Case("other shape", ListAppend(1, True), [X, ROW[:1, :2]], [X], error="cannot append an element of shape"),
    Case("other rank", ListAppend(1), [X, ROW], [X], error="cannot append an element of shape"),
    Case("an axis that the list has not", ListAppend(2), [ROW, X], [ROW], error="cannot append an element of shape"),
    Case("single", ListAppend(1, are_single=True), [X, X[:, :1]], [np.concatenate([X, X[:, :1]], 1)]),
    Case("single, longer", ListAppend(1, are_single=True), [X, X[:, :2]], [X], error="expected an element of size 1"),
    Case("single, none", ListAppend(1, are_single=True), [X, NONE], [X], error="expected an element of size 1"),
    Case("single, first", ListPart(1, are_single=True), [X, np.array(0, I64)], [X[:, :1]]),
    Case("single, last", ListPart(1, are_single=True), [X, np.array(-1, I64)], [X[:, 3:]]),
    Case("single, beyond", ListPart(1, are_single=True), [X, np.array(4, I64)], [X[:, 3:]], error="position: expected"),
    Case("with ends", ListAppendPart(1), [X, X[:, :3], ENDS],
         [np.concatenate([X, X[:, :3]], 1), np.array([1, 1, 4, 7], I64)]),
    Case("nothing, with ends", ListAppendPart(1), [X, NONE, ENDS], [X, np.array([1, 1, 4, 4], I64)]),
    Case("first, with ends", ListAppendPart(1), [np.zeros((0, 0, 3), np.float32), X, ENDS[:0]],
         [X, np.array([4], I64)]),
    Case("other rank, with ends", ListAppendPart(1), [X, ROW, ENDS], [X, ENDS], error="cannot append an element of"),
    Case("joined", ListJoin(1), [X, NONE, X[:, 2:]], [np.concatenate([X, X[:, 2:]], 1), np.array([4, 4, 6], I64)]),
    Case("joined, one", ListJoin(0), [ROW], [ROW, np.array([2], I64)]),
    Case("joined, other sizes", ListJoin(0), [X, NONE], [X, ENDS[:2]], error="input 1: expected the shape of input 0"),
    Case("even", ListEnds(1), [X, T(np.array(2, I64), constant=True)], [np.array([2, 4], I64)]),
    Case("uneven", ListEnds(1), [X, T(np.array(3, I64), constant=True)], [np.array([3, 4], I64)]),
    Case("long", ListEnds(-2), [X, T(np.array(9, I64), constant=True)], [np.array([4], I64)]),
    Case("of nothing", ListEnds(1), [NONE, T(np.array(9, I64), constant=True)], [np.array([0], I64)]),
    Case("lengths", ListEnds(1), [X, np.array([1, 0, 3], I64)], [ENDS]),
    Case("no length", ListEnds(1), [X, T(np.array(0, I64), constant=True)], [ENDS], error="a length of at least 1"),
    Case("too few", ListEnds(1), [X, np.array([1, 2], I64)], [ENDS[:2]], error="expected lengths that sum to 4"),
    Case("too many", ListEnds(1), [X, np.array([1, 4], I64)], [ENDS[:2]], error="expected lengths that sum to 4"),
    Case("negative", ListEnds(1), [X, np.array([5, -1], I64)], [ENDS[:2]], error="expected lengths that sum to 4"),
    Case("stacked", ListPart(1, True), [X, np.array(2, I64)], [X[:, 2]]),
    Case("stacked, last", ListPart(1, True), [X, np.array(-1, I64)], [X[:, 3]]),
    Case("stacked, beyond", ListPart(1, True), [X, np.array(4, I64)], [X[:, 3]], error="position: expected"),
    Case("stacked, before", ListPart(1, True), [X, np.array(-5, I64)], [X[:, 3]], error="position: expected"),
    Case("piece", ListPart(1), [X, T(np.array(2, I64), constant=True), T(ENDS, constant=True)], [X[:, 1:4]]),
    Case("last piece", ListPart(1), [X, np.array(-1, I64), ENDS], [X[:, 1:4]]),
    Case("no piece", ListPart(1), [X, np.array(1, I64), ENDS], [NONE]),
    Case("first piece", ListPart(1), [X, np.array(-3, I64), ENDS], [X[:, :1]]),
    Case("end beyond", ListPart(1), [X, T(np.array(2, I64), constant=True), T(BEYOND, constant=True)], [X],
         error="ends: expected"),
    Case("end beyond, of the run", ListPart(1), [X, np.array(2, I64), BEYOND], [X[:, 1:4]], error="ends: expected"),
    Case("beyond pieces", ListPart(1), [X, np.array(3, I64), ENDS], [X], error="position: expected"),
]

test_lists = case_test(CASES)

