"""Native selection of boxes, and combination of slices that carry the same number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import segment
from circlet.runtime.ops.detection import NonMaxSuppressionV4, NonMaxSuppressionV5, SelectBoxes
from circlet.runtime.ops.segment import UnsortedSegment
from tests.native.against_cpu import agree, applied, seeds, values
from tests.native.native_cases import native_test
from tests.native.test_lengths import Graph, model
from tests.ops.cases import check
from tests.ops.test_detection import BACKGROUND, DETECTED
from tests.ops.test_segment import SORTED, UNSORTED
from tests.ops.test_sort import SELECTED

Array: TypeAlias = npt.NDArray[Any]

test_detection = native_test([each for each in SELECTED if each.error is None])
test_post_process = native_test([each for each in DETECTED if each.error is None])
test_segments = native_test([*SORTED, *UNSORTED])

COUNTS = st.integers(0, 12)
LIMITS = st.sampled_from([0.0, 0.3, 0.5, 1.0])
SEGMENTS = [segment.UnsortedSegmentSum, segment.UnsortedSegmentProd, segment.UnsortedSegmentMax,
            segment.UnsortedSegmentMin]


def boxes(count: int, seed: int, special: bool) -> Array:
    """Some that overlap, some alike, some empty; with infinities and NaN if asked for."""
    found = np.round(values((count, 4), np.float32, seed) * 2).astype(np.float32) / 2
    return np.where(values((count, 4), np.bool_, seed), found, values((count, 4), np.float32, seed, special))


def scores(shape: Sequence[int], seed: int, special: bool) -> Array:
    """Some of them alike."""
    return np.abs(np.round(values(shape, np.float32, seed + 1, special), 1))


@settings(max_examples=60, deadline=None)
@given(COUNTS, COUNTS, LIMITS, LIMITS, st.booleans(), st.booleans(), seeds)
def test_any_boxes(count: int, most: int, overlap: float, least: float, special: bool, tells: bool, seed: int) -> None:
    given = boxes(count, seed, special), scores((count,), seed, special)
    constants = [np.int32(most), np.float32(overlap), np.float32(least), *([np.float32(0)] if tells else [])]
    agree(applied(NonMaxSuppressionV5() if tells else NonMaxSuppressionV4(), *constants), *given)


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_more_boxes_than_a_vector_has_lanes(sigma: float) -> None:
    constants = [np.int32(70), np.float32(0.3), np.float32(0.1), np.float32(sigma)]
    agree(applied(NonMaxSuppressionV5(), *constants), boxes(70, 3, True), scores((70,), 3, True))


@pytest.mark.parametrize("sigma", [0.0, 0.5])
@pytest.mark.parametrize("spread", [2, 40])
def test_so_many_boxes_that_they_are_closed_up(sigma: float, spread: int) -> None:
    """Of many scores that are alike the first box is the best one, wherever it was moved."""
    constants = [np.int32(400), np.float32(0.5), np.float32(0.1), np.float32(sigma)]
    corners = np.random.default_rng(3).random((400, 2)).astype(np.float32) * spread
    given = np.concatenate([corners, corners + 1], 1), scores((400,), 3, True)
    agree(applied(NonMaxSuppressionV5(), *constants), *given)



@settings(max_examples=40, deadline=None)
@given(COUNTS, st.integers(1, 4), st.booleans(), st.integers(0, 6), st.sampled_from([0.1, 0.3, 1.0]), LIMITS,
       st.booleans(), seeds)
def test_any_detections(count: int, classes: int, has_background: bool, most: int, overlap: float, least: float,
                        special: bool, seed: int) -> None:
    """Sides as long as those of their anchors, so that it does not matter how exactly they are computed."""
    given = boxes(count, seed, False)[None]
    given[..., 2:] = 0
    anchors = np.abs(boxes(count, seed + 2, False))
    op = replace(BACKGROUND, num_classes=classes, max_detections=most, nms_score_threshold=least,
                 nms_iou_threshold=overlap)
    agree(applied(op), given, scores((1, count, classes + has_background), seed, special), anchors)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SEGMENTS), st.sampled_from([np.float32, np.int32, np.int64]), st.integers(0, 9),
       st.sampled_from([(), (1,), (3, 2)]), st.integers(1, 6), seeds)
def test_any_segments(op: type[UnsortedSegment], dtype: type[np.generic], count: int, slices: tuple[int, ...],
                      named: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(-1, named, count).astype(np.int32)
    agree(applied(op(), numbers, np.int32(named)), values((count, *slices), dtype, seed, special=True))


def selected(g: Graph) -> Sequence[Value]:
    """Up to 7 of any number of boxes, and their scores."""
    x, found = g.builder.input("boxes", DType.FLOAT32, (-1, 4)), g.builder.input("scores", DType.FLOAT32, (-1,))
    kinds = [Tensor("", DType.INT32, (7,)), Tensor("", DType.FLOAT32, (7,)), Tensor("", DType.INT32, ())]
    return g.builder.op(NonMaxSuppressionV5(), x, found, g.number(7), g.number(0.5), g.number(0.2), g.number(0.0),
                        outputs=kinds)


def chosen(centers: bool, most: int = 4) -> Callable[[Graph], Sequence[Value]]:
    """Of boxes of two images and three classes, as many as there are."""
    def write(g: Graph) -> Sequence[Value]:
        x = g.builder.input("boxes", DType.FLOAT32, (2, -1, 4))
        found = g.builder.input("scores", DType.FLOAT32, (2, 3, -1))
        return [g(SelectBoxes(centers), x, found, g.builder.constant(np.array([most], np.int64)),
                  g.builder.constant(np.array([0.5], np.float32)),
                  g.builder.constant(np.array([0.1], np.float32)), dtype=DType.INT64)]

    return write


def thresholded(g: Graph) -> Sequence[Value]:
    """With thresholds that only the run tells."""
    x = g.builder.input("boxes", DType.FLOAT32, (2, -1, 4))
    found = g.builder.input("scores", DType.FLOAT32, (2, 3, -1))
    most = g.builder.constant(np.array([4], np.int64))
    thresholds = [g.builder.input(name, DType.FLOAT32, (1,)) for name in ("overlap", "least")]
    return [g(SelectBoxes(), x, found, most, *thresholds, dtype=DType.INT64)]


def combined(g: Graph) -> Sequence[Value]:
    """Of any number of rows, as many as there are names."""
    x, names = g.builder.input("x", DType.FLOAT32, (-1, 3)), g.builder.input("names", DType.INT32, (-1,))
    return [g(each(), x, names, g.length(names, 0)) for each in SEGMENTS]


def of_selected(n: int) -> list[Array]:
    return [boxes(n, n, False), scores((n,), n, False)]


def of_chosen(n: int) -> list[Array]:
    return [boxes(2 * n, n, False).reshape(2, n, 4), scores((2, 3, n), n, False)]


def of_thresholded(n: int) -> list[Array]:
    return [*of_chosen(n), np.array([n % 5 / 4], np.float32), np.array([0.1], np.float32)]


def of_many(n: int) -> list[Array]:
    """Boxes that are apart, so that all of them are selected."""
    corners = np.random.default_rng(n).permutation(6 * n).reshape(2, 3 * n, 1).astype(np.float32)
    return [np.concatenate([corners, corners, corners + 1, corners + 1], 2), scores((2, 3, 3 * n), n, False)]


def of_combined(n: int) -> list[Array]:
    return [values((n, 3), np.float32, n), np.random.default_rng(n).integers(-1, n, n).astype(np.int32)]


OPEN: dict[str, tuple[Callable[[Graph], Sequence[Value]], Callable[[int], list[Array]]]] = {
    "selected": (selected, of_selected), "chosen": (chosen(False), of_chosen), "centers": (chosen(True), of_chosen),
    "combined": (combined, of_combined), "given": (thresholded, of_thresholded), "many": (chosen(False, 1000), of_many),
}


@pytest.mark.parametrize("name", OPEN)
def test_any_number_of_them(name: str, folder: object, compiled: list[str]) -> None:
    write, inputs = OPEN[name]
    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for n in (9, 2, 64, 33, 9, 200):
        given = inputs(n)
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-6 if expected.dtype.kind == "f" else None)
    assert len(compiled) == 1
    assert set(native.backend_of(0)) == {"native"}
