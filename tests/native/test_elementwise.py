"""Native elementwise operators: the cases, and random expressions of them, alone and as the body of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from circlet.backends.native.emit.emitter import NATIVE_TYPES
from circlet.backends.native.rules.rule import Rule, rule_of
from circlet.runtime.exec.kernel import NOWHERE, Call
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops import comparison, quantize, unary
from circlet.runtime.ops import elementwise as ops
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Slice
from tests.exec import graphs
from tests.native.against_cpu import Array, seeds, values
from tests.native.native_cases import model_of, native_test
from tests.ops.cases import Case, as_t, check
from tests.ops.test_comparison import CASES as COMPARISON
from tests.ops.test_elementwise import CASES as ELEMENTWISE
from tests.ops.test_quantize import CASTS, DEQUANTIZE, FAKE_QUANT, QUANTIZE
from tests.ops.test_unary import CASES as UNARY
from tests.properties import holds

test_elementwise = native_test(ELEMENTWISE)
test_comparison = native_test(COMPARISON)
test_conversions = native_test([*CASTS, *QUANTIZE, *DEQUANTIZE, *FAKE_QUANT])

Typed: TypeAlias = "tuple[Value, DType]"
"""A value of an expression under construction."""
Operators: TypeAlias = Sequence[Op]


def is_plain(case: Case) -> bool:
    """Whether a case computes numbers that are not quantised."""
    tensors = [as_t(each) for each in (*case.inputs, *case.outputs) if each is not None]
    return case.error is None and all(each.q is None and each.tensor.dtype in NATIVE_TYPES for each in tensors)


PLAIN = [each for each in (*ELEMENTWISE, *COMPARISON, *CASTS, *FAKE_QUANT, *UNARY) if is_plain(each)]


@pytest.mark.parametrize("case", PLAIN, ids=[f"{each.op.name}-{each.id}" for each in PLAIN])
def test_plain_numbers_need_no_host_call(case: Case) -> None:
    model, _ = model_of(case)
    main = model.subgraphs[0]
    assert isinstance(rule_of(Call.of(main, main.operators[0], NOWHERE)), Rule)


SHAPES = [(), (1,), (5,), (3, 1), (3, 5), (2, 3, 5), (2, 1, 5), (2, 1, 1), (1, 3, 1)]
"""Shapes that broadcast against each other."""
WHOLE_SHAPE = (2, 3, 5)
TYPES = [DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT32, DType.INT64, DType.INT8, DType.UINT8, DType.UINT32]
_SIGNED: Operators = [unary.Abs(), unary.Neg(), unary.Sign(), unary.ReluN1To1()]
_ON_NUMBERS: Operators = [
    ops.Add(), ops.Sub(), ops.Mul(), ops.Maximum(), ops.Minimum(), ops.SquaredDifference(), unary.Square(),
    unary.Relu(), unary.Relu6(), unary.Relu0To1(), ops.Add(Activation.RELU6), ops.Sub(Activation.RELU),
]
_ON_REALS: Operators = [*_ON_NUMBERS, *_SIGNED, ops.Div(), ops.Prelu(), unary.Sqrt(), unary.Floor(), unary.Ceil(),
                        unary.Round(), unary.LeakyRelu(0.1)]
_ON_UNSIGNED: Operators = [*_ON_NUMBERS, ops.BitwiseXor(), ops.RightShift(), ops.Div(), ops.FloorDiv(), ops.FloorMod()]
_ON_INTEGERS: Operators = [*_ON_UNSIGNED, *_SIGNED]
_COMPARISONS: Operators = [comparison.Equal(), comparison.NotEqual(), comparison.Less(), comparison.LessEqual(),
                           comparison.Greater(), comparison.GreaterEqual()]
_ON_BOOLS: Operators = [comparison.LogicalAnd(), comparison.LogicalOr(), unary.LogicalNot()]
_SMOOTH: Operators = [unary.Tanh(), unary.Logistic(), unary.Sin(), unary.Cos(), unary.Gelu(), unary.Gelu(True),
                      unary.Elu(), unary.HardSwish()]


def exact_operators(dtype: DType) -> Operators:
    """Those whose results both backends must give to the bit."""
    if dtype is DType.BOOL:
        return _ON_BOOLS
    if dtype.numpy.kind == "f":
        return _ON_REALS
    return _ON_UNSIGNED if dtype.numpy.kind == "u" else _ON_INTEGERS


class Expression:
    """Values made so far; every step applies an operator that `data` draws to some of them."""

    def __init__(self, g: SubgraphBuilder, data: st.DataObject, start: Sequence[Typed]) -> None:
        self._g = g
        self._data = data
        self._pool = list(start)

    def pick(self, dtype: DType) -> Value:
        """One of the values of a type."""
        return self._data.draw(st.sampled_from([value for value, kind in self._pool if kind is dtype]))

    def add_exact(self) -> None:
        step = self._data.draw(st.sampled_from(["operator"] * 4 + ["compare", "select", "cast"]))
        dtypes = sorted({kind for _, kind in self._pool}, key=lambda kind: kind.value)
        dtype = self._data.draw(st.sampled_from(dtypes))
        if step == "compare" and dtype is not DType.BOOL:
            self._apply(self._data.draw(st.sampled_from(_COMPARISONS)), dtype, DType.BOOL)
        elif step == "select" and DType.BOOL in dtypes:
            operands = [self.pick(DType.BOOL), self.pick(dtype), self.pick(dtype)]
            self._pool.append((self._g.apply(comparison.SelectV2(), *operands), dtype))
        elif step == "cast" and dtype is not DType.FLOAT64:
            self._cast(dtype, self._data.draw(st.sampled_from(TYPES)))
        else:
            self._apply(self._data.draw(st.sampled_from(exact_operators(dtype))), dtype, dtype)

    def add_smooth(self) -> None:
        """Bounds products, since errors of great numbers grow."""
        dtype, draw = DType.FLOAT32, self._data.draw
        if draw(st.booleans()):
            self._apply(draw(st.sampled_from(_SMOOTH)), dtype, dtype)
            return
        op = draw(st.sampled_from([ops.Add(), ops.Sub(), ops.Mul(), ops.Maximum(), ops.Minimum()]))
        self._pool.append((self._g.apply(unary.Tanh(), self._made(op, dtype)), dtype))

    def _made(self, op: Op, dtype: DType) -> Value:
        return self._g.apply(op, *(self.pick(dtype) for _ in range(op.inputs.least)))

    def _apply(self, op: Op, dtype: DType, result: DType) -> None:
        self._pool.append((self._made(op, dtype), result))

    def _cast(self, dtype: DType, result: DType) -> None:
        value = self.pick(dtype)
        (shape,) = [each.shape for each in [self._g.build().tensors[value.index]]]
        self._pool.append((self._g.op(quantize.Cast(), value, outputs=[Tensor("", result, shape)])[0], result))

    def last(self) -> Value:
        return self._pool[-1][0]


def assert_same(model: Model, inputs: Sequence[Array], floats: float | None) -> None:
    """Both backends give the same, or fail with the same message."""
    native, cpu = (circlet.Session(model, backend=backend) for backend in ("native", "cpu"))
    try:
        wanted = cpu.invoke(0, list(inputs))
    except circlet.ExecutionError as error:
        with pytest.raises(circlet.ExecutionError, match=error.message):
            native.invoke(0, list(inputs))
        return
    for found, expected in zip(native.invoke(0, list(inputs)), wanted, strict=True):
        check(found, expected, floats if expected.dtype.kind == "f" else None)


def drawn_inputs(data: st.DataObject, dtypes: Sequence[DType], seed: int) -> list[Array]:
    shapes = [WHOLE_SHAPE, *(data.draw(st.sampled_from(SHAPES)) for _ in dtypes[1:])]
    return [values(shape, dtype.numpy, seed + k, special=True)
            for k, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))]


@holds(st.data(), st.sampled_from(TYPES), st.sampled_from(TYPES), st.integers(3, 10), seeds, few=10, many=100)
def test_expressions_of_exact_operators(data: st.DataObject, one: DType, other: DType, steps: int, seed: int) -> None:
    kinds = [one, one, other, other]
    inputs = drawn_inputs(data, kinds, seed)
    b = ModelBuilder()
    g = b.subgraph("main")
    expression = Expression(g, data, [(g.input(f"x{k}", kind, each.shape), kind)
                                      for k, (kind, each) in enumerate(zip(kinds, inputs, strict=True))])
    for _ in range(steps):
        expression.add_exact()
    g.output(expression.last())
    assert_same(b.build(), inputs, None)


@holds(st.data(), st.sampled_from(TYPES), st.integers(2, 8), seeds, few=8, many=50)
def test_expressions_as_the_body_of_a_loop(data: st.DataObject, dtype: DType, steps: int, seed: int) -> None:
    state, other = drawn_inputs(data, [dtype, dtype], seed)

    def body(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        expression = Expression(g, data, [(v[1], dtype), (v[2], dtype)])
        for _ in range(steps):
            expression.add_exact()
        return [graphs.plus(g, v[0]), g.apply(ops.Maximum(), v[1], expression.pick(dtype)), v[2]]

    inputs = [np.int32(1), state, other]
    assert_same(graphs.while_model(graphs.at_most(3), body, [np.asarray(each) for each in inputs]), inputs, None)


@holds(st.data(), st.integers(3, 10), seeds, few=8, many=50)
def test_expressions_of_smooth_functions(data: st.DataObject, steps: int, seed: int) -> None:
    kind = DType.FLOAT32
    inputs = [np.clip(each, -2, 2) for each in drawn_inputs(data, [kind] * 3, seed)]
    b = ModelBuilder()
    g = b.subgraph("main")
    expression = Expression(g, data, [(g.input(f"x{k}", kind, each.shape), kind) for k, each in enumerate(inputs)])
    for _ in range(steps):
        expression.add_smooth()
    g.output(expression.last())
    assert_same(b.build(), inputs, 1e-4)


@pytest.mark.parametrize(("op", "second"), [
    (ops.Div(), [1, 2, 0, 3]), (ops.FloorDiv(), [1, 2, 0, 3]), (ops.FloorMod(), [1, 2, 3, 0]),
    (ops.Pow(), [1, 2, -1, 0]),
    (Gather(), [0, 1, 4, 2]),
], ids=lambda each: each.name if isinstance(each, Op) else None)
def test_errors_of_elements_that_nobody_reads_are_errors(op: Op, second: list[int]) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    (made,) = main.op(op, *(main.input(name, DType.INT32, (4,)) for name in "xy"))
    main.output(*main.op(Slice(), made, main.constant([0]), main.constant([2])))
    model, inputs = b.build(), [np.arange(4, dtype=np.int32), np.array(second, np.int32)]
    found = []
    for backend in ("native", "cpu"):
        with pytest.raises(circlet.ExecutionError) as raised:
            circlet.Session(model, backend).invoke(0, inputs)
        found.append(raised.value.place)
    assert found[0] == found[1]
