"""Native operators that change windows of a tensor: of any axes, of any lengths in one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elements import Combine
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.scatter import ScatterWindows
from circlet.runtime.ops.unary import Neg
from tests.native.against_cpu import Array, agree, applied, seeds, shapes, values
from tests.native.native_cases import native_test
from tests.ops.test_scatter import SCATTER
from tests.properties import holds

test_scatter = native_test(SCATTER)

KINDS = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.bool_)
INDICES = (np.int8, np.uint8, np.int32, np.uint32, np.int64)
LENGTHS = st.sampled_from([1, 2, 3, 5, 9, 17])


def indices_of(sizes: Sequence[int], shape: Sequence[int], dtype: type[np.generic], seed: int) -> Array:
    """Places around axes of these lengths, and a few far from them: (*shape, count)."""
    random, limits = np.random.default_rng(seed), np.iinfo(np.dtype(dtype).name)
    near = [random.integers(0 if limits.min == 0 else -3, size + 3, shape) for size in sizes]
    found = np.stack(near, -1).astype(dtype) if near else np.zeros((*shape, 0), dtype)
    far = random.choice(np.array([limits.min, limits.min + 1, limits.max - 1, limits.max], dtype), found.shape)
    return np.where(random.random(found.shape) < 0.05, far, found)


@st.composite
def scatterings(draw: st.DrawFn) -> tuple[ScatterWindows, list[int], list[int], list[int]]:
    """An operator, and the shapes of what it changes, of its indices without their vectors, and of its updates."""
    shape, batch = draw(shapes(0, 4, LENGTHS)), draw(shapes(0, 2, st.sampled_from([0, 1, 2, 7])))
    axes = draw(st.permutations(range(len(shape))))
    inserted = sorted(axes[:draw(st.integers(0, len(shape)))])
    named = draw(st.permutations(range(len(shape))))[:draw(st.integers(0, len(shape)))]
    rank = len(shape) - len(inserted) + len(batch)
    windows = sorted(draw(st.permutations(range(rank)))[:len(shape) - len(inserted)])
    op = ScatterWindows(tuple(windows), tuple(inserted), tuple(named), draw(st.integers(0, len(batch))),
                        combine=draw(st.sampled_from(Combine)))
    sizes = iter([draw(st.integers(0, size + 2)) for axis, size in enumerate(shape) if axis not in inserted])
    others = iter(batch)
    return op, shape, batch, [next(sizes if axis in windows else others) for axis in range(rank)]


@holds(scatterings(), st.sampled_from(KINDS), st.sampled_from(INDICES), seeds, few=8, many=400)
def test_any_axes(drawn: tuple[ScatterWindows, list[int], list[int], list[int]], dtype: type[np.generic],
                  kind: type[np.generic], seed: int) -> None:
    op, shape, batch, made = drawn
    rows = indices_of([shape[axis] for axis in op.scatter_dims_to_operand_dims], batch, kind, seed)
    x, updates = (values(each, dtype, seed + k, special=True) for k, each in enumerate((shape, made)))
    with np.errstate(over="ignore", invalid="ignore"):
        agree(applied(op), x, np.moveaxis(rows, -1, op.index_vector_dim).copy(), updates, floats=0)


Made: TypeAlias = Callable[[int, int], tuple[int, ...]]

OPEN: dict[str, tuple[ScatterWindows, tuple[int, ...], Made]] = {
    "rows": (ScatterWindows((1,), (0,), (0,), 1, combine=Combine.ADD), (1,), lambda n, k: (n, k)),
    "columns": (ScatterWindows((0,), (1,), (1,), 1), (1,), lambda n, k: (k, n)),
    "elements": (ScatterWindows((), (0, 1), (1, 0), 1, combine=Combine.MAXIMUM), (2,), lambda n, k: (n,)),
    "windows": (ScatterWindows((1, 2), (), (0, 1), 1, combine=Combine.MULTIPLY), (2,), lambda n, k: (n, 2, k)),
}
"""Operators on (k, k), what is behind the number of places in the shape of their indices, and the updates of n."""


@pytest.mark.parametrize("name", OPEN)
def test_one_function_serves_all_lengths(name: str, folder: object, compiled: list[str]) -> None:
    op, vector, made = OPEN[name]
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, -1))
    places, updates = main.input("places", DType.INT32, (-1, *vector)), main.input(
        "updates", DType.FLOAT32, (-1,) * len(made(1, 1)))
    main.output(main.apply(Neg(), main.apply(op, main.apply(Add(), x, x), places, main.apply(Neg(), updates))))
    model, random = b.build(), np.random.default_rng(5)
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for n, k in ((8, 3), (5, 40), (64, 2), (33, 50), (2, 9), (8, 3)):
        given = [values((k, k), np.float32, n), random.integers(-2, k + 2, (n, *vector)).astype(np.int32),
                 values(made(n, k), np.float32, k)]
        np.testing.assert_array_equal(native.invoke(0, given)[0], cpu.invoke(0, given)[0])
    assert len(compiled) == 1, compiled
    assert native.backend_of(0) == ("native",) * 4
