"""Native resizing, and moves between space and batch or channels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import circlet
from circlet.backends.native.rules.rule import Rule, rule_of
from circlet.runtime.exec.kernel import NOWHERE, Call
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.resample import Coordinates, Interpolation, Nearest, Resample
from circlet.runtime.ops.resize import Resize, ResizeBilinear, ResizeNearestNeighbor
from circlet.runtime.ops.spatial import BatchToSpaceND, DepthToSpace, SpaceToBatchND, SpaceToDepth
from tests.native.against_cpu import agree, applied, seeds, values
from tests.native.native_cases import model_of, native_test
from tests.ops.cases import check
from tests.ops.test_resample import CASES as RESAMPLED
from tests.ops.test_resize import BILINEAR, NEAREST
from tests.ops.test_spatial import CASES as SPATIAL

test_resize = native_test([each for each in (*BILINEAR, *NEAREST) if each.error is None])
test_resample = native_test([each for each in RESAMPLED if each.error is None])
test_spatial = native_test([each for each in SPATIAL if each.error is None])

LENGTHS = st.integers(1, 7)
IMAGES = st.tuples(st.integers(0, 2), LENGTHS, LENGTHS, st.sampled_from([1, 3, 16, 19]))
FACTORS = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.25])
COORDINATES = [each for each in Coordinates if each is not Coordinates.TF_CROP_AND_RESIZE]


def has_one_step(length: int, measure: float) -> bool:
    """Whether corners that are aligned divide by 0: a length times a factor that is 1 while more elements are made."""
    return isinstance(measure, float) and length * measure == 1.0


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([ResizeBilinear, ResizeNearestNeighbor]), st.booleans(), st.booleans(), IMAGES,
       st.tuples(LENGTHS, LENGTHS), seeds)
def test_any_size(op: type[Resize], corners: bool, half: bool, image: tuple[int, ...], size: tuple[int, int],
                  seed: int) -> None:
    assume(not (op is ResizeBilinear and corners and half))
    agree(applied(op(corners, half), np.array(size, np.int32)), values(image, np.float32, seed))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(Interpolation), st.sampled_from(COORDINATES), st.sampled_from(Nearest), IMAGES,
       st.tuples(LENGTHS, LENGTHS) | st.tuples(FACTORS, FACTORS), seeds)
def test_any_axes(kind: Interpolation, coordinates: Coordinates, nearest: Nearest, image: tuple[int, ...],
                  measure: tuple[float, float], seed: int) -> None:
    assume(coordinates is not Coordinates.ALIGN_CORNERS or not any(map(has_one_step, image[1:], measure)))
    found = np.array(measure, np.float32 if isinstance(measure[0], float) else np.int64)
    agree(applied(Resample((1, 2), kind, coordinates, nearest), found), values(image, np.float32, seed))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", [Interpolation.LINEAR, Interpolation.CUBIC])
@pytest.mark.parametrize(("axes", "size"), [((1, 2), (9, 4)), ((2, 3), (50, 7)), ((0, 3), (1, 1)), ((3,), (30,))])
def test_antialiasing(axes: tuple[int, ...], size: tuple[int, ...], kind: Interpolation, inside: bool) -> None:
    x, op = values((3, 29, 33, 21), np.float32, 5), Resample(axes, kind, exclude_outside=inside, antialias=True)
    agree(applied(op, np.array(size, np.int64)), x)


def test_antialiasing_needs_no_host_call() -> None:
    main = model_of(next(each for each in RESAMPLED if each.id == "antialias"))[0].subgraphs[0]
    assert isinstance(rule_of(Call.of(main, main.operators[0], NOWHERE)), Rule)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([np.int8, np.uint8, np.int16]), st.sampled_from([(False, False), (True, False), (False, True)]),
       IMAGES, st.tuples(LENGTHS, LENGTHS), seeds)
def test_integers(dtype: type[np.generic], options: tuple[bool, bool], image: tuple[int, ...], size: tuple[int, int],
                  seed: int) -> None:
    agree(applied(ResizeBilinear(*options), np.array(size, np.int32)), values(image, dtype, seed))


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16], ids=lambda each: each.value)
@pytest.mark.parametrize("op", [ResizeBilinear, ResizeNearestNeighbor])
@pytest.mark.parametrize("options", [(False, False), (True, False), (False, True)], ids=["", "corners", "centers"])
def test_sizes_that_the_run_tells(op: type[Resize], options: tuple[bool, bool], dtype: DType, folder: Path,
                                  compiled: list[str]) -> None:
    """One of 1 among them, which has no steps between elements."""
    b = ModelBuilder()
    main = b.subgraph("main")
    image, size = main.input("image", dtype, (1, -1, 4, 3)), main.input("size", DType.INT32, (2,))
    main.output(*main.op(op(*options), image, size, outputs=[Tensor("", dtype, (), has_rank=False)]))
    native, cpu = (circlet.Session(b.build(), each) for each in ("native", "cpu"))
    for rows, *wanted in ((5, 7, 3), (2, 1, 6), (9, 4, 1), (3, 1, 1), (5, 7, 3)):
        given = [values((1, rows, 4, 3), dtype.numpy, rows), np.array(wanted, np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5 if dtype is DType.FLOAT32 else None)
    assert len(compiled) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64, np.bool_])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_blocks(block: int, dtype: type[np.generic]) -> None:
    image = values((2, 2 * block, 3 * block, 2), dtype, 1)
    agree(applied(SpaceToDepth(block)), image)
    agree(applied(DepthToSpace(block)), values((2, 3, 4, 2 * block * block), dtype, 2))


MARGIN = st.integers(0, 3)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), MARGIN, MARGIN, st.integers(0, 5)), min_size=1, max_size=3),
       st.integers(1, 3), st.lists(st.integers(1, 3), max_size=2), seeds)
def test_batches(axes: list[tuple[int, int, int, int]], images: int, rest: list[int], seed: int) -> None:
    block = np.array([size for size, *_ in axes], np.int32)
    margins = np.array([(before, after) for _, before, after, _ in axes], np.int32)
    lengths = [length + (-(length + before + after)) % size for size, before, after, length in axes]
    agree(applied(SpaceToBatchND(), block, margins), values([images, *lengths, *rest], np.float32, seed))
    parts = [-(-(length + before + after) // size) for size, before, after, length in axes]
    agree(applied(BatchToSpaceND(), block, margins),
          values([images * int(np.prod(block)), *parts, *rest], np.float32, seed))


def test_fused_with_their_surroundings() -> None:
    def formula(g: SubgraphBuilder, x: Value, y: Value) -> Sequence[Value]:
        size = g.constant(np.array([6, 8], np.int32))
        deep = g.apply(DepthToSpace(2), g.apply(Add(), x, x))
        bilinear, nearest = (g.apply(op(), deep, size) for op in (ResizeBilinear, ResizeNearestNeighbor))
        return [g.apply(Add(), g.apply(Add(), bilinear, nearest), y), g.apply(SpaceToDepth(2), g.apply(Add(), y, y))]

    agree(formula, values((1, 2, 3, 8), np.float32, 1), values((1, 6, 8, 2), np.float32, 2))
