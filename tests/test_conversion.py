"""Converted loops: they hold what formats have, and give the same here and in LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import StridedSlice
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_builder import add_loop
from circlet.runtime.ops.loop_options import Carried, ScanOutput
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.registry import OPERATORS
from circlet.runtime.ops.shape import BroadcastTo, ShapeOf
from circlet.schema.files import dump_model
from circlet.schema.foreign import Foreign
from tests.ops.loop_cases import Array, LoopCase, arguments, expected, loop_model
from tests.ops.test_loop import CASES, F32, assert_equal, i32, id_of, nested_model

PORTABLE = [case for case in CASES if "from data" not in case.name and case.name != "strings"]


def litert(content: bytes, arrays: Sequence[Array]) -> list[Array]:
    """The outputs that LiteRT computes; zeros of the shape it tells where it has no elements to give."""
    module: Any = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = module.Interpreter(
        model_content=content,
        experimental_op_resolver_type=module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    inputs = interpreter.get_input_details()
    for each, array in zip(inputs, arrays, strict=True):
        interpreter.resize_tensor_input(each["index"], array.shape)
    interpreter.allocate_tensors()
    for each, array in zip(inputs, arrays, strict=True):
        interpreter.set_tensor(each["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) if np.prod(each["shape"]) else np.zeros(each["shape"], each["dtype"])
            for each in interpreter.get_output_details()]


def grows_from_nothing(case: LoopCase, arrays: Sequence[Array]) -> bool:
    """Whether LiteRT cannot: a carried value without elements fails there, whatever the body does."""
    return case.name == "growing" and any(each.size == 0 for each in arrays)


@pytest.mark.parametrize("is_constant", [False, True], ids=["operands", "constants"])
@pytest.mark.parametrize("case", PORTABLE, ids=id_of)
def test_converted_loops(case: LoopCase, is_constant: bool) -> None:
    for operands in case.runs:
        constants = range(len(operands)) if is_constant else ()
        model = loop_model(case, operands, constants)
        arrays, wanted = arguments(operands, constants), expected(model, operands)
        content = dump_model(circlet.convert(model), "tflite")
        read = circlet.load(content)
        assert {each.name for graph in read.subgraphs for each in graph.operators} <= OPERATORS.keys() - {"CALL"}
        assert_equal(circlet.Session(read, backend="cpu").invoke(0, arrays), wanted)
        if not grows_from_nothing(case, [each for each in operands if each is not None]):
            assert_equal(litert(content, arrays), wanted)


def test_nested_loops() -> None:
    model, arrays, wanted = nested_model()
    content = dump_model(circlet.convert(model), "tflite")
    assert_equal(litert(content, arrays), wanted)


def test_parameters_and_versions() -> None:
    """LiteRT takes these in int32 alone, and knows no version 1 of BROADCAST_TO."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (3, 2))
    wide = main.op(BroadcastTo(), x, main.constant([2, 3, 2], np.int64), outputs=[Tensor("w", F32, (2, 3, 2))])[0]
    begin = main.op(ShapeOf(DType.INT64), x, outputs=[Tensor("begin", DType.INT64, (2,))])[0]
    bounds = [main.constant(each, np.int64) for each in ([0, 1], [2**63 - 1, -2**63], [1, -1])]
    cut = main.op(StridedSlice(), x, *bounds, outputs=[Tensor("cut", F32, (3, 2))])[0]
    rest = main.op(StridedSlice(begin_mask=3), x, begin, begin, main.constant([1, 1], np.int64),
                   outputs=[Tensor("rest", F32, (3, 2))])[0]
    total = main.op(Sum(), wide, main.constant([0, -1], np.int64), outputs=[Tensor("sum", F32, (3,))])[0]
    main.output(total, cut, rest)
    value = np.arange(6, dtype=np.float32).reshape(3, 2)
    content = dump_model(circlet.convert(builder.build()), "tflite")
    assert_equal(litert(content, [value]), [value.sum(1) * 2, value[:, ::-1], value])


def test_lengths_of_elements_from_data() -> None:
    """Scan outputs start with lengths of 1 and get those of the first element."""
    case = next(each for each in CASES if each.name == "shape of the element from data")
    case = replace(case, op=replace(case.op, last_outputs=()))
    operands = case.runs[0]
    model = loop_model(case, operands)
    content = dump_model(circlet.convert(model), "tflite")
    assert_equal(circlet.Session(circlet.load(content), backend="cpu").invoke(0, arguments(operands)),
                 expected(model, operands))
    assert_equal(litert(content, arguments(operands)), expected(model, operands))


REFUSED = {
    "rank": (Tensor("x", DType.INT32, (), has_rank=False), Loop(scan_outputs=(ScanOutput(0), ScanOutput(0, -1)))),
    "strings": (Tensor("x", DType.STRING, (2,)), Loop(scan_outputs=(ScanOutput(0), ScanOutput(0, -1)))),
    "lengths": (Tensor("x", DType.INT32, (1,), (-1,)), Loop(last_outputs=(0, 0))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_file_can_say_is_refused(name: str) -> None:
    declared, op = REFUSED[name]
    builder = circlet.ModelBuilder()
    main, body = builder.subgraph("main"), builder.subgraph("body")
    x, first = body.tensor(declared), main.tensor(declared)
    body.feed(x)
    body.output(x)
    main.feed(first)
    op = replace(op, body_subgraph_index=body.index, carried=(Carried(0, 0),))
    results = add_loop(main, op, body, trip_count=main.constant(3), carried=[first])
    main.output(*results.scans, *results.last)
    with pytest.raises(circlet.UnsupportedError) as found:
        circlet.convert(builder.build())
    text, what = str(found.value), "scan output" if op.scan_outputs else "last output"
    assert text.startswith("2 results of operators cannot be computed by what formats have")
    assert all(f"subgraph 0 ('main'), operator 0 (LOOP), {what} {k}: expected" in text for k in (0, 1))


def unwritable() -> Model:
    """A model with two operators and a tensor that Circle has no name for."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (2,))
    for name in ("ODD", "STRANGE"):
        x, = main.op(Foreign(name), x, outputs=[Tensor(name.lower(), DType.FLOAT32, (2,))])
    main.output(x)
    return builder.build()


def test_all_that_a_format_has_not_is_listed(tmp_path: Path) -> None:
    with pytest.raises(circlet.UnsupportedError, match=r"2 things cannot be written:\n") as found:
        circlet.save(unwritable(), tmp_path / "x.tflite")
    assert "subgraph 0 ('main'), operator 0 (ODD): the format tflite has no operator ODD" in str(found.value)
    assert "subgraph 0 ('main'), operator 1 (STRANGE)" in str(found.value)
    assert not list(tmp_path.iterdir())


def test_a_model_without_loops_stays_as_it_is() -> None:
    model = circlet.load("examples/collatz.tflite")
    converted = circlet.convert(model)
    session = circlet.Session(circlet.load(dump_model(converted, "circle")))
    assert session.signature("serving_default")(n=i32(27))["steps"] == 111
    assert [each.name for graph in converted.subgraphs for each in graph.operators] == \
        [each.name for graph in model.subgraphs for each in graph.operators]


def test_axes_that_are_no_integers_stay_as_they_are() -> None:
    """Their operator refuses them."""
    b = ModelBuilder()
    main = b.subgraph("main")
    axes = main.tensor(Tensor("axes", DType.FLOAT16, (1,), data=np.ones(1, np.float16)))
    x = main.input("x", DType.FLOAT32, (2, 2))
    main.output(*main.op(Sum(), x, axes, outputs=[Tensor("y", DType.FLOAT32, (), has_rank=False)]))
    with pytest.raises(circlet.ExecutionError, match=r"vector of int32 or int64, found shape .* of float16"):
        circlet.Session(circlet.convert(b.build())).invoke(0, [np.ones((2, 2), np.float32)])
