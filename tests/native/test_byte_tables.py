"""Groups of operators that do nothing but replace bytes by others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import circlet
from circlet.backends.native.emit.value import Value as Operand
from circlet.backends.native.rules.function import Function, Made
from circlet.backends.native.rules.quantized import table
from circlet.backends.native.rules.rule import Sink
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Div, Maximum, Minimum, Mul, Sub
from circlet.runtime.ops.quantize import Cast, Dequantize, Quantize
from circlet.runtime.ops.unary import Elu, Gelu, Logistic, Relu, Round, Tanh
from tests.native.test_interpreter_plans import opened
from tests.ops.cases import q


def cast(g: SubgraphBuilder, x: Value, kind: DType) -> Value:
    return g.op(Cast(), x, outputs=[opened("", kind, (-1, 64))])[0]


def number(g: SubgraphBuilder, value: float) -> Value:
    return g.constant(np.float32(value))


def stored(g: SubgraphBuilder, x: Value, scale: float, zero: float, kind: DType) -> Value:
    """As QuantizeLinear is written."""
    x = g.apply(Add(), g.apply(Round(), g.apply(Div(), x, number(g, scale))), number(g, zero))
    info = np.iinfo(kind.numpy)
    return cast(g, g.apply(Minimum(), g.apply(Maximum(), x, number(g, info.min)), number(g, info.max)), kind)


def real(g: SubgraphBuilder, x: Value, scale: float, zero: float) -> Value:
    """As DequantizeLinear is written."""
    return g.apply(Mul(), g.apply(Sub(), cast(g, x, DType.FLOAT32), number(g, zero)), number(g, scale))


def gelu(g: SubgraphBuilder, x: Value) -> Value:
    return stored(g, g.apply(Gelu(), real(g, x, 0.03, 7)), 0.02, -100, DType.INT8)


def silu(g: SubgraphBuilder, x: Value) -> Value:
    """Bytes between, and x twice."""
    gate = stored(g, g.apply(Logistic(), real(g, x, 0.05, 0)), 1 / 256, 0, DType.UINT8)
    return stored(g, g.apply(Mul(), real(g, x, 0.05, 0), real(g, gate, 1 / 256, 0)), 0.03, -120, DType.INT8)


def each_channel(g: SubgraphBuilder, x: Value) -> Value:
    """By numbers of which there are several."""
    scales = g.constant(np.linspace(0.01, 0.1, 64, dtype=np.float32))
    return stored(g, g.apply(Tanh(), g.apply(Mul(), real(g, x, 1, 0), scales)), 0.01, 0, DType.INT8)


def moved(g: SubgraphBuilder, x: Value) -> Value:
    """Too little for a table."""
    return cast(g, g.apply(Sub(), cast(g, x, DType.INT32), g.constant(np.int32(128))), DType.INT8)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, folder: object) -> list[Call]:
    """What tables are made of."""
    calls: list[Call] = []

    def look_up(function: Function, given: Operand, found: Made, sink: Sink) -> None:
        calls.append(found.call)
        table.look_up(function, given, found, sink)

    monkeypatch.setattr("circlet.backends.native.lower.groups.look_up", look_up)
    return calls


@pytest.mark.parametrize("length", [4, -1])
@pytest.mark.parametrize(("write", "tables"), [(gelu, 1), (silu, 1), (each_channel, 0), (moved, 0)])
def test_as_numpy(made: list[Call], write: Callable[[SubgraphBuilder, Value], Value], tables: int, length: int) -> None:
    """Bits of all bytes, which a computation makes."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kind = DType.UINT8 if write is moved else DType.INT8
    x = main.input("x", DType.FLOAT32, (length, 64))
    main.output(write(main, stored(main, x, 0.5, 0, kind)))
    model = b.build()
    info = np.iinfo(kind.numpy)
    given = np.arange(info.min, info.max + 1, dtype=np.float32).reshape(4, 64) / 2
    (expected,) = circlet.Session(model, "cpu").invoke(0, [given])
    (found,) = circlet.Session(model, "native").invoke(0, [given])
    np.testing.assert_array_equal(found, expected, strict=True)
    assert len(made) == tables
    assert write is each_channel or len(np.unique(expected)) > 60


@pytest.mark.parametrize("length", [4, -1])
def test_groups_alike_have_tables_of_their_own(made: list[Call], length: int) -> None:
    """Layers that differ in how their bytes are quantised alone share code, of which the table is another for each."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (length, 64))
    layers = [stored(main, main.apply(Tanh(), real(main, stored(main, x, 0.5, zero, DType.INT8), 0.01 * k, zero)),
                     0.004 * k, -zero, DType.INT8) for k, zero in enumerate((3, 0, -4, 3, 9), start=1)]
    main.output(*layers)
    model = b.build()
    given = np.arange(-128, 128, dtype=np.float32).reshape(4, 64) / 2
    expected, found = (circlet.Session(model, backend).invoke(0, [given]) for backend in ("cpu", "native"))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert len(made) == 2, "the first has its numbers in the code"


@pytest.mark.parametrize("function", [Elu, Tanh, Relu])
def test_functions_of_floats_between_bytes(made: list[Call], function: Callable[[], Op]) -> None:
    """As TensorFlow's converter writes what it has no kernel of bytes for, behind a layer."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, 64))

    def tensor(kind: DType, scale: float = 0.0, zero: int = 0) -> Tensor:
        return replace(opened("", kind, (-1, 64)), quantization=q(scale, zero) if scale else None)

    (given,) = main.op(Quantize(), x, outputs=[tensor(DType.INT8, 0.5)])
    (doubled,) = main.op(Add(), given, given, outputs=[tensor(DType.INT8, 0.05, 3)])
    (shown,) = main.op(Dequantize(), doubled, outputs=[tensor(DType.FLOAT32)])
    (changed,) = main.op(function(), shown, outputs=[tensor(DType.FLOAT32)])
    main.output(*main.op(Quantize(), changed, outputs=[tensor(DType.INT8, 0.02, -60)]))
    model, values = b.build(), np.linspace(-4, 4, 256, dtype=np.float32).reshape(4, 64)
    (expected,) = circlet.Session(model, "cpu").invoke(0, [values])
    (found,) = circlet.Session(model, "native").invoke(0, [values])
    np.testing.assert_array_equal(found, expected, strict=True)
    assert len(made) == 1
