"""Operators that read or write single elements, or slices, at places that indices name."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ops.elements import Combine, GatherElements, ScatterElements, ScatterSlices
from tests.ops.cases import Case
from tests.ops.run_cases import case_test

GRID = np.arange(6, dtype=np.float32).reshape(2, 3)
CASES = [
    Case("gather", GatherElements(1), [GRID, np.array([[0, -1], [1, 1]], np.int64)], [[[0.0, 2.0], [4.0, 4.0]]]),
    Case("gather-rows", GatherElements(-2), [GRID, [[1, 0]]], [[[3.0, 1.0]]]),
    Case("gather-outside", GatherElements(1), [GRID, [[3]]], [[[0.0]]], error="index 3 is out of range for .* size 3"),
    Case("gather-rank", GatherElements(), [GRID, [0]], [[0.0]], error="expected the rank of"),
    Case("gather-shape", GatherElements(1), [GRID, [[0], [0], [0]]], [[[0.0]]], error="expected a shape within"),
    Case("scatter", ScatterElements(1), [GRID, [[2, -3]], [[7.0, 8.0]]], [[[8.0, 1.0, 7.0], [3.0, 4.0, 5.0]]]),
    Case("scatter-add", ScatterElements(0, Combine.ADD), [GRID, [[1, 1, 1], [1, 0, 0]], GRID],
         [[[0.0, 5.0, 7.0], [6.0, 5.0, 7.0]]]),
    Case("scatter-max", ScatterElements(1, Combine.MAXIMUM), [[[1, 9]], [[0, 1]], [[5, 5]]], [[[5, 9]]]),
    Case("scatter-shape", ScatterElements(1), [GRID, [[0]], [[1.0, 2.0]]], [GRID], error="the shape of the indices"),
    Case("slices", ScatterSlices(), [GRID, np.array([[-1]], np.int64), [[7.0, 8.0, 9.0]]],
         [[[0.0, 1.0, 2.0], [7.0, 8.0, 9.0]]]),
    Case("slices-elements", ScatterSlices(Combine.MULTIPLY), [GRID, [[1, 1], [1, 1]], [2.0, 3.0]],
         [[[0.0, 1.0, 2.0], [3.0, 24.0, 5.0]]]),
    Case("slices-outside", ScatterSlices(), [GRID, [[2]], [[7.0, 8.0, 9.0]]], [GRID], error="index 2 is out of range"),
    Case("slices-whole", ScatterSlices(Combine.ADD), [[1, 2], np.zeros((2, 0), np.int32), [[10, 20], [100, 200]]],
         [[111, 222]]),
    Case("slices-none", ScatterSlices(), [[1, 2], np.zeros((0, 0), np.int32), np.zeros((0, 2), np.int32)], [[1, 2]]),
    Case("slices-shape", ScatterSlices(), [GRID, [[0]], [[7.0]]], [GRID], error="cannot scatter"),
]

test_cases = case_test(CASES)
