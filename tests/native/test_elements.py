"""Native operators that read or write single elements, or slices, at places that indices name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elements import Combine, GatherElements, ScatterElements, ScatterSlices
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.unary import Neg
from tests.native.against_cpu import Array, agree, applied, seeds, shapes, values
from tests.native.native_cases import native_test
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import Write, model, several
from tests.ops.cases import check
from tests.ops.test_elements import CASES
from tests.properties import holds

test_elements = native_test(CASES)

KINDS = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.bool_)
INDICES = (np.int8, np.uint8, np.int32, np.uint32, np.int64)
LENGTHS = st.sampled_from([1, 2, 3, 5, 9, 17])


def indices_of(sizes: Sequence[int], shape: Sequence[int], dtype: type[np.generic], seed: int) -> Array:
    """Indices of axes of these lengths, counted from either end where the type can: (*shape, count)."""
    random = np.random.default_rng(seed)
    low = 0 if np.dtype(dtype).kind == "u" else -1
    each = [random.integers(low * size, max(size, low * size + 1), shape) for size in sizes]
    return np.stack(each, -1).astype(dtype) if each else np.zeros((*shape, 0), dtype)


@holds(shapes(1, 4, LENGTHS), st.data(), st.sampled_from(KINDS), st.sampled_from(INDICES), seeds, few=12, many=200)
def test_along_an_axis(shape: list[int], data: st.DataObject, dtype: type[np.generic], kind: type[np.generic],
                       seed: int) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    named = [data.draw(st.integers(0, size)) for size in shape]
    named[axis] = data.draw(st.sampled_from([0, 1, 4, 20]))
    indices = indices_of([shape[axis]], named, kind, seed)[..., 0]
    x, updates = (values(each, dtype, seed + k, special=True) for k, each in enumerate((shape, named)))
    agree(applied(GatherElements(axis)), x, indices)
    with np.errstate(over="ignore", invalid="ignore"):
        agree(applied(ScatterElements(axis, data.draw(st.sampled_from(Combine)))), x, indices, updates)


@holds(shapes(1, 4, LENGTHS), st.data(), st.sampled_from(KINDS), st.sampled_from(INDICES), seeds, few=10, many=150)
def test_slices(shape: list[int], data: st.DataObject, dtype: type[np.generic], kind: type[np.generic],
                seed: int) -> None:
    depth, count = data.draw(st.integers(0, len(shape))), data.draw(shapes(0, 2, st.sampled_from([0, 1, 2, 7])))
    indices = indices_of(shape[:depth], count, kind, seed)
    x, updates = (values(each, dtype, seed + k, special=True) for k, each in enumerate((shape,
                                                                                       (*count, *shape[depth:]))))
    with np.errstate(over="ignore", invalid="ignore"):
        agree(applied(ScatterSlices(data.draw(st.sampled_from(Combine)))), x, indices, updates)


OUTSIDE = (3, -4, 2**31 - 1, -2**31)


@pytest.mark.parametrize("op", [GatherElements(1), ScatterElements(1, Combine.ADD), ScatterSlices()], ids=str)
@pytest.mark.parametrize("wrong", OUTSIDE)
def test_the_first_index_outside_is_named(op: Op, wrong: int) -> None:
    """And the session goes on."""
    x, indices = np.zeros((3, 3), np.int32), np.zeros((3, 3), np.int32)
    if isinstance(op, ScatterSlices):
        indices = np.zeros((3, 1), np.int32)
    given = [x, indices, x][:2 if isinstance(op, GatherElements) else 3]
    b = ModelBuilder()
    main = b.subgraph("main")
    inputs: list[Value] = [main.input(f"x{k}", DType.of(each.dtype), each.shape) for k, each in enumerate(given)]
    main.output(main.apply(op, *inputs))
    built = b.build()
    for backend in ("cpu", "native"):
        session = circlet.Session(built, backend)
        bad = indices.copy()
        bad.reshape(-1)[1:3] = wrong, -50
        for _ in range(2):
            with pytest.raises(circlet.ExecutionError, match=f"index {wrong} is out of range for an axis of size 3"):
                session.invoke(0, [x, bad, *given[2:]])
            np.testing.assert_array_equal(session.invoke(0, given)[0], x)


def picked(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Elements of the rows in their order, and sums with those that come after them."""
    _, order = several(g, TopKV2(), (DType.FLOAT32, DType.INT32), x, g.number(4))
    found = g(GatherElements(1), g(Mul(), x, g.number(2.0)), order)
    return [g(Add(), found, g.number(1.0)), g(ScatterElements(1, Combine.ADD), x, order, found)]


def turned(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Rows in place of others, counted from either end."""
    some = g(GatherElements(0), x, g.builder.constant(np.arange(-9, 9, dtype=np.int64).reshape(3, 6) % 2 - 1))
    rows = g.builder.constant(np.array([[0], [-1], [0]], np.int64))
    return [g(ScatterSlices(), g(Neg(), x), rows, g(Neg(), some)), g(ScatterSlices(Combine.MAXIMUM), x, rows, some)]


def ordered(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """A column in its order, of which as many numbers as the model leaves open are taken and put back."""
    first = g(Reshape(), g(Gather(1), x, g.ints(0)), g.ints(-1))
    values, order = several(g, TopKV2(), (DType.FLOAT32, DType.INT32), first, g.length(x, 0))
    rows = g(Reshape(), order, g.ints(-1, 1), dtype=DType.INT32)
    return [g(GatherElements(), first, order), g(ScatterElements(), first, order, values),
            g(ScatterSlices(Combine.MINIMUM), x, rows, x)]


OPEN: dict[str, Write] = {"picked": picked, "turned": turned, "ordered": ordered}


@pytest.mark.parametrize("name", OPEN)
def test_one_function_serves_all_lengths(name: str, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(OPEN[name]), backend=each) for each in ("native", "cpu"))
    for rows in (8, 5, 64, 33, 2, 150, 8):
        given = [floats(rows, 6), np.array(3, np.int32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-6)
    assert len(compiled) == 1
    assert "cpu" not in {part for each in native.backend_of(0) for part in each.split("+")}
