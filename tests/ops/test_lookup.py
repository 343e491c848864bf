"""Look-ups for sparse ids, and hashes of items."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops.lookup import Combiner, EmbeddingLookupSparse, LshProjection, Projection
from tests.ops.arrays import const
from tests.ops.cases import Case, T
from tests.ops.litert import Row, litert_test, real, result, whole
from tests.ops.run_cases import case_test

SPARSE, DENSE = (LshProjection(each) for each in (Projection.SPARSE, Projection.DENSE))
F32, I32 = DType.FLOAT32, DType.INT32
MEAN, SQRTN = (EmbeddingLookupSparse(each) for each in (Combiner.MEAN, Combiner.SQRTN))
TABLE = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
PLACES, SHAPE, WEIGHTS = [[0, 0], [0, 1], [2, 0]], [3, 2], [1.0, 3.0, 2.0]
SEEDS = np.array([[0.25, -1.5, 3.0], [7.0, 0.5, -0.125]], np.float32)
LONG_PLACES = const([[0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 0, 1], [0, 1, 1], [2, 1, 0]])

LOOKED_UP = [
    Case("sums", EmbeddingLookupSparse(), [[0, 1, 2], PLACES, SHAPE, WEIGHTS, TABLE],
         [[[10.0, 14.0], [0.0, 0.0], [10.0, 12.0]]]),
    Case("means", MEAN, [[0, 1, 2], PLACES, SHAPE, WEIGHTS, TABLE], [[[2.5, 3.5], [0.0, 0.0], [5.0, 6.0]]]),
    Case("roots", SQRTN, [[0, 1, 2], PLACES, SHAPE, [3.0, 4.0, 2.0], TABLE],
         [[[3.0, 4.4], [0.0, 0.0], [5.0, 6.0]]], tolerance=1e-6),
    Case("constant-shape", MEAN, [[2], [[1, 0]], const([2, 1]), [4.0], TABLE], [[[0.0, 0.0], [5.0, 6.0]]]),
    Case("one-axis", EmbeddingLookupSparse(), [[2, 0], [[0], [3]], [4], [1.0, 2.0], TABLE], [[7.0, 10.0]]),
    Case("place-again", MEAN, [[0, 1, 0], [[0, 0], [1, 0], [0, 1]], [2, 2], [2.0, 1.0, 2.0], TABLE],
         [[[1.5, 3.0], [3.0, 4.0]]]),
    Case("nothing", MEAN, [np.zeros(0, np.int32), np.zeros((0, 2), np.int32), SHAPE, np.zeros(0, np.float32), TABLE],
         [np.zeros((3, 2), np.float32)]),
    Case("no-columns", MEAN, [[0], [[0, 0]], SHAPE, [1.0], np.zeros((3, 0), np.float32)],
         [np.zeros((3, 0), np.float32)]),
    Case("row", MEAN, [[3], [[0, 0]], SHAPE, [1.0], TABLE], [TABLE], error="index 3 is outside a table of 3 rows"),
    Case("place", MEAN, [[0], [[3, 0]], SHAPE, [1.0], TABLE], [TABLE],
         error=r"place \[3, 0\] is outside ids of shape \(3, 2\)"),
    Case("weights", MEAN, [[0], [[0, 0]], SHAPE, [1.0, 2.0], TABLE], [TABLE], error="weights"),
    Case("vector", MEAN, [[0], [[0, 0]], SHAPE, [1.0], [1.0, 2.0]], [TABLE], error="a table"),
    Case("shape", MEAN, [[0], [[0, 0]], [-3, 2], [1.0], TABLE], [TABLE], error="not negative"),
    Case("int64", MEAN, [T([0], DType.INT64), [[0, 0]], SHAPE, [1.0], TABLE], [TABLE], error="element type int64"),
]
PROJECTED = [
    Case("dense", DENSE, [SEEDS, [[1, 2], [3, 4]]], [[1, 1, 0, 1, 0, 1]]),
    Case("sparse", SPARSE, [SEEDS, [[1, 2], [3, 4]]], [[6, 13]]),
    Case("no-items", SPARSE, [SEEDS, np.zeros((0, 2), np.int32)], [[0, 0]], error="at least one"),
    Case("weights", SPARSE, [SEEDS, [[1, 2]], [1.0, 2.0]], [[0, 0]], error="one for each of 1 items"),
    Case("seeds", SPARSE, [SEEDS[0], [[1, 2]]], [[0, 0]], error="seeds: expected"),
    Case("type", LshProjection(), [SEEDS, [[1, 2]]], [[0, 0]], error="expected SPARSE or DENSE"),
    Case("bits", SPARSE, [np.zeros((1, 32), np.float32), [[1, 2]]], [[0]], error="at most 31 bits"),
]
DRAWN = [
    *(Row(EmbeddingLookupSparse(each), [whole(I32, 6, low=0, high=8), LONG_PLACES, const([3, 2, 2]), real(6),
                                        real(9, 4)], [result(F32)]) for each in Combiner),
    *(Row(op, [real(3, 5), whole(DType.INT8, 3, size), *weights], [result(I32)])
      for size in (1, 3, 4, 9, 13, 25, 28, 40, 60, 61, 124, 200) for op in (SPARSE, DENSE)
      for weights in ((), (real(3),))),
    Row(SPARSE, [real(2, 31), whole(I32, 4, 2, 3)], [result(I32)]),
    Row(SPARSE, [real(2, 4), real(5)], [result(I32)]),
]

test_embedding_lookup_sparse = case_test(LOOKED_UP)
test_lsh_projection = case_test(PROJECTED)
test_drawn = litert_test(DRAWN)
