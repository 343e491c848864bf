"""Images that turns of a loop resize to what the run tells, and paste into larger ones of which it tells the size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = """g (float[a, 6, 6] x, int64[b, 4] boxes, int64[2] sizes) => (float[c, d, e] y) {
    zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() first = Constant<value = int64[1] {0}>()
    yes = Constant<value = bool {1}>() lead = Constant<value = int64[2] {1, 1}>()
    second = Constant<value = int64[1] {1}>() two = Constant<value = int64 {2}>()
    three = Constant<value = int64 {3}>() axes = Constant<value = int64[2] {0, 1}>()
    size = Shape(x) count = Gather(size, zero) rows = Gather(sizes, zero) columns = Gather(sizes, one)
    y = Loop(count, yes)<body = body (int64 i, bool c) => (bool more, float[r, s] image) { more = Identity(yes)
        row = Gather(boxes, i) top = Gather(row, zero) left = Gather(row, one)
        h = Gather(row, two) w = Gather(row, three) h1 = Unsqueeze(h, first)
        w1 = Unsqueeze(w, first) hw = Concat<axis = 0>(h1, w1) wanted = Concat<axis = 0>(lead, hw)
        of = Gather(x, i) planes = Unsqueeze(of, axes)
        new = Resize<mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel">(planes, , , wanted)
        part = Squeeze(new, axes) rows1 = Unsqueeze(rows, first) columns1 = Unsqueeze(columns, first)
        whole = Concat<axis = 0>(rows1, columns1) blank = ConstantOfShape<value = float[1] {0}>(whole)
"""
WINDOW = """bottom = Add(top, h) right = Add(left, w) top1 = Unsqueeze(top, first) bottom1 = Unsqueeze(bottom, first)
        left1 = Unsqueeze(left, first) right1 = Unsqueeze(right, first) """
CASES = {
    "added": "sum = ReduceSum<keepdims = 0>(part) all_of = Add(blank, sum) image = Tanh(all_of) }> }",
    "scattered": WINDOW + """down = Range(zero, rows, one) along = Range(zero, columns, one)
        ys = Slice(down, top1, bottom1, first) xs = Slice(along, left1, right1, first) column = Unsqueeze(ys, second)
        no_x = Mul(xs, zero) no_y = Mul(column, zero) all_y = Add(column, no_x) all_x = Add(no_y, xs)
        axis = Constant<value = int64[1] {2}>() y2 = Unsqueeze(all_y, axis) x2 = Unsqueeze(all_x, axis)
        places = Concat<axis = 2>(y2, x2) image = ScatterND(blank, places, part) }> }""",
    "padded": WINDOW + """below = Sub(rows1, bottom1) beside = Sub(columns1, right1)
        pads = Concat<axis = 0>(top1, left1, below, beside) all_of = Pad(part, pads)
        image = ReduceSum<keepdims = 1>(all_of) }> }""",
    "reshaped": WINDOW + """band = Slice(blank, top1, bottom1, first) cut = Slice(band, left1, right1, second)
        like = Shape(cut) again = Reshape(part, like) sum = Add(again, cut) total = ReduceSum<keepdims = 0>(sum)
        all_of = Add(blank, total) image = Tanh(all_of) }> }""",
}
SIZES = ((2, 9, 8), (3, 20, 7), (1, 7, 7), (5, 12, 40), (2, 7, 100), (2, 9, 8))
"""How many images, and how large the others are."""


def given(count: int, rows: int, columns: int) -> list[np.ndarray]:
    """Images, boxes inside of the others, of which one begins where these do, and their size."""
    r = np.random.default_rng((count, rows, columns))
    boxes = np.concatenate([r.integers(0, 4, (count, 2)), r.integers(1, 4, (count, 2))], 1)
    boxes[-1, :2] = 0, count % 2
    return [r.standard_normal((count, 6, 6)).astype(np.float32), boxes, np.array([rows, columns])]


def refused(session: circlet.Session, inputs: Sequence[Any]) -> str:
    """The error of a run."""
    with pytest.raises(circlet.ExecutionError) as error:
        session.run(inputs)
    return str(error.value)


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    model = load(HEAD + CASES[name], 17)
    native, cpu = (circlet.Session(model, backend) for backend in ("native", "cpu"))
    for each in SIZES:
        np.testing.assert_allclose(native.run(given(*each))["y"], cpu.run(given(*each))["y"], 1e-4, 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", ["scattered", "reshaped"])
@pytest.mark.parametrize("box", [(8, 8, 3, 3), (2, 2, 0, 3)], ids=["outside", "of no rows"])
def test_boxes_that_do_not_fit_are_errors(name: str, box: Sequence[int], folder: Path) -> None:
    model = load(HEAD + CASES[name], 17)
    native, cpu = (circlet.Session(model, backend) for backend in ("native", "cpu"))
    good = given(2, 9, 8)
    bad = [good[0], np.array([good[1][0], box]), good[2]]
    expected = native.run(good)["y"]
    assert refused(native, bad) == refused(cpu, bad)
    np.testing.assert_array_equal(native.run(good)["y"], expected)
