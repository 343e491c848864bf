"""What no code can be made of is left to numpy, which says what is wrong where it is reached; nothing escapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native import backend
from circlet.backends.native.lower import pieces
from circlet.backends.native.rules import rule
from circlet.backends.native.rules.refusals import movable
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ops import controlflow, elementwise, index, layout, quantize, recurrent, reduce, unary
from tests.exec.graphs import Array, f32, i32
from tests.needs import NATIVE

MODELS = Path(__file__).parents[1] / "models"
BOTH = pytest.mark.parametrize("backend", ["cpu", "native"])


def int8(name: str, scale: float) -> Tensor:
    return Tensor(name, DType.INT8, (2,), quantization=Quantization((scale,), (0,)))


@dataclass(frozen=True)
class Odd:
    """An operator with declarations that a rule cannot be written for, and what it then gives or why not."""

    op: Op
    inputs: Sequence[Tensor]
    output: Tensor
    arrays: Sequence[Array]
    result: Array | str

    def __str__(self) -> str:
        return self.op.name


def anything(name: str, dtype: DType) -> Tensor:
    """A tensor that may have any rank."""
    return Tensor(name, dtype, (), has_rank=False)


ONES, FINITE = np.ones(2, np.int8), "the scales need to be multiplied by .*: expected finite numbers"
CASES = [
    Odd(index.Gather(), [Tensor("x", DType.FLOAT32, (3,)), anything("i", DType.INT32)], anything("y", DType.FLOAT32),
        [f32([1, 2, 3]), i32([2, 0])], f32([3, 1])),
    Odd(index.Gather(), [Tensor("x", DType.FLOAT32, (3,)), Tensor("i", DType.INT32, (1, 1), (-1, -1))],
        anything("y", DType.FLOAT32), [f32([1, 2, 3]), i32([[2, 0]])], f32([[3, 1]])),
    Odd(elementwise.FloorMod(), [Tensor("x", DType.INT32, (2,)), anything("d", DType.INT32)],
        anything("y", DType.INT32), [i32([5, 7]), i32([3, 4])], i32([2, 3])),
    Odd(quantize.Quantize(), [int8("x", 0.5)], int8("y", 0.0), [ONES], FINITE),
    Odd(elementwise.Add(), [int8("x", 0.0), int8("z", 0.0)], int8("y", 1.0), [ONES, ONES], FINITE),
    Odd(elementwise.Mul(), [int8("x", 3e38), int8("z", 1.0)], int8("y", 1e-38), [ONES, ONES], FINITE),
    Odd(unary.Rsqrt(), [int8("x", 0.0)], int8("y", 1.0), [ONES], FINITE),
    Odd(quantize.Quantize(), [Tensor("x", DType.FLOAT32, (2,))],
        Tensor("y", DType.INT8, (1, 2), quantization=Quantization((0.5, 0.5), (0, 0), axis=1)), [f32([1, 2])],
        "axis|index|reshape"),
    Odd(index.StablehloDynamicSlice(slice_sizes=(-1,)), [Tensor("x", DType.INT32, (3,)), Tensor("k", DType.INT32, ())],
        anything("y", DType.INT32), [i32([1, 2, 3]), i32(0)], r"negative size: \(-1,\)"),
]


def straight(case: Odd) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    given = [main.tensor(each) for each in case.inputs]
    main.feed(*given)
    main.output(*main.op(case.op, *given, outputs=[case.output]))
    return b.build()


def in_branch(case: Odd) -> Model:
    """A model that computes it only where its first input is true; else it gives it a constant."""
    b = ModelBuilder()
    main = b.subgraph("main")
    flag, given = main.input("flag", DType.BOOL), [main.tensor(each) for each in case.inputs]
    main.feed(*given)
    main.output(*main.op(controlflow.If(1, 2), flag, *given, outputs=[anything("r", case.output.dtype)]))
    then, other = b.subgraph("then"), b.subgraph("else")
    for s in (then, other):
        inside = [s.tensor(each) for each in case.inputs]
        s.feed(*inside)
        if s is then:
            s.output(*s.op(case.op, *inside, outputs=[case.output]))
        else:
            s.output(s.constant(np.zeros(2, case.output.dtype.numpy)))
    return b.build()


def check(session: circlet.Session, arrays: Sequence[Array], result: Array | str, name: str) -> None:
    if isinstance(result, str):
        with pytest.raises(circlet.ExecutionError, match=rf"operator 0 \({name}\): .*(?:{result})"):
            session.invoke(0, arrays)
    else:
        np.testing.assert_array_equal(session.invoke(0, arrays)[0], result, strict=True)


@BOTH
@pytest.mark.parametrize("case", CASES, ids=str)
def test_odd_operators(case: Odd, backend: str) -> None:
    session = circlet.Session(straight(case), backend)
    for _ in range(2):
        check(session, case.arrays, case.result, case.op.name)


@BOTH
@pytest.mark.parametrize("case", CASES, ids=str)
def test_odd_operators_in_a_branch(case: Odd, backend: str) -> None:
    """They are wrong only where they are reached."""
    session = circlet.Session(in_branch(case), backend)
    for flag in (False, True, False):
        result = case.result if flag else np.zeros(2, case.output.dtype.numpy)
        check(session, [np.array(flag), *case.arrays], result, case.op.name)


def with_clip(model: Model, clip: float) -> Model:
    main = model.subgraphs[0]
    operators = tuple(replace(each, op=replace(each.op, cell_clip=clip))
                      if isinstance(each.op, recurrent.UnidirectionalSequenceLstm) else each for each in main.operators)
    assert operators != main.operators
    return replace(model, subgraphs=(replace(main, operators=operators), *model.subgraphs[1:]))


@BOTH
@pytest.mark.parametrize("clip", [float("nan"), float("-inf"), -1.0, 0.0])
def test_cells_of_int8_networks_are_not_clipped_to_what_is_not_positive(clip: float, backend: str) -> None:
    found = []
    for each in (clip, 0.0):
        model = with_clip(circlet.load(MODELS / "lstm_fused_int8.tflite"), each)
        tensors = [model.subgraphs[0].tensors[each] for each in model.subgraphs[0].inputs]
        found.append(circlet.Session(model, backend).invoke(0, [np.ones(each.shape, each.dtype.numpy)
                                                                for each in tensors])[0])
    np.testing.assert_array_equal(found[0], found[1])


def negation() -> Model:
    return straight(Odd(unary.Neg(), [Tensor("x", DType.FLOAT32, (2,))], Tensor("y", DType.FLOAT32, (2,)), [], ""))


def test_a_rule_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning, an error in tests, says where; numpy computes the operators."""
    def fails(node: rule.Node[Op]) -> tuple[()]:
        raise KeyError("odd")

    monkeypatch.setattr(backend, "stored", lambda key: None)
    import_module("circlet.backends.native.rules.real.unary")
    op: type[Op] = unary.Neg
    monkeypatch.setitem(rule.RULES, op, (rule.Rule(movable, fused=fails),))
    session = circlet.Session(negation(), "native")
    message = r"subgraph 0 \('main'\), operator 0 \(NEG\): left to numpy.*KeyError: 'odd'"
    with pytest.warns(RuntimeWarning, match=message):
        found = session.invoke(0, [f32([1, 2])])
    np.testing.assert_array_equal(found[0], f32([-1, -2]))


def test_code_that_llvm_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "stored", lambda key: None)
    monkeypatch.setattr(pieces.Cutter, "_piece", lambda *_: pieces.Piece("define nonsense"))
    session = circlet.Session(negation(), "native")
    with pytest.warns(RuntimeWarning, match=r"subgraph 0 \('main'\): left to numpy"):
        found = session.invoke(0, [f32([1, 2])])
    np.testing.assert_array_equal(found[0], f32([-1, -2]))


def labelled(length: int) -> Model:
    """The greatest number of each row of tanh(x), (n, 4), and its label, all of them twice, which only numpy computes;
    twice the one."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.apply(unary.Tanh(), main.input("x", DType.FLOAT32, (length, 4)))
    place = main.op(reduce.ArgMax(DType.INT32), x, main.constant(1), outputs=[anything("place", DType.INT32)])[0]
    labels = main.constant(np.array([b"cat", b"dog", b"a bird", b""], object))
    name = main.op(index.Gather(), labels, place, outputs=[anything("name", DType.STRING)])[0]
    names = main.op(layout.Concatenation(), name, name, outputs=[anything("names", DType.STRING)])[0]
    most = main.op(reduce.ReduceMax(), x, main.constant(1), outputs=[anything("most", DType.FLOAT32)])[0]
    double = main.op(elementwise.Add(), most, most, outputs=[anything("double", DType.FLOAT32)])[0]
    main.output(names, double)
    return b.build()


@pytest.mark.parametrize("length", [3, -1])
@NATIVE
def test_what_lies_around_strings_is_native(length: int, folder: object, compiled: list[str]) -> None:
    """Open lengths have one function for each part, too."""
    native, cpu = (circlet.Session(labelled(length), each) for each in ("native", "cpu"))
    for rows in (3,) if length > 0 else (3, 40, 7, 2, 500):
        x = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
        (names, double), (others, wanted) = (each.invoke(0, [x]) for each in (native, cpu))
        assert names.tolist() == others.tolist()
        np.testing.assert_allclose(double, wanted, 1e-6, strict=True)
    assert len(compiled) == 2
    assert [part for part in native.backend_of(0) if part != "none"] == [
        "native", "native", "cpu", "cpu", "native", "native"]
