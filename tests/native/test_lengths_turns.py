"""Loops that turn as often as there are elements collect as many, and are code for any lengths within others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from tests.native.test_lengths import floats
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

NESTED = """g (float[b, t] x) => (float[b, k] y) {
    one = Constant<value = int64 {1}>() none = Constant<value = int64 {0}>() yes = Constant<value = bool {1}>()
    size = Shape(x) count = Gather(size, none)
    y = Loop(count, yes)<body = body (int64 i, bool c) => (bool more, float[m] row) {
        more = Identity(yes) row_of = Gather(x, i) first = Gather(row_of, none) inner = Shape(row_of)
        steps = Gather(inner, none)
        COUNT
        last, row = Loop(few, yes, first)<body = turn (int64 j, bool d, float v) => (bool again, float w, float z) {
            again = Identity(yes) with = Gather(row_of, j) w = Add(v, with) z = Identity(w) }> }> }"""
ALL = "few = Identity(steps)"
SOME = """real = Cast<to = 1>(steps) part = Constant<value = float {0.7}>() less = Mul(real, part) low = Floor(less)
        few = Cast<to = 7>(low)"""


def summed(x: np.ndarray, count: int) -> np.ndarray:
    """What has been added up so far of each row, with its first element."""
    found: np.ndarray = x[:, :1] + np.cumsum(x[:, :count], 1)
    return found


def test_loops_in_loops_turn_as_often_as_there_are_elements(folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(NESTED.replace("COUNT", ALL), 17), "native")
    for rows, columns in ((2, 7), (5, 40), (3, 3), (1, 9), (70, 90)):
        x = floats(rows, columns)
        np.testing.assert_allclose(session.run({"x": x})["y"], summed(x, columns), 1e-4, 1e-4)
    assert len(compiled) == 1


def test_what_is_known_of_one_length_alone_is_known_where_subgraphs_are_bound(folder: Path) -> None:
    session = circlet.Session(load(NESTED.replace("COUNT", SOME), 17), "native")
    for rows, columns in ((rows, columns) for columns in range(6, 30, 2) for rows in (4, 2)):
        x = floats(rows, columns)
        count = int(np.floor(np.float32(columns) * np.float32(0.7)))
        np.testing.assert_allclose(session.run({"x": x})["y"], summed(x, count), 1e-4, 1e-4)
