"""What PyTorch's exporter writes for `x[..., i, :] = y` is an update of a window; what only looks like it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import CircletError
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elements import Combine, ScatterElements
from circlet.runtime.ops.shape import BroadcastArgs, BroadcastTo, ShapeOf
from circlet.runtime.passes.transforms.constants.place_slices import place_slices
from tests.native.test_lengths import floats

Indices: TypeAlias = Callable[[SubgraphBuilder, int, Value, Value], Value]
"""Those of updates, which are the second value, into the first one, given the index."""
OPEN, WINDOW = (-1, 5, -1), (-1, 1, -1)


def made(m: SubgraphBuilder, index: int, target: Value) -> Value:
    """An index repeated."""
    return m.op(BroadcastTo(), m.constant(np.int64(index)), target,
                outputs=[Tensor("", DType.INT64, (1, 1, 1), (-1, -1, -1))])[0]


def repeated(m: SubgraphBuilder, index: int, x: Value, y: Value) -> Value:
    return made(m, index, m.apply(ShapeOf(DType.INT64), y))


def exported(m: SubgraphBuilder, index: int, x: Value, y: Value) -> Value:
    """As PyTorch's exporter writes it."""
    return made(m, index, m.apply(BroadcastArgs(), m.constant(np.zeros(0, np.int64)), m.apply(ShapeOf(DType.INT64), y)))


def listed(m: SubgraphBuilder, index: int, x: Value, y: Value) -> Value:
    return m.constant(np.full((2, 1, 3), index, np.int64))


def of_one(m: SubgraphBuilder, index: int, x: Value, y: Value) -> Value:
    """Repeated to the shape of something else."""
    return made(m, index, m.apply(ShapeOf(DType.INT64), x))


def uneven(m: SubgraphBuilder, index: int, x: Value, y: Value) -> Value:
    found = np.full((2, 1, 3), index, np.int64)
    found[1, 0, 2] = 0
    return m.constant(found)


def placing(index: int, indices: Indices = exported, op: ScatterElements | None = None,
            shape: Sequence[int] = OPEN, window: Sequence[int] = WINDOW) -> Model:
    """Of x and y: x with y at an index."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = main.input("x", np.float32, shape), main.input("y", np.float32, window)
    main.output(main.apply(op or ScatterElements(1), x, indices(main, index, x, y), y))
    return b.build()


STATIC = ((2, 5, 3), (2, 1, 3))


def names(model: Model) -> list[str]:
    return [each.name for each in model.subgraphs[0].operators]


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("model", "index"), [
    (placing(0), 0), (placing(4), 4), (placing(2, repeated), 2), (placing(3, op=ScatterElements(-2)), 3),
    (placing(1, listed, None, *STATIC), 1)], ids=["first", "last", "plain", "from the end", "listed"])
def test_placed(model: Model, index: int, backend: str) -> None:
    assert names(place_slices(model))[-1] == "DYNAMIC_UPDATE_SLICE"
    session = circlet.Session(model, backend)
    sizes = [(2, 3)] if model.subgraphs[0].tensors[0].is_static else [(2, 3), (1, 1), (4, 40), (0, 3)]
    for n, k in sizes:
        x, y = floats(n, 5, k), floats(n, 1, k) + 1
        wanted = x.copy()
        wanted[:, index:index + 1] = y
        np.testing.assert_array_equal(session.invoke(0, [x, y])[0], wanted)


@pytest.mark.parametrize("model", [
    placing(5), placing(-1), placing(1, of_one), placing(1, op=ScatterElements(1, Combine.ADD)),
    placing(1, op=ScatterElements(0)), placing(1, shape=(-1, -1, -1)), placing(1, window=(-1, -1, -1)),
    placing(1, uneven, None, *STATIC), placing(1, listed)],
    ids=["beyond", "from the end", "another's shape", "added", "open axis", "open length", "open window", "uneven",
         "listed for open lengths"])
def test_left_as_it_is(model: Model) -> None:
    assert place_slices(model) is model


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_updates_that_do_not_fit(backend: str) -> None:
    session = circlet.Session(placing(1), backend)
    with pytest.raises(CircletError, match="update"):
        session.invoke(0, [floats(2, 5, 3), floats(2, 1, 4)])
