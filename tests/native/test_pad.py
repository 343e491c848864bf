"""Native operators that enlarge a tensor."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.detection import DetectionPostProcess
from circlet.runtime.ops.pad import Continuation, ContinuedPad, Dilate, StablehloPad
from tests.native.against_cpu import agree, applied, seeds, values
from tests.native.native_cases import native_test
from tests.ops.test_pad import CONTINUED, MIRROR, PAD, SPREAD, TILE

test_pad = native_test([*PAD, *MIRROR, *CONTINUED, *SPREAD, *TILE])

AXES = st.lists(st.tuples(st.integers(0, 6), st.integers(-1, 3), st.integers(-1, 3), st.integers(0, 3)), min_size=1,
                max_size=3)
"""Of each axis its size, the padding before and behind it, and that between elements."""
KINDS = st.sampled_from([DType.FLOAT32, DType.INT8, DType.INT64, DType.BOOL])


@settings(max_examples=40, deadline=None)
@given(AXES, KINDS, seeds)
def test_elements_apart_from_each_other(axes: list[tuple[int, int, int, int]], dtype: DType, seed: int) -> None:
    sizes, low, high, gaps = (tuple(each) for each in zip(*(
        (size, *(max(each, 0 if size < 2 else -1) for each in edges), gap) for size, *edges, gap in axes), strict=True))
    x = values(sizes, dtype.numpy, seed)
    value = np.ones((), dtype.numpy)
    agree(applied(StablehloPad(low, high, gaps), value), x)
    agree(applied(Dilate(), np.array([each + 1 for each in gaps], np.int32), value), x)


@settings(max_examples=40, deadline=None)
@given(AXES, KINDS, st.sampled_from(Continuation), seeds)
def test_elements_beyond_the_ends(axes: list[tuple[int, int, int, int]], dtype: DType, continuation: Continuation,
                                  seed: int) -> None:
    sizes = [max(size, 1) for size, *_ in axes]
    amounts = [(max(before, -size + 1) if after >= 0 else max(before, 0), after + gap if size > 1 else max(after, 0))
               for size, (_, before, after, gap) in zip(sizes, axes, strict=True)]
    x = values(sizes, dtype.numpy, seed)
    agree(applied(ContinuedPad(continuation), np.array(amounts, np.int64)), x)


def test_what_lies_in_no_memory_goes_on() -> None:
    """The number of detections, which numpy finds."""
    b = ModelBuilder()
    main = b.subgraph("main")
    boxes, scores = main.input("boxes", DType.FLOAT32, (1, 5, 4)), main.input("scores", DType.FLOAT32, (1, 5, 3))
    anchors = main.constant(np.random.default_rng(1).random((5, 4)).astype(np.float32))
    *_, count = main.op(DetectionPostProcess(
        4, 1, 100, True, 0.0, 0.5, 2, 10.0, 10.0, 5.0, 5.0), boxes, scores, anchors)
    main.output(main.apply(ContinuedPad(Continuation.EDGE), count, main.constant(np.array([[1, 2]], np.int32))))
    model, random = b.build(), np.random.default_rng(2)
    given = [random.random((1, 5, 4)).astype(np.float32), random.random((1, 5, 3)).astype(np.float32)]
    native = circlet.Session(model, "native")
    (found,), (wanted,) = (each.invoke(0, given) for each in (native, circlet.Session(model, "cpu")))
    np.testing.assert_array_equal(found, wanted, strict=True)
    assert found.shape == (4,)
    assert native.backend_of(0)[1] == "native"
