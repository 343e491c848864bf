"""The printed form of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import ABSENT, Model, Signature
from circlet.runtime.ir.op import Op, Opaque
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.text import to_text, type_text
from circlet.runtime.ir.types import Activation, Blockwise, DType, Quantization, Sparsity
from circlet.runtime.ops.controlflow import CallOnce, CallSubgraph, Composite, If, StablehloCase, While
from circlet.runtime.ops.unary import LeakyRelu
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from tests.ir.toys import BOOL, F32, I32, Add, Clip, Less, Split, const, graph, model, run, t

Golden = Callable[[str, str], None]


def collatz_like() -> Model:
    """A While whose body is an If."""
    builder = ModelBuilder()
    main, cond, body, then, other = map(builder.subgraph, ("main", "while_cond", "while_body", "then", "else"))
    n = cond.input("n", I32)
    cond.output(cond.apply(Less(), cond.constant(1), n))
    for branch, step in ((then, 1), (other, 2)):
        n = branch.input("n", I32)
        branch.output(branch.apply(Add(), n, branch.constant(step, name="step")))
    n = body.input("n", I32)
    even = body.apply(Less(), n, body.constant(2))
    body.output(body.op(If(then.index, other.index), even, n, outputs=[t("next", I32, ())])[0])
    n = main.input("n", I32)
    result = main.apply(While(cond.index, body.index), n)
    main.output(result)
    builder.signature("serving_default", main, {"n": n}, {"output 0": result})
    return replace(builder.build(), description="counts", metadata={"min_runtime_version": bytes(16), "a": b"x"},
                   format="tflite")


def one_of_each() -> Model:
    """Everything that has a form of its own."""
    weights = (np.arange(24, dtype=np.float32) / 8 - 1).reshape(4, 6)
    per_axis = Quantization(tuple(float(np.float32(k / 10)) for k in range(1, 13)), tuple(range(12)), axis=0)
    tensors = [
        t("serving_default_x:0", F32, (1, 6), shape_signature=(-1, 6)),
        const("weights", weights),
        const("", [0.1, 1e-10, float("nan"), float("inf")]),
        const("flag", True, BOOL),
        const("names", [b"a", b"it's"], DType.STRING),
        const("many names", [b"name"] * 9, DType.STRING),
        const("empty", np.zeros((0, 3)), I32),
        const("complex", [1 + 2j], DType.COMPLEX64),
        t("packed", DType.INT4, (3,), data=np.array([0x21, 3], np.uint8),
          quantization=Quantization(blockwise=Blockwise(9, ABSENT, 32))),
        const("scales", [0.5]),
        t("large packed", DType.INT4, (100,), data=np.arange(50, dtype=np.uint8)),
        t("state", F32, (1, 4), is_variable=True),
        t("q", DType.INT8, (12, 2), quantization=per_axis),
        t("unranked", F32, (), has_rank=False),
        t("mid", F32, (2,), quantization=Quantization((0.5,), (3,))),
        t("sum", F32, (1, 6), shape_signature=(-1, 6)),
        t("left", F32), t("right", F32),
        t("unused", F32),
        t("custom", F32, (1,)),
    ]
    operators = [
        run(Opaque("FOO"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, ABSENT, 12], [13], custom_options=bytes(range(5))),
        run(Add(Activation.RELU6, False), [0, 1], [15], version=3),
        run(Add(), [0, 1], []),
        run(Clip(bounds=(0.1, 6.0)), [15, ABSENT], [19], intermediates=(14, ABSENT)),
        run(Split(2), [15], [16, 17]),
    ]
    return model(graph(tensors, [0, 12], [13, 15, 11], *operators, name="every form"),
                 signatures=(Signature("run", 0, {"x": 0}, {}),))


def test_control_flow(golden: Golden) -> None:
    golden("collatz_like", to_text(collatz_like()))


def test_every_form(golden: Golden) -> None:
    golden("one_of_each", to_text(one_of_each()))


def test_callees(golden: Golden) -> None:
    ops: list[tuple[Op, list[int], list[int]]] = [
        (VarHandle("", "count"), [], [0]), (CallOnce(1), [], []), (ReadVariable(), [0], [1]),
        (AssignVariable(), [0, 1], []), (StablehloCase((1, 2, 1)), [1], []), (CallSubgraph(2), [], []),
        (Composite("odml.norm", 2, composite_attributes=bytes(100), version=1), [], []),
    ]
    entry = graph([t("h", DType.RESOURCE, ()), t("n", I32, ())], [], [1], *(run(*each) for each in ops))
    golden("callees", to_text(model(entry, graph([], [], [], name="init"), graph([], [], [], name="f"))))


def test_one_subgraph_alone() -> None:
    assert to_text(collatz_like(), 3) == (
        "subgraph 3 'then' (%0 n: int32[]) -> (%2)\n"
        "  %1 step: constant int32[] = 1\n"
        "  [0] %2 add_2: int32[] = ADD(%0, %1)\n"
    )


def test_is_deterministic() -> None:
    assert to_text(one_of_each()) == to_text(one_of_each())
    assert to_text(collatz_like()) == to_text(collatz_like())


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool, np.float16, np.complex64])
def test_elided_data_counts(dtype: Any) -> None:
    """Of two constants that differ only in elements that are not shown the texts differ."""
    one, other = np.zeros((2, 100), dtype), np.zeros((2, 100), dtype)
    other[1, 99] = 1
    texts = [to_text(model(graph([const("c", each, DType.of(dtype))], [], [0]))) for each in (one, other, one.copy())]
    assert texts[0] != texts[1]
    assert texts[0] == texts[2]


def test_prints_what_is_not_a_sound_model() -> None:
    broken = model(graph([t("x")], [0, 5], [7], run(Add(), [0, 9], [8])))
    assert to_text(broken).splitlines()[2:] == [
        "subgraph 0 'main' (%0 x: float32[2], %5: undeclared) -> (%7)",
        "  [0] %8: undeclared = ADD(%0, %9)",
    ]


TYPES = {
    "float32[]": t("", shape=()),
    "float32[2,3]": t("", shape=(2, 3)),
    "float32[?,3]": t("", shape=(1, 3), shape_signature=(-1, 3)),
    "float32[*]": t("", shape=(), has_rank=False),
    "float32[4]": t("", shape=(4,), has_rank=False),
    "int8[1,4]{scale: 0.5, zero_point: 3}": t("", DType.INT8, (1, 4), quantization=Quantization((0.5,), (3,))),
    "int8[2]{axis: 0, scales: [0.5, 0.25]}": t("", DType.INT8, (2,), quantization=Quantization((0.5, 0.25), (0, 0))),
    "int8[2]{axis: 0, scales: [0.5, 0.25], zero_points: [0, 1]}": t(
        "", DType.INT8, (2,), quantization=Quantization((0.5, 0.25), (0, 1))),
    "float32[2]{minimum: [0.0], maximum: [6.0]}": t("", quantization=Quantization(minimum=(0.0,), maximum=(6.0,))),
    "float32[2]": t("", quantization=Quantization()),
    "float32[4,4]{sparse}": t("", shape=(4, 4), sparsity=Sparsity((), (), ())),
    "string[?]": t("", DType.STRING, (1,), shape_signature=(-1,)),
}


@pytest.mark.parametrize("text", TYPES)
def test_type_text(text: str) -> None:
    tensor: Tensor = TYPES[text]
    assert type_text(tensor) == text


def test_numbers_beyond_single_precision() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(LeakyRelu(1e300), main.input("x", DType.FLOAT32, (1,))))
    assert "alpha: 1e+300" in to_text(b.build())
