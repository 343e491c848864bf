"""Search, order, scatters and sums of rows of OpenVINO against OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.schema.openvino.models import Case, check, const, draw, f32, i32, i64, op, run, save

opset15, opset16 = (pytest.importorskip(f"openvino.opset{k}") for k in (15, 16))
X = draw(2, 3, 4)
WHOLE = np.random.default_rng(0).integers(-9, 9, (3, 4))
PLACES = np.array([[0, 1], [1, 2], [0, 1]], i64)
ROWS = np.sort(draw(3, 5), -1)
BAGS = np.array([0, 2, 2, 5], i32)

SEARCHES = [
    *(Case(f"topk_by_place_{mode}", lambda x, m=mode: op.topk(x, const(2), 1, m, "index", "i64"), [X])
      for mode in ("max", "min")),
    Case("topk_least_integers", lambda x: op.topk(x, const(2), 1, "min", "value"), [WHOLE.astype(i32)]),
    *(Case(f"sorted_{rank}_{right}", lambda rows, x, right=right: opset15.search_sorted(rows, x, right),
           [ROWS if rank == 2 else ROWS[0], np.concatenate([draw(3, 2), ROWS[:, :3]], 1)])
      for rank in (1, 2) for right in (False, True)),
    *(Case(f"bucketize_integers_{right}", lambda x, right=right: op.bucketize(
        x, const(np.array([-5, 0, 7], i32)), "i32", right), [WHOLE.astype(i32)]) for right in (False, True)),
    Case("unique", lambda x: op.unique(x, index_element_type="i32"), [WHOLE.astype(i32)]),
    Case("unique_rows", lambda x: op.unique(x, const(np.array([0], i64))), [WHOLE[[0, 1, 0, 2]]]),
    *(Case(f"shift_{name}", getattr(opset15, f"bitwise_{name}_shift"), [WHOLE.astype(i32), np.array([1, 0, 3, 2], i32)])
      for name in ("left", "right")),
    *(Case(f"whole_{name}", getattr(op, name), [WHOLE]) for name in ("floor", "ceiling")),
]
SCATTERS = [
    *(Case(f"scatter_nd_{kind}", lambda x, i, u, kind=kind: opset15.scatter_nd_update(x, i, u, kind),
           [X, PLACES, draw(3, 4)]) for kind in ("sub", "prod", "min", "max")),
    *(Case(f"scatter_elements_{kind}_{first}", lambda x, i, u, kind=kind, first=first: op.scatter_elements_update(
        x, i, u, const(2), kind, first), [X, np.random.default_rng(1).integers(0, 4, (2, 3, 2)), draw(2, 3, 2)])
      for kind in ("sum", "prod", "min", "max", "mean") for first in (False, True) if kind == "mean" or not first),
    Case("slice_scatter", lambda x, u: opset15.slice_scatter(x, u, const([0, 3]), const([3, 0]), const([2, -1]),
                                                             const([1, 2])), [X, draw(2, 2, 3)]),
    Case("slice_scatter_whole", lambda x, u: opset15.slice_scatter(x, u, const([1]), const([2]), const([1])),
         [X, draw(1, 3, 4)]),
    *(Case(f"segments_{default}", lambda t, i, s, default=default: op.embedding_segments_sum(
        t, i, s, const(np.array(5, i32)), *([] if default is None else [const(np.array(default, i32))])),
           [draw(6, 3), np.array([0, 5, 5, 1], i32), np.array([0, 0, 2, 4], i32)]) for default in (None, 2)),
    *(Case(f"bags_{weighted}", lambda t, i, *w: op.embedding_bag_offsets_sum(
        t, i, const(BAGS), *([const(np.array(1, i32)), *w] if w else [])),
           [draw(6, 3), np.array([0, 5, 5, 1, 2, 3], i32), *([draw(6)] if weighted else [])],
           dynamic=not weighted) for weighted in (False, True)),
    *(Case(f"bags_{kind}_{len(more)}", lambda t, i, kind=kind, more=more: opset15.embedding_bag_offsets(
        t, i, const(BAGS), *map(const, more), reduction=kind), [draw(6, 3), np.array([0, 5, 5, 1, 2, 3], i32)])
      for kind in ("sum", "mean") for more in ([], [np.array(1, i32)])),
    *(Case(f"packed_{kind}", lambda t, i, kind=kind: opset15.embedding_bag_packed(t, i, reduction=kind),
           [draw(6, 3), np.array([[0, 5, 5], [1, 2, 3]], i32)]) for kind in ("sum", "mean")),
]
NUMBERS = np.array([0, 0, 2, 2, 2, 5], i32)
SEGMENTS = [
    *(Case(f"segment_max_{mode}_{count}", lambda x, n, mode=mode, count=count: opset16.segment_max(
        x, n, None if count is None else const(np.array(count, i32)), fill_mode=mode), [x, NUMBERS])
      for mode in ("ZERO", "LOWEST") for count in (None, 3, 8) for x in (draw(6, 3),)),
    Case("segment_max_integers", lambda x, n: opset16.segment_max(x, n, fill_mode="ZERO"),
         [np.arange(-6, 0).astype(i32), NUMBERS]),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("cases", [
    pytest.param(SEARCHES, id="searches"), pytest.param(SCATTERS, id="scatters"),
    pytest.param(SEGMENTS, id="segments", marks=pytest.mark.skipif(
        not hasattr(opset16, "segment_max"), reason="this OpenVINO cannot make a SegmentMax"))])
def test_as_openvino(tmp_path: Path, cases: list[Case], dynamic: bool) -> None:
    check(tmp_path, cases, dynamic)


def test_elements_in_the_order_of_their_places(tmp_path: Path) -> None:
    """OpenVINO's own Unique gives zeros for all but the first then."""
    check(tmp_path, [Case("unique", lambda x: op.unique(x, sorted=False).output(0), [np.array([6, 2, 6, 5], i32)],
                          [[6, 2, 5]])], dynamic=True)


@pytest.mark.skipif(not hasattr(opset16, "segment_max"), reason="this OpenVINO cannot make a SegmentMax")
@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("mode", ["ZERO", "LOWEST"])
def test_the_greatest_of_no_rows(tmp_path: Path, mode: str, backend: str) -> None:
    """OpenVINO itself crashes then, at times."""
    own = [op.parameter([-1, 3], f32), op.parameter([-1], i32)]
    path = save(tmp_path, opset16.segment_max(*own, fill_mode=mode).outputs(), own)
    (found,) = run(path, [np.zeros((0, 3), f32), np.zeros(0, i32)], backend=backend)
    assert found.shape == (0, 3)


def test_searches_of_float16(tmp_path: Path) -> None:
    check(tmp_path, [Case("topk", lambda x: [op.convert(op.topk(op.convert(x, "f16"), const(2), 1, "max", "index")
                                                        .output(0), "f32")], [X.astype(f32)], tolerance=1e-2)],
          dynamic=True)
