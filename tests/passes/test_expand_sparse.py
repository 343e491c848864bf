"""Constants of which a part is stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DimensionSparsity, DType, Quantization, Sparsity
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.shape import Densify
from circlet.runtime.passes.transforms.constants.expand_sparse import elements


def stored(values: Array, blocks: dict[int, int], order: tuple[int, ...], dense: tuple[bool, ...]
           ) -> tuple[Array, Sparsity]:
    """What is stored of an array: level by level, all places of a dense one, those of a compressed one below which
    there is anything but zero."""
    split = [part for axis, size in enumerate(values.shape)
             for part in (size // blocks.get(axis, 1), blocks.get(axis, 1))]
    inner = [2 * axis + 1 for axis in blocks]
    whole = values.reshape(split).transpose([2 * axis for axis in range(values.ndim)] + inner
                                            + [2 * axis + 1 for axis in range(values.ndim) if axis not in blocks])
    whole = whole.reshape(whole.shape[:len(order)]).transpose(order)
    nodes: list[tuple[int, ...]] = [()]
    levels = []
    for is_dense, size in zip(dense, whole.shape, strict=True):
        below = [[below for k in range(size) if whole[below := (*node, k)].any() or is_dense] for node in nodes]
        segments = (0, *np.cumsum([len(each) for each in below]).tolist())
        nodes = [each for group in below for each in group]
        levels.append(DimensionSparsity(size) if is_dense else
                      DimensionSparsity(0, segments, tuple(each[-1] for each in nodes)))
    return np.array([whole[node] for node in nodes], values.dtype), Sparsity(order, tuple(blocks), tuple(levels))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Array, dict[int, int], tuple[int, ...], tuple[bool, ...]]:
    """An array, the sizes of blocks by axis, the order of dimensions, and which of these are dense."""
    rank = draw(st.integers(1, 4))
    blocks = {axis: draw(st.integers(1, 3)) for axis in draw(st.permutations(range(rank))) if draw(st.booleans())}
    shape = tuple(draw(st.integers(0, 4)) * blocks.get(axis, 1) for axis in range(rank))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = random.standard_normal(shape).astype(np.float32) * (random.random(shape) < draw(st.floats(0, 1)))
    order = (*draw(st.permutations(range(rank))), *range(rank, rank + len(blocks)))
    return values.astype(np.float32), blocks, order, tuple(each >= rank or draw(st.booleans()) for each in order)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(layouts())
def test_any_layout(layout: tuple[Array, dict[int, int], tuple[int, ...], tuple[bool, ...]]) -> None:
    values, blocks, order, dense = layout
    data, sparsity = stored(values, blocks, order, dense)
    np.testing.assert_array_equal(elements(data.tobytes(), values.shape, values.dtype, sparsity), values)


VALUES = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 5]], np.float32)
DATA, ROWS = stored(VALUES, {}, (0, 1), (True, False))


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_densify(backend: str) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (3, 4))
    sparse = main.tensor(Tensor("w", DType.FLOAT32, (3, 4), data=DATA.view(np.uint8), sparsity=ROWS))
    (whole,) = main.op(Densify(), sparse, outputs=[Tensor("v", DType.FLOAT32, (3, 4))])
    main.output(*main.op(Add(), x, whole, outputs=[Tensor("y", DType.FLOAT32, (3, 4))]))
    session = circlet.Session(b.build(), backend=backend)
    (found,) = session.invoke(0, [np.ones((3, 4), np.float32)])
    np.testing.assert_array_equal(found, VALUES + 1)
    assert set(session.backend_of(0)) == {backend}


def test_quantised_filters_are_constants() -> None:
    """A product with bytes of which a part is stored is made as one with all of them."""
    weights = Quantization((0.5, 0.25, 0.125), (0, 0, 0), 0)
    found, computed = [], []
    for is_sparse in (True, False):
        b = ModelBuilder()
        main = b.subgraph("main")
        x = main.input("x", DType.FLOAT32, (2, 4))
        filters = main.constant(VALUES.astype(np.int8), quantization=weights)
        if is_sparse:
            part = DATA.astype(np.int8).view(np.uint8)
            stored = main.tensor(Tensor("w", DType.INT8, (3, 4), data=part, quantization=weights, sparsity=ROWS))
            (filters,) = main.op(Densify(), stored, outputs=[Tensor("v", DType.INT8, (3, 4), quantization=weights)])
        main.output(*main.op(FullyConnected(), x, filters, outputs=[Tensor("y", DType.FLOAT32, (2, 3))]))
        session = circlet.Session(b.build(), backend="native")
        found.append(session.invoke(0, [np.arange(8, dtype=np.float32).reshape(2, 4)])[0])
        computed.append(session.backend_of(0)[-1])
    assert computed == ["native", "native"]
    np.testing.assert_array_equal(found[0], found[1])


COLUMNS = ROWS.dimensions[1]


@pytest.mark.parametrize(("change", "message"), [
    ({"traversal_order": (0, 0)}, "an order of 2 dimensions"),
    ({"traversal_order": (0, 1, 2)}, "an order of 2 dimensions"),
    ({"dimensions": ROWS.dimensions[:1]}, "an order of 2 dimensions"),
    ({"dimensions": (DimensionSparsity(4), COLUMNS)}, "a dense dimension of 3, found 4"),
    ({"dimensions": (DimensionSparsity(3), replace(COLUMNS, indices=(1, 3, 0, 2, 4)))}, "5 indices below 4"),
    ({"dimensions": (DimensionSparsity(3), replace(COLUMNS, indices=(1, 3, -1, 2, 3)))}, "5 indices below 4"),
    ({"dimensions": (DimensionSparsity(3), replace(COLUMNS, segments=(0, 2, 2)))}, "for 3 places"),
    ({"dimensions": (DimensionSparsity(3), replace(COLUMNS, segments=(0, 3, 2, 5)))}, "for 3 places"),
    ({"dimensions": (DimensionSparsity(3), replace(COLUMNS, segments=(0, 2, 2, 6)))}, "for 3 places"),
    ({"dimensions": (DimensionSparsity(3), DimensionSparsity(4))}, "at most 5 places, found 3 of 4"),
    ({"dimensions": (DimensionSparsity(3), replace(COLUMNS, segments=(0, 2, 2, 4)))}, "expected 4 elements"),
    ({"block_map": (2,), "traversal_order": (0, 1, 2), "dimensions": (*ROWS.dimensions, DimensionSparsity(1))},
     "blocks along axes of shape"),
    ({"block_map": (1,), "traversal_order": (0, 1, 2), "dimensions": (*ROWS.dimensions, DimensionSparsity(3))},
     "sizes {1: 3} by axis"),
])
def test_layouts_that_do_not_fit(change: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        elements(DATA.tobytes(), (3, 4), np.dtype(np.float32), replace(ROWS, **change))  # type: ignore[arg-type]
