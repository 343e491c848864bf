"""ONNX Scan, by the cases that other runtimes test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.schema.onnx.graphs import Case, check, f32, i64

X = np.arange(6, dtype=np.float32).reshape(3, 2)
SUMS = np.cumsum(X, 0)


def summing(attributes: str = "", ins: str = "float[2] s, float[n, 2] x") -> str:
    """A Scan that adds slices up and returns the last and all sums."""
    return f"""g ({ins}) => (float[k] t, y) {{
        t, y = Scan<num_scan_inputs = 1 {attributes}, body = body (a, b) => (c, d) {{
            c = Add(a, b) d = Identity(c) }}> (s, x) }}"""


ZERO = np.zeros(2, np.float32)
CASES = [
    Case("forward", summing(), {"s": ZERO, "x": X}, [SUMS[-1], SUMS]),
    Case("reversed-input", summing(", scan_input_directions = [1]"), {"s": ZERO, "x": X},
         [SUMS[-1], np.cumsum(X[::-1], 0)]),
    Case("reversed-output", summing(", scan_output_directions = [1]"), {"s": ZERO, "x": X}, [SUMS[-1], SUMS[::-1]]),
    Case("input-axis", summing(", scan_input_axes = [-1]", "float[2] s, float[2, n] x"), {"s": ZERO, "x": X.T.copy()},
         [SUMS[-1], SUMS]),
    Case("output-axis", summing(", scan_output_axes = [-1]"), {"s": ZERO, "x": X}, [SUMS[-1], SUMS.T]),
    Case("no-slices", summing(), {"s": ZERO + 7, "x": X[:0]}, [ZERO + 7, X[:0]]),
    Case("scalars", summing(ins="float s, float[n] x").replace("float[k] t", "float t"),
         {"s": f32(1), "x": f32(1, 2, 3)}, [f32(7), f32(2, 4, 7)]),
    Case("no-state", """g (float[n] x, float k) => (float[n] y) { y = Scan<num_scan_inputs = 1,
        body = body (a) => (b) { b = Mul(a, k) }> (x) }""", {"x": f32(1, 2), "k": f32(3)}, [f32(3, 6)]),
    Case("two-inputs", """g (float[n] x, int64[n] z) => (float[n] y, int64[n] w) { y, w = Scan<num_scan_inputs = 2,
        scan_input_directions = [0, 1], body = body (a, b) => (c, d) { c = Neg(a) d = Neg(b) }> (x, z) }""",
         {"x": f32(1, 2), "z": i64(3, 4)}, [f32(-1, -2), i64(-4, -3)]),
]
BATCHES = np.arange(12, dtype=np.float32).reshape(2, 3, 2)


def batched(attributes: str = "", lengths: str = '""') -> str:
    return f"""g (int64[b] l, float[b, 2] s, float[b, n, 2] x) => (float[b, k] t, y) {{
        t, y = Scan<num_scan_inputs = 1 {attributes}, body = body (a, b) => (c, d) {{
            c = Add(a, b) d = Identity(c) }}> ({lengths}, s, x) }}"""


def padded(lengths: list[int], backwards: bool = False) -> Any:
    """The sums of each sequence as far as it is long, then zeros."""
    result = np.zeros_like(BATCHES)
    for batch, length in enumerate(lengths):
        rows = BATCHES[batch, :length]
        result[batch, :length] = np.cumsum(rows[::-1] if backwards else rows, 0)
    return result


START = {"l": i64(3, 2), "s": np.zeros((2, 2), np.float32), "x": BATCHES}
TOTALS = np.stack([BATCHES[0].sum(0), BATCHES[1, :2].sum(0)])
CASES_8 = [
    Case("batches", batched(), START, [BATCHES.sum(1), padded([3, 3])], 8),
    Case("lengths", batched(lengths="l"), START, [TOTALS, padded([3, 2])], 8),
    Case("lengths-reversed", batched(", directions = [1]", "l"), START, [TOTALS, padded([3, 2], True)], 8),
]


@pytest.mark.parametrize("case", [*CASES, *CASES_8], ids=str)
def test_scan(case: Case) -> None:
    check(case)
