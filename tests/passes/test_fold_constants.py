"""What follows from constants alone is computed once; what is large, quantised or fails stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.pad import Tile
from circlet.runtime.ops.quantize import Cast, Dequantize
from circlet.runtime.ops.random import RandomUniform
from circlet.runtime.ops.shape import BroadcastTo, Fill, Range
from circlet.runtime.ops.unary import Cos
from circlet.runtime.passes.transforms.constants.fold_constants import LARGEST, SMALL, fold_constants

Write = Callable[[SubgraphBuilder], Value]
COUNTS = np.arange(6, dtype=np.float32)
INTS = np.array([2, 3], np.int32)


def model(write: Write) -> Model:
    """Adds what is written to an input."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, ())
    main.output(main.apply(Add(), x, write(main)))
    return b.build()


def evaluated(given: Model) -> Sequence[Array] | None:
    try:
        return circlet.Session(given, "cpu").invoke(0, [])
    except circlet.CircletError:
        return None


def left(given: Model) -> list[str]:
    """The operators that the pass leaves."""
    names = [each.name for each in fold_constants(given, evaluated).subgraphs[0].operators]
    return [each for each in names if each != "SKIP"]


def window(m: SubgraphBuilder) -> Value:
    (places,) = m.op(Range(), *(m.constant(np.float32(each)) for each in (0, 6, 1)))
    return m.apply(Cos(), m.apply(Mul(), places, m.constant(np.float32(0.5))))


def table(m: SubgraphBuilder) -> Value:
    """More than its parts: (300, 1) times (1, 200)."""
    columns = m.constant(np.arange(200, dtype=np.float32).reshape(1, 200))
    return m.apply(Mul(), m.constant(np.arange(300, dtype=np.float32).reshape(300, 1)), columns)


def too_large(m: SubgraphBuilder) -> Value:
    size = int((LARGEST // 4) ** 0.5) + 1
    row = np.ones(size, np.float32)
    return m.apply(Mul(), m.constant(row.reshape(-1, 1)), m.constant(row.reshape(1, -1)))


def dequantised(m: SubgraphBuilder) -> Value:
    given = m.constant(np.arange(4, dtype=np.int8), quantization=Quantization((0.5,), (0,)))
    return m.op(Dequantize(), given, outputs=[Tensor("", DType.FLOAT32, (4,))])[0]


FOLDED: dict[str, Write] = {
    "window": window, "table": table,
    "repeated and changed": lambda m: m.apply(Cos(), m.op(Fill(), m.constant(INTS), m.constant(np.float32(0.5)))[0])}
LEFT: dict[str, tuple[Write, str]] = {
    "large constants": (lambda m: m.apply(Cos(), m.constant(np.zeros(SMALL // 4 + 1, np.float32))), "COS"),
    "large results": (too_large, "MUL"),
    "bytes": (dequantised, "DEQUANTIZE"),
    "sums of products": (lambda m: m.op(Cast(DType.INT32, DType.FLOAT32), m.constant(INTS), outputs=[
        Tensor("", DType.FLOAT32, (2,))])[0], "CAST"),
    "errors": (lambda m: m.apply(Gather(), m.constant(COUNTS), m.constant(np.int32(9))), "GATHER"),
    "filled": (lambda m: m.op(Fill(), m.constant(INTS), m.constant(np.float32(1)))[0], "FILL"),
    "tiled": (lambda m: m.apply(Tile(), m.constant(COUNTS), m.constant(INTS[:1])), "TILE"),
    "broadcast": (lambda m: m.apply(BroadcastTo(), m.constant(COUNTS), m.constant(np.array([2, 6], np.int32))),
                  "BROADCAST_TO"),
    "random": (lambda m: m.op(RandomUniform(), m.constant(INTS), outputs=[Tensor("", DType.FLOAT32, (2, 3))])[0],
               "RANDOM_UNIFORM")}


@pytest.mark.parametrize("name", FOLDED)
def test_folded(name: str) -> None:
    given = model(FOLDED[name])
    assert left(given) == ["ADD"]
    (expected,) = circlet.Session(given, "cpu").invoke(0, [np.float32(2)])
    (found,) = circlet.Session(fold_constants(given, evaluated), "cpu").invoke(0, [np.float32(2)])
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("name", LEFT)
def test_left(name: str) -> None:
    write, operator = LEFT[name]
    given = model(write)
    assert fold_constants(given, evaluated) is given
    assert left(given) == [operator, "ADD"]


def test_repeated_elements_that_others_read_stay() -> None:
    def write(m: SubgraphBuilder) -> Value:
        (ones,) = m.op(Fill(), m.constant(INTS), m.constant(np.float32(1)))
        return m.apply(Mul(), m.apply(Add(), m.tensor(Tensor("v", DType.FLOAT32, (), is_variable=True)), ones),
                       m.apply(Cos(), ones))

    assert left(model(write)) == ["FILL", "ADD", "MUL", "ADD"]


def test_a_result_that_is_a_constant() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(Cos(), main.constant(COUNTS)))
    changed = fold_constants(b.build(), evaluated)
    assert [each.name for each in changed.subgraphs[0].operators] == ["SKIP"]
    np.testing.assert_allclose(circlet.Session(changed, "cpu").invoke(0, [])[0], np.cos(COUNTS), 1e-6)
