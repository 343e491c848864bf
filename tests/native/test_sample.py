"""Native sampling at places that a tensor names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.resample import Interpolation
from circlet.runtime.ops.sample import GridSample, Outside, RegionMax, RoiAlign
from tests.native.against_cpu import agree, applied, seeds, values
from tests.native.native_cases import native_test
from tests.ops.test_resample import REGIONS, SAMPLES

test_cases = native_test(SAMPLES)
test_regions = native_test(REGIONS)

OPTIONS = st.tuples(st.sampled_from(Interpolation), st.sampled_from(Outside), *[st.booleans()] * 3)
SPATIAL = st.lists(st.sampled_from([1, 2, 5, 9]), min_size=1, max_size=3)


def places(shape: tuple[int, ...], seed: int, special: bool) -> np.ndarray:
    """Inside of the input, on its borders, and a little and far outside."""
    random = np.random.default_rng(seed)
    found = np.where(random.random(shape) < 0.3, random.choice([-1.0, 0.0, 0.25, 1.0], shape),
                     random.uniform(-2.5, 2.5, shape)).astype(np.float32)
    if special:
        found[random.random(shape) < 0.1] = random.choice([np.nan, np.inf, -np.inf])
    return found


@settings(max_examples=60, deadline=None)
@given(OPTIONS, SPATIAL, st.sampled_from([1, 3]), st.booleans(), seeds)
def test_samples(options: tuple[Interpolation, Outside, bool, bool, bool], sizes: list[int], channels: int,
                 special: bool, seed: int) -> None:
    x = values((2, *sizes, channels), np.float32, seed, special)
    grid = places((2, *(3, 2, 2)[:len(sizes)], len(sizes)), seed, special)
    with np.errstate(all="ignore"):
        agree(applied(GridSample(*options)), x, grid)


@settings(max_examples=60, deadline=None)
@given(st.builds(RoiAlign, st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.sampled_from([0.25, 1.0]),
                 st.booleans()),
       st.tuples(*[st.sampled_from([1, 2, 9])] * 2), st.sampled_from([1, 3, 17]), st.integers(0, 4), st.booleans(),
       seeds)
def test_boxes(op: RoiAlign, sizes: tuple[int, int], channels: int, count: int, special: bool, seed: int) -> None:
    """Small ones, those that reach beyond, that are turned around, that have no end."""
    random = np.random.default_rng(seed)
    corners = (places((count, 4), seed, special) * random.choice([1, 10, 1e6])).astype(np.float32)
    agree(applied(op), values((2, *sizes, channels), np.float32, seed, False), corners,
          random.integers(0, 2, count, np.int32))


@settings(max_examples=15, deadline=None)
@given(st.tuples(*[st.sampled_from([1, 2, 9])] * 2), st.sampled_from([1, 3, 17]), st.integers(0, 4), st.booleans(),
       seeds)
def test_greatest_in_cells(sizes: tuple[int, int], channels: int, count: int, special: bool, seed: int) -> None:
    """Some have no elements, and some reach beyond the image."""
    random = np.random.default_rng(seed)
    rows, columns = (random.integers(-3, 12, (count, cells, 2), np.int32) for cells in (2, 3))
    agree(applied(RegionMax()), values((2, *sizes, channels), np.float32, seed, special),
          random.integers(0, 2, count, np.int32), rows, columns)


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_nothing_to_sample(backend: str) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x, grid = main.input("x", DType.FLOAT32, (1, 0, 2, 1)), main.input("grid", DType.FLOAT32, (1, 1, 1, 2))
    main.output(main.apply(GridSample(), x, grid))
    session = circlet.Session(b.build(), backend=backend)
    with pytest.raises(circlet.ExecutionError, match="no elements to sample"):
        session.invoke(0, [np.zeros((1, 0, 2, 1), np.float32), np.zeros((1, 1, 1, 2), np.float32)])
