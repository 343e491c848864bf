"""Models that `verify` must refuse, each with the message, and models that it must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.model import ABSENT, Model, Signature
from circlet.runtime.ir.op import Opaque
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Blockwise, DimensionSparsity, DType, Quantization, Sparsity
from circlet.runtime.ir.verify import verify
from circlet.runtime.ops.variable import VarHandle
from tests.ir.toys import BOOL, F32, I32, Add, Clip, Less, Split, const, graph, model, run, t

X, Y, Z = t("x"), t("y"), t("z")
ADD = run(Add(), [0, 0], [1])
SUM = graph([X, Y], [0], [1], ADD)


def tensor(wrong: Tensor) -> Model:
    """A model with one tensor that is not used."""
    return model(graph([X, wrong], [0], [0]))


def quantized(shape: tuple[int, ...], quantization: Quantization, **more: object) -> Model:
    return tensor(t("w", DType.INT8, shape, quantization=quantization, **more))


def signed(signature: Signature) -> Model:
    return replace(model(SUM), signatures=(signature,))


MANY = (1,) * 33
SUBGRAPH, TENSOR = "subgraph 0 ('main')", "subgraph 0 ('main'), tensor 1 ('w')"
OPERATOR = "subgraph 0 ('main'), operator 0 (ADD)"

REFUSED = {
    "too many dimensions": (tensor(t("w", shape=MANY)), f"{TENSOR}: expected at most 32 dimensions, found 33"),
    "a variable of strings": (
        tensor(t("w", DType.STRING, (2,), is_variable=True)),
        f"{TENSOR}: expected a variable tensor of numbers, found one of string"),
    "no subgraph": (model(), "expected at least one subgraph, found none"),
    "operator input out of range": (
        model(graph([X, Y], [0], [1], run(Add(), [0, 7], [1]))),
        f"{OPERATOR}, input 1: expected the index of a tensor, below 2, found 7"),
    "operator output out of range": (
        model(graph([X, Y], [0], [1], run(Add(), [0, 0], [2]))),
        f"{OPERATOR}, output 0: expected the index of a tensor, below 2, found 2"),
    "absent output": (
        model(graph([X, Y], [0], [0], run(Add(), [0, 0], [ABSENT]))),
        f"{OPERATOR}, output 0: expected the index of a tensor, below 2, found -1"),
    "intermediate out of range": (
        model(graph([X, Y], [0], [1], run(Add(), [0, 0], [1], intermediates=(ABSENT, 5)))),
        f"{OPERATOR}, intermediate 1: expected the index of a tensor, below 2, found 5"),
    "subgraph input out of range": (
        model(graph([X], [0, 3], [0])), f"{SUBGRAPH}, input 1: expected the index of a tensor, below 1, found 3"),
    "absent subgraph input": (
        model(graph([X], [ABSENT], [0])), f"{SUBGRAPH}, input 0: expected the index of a tensor, below 1, found -1"),
    "subgraph output out of range": (
        model(graph([X], [0], [1])), f"{SUBGRAPH}, output 0: expected the index of a tensor, below 1, found 1"),
    "absent subgraph output": (
        model(graph([X], [0], [ABSENT])), f"{SUBGRAPH}, output 0: expected the index of a tensor, below 1, found -1"),
    "required input absent": (
        model(graph([X, Y], [0], [1], run(Add(), [0, ABSENT], [1]))),
        f"{OPERATOR}: input 1 is required, found -1 (absent)"),
    "required input absent beside an optional one": (
        model(graph([X, Y], [0], [1], run(Clip(), [0, 0, ABSENT], [1]))), "input 2 is required, found -1 (absent)"),
    "too few inputs": (
        model(graph([X, Y], [0], [1], run(Add(), [0], [1]))), f"{OPERATOR}: expected 2 inputs, found 1"),
    "too many inputs": (
        model(graph([X, Y], [0], [1], run(Clip(), [0, 0, 0, 0], [1]))), "(CLIP): expected 2 to 3 inputs, found 4"),
    "too many outputs": (
        model(graph([X, Y, Z], [0], [1], run(Add(), [0, 0], [1, 2]))), f"{OPERATOR}: expected 1 output, found 2"),
    "too few outputs": (
        model(graph([X], [0], [0], run(Split(), [0], []))), "(SPLIT): expected at least 1 output, found 0"),
    "outputs that do not fit the options": (
        model(graph([X, Y, Z], [0], [1], run(Split(3), [0], [1, 2]))),
        "(SPLIT): expected 3 outputs from its inputs and options, found 2"),
    "written by two operators": (
        model(graph([X, Y], [0], [1], ADD, ADD)),
        "subgraph 0 ('main'), operator 1 (ADD), tensor 1 ('y'): output 0 is written again; expected a tensor without a "
        "value, found the output of operator 0 (ADD)"),
    "written twice by one operator": (
        model(graph([X, Y], [0], [1], run(Split(2), [0], [1, 1]))),
        "operator 0 (SPLIT), tensor 1 ('y'): output 1 is written again; expected a tensor without a value, "
        "found the output of operator 0 (SPLIT)"),
    "a variable written twice": (
        model(graph([X, t("v", is_variable=True)], [0], [1], ADD, ADD)), "operator 1 (ADD), tensor 1 ('v'): output 0"),
    "a constant written": (
        model(graph([X, const("c", [1, 2])], [0], [1], ADD)),
        f"{OPERATOR}, tensor 1 ('c'): output 0 is written again; expected a tensor without a value, found a constant"),
    "a subgraph input written": (
        model(graph([X, Y], [0, 1], [1], ADD)), "expected a tensor without a value, found input 1 of the subgraph"),
    "one tensor for two subgraph inputs": (
        model(graph([X], [0, 0], [0])),
        f"{SUBGRAPH}, input 1, tensor 0 ('x'): expected a tensor to which only the caller gives a value, "
        "found input 0 of the subgraph"),
    "a constant as subgraph input": (
        model(graph([const("c", [1, 2])], [0], [0])),
        f"{SUBGRAPH}, input 0, tensor 0 ('c'): expected a tensor to which only the caller gives a value, "
        "found a constant"),
    "out of order": (
        model(graph([X, Y, Z], [0], [2], run(Add(), [0, 1], [2]), run(Less(), [0, 0], [1]))),
        f"{OPERATOR}, tensor 1 ('y'): input 1 is read before operator 1 (LESS) writes it"),
    "an operator that reads its own output": (
        model(graph([X, Y], [0], [1], run(Add(), [0, 1], [1]))),
        f"{OPERATOR}, tensor 1 ('y'): input 1 is read before operator 0 (ADD) writes it"),
    "never defined": (
        model(graph([X, Y, Z], [0], [1], run(Add(), [0, 2], [1]))),
        f"{OPERATOR}, tensor 2 ('z'): input 1 is read, but it is neither an input, a constant, a variable nor written "
        "by an operator"),
    "undefined output": (
        model(graph([X, Y], [0], [0, 1])),
        f"{SUBGRAPH}, output 1, tensor 1 ('y'): expected a tensor that has a value, found one that is neither an "
        "input, a constant, a variable nor written by an operator"),
    "an unused subgraph": (
        model(SUM, graph([X, Y], [0], [1], name="lost")), "subgraph 1 ('lost'), output 0, tensor 1 ('y'): expected"),
    "signature of no subgraph": (
        signed(Signature("run", 1, {}, {})), "signature 'run': expected the index of a subgraph, below 1, found 1"),
    "signature input": (
        signed(Signature("run", 0, {"a": 1}, {"b": 1})),
        "signature 'run', input 'a': expected an input of subgraph 0 ('main'), found tensor 1 ('y')"),
    "signature output": (
        signed(Signature("run", 0, {"a": 0}, {"b": 9})),
        "signature 'run', output 'b': expected an output of subgraph 0 ('main'), found tensor 9"),
    "two signatures of one key": (
        replace(model(SUM), signatures=(Signature("run", 0, {}, {}),) * 2),
        "signature 'run': expected a key that no other signature has, found it twice"),
    "negative dimension": (
        tensor(t("w", shape=(2, -1))), f"{TENSOR}: expected dimensions of at least 0, found shape (2, -1)"),
    "shape signature of another rank": (
        tensor(t("w", shape=(1, 2), shape_signature=(-1,))),
        f"{TENSOR}: expected a shape signature of the rank of shape (1, 2), found (-1,)"),
    "shape signature below -1": (
        tensor(t("w", shape=(1,), shape_signature=(-2,))),
        f"{TENSOR}: expected dimensions of at least 0, or -1 where not known, found shape signature (-2,)"),
    "data of another shape": (
        tensor(replace(const("w", [[1], [2]]), shape=(2,))), f"{TENSOR}: expected data of shape (2,), found (2, 1)"),
    "data of another type": (
        tensor(replace(const("w", [1, 2]), dtype=I32)),
        f"{TENSOR}: expected data of numpy type int32 for int32, found float32"),
    "data that is no array": (
        tensor(t("w", shape=(), data=np.float32(1))), f"{TENSOR}: expected data in an array, found float32"),
    "string data of another type": (
        tensor(t("w", DType.STRING, data=np.array(["a", "b"]))),
        f"{TENSOR}: expected data of numpy type object for string, found <U1"),
    "scales of another number": (
        quantized((3, 2), Quantization((0.5,) * 3, (0,) * 3, axis=1)),
        f"{TENSOR}: expected 2 scales, one for each index of axis 1, found 3"),
    "axis out of range": (
        quantized((3,), Quantization((0.5,) * 3, (0,) * 3, axis=1)),
        f"{TENSOR}: expected an axis of shape (3,) for 3 scales, found axis 1"),
    "zero points of another number": (
        quantized((3,), Quantization((0.5,) * 3, (0,) * 2)),
        f"{TENSOR}: expected a zero point for each of 3 scales, found 2 zero points"),
    "scales along an unknown dimension": (
        quantized((1,), Quantization((0.5,) * 3), shape_signature=(-1,)), "one for each index of axis 0, found 3"),
    "block scales out of range": (
        quantized((32,), Quantization(blockwise=Blockwise(2, ABSENT, 32))),
        f"{TENSOR}: expected the index of the tensor of block scales, below 2, found 2"),
    "block zero points out of range": (
        quantized((32,), Quantization(blockwise=Blockwise(0, -2, 32))),
        f"{TENSOR}: expected the index of the tensor of block zero points, -1 or below 2, found -2"),
    "block size": (
        quantized((32,), Quantization(blockwise=Blockwise(0, ABSENT, 0))),
        f"{TENSOR}: expected blocks of at least 1 element, found block size 0"),
    "output of another type than the operator gives": (
        model(graph([X, t("y", I32)], [0], [1], run(Less(), [0, 0], [1]))),
        "operator 0 (LESS), tensor 1 ('y'): output 0 has element type int32, expected bool"),
    "inputs of types that do not go together": (
        model(graph([X, t("n", I32), Y], [0, 1], [2], run(Add(), [0, 1], [2]))),
        f"{OPERATOR}: expected operands of one type, found float32 and int32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str) -> None:
    found, message = REFUSED[case]
    with pytest.raises(ModelError) as raised:
        verify(found)
    assert message in str(raised.value)


ACCEPTED = {
    "an operator": model(SUM),
    "nothing in it": model(graph([], [], [])),
    "input as output, twice": model(graph([X], [0], [0, 0])),
    "constant as output": model(graph([const("c", [1, 2])], [], [0])),
    "unused tensors": model(graph([X, Y], [0], [0])),
    "optional input absent": model(graph([X, Y], [0], [1], run(Clip(), [0, ABSENT], [1]))),
    "an operator unknown to circlet": model(graph([X, Y], [0], [1], run(Opaque("FOO"), [ABSENT, 0, ABSENT], [1]))),
    "a variable read, then written": model(
        graph([X, t("v", is_variable=True)], [0], [1], run(Add(), [0, 1], [1]))),
    "a variable nobody writes": model(graph([t("v", is_variable=True)], [], [0])),
    "no inputs": model(graph([t("h", DType.RESOURCE, ())], [], [0], run(VarHandle(), [], [0]))),
    "unknown dimensions": model(graph([t("x", shape=(1, 3), shape_signature=(-1, 3))], [0], [0])),
    "packed data": tensor(t("w", DType.INT4, (3,), data=np.zeros(2, np.uint8))),
    "sparse data": tensor(t("w", shape=(4, 4), data=np.zeros(3, np.uint8), sparsity=Sparsity(
        (0, 1), (), (DimensionSparsity(4), DimensionSparsity(0, (0, 1, 2, 3, 3), (0, 1, 2)))))),
    "string data": tensor(const("w", [b"a", b"bc"], DType.STRING)),
    "quantised per tensor": quantized((3, 2), Quantization((0.5,), (3,), axis=7)),
    "quantised per axis": quantized((3, 2), Quantization((0.5,) * 3, (0,) * 3)),
    "quantised per axis, one zero point": quantized((3, 2), Quantization((0.5,) * 2, (0,), axis=1)),
    "quantised by blocks": quantized((32,), Quantization(blockwise=Blockwise(0, ABSENT, 32))),
    "calibrated only": quantized((3,), Quantization(minimum=(0.0,), maximum=(1.0,))),
    "signatures": replace(model(SUM), signatures=(Signature("a", 0, {"x": 0}, {"y": 1}), Signature("b", 0, {}, {}))),
    "types": model(graph([X, t("y", BOOL)], [0], [1], run(Less(), [0, 0], [1]))),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepts(case: str) -> None:
    verify(ACCEPTED[case])


def test_accepts_many_operators() -> None:
    count = 10_000
    tensors = [t(str(k), F32) for k in range(count + 1)]
    chain = model(graph(tensors, [0], [count], *(run(Add(), [k, k], [k + 1]) for k in range(count))))
    verify(chain)


TWICE = run(Add(), [1, 1], [2])
BEFORE = model(graph([X, Y, Z], [0], [2], ADD, TWICE))
CHANGED = {
    "a tensor": (graph([X, t("y", I32), Z], [0], [2], ADD, TWICE), "output 0 has element type int32, expected float32"),
    "the order": (graph([X, Y, Z], [0], [2], TWICE, ADD), "input 0 is read before operator 1 (ADD) writes it"),
    "what reads": (graph([X, Y, Z], [0], [2], ADD, run(Add(), [1, 7], [2])), "input 1: expected the index of a tensor"),
    "what was written": (graph([X, Y, Z], [0], [2], TWICE), "input 0 is read"),
    "how often": (graph([X, Y, Z], [0], [2], ADD, TWICE, TWICE), "output 0 is written again"),
    "the result": (graph([X, Y, Z], [0], [2], ADD), "output 0, tensor 2 ('z'): expected a tensor that has a value"),
    "fewer tensors": (graph([X, Y], [0], [1], ADD, TWICE), "expected the index of a tensor, below 2, found 2"),
    "others": (graph([X, const("y", 1), Z], [0], [2], ADD, TWICE), "output 0 is written again"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_parts_that_were_checked_are_refused_where_others_changed(case: str) -> None:
    changed, message = CHANGED[case]
    verify(BEFORE)
    for before in (None, BEFORE):
        with pytest.raises(ModelError) as raised:
            verify(model(changed), before)
        assert message in str(raised.value)
