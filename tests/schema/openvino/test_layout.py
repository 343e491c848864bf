"""Shapes, layout and indices of OpenVINO against OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from tests.schema.openvino.models import (
    Case,
    check,
    const,
    draw,
    f32,
    i32,
    i64,
    op,
    ov,
    run,
    run_openvino,
    save,
)

opset1, opset3, opset5, opset7, opset15 = (pytest.importorskip(f"openvino.opset{k}") for k in (1, 3, 5, 7, 15))
X = draw(2, 3, 4)
ROWS = np.array([[0, -1], [1, 0]], i64)
PLACES = np.array([[0, 1], [1, 2]], i64)
REGIONS = np.array([[0, 1, 9, 8], [3.3, 2.2, 4.1, 12.5], [-2, 5, 20, 6]], f32)
DRAWN = np.random.default_rng(0)


def of_axes(numbers: ov.Node) -> ov.Node:
    """Numbers for three axes, so many also where dimensions are not known, which OpenVINO 2025.0 asks for."""
    return op.reshape(numbers, const([3]), False)


LAYOUT = [
    Case("transpose", lambda x: op.transpose(x, const([2, 0, 1])), [X]),
    Case("transpose_reversed", lambda x: op.transpose(x, const(np.zeros(0, i64))), [X]),
    Case("concat", lambda a, b: op.concat([a, b], -2), [X, X[:, :1]]),
    Case("split", lambda x: op.split(x, const(-1), 2), [X]),
    Case("variadic_split", lambda x: op.variadic_split(x, const(2), const([1, -1, 2])), [X]),
    Case("strided_masks", lambda x: op.strided_slice(x, const([0, 1]), const([0, 3]), const([1, 1]), [0, 0], [1, 0]),
         [X]),
    Case("strided_backwards", lambda x: op.strided_slice(
        x, const([0, 0, -1]), const([1, 2, -5]), const([1, 1, -1]), [0, 0, 0], [0, 0, 0]), [X]),
    Case("strided_new_and_shrunk", lambda x: op.strided_slice(
        x, const([0, 1, 0]), const([0, 2, 0]), const([1, 1, 1]), [1, 0, 1], [1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]),
         [X], [X[None, 1]]),
    Case("strided_ellipsis", lambda x: op.strided_slice(
        x, const([0, 1]), const([0, 3]), const([1, 1]), [0, 0], [0, 0], [0, 0], [0, 0], [1, 0]), [X]),
    Case("slice", lambda x: op.slice(x, const([1]), const([-1]), const([1]), const([2])), [X]),
    Case("slice_backwards", lambda x: op.slice(
        x, const([-1, 0]), const([-9223372036854775807, 2]), const([-2, 1]), const([2, 0])), [X]),
    Case("slice_computed", lambda x, a, b: op.slice(x, a, b, const([1]), const([1])),
         [X, np.array([1], i64), np.array([3], i64)]),
    Case("pad", lambda x: op.pad(x, const([0, 1, 2]), const([1, 0, 1]), "constant", const(7.0)), [X]),
    Case("pad_edge", lambda x: op.pad(x, const([0, 1, 2]), const([1, 0, 1]), "edge"), [X]),
    Case("pad_edge_far", lambda x: op.pad(x, const([0, 5]), const([7, 0]), "edge"), [draw(1, 3)]),
    Case("pad_reflect", lambda x: op.pad(x, const([0, 1, 2]), const([1, 0, 1]), "reflect"), [X]),
    Case("pad_symmetric", lambda x: op.pad(x, const([0, 1, 2]), const([1, 0, 1]), "symmetric"), [X]),
    Case("pad_negative", lambda x: op.pad(x, const([0, -1, 2]), const([0, 0, -1]), "constant"), [X]),
    *(Case(f"pad_told_{k}", lambda x, *sides: op.pad(x, *map(of_axes, sides), "constant", const(7.0)),
           [X, np.array(before, kind), np.array(after, kind)]) for k, (before, after, kind) in enumerate((
               ([0, -1, 2], [0, 0, -1], i64), ([-1, 2, 0], [0, -2, 3], i32), ([1, 0, 2], [0, 1, 1], i64)))),
    *(Case(f"pad_told_{mode}_{k}", lambda x, *sides, mode=mode: op.pad(x, *map(of_axes, sides), mode),
           [X, np.array(before, i64), np.array(after, i64)]) for mode, sides in {
               "edge": [([1, 0, 2], [0, 4, 1]), ([-1, 2, 0], [0, -2, 3])],
               "reflect": [([1, 0, 2], [0, 2, 3])], "symmetric": [([2, 0, 3], [0, 3, 4])]}.items()
      for k, (before, after) in enumerate(sides)),
    Case("pad_told_before", lambda x, before: op.pad(x, of_axes(before), const([0, 1, -2]), "constant"),
         [X, np.array([1, -1, 0], i64)]),
    Case("tile", lambda x: op.tile(x, const([2, 1, 1, 2])), [X]),
    Case("tile_last", lambda x: op.tile(x, const([2])), [X]),
    Case("reverse_sequence", lambda x: op.reverse_sequence(x, const(np.array([2, 3], i32)), 0, 1), [X]),
    Case("depth_to_space", lambda x: op.depth_to_space(x, "blocks_first", 2), [draw(1, 8, 2, 3)]),
    Case("depth_to_space_depth", lambda x: op.depth_to_space(x, "depth_first", 2), [draw(1, 8, 2, 3)], dynamic=False),
    Case("depth_to_space_of_images", lambda x: op.depth_to_space(op.reshape(x, const([0, 8, -1, 3]), True),
                                                                 "depth_first", 2), [draw(1, 8, 2, 3)]),
    Case("space_to_depth_of_images", lambda x: op.space_to_depth(op.reshape(x, const([0, 2, -1, 6]), True),
                                                                 "depth_first", 2), [draw(1, 2, 4, 6)]),
    Case("space_to_depth", lambda x: op.space_to_depth(x, "blocks_first", 2), [draw(1, 2, 4, 6)]),
    Case("space_to_depth_depth", lambda x: op.space_to_depth(x, "depth_first", 2), [draw(1, 2, 4, 6)], dynamic=False),
    Case("batch_to_space", lambda x: op.batch_to_space(
        x, const([1, 1, 2, 2]), const([0, 0, 1, 0]), const([0, 0, 0, 1])), [draw(4, 2, 2, 3)]),
    Case("space_to_batch", lambda x: op.space_to_batch(
        x, const([1, 1, 2, 2]), const([0, 0, 1, 0]), const([0, 0, 1, 1])), [draw(1, 2, 2, 3)]),
    *(Case(f"{name}_by_numbers", lambda x, before, after, name=name: getattr(op, name)(
        x, const([1, 1, 2, 2]), before, after), [draw(batch, 2, 2, 3), np.array([0, 0, 1, 0], i64),
                                                np.array(after, i64)])
      for name, batch, after in (("batch_to_space", 4, [0, 0, 0, 1]), ("space_to_batch", 1, [0, 0, 1, 1]))),
    Case("shuffle_channels", lambda x: op.shuffle_channels(x, 1, 2), [draw(1, 4, 2, 2)], dynamic=False),
    Case("shuffle_channels_of_images", lambda x: op.shuffle_channels(op.reshape(x, const([0, 4, -1, 2]), True), 1, 2),
         [draw(1, 4, 2, 2)]),
    Case("roll", lambda x: op.roll(x, const([1, -1]), const([0, -1])), [X]),
    Case("roll_far", lambda x: op.roll(x, const([-5, 9]), const([1, 2])), [X]),
]
SHAPES = [
    Case("reshape", lambda x: op.reshape(x, const([4, 6]), False), [X]),
    Case("reshape_zero", lambda x: op.reshape(x, const([0, -1]), True), [X]),
    Case("reshape_zeros", lambda x: op.reshape(x, const([0, 0, 2, -1]), True), [X]),
    Case("reshape_computed", lambda x, s: op.reshape(x, s, True), [X, np.array([0, -1], i64)], dynamic=False),
    Case("squeeze", lambda x: op.squeeze(x, const([1])), [X[:, :1]]),
    Case("squeeze_skip", lambda x: opset15.squeeze(x, const([0, 1]), True), [X[:, :1]], dynamic=False),
    Case("unsqueeze", lambda x: op.unsqueeze(x, const([-1, 0])), [X]),
    Case("shape_of", lambda x: [op.shape_of(x, "i32"), opset1.shape_of(x)], [X]),
    Case("broadcast", lambda x: op.broadcast(x, const([3, 2, 3, 4])), [X]),
    Case("broadcast_explicit", lambda x: op.broadcast(x, const([2, 5, 3]), const([0, 2]), "explicit"), [X[:, :, 0]]),
    Case("broadcast_both", lambda x: op.broadcast(x, const([2, 1, 1, 1]), broadcast_spec="bidirectional"), [X]),
    Case("range", lambda x: op.range(x, const(5), const(2), "i64"), [np.array(0, i64)]),
    Case("range_of_floats", lambda x: op.range(const(np.float32(1)), x, const(np.float32(-2)), "f32"),
         [np.array(-6.5, f32)]),
    Case("range_of_nothing", lambda x: op.shape_of(op.range(x, const(5), const(2), "i64")), [np.array(7, i64)], [[0]]),
    Case("range_down", lambda x: op.range(x, const(-1.0), const(-0.25), "f32"), [np.array(0.3, f32)]),
    Case("range_constant", lambda x: op.add(op.range(const(0), const(4), const(1), "f32"), x), [X]),
    Case("one_hot", lambda x: op.one_hot(x, const(4), const(2.0), const(-1.0), 1), [np.array([[0, 3], [5, 1]], i64)]),
    Case("non_zero", lambda x: op.non_zero(x, "i32"), [np.array([[0, 1, 2], [3, 0, 0]], f32)]),
    Case("eye", lambda x: op.add(op.eye(const(3), const(4), const(1), "f32"), x), [np.array(0, f32)]),
    *(Case(f"eye_{diagonal}", lambda n, x, diagonal=diagonal: op.eye(
        n, op.gather(op.shape_of(x), const(1), const(0)), const(diagonal), "i32"), [np.array(5, i64), X])
      for diagonal in (0, 2, -1)),
]
INDICES = [
    Case("gather", lambda x, i: op.gather(x, i, const(-1)), [X, ROWS]),
    Case("gather_1", lambda x, i: opset1.gather(x, i, const(1)), [X, abs(ROWS)]),
    Case("gather_7", lambda x, i: opset7.gather(x, i, const(2), 1), [X, abs(ROWS)]),
    Case("gather_unsigned", lambda x, i: op.gather(x, op.convert(i, "u64"), const(-1)), [X, abs(ROWS)]),
    Case("gather_unsigned_1", lambda x, i: opset1.gather(x, op.convert(i, "u64"), const(1)), [X, abs(ROWS)]),
    Case("gather_constant", lambda x: op.gather(x, const([-1, 0]), const(1)), [X]),
    Case("gather_batch", lambda x, i: op.gather(x, i, const(2), 1), [X, ROWS]),
    Case("gather_elements", lambda x, i: op.gather_elements(x, i, 1), [X, DRAWN.integers(0, 3, (2, 5, 4))]),
    Case("gather_nd", op.gather_nd, [X, PLACES], dynamic=False),
    Case("gather_nd_batch", lambda x, i: op.gather_nd(x, i, 1), [X, np.array([[[1]], [[2]]], i64)], dynamic=False),
    Case("gather_nd_5", lambda x, i: opset5.gather_nd(x, i, 2), [X, DRAWN.integers(0, 4, (2, 3, 1))], dynamic=False),
    Case("scatter_nd", op.scatter_nd_update, [X, PLACES, draw(2, 4)]),
    Case("scatter_nd_again", op.scatter_nd_update, [X, PLACES[[0, 0]], draw(2, 4)]),
    Case("scatter_nd_sum", lambda x, i, u: opset15.scatter_nd_update(x, i, u, "sum"), [X, PLACES[[0, 0]], draw(2, 4)]),
    Case("scatter", lambda x, i, u: op.scatter_update(x, i, u, const(1)),
         [X, np.array([[2], [0]], i64), draw(2, 2, 1, 4)]),
    Case("scatter_elements", lambda x, i, u: opset3.scatter_elements_update(x, i, u, const(2)),
         [X, np.argsort(DRAWN.random((2, 3, 4)), -1)[..., :2].copy(), draw(2, 3, 2)]),
    Case("scatter_elements_sum", lambda x, i, u: op.scatter_elements_update(x, i, u, const(2), "sum"),
         [X, DRAWN.integers(0, 4, (2, 3, 2)), draw(2, 3, 2)]),
    *(Case(f"scatter_elements_{kind}", lambda x, i, u, kind=kind: op.scatter_elements_update(x, i, u, const(2), kind),
           [X, DRAWN.integers(-4, 4, (2, 3, 2)), draw(2, 3, 2)]) for kind in ("prod", "min", "max")),
    *(Case(f"grid_sample_{mode}_{outside}",
           lambda x, at, mode=mode, outside=outside: op.grid_sample(x, at, {"mode": mode, "padding_mode": outside}),
           [draw(2, 3, 4, 5), 2 * draw(2, 3, 2, 2)])
      for mode in ("bilinear", "bicubic", "nearest") for outside in ("zeros", "border", "reflection")),
    Case("grid_sample_aligned", lambda x, at: op.grid_sample(x, at, {"align_corners": True}),
         [draw(2, 3, 4, 5), draw(2, 3, 2, 2)]),
    *(Case(f"boxes_{is_sorted}", lambda boxes, scores, is_sorted=is_sorted: list(op.non_max_suppression(
        boxes, scores, const(2), const(np.float32(0.5)), const(np.float32(0.1)), box_encoding="center",
        sort_result_descending=is_sorted).outputs()), [np.abs(draw(2, 9, 4)), np.abs(draw(2, 3, 9))],
           dynamic=False) for is_sorted in (False, True)),
    *(Case(f"regions_{mode}", lambda x, boxes, mode=mode: op.roi_align(
        x, boxes, const(np.array([1, 0, 1], i32)), 2, 3, 2, 0.5, "avg", mode),
           [draw(2, 3, 7, 9), REGIONS], dynamic=False) for mode in ("asymmetric", "half_pixel_for_nn", "half_pixel")),
    *(Case(f"regions_greatest_{mode}", lambda x, boxes, mode=mode: op.roi_align(
        x, boxes, const(np.array([1, 0, 1], i32)), 2, 3, 2, 0.5, "max", mode),
           [draw(2, 3, 7, 9), REGIONS], dynamic=False) for mode in ("asymmetric", "half_pixel_for_nn", "half_pixel")),
    *(Case(f"bucketize_{right}", lambda x, right=right: op.bucketize(x, const([-1.0, 0.0, 0.5, 2.0]), "i32", right),
           [np.array([[-3, -1, -0.5, 0], [0.5, 1, 2, 9]], f32)]) for right in (False, True)),
    Case("topk", lambda x: op.topk(x, const(2), 1, "max", "value"), [X]),
    Case("topk_least", lambda x: op.topk(x, const(2), -1, "min", "value", "i64"), [X]),
    Case("topk_3", lambda x: opset3.topk(x, const(2), -1, "max", "none"), [X]),
    Case("embedding_bag", lambda x, w: op.embedding_bag_packed_sum(x, const(np.array([[0, 1], [2, 2]], i32)), w),
         [draw(3, 4), np.array([[1, 2], [0.5, 1]], f32)], dynamic=False),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("cases", [LAYOUT, SHAPES, INDICES], ids=["layout", "shapes", "indices"])
def test_as_openvino(tmp_path: Path, cases: list[Case], dynamic: bool) -> None:
    check(tmp_path, cases, dynamic)


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("mode", "most"), [("reflect", 3), ("symmetric", 4)])
def test_padding_that_is_longer_than_what_is_mirrored(mode: str, most: int, backend: str, tmp_path: Path) -> None:
    """Is refused by OpenVINO, too."""
    x, sides = op.parameter([-1, -1, -1], f32), [op.parameter([3], i64) for _ in range(2)]
    path = save(tmp_path, [op.pad(x, *map(of_axes, sides), mode).output(0)], [x, *sides])
    none = np.zeros(3, i64)
    for more in (0, 1, 2, 9):
        amount = np.array([0, 0, most + more], i64)
        for given in ([X, amount, none], [X, none, amount]):
            if not more:
                np.testing.assert_array_equal(run(path, given, backend=backend)[0], run_openvino(path, given)[0])
                continue
            with pytest.raises(RuntimeError):
                run_openvino(path, given)
            with pytest.raises(circlet.ExecutionError, match="out of range for an axis of size 4"):
                run(path, given, backend=backend)


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("batch", [1, 2])
def test_slices_of_as_many_batches_as_a_run_has(batch: int, backend: str, tmp_path: Path) -> None:
    x, rows = op.parameter([-1] * (batch + 2), f32), op.parameter([-1] * batch + [-1, 2], i64)
    path = save(tmp_path, [op.gather_nd(x, rows, batch).output(0)], [x, rows])
    for lead in ((2, 3), (1, 1), (3, 2), (5, 1)):
        given = [draw(*lead[:batch], 4, 5), DRAWN.integers(0, 4, (*lead[:batch], 3, 2))]
        np.testing.assert_array_equal(run(path, given, backend=backend)[0], run_openvino(path, given)[0])
