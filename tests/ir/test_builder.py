"""Building models in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import ABSENT, Signature
from circlet.runtime.ir.op import Opaque, ShapeError
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ir.verify import verify
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.variable import ReadVariable, VarHandle
from tests.ir.toys import BOOL, F32, I32, Add, Clip, Less, Split, t


def test_a_graph() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    x = main.input("x", np.float32, (2, 3))
    w = main.constant([1.0, 2.0, 3.0], name="w")
    main.output(main.apply(Add(), x, w))
    model = builder.build()
    verify(model)
    (graph,) = model.subgraphs
    assert (graph.name, graph.inputs, graph.outputs) == ("main", (0,), (2,))
    assert [(each.name, each.dtype, each.shape) for each in graph.tensors] == [
        ("x", F32, (2, 3)), ("w", F32, (3,)), ("add_2", F32, (2, 3))]
    (operator,) = graph.operators
    assert (operator.op, operator.inputs, operator.outputs, operator.version) == (Add(), (0, 1), (2,), 1)


CONSTANTS = [
    (1.5, None, DType.FLOAT32, ()),
    ([1, 2], None, DType.INT32, (2,)),
    (True, None, DType.BOOL, ()),
    (np.float64(1), None, DType.FLOAT64, ()),
    (np.arange(3), None, DType.INT64, (3,)),
    ([1, 2], np.uint8, DType.UINT8, (2,)),
    ([1, 2], DType.FLOAT16, DType.FLOAT16, (2,)),
    ([b"a", b"bc"], DType.STRING, DType.STRING, (2,)),
    ([], DType.INT32, DType.INT32, (0,)),
]


@pytest.mark.parametrize(("data", "dtype", "kind", "shape"), CONSTANTS)
def test_constants(data: Any, dtype: Any, kind: DType, shape: tuple[int, ...]) -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    main.output(main.constant(data, dtype))
    model = builder.build()
    verify(model)
    (tensor,) = model.subgraphs[0].tensors
    assert (tensor.name, tensor.dtype, tensor.shape) == ("constant_0", kind, shape)
    assert tensor.data is not None
    assert not tensor.data.flags.writeable
    np.testing.assert_array_equal(tensor.data, data)


def test_a_constant_is_a_copy() -> None:
    data = np.zeros(2, np.float32)
    main = ModelBuilder().subgraph()
    main.constant(data)
    data[0] = 1
    held = main.build().tensors[0].data
    assert held is not None
    assert held[0] == 0


def test_dimensions_known_only_when_the_model_runs() -> None:
    main = ModelBuilder().subgraph()
    main.input("x", F32, (-1, 3))
    (tensor,) = main.build().tensors
    assert (tensor.shape, tensor.shape_signature) == ((1, 3), (-1, 3))


def test_quantisation_passes_on_to_results() -> None:
    q = Quantization((0.5,), (3,))
    main = ModelBuilder().subgraph()
    x = main.input("x", DType.INT8, (2,), q)
    main.apply(Add(), x, x)
    assert [each.quantization for each in main.build().tensors] == [q, q]


def test_absent_inputs() -> None:
    main = ModelBuilder().subgraph()
    main.apply(Clip(), main.input("x", F32, (2,)), None)
    assert main.build().operators[0].inputs == (0, ABSENT)


def test_several_outputs() -> None:
    main = ModelBuilder().subgraph()
    main.op(Split(3), main.input("x", F32, (2,)), count=3)
    built = main.build()
    assert built.operators[0].outputs == (1, 2, 3)
    assert [each.name for each in built.tensors[1:]] == ["split_1", "split_2", "split_3"]


def test_declared_outputs() -> None:
    main = ModelBuilder().subgraph()
    (y,) = main.op(Opaque("FOO"), main.input("x", F32), outputs=[t("y", I32, (7,))], version=4)
    built = main.build()
    assert (built.tensors[y.index].dtype, built.tensors[y.index].shape) == (I32, (7,))
    assert built.operators[0].version == 4


def test_results_whose_shape_only_a_run_can_tell() -> None:
    main = ModelBuilder().subgraph()
    value = main.apply(ReadVariable(), main.apply(VarHandle("", "v")))
    tensor = main.build().tensors[value.index]
    assert not tensor.has_rank
    assert not tensor.is_static


def test_results_of_a_filled_subgraph_have_its_shapes() -> None:
    builder = ModelBuilder()
    main, pair = builder.subgraph(), builder.subgraph("pair")
    pair.output(pair.input("x", F32, (2,)), pair.constant(np.zeros((4, 5), np.float32)))
    found = main.op(CallSubgraph(pair.index), main.input("x", F32, (2,)), count=2)
    assert [main.build().tensors[each.index].shape for each in found] == [(2,), (4, 5)]
    (other, _) = main.op(CallSubgraph(pair.index), main.input("y", F32, (3,)), count=2)
    assert not main.build().tensors[other.index].has_rank


def test_a_loop_has_the_types_that_it_carries() -> None:
    builder = ModelBuilder()
    main, cond, body = map(builder.subgraph, ("main", "cond", "body"))
    for each in (cond, body):
        n, x = each.input("n", I32), each.input("x", F32, (2,))
        each.output(*([each.apply(Less(), n, n)] if each is cond else [n, x]))
    results = main.op(While(cond.index, body.index), main.input("n", I32), main.input("x", F32, (2,)), count=2)
    main.output(*results)
    model = builder.build()
    verify(model)
    assert [(model.subgraphs[0].tensors[k].dtype, model.subgraphs[0].tensors[k].shape)
            for k in model.subgraphs[0].outputs] == [(I32, ()), (F32, (2,))]


def test_a_tensor_may_be_returned_twice() -> None:
    main = ModelBuilder().subgraph()
    x = main.input("x", F32)
    main.output(x, x)
    assert main.build().outputs == (0, 0)


def test_signatures() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    x = main.input("x", F32, (2,))
    y = main.apply(Add(), x, x)
    main.output(y)
    builder.signature("double", main, {"x": x}, {"y": y})
    model = builder.build()
    verify(model)
    assert model.signatures == (Signature("double", 0, {"x": 0}, {"y": 1}),)


def test_tensors_of_another_subgraph_are_out_of_reach() -> None:
    builder = ModelBuilder()
    one, other = builder.subgraph("one"), builder.subgraph("other")
    x = one.input("x", F32)
    message = "tensor 0 belongs to subgraph 0; subgraph 1 reaches it only as an input"
    with pytest.raises(ModelError, match=message):
        other.apply(Add(), x, x)
    with pytest.raises(ModelError, match=message):
        other.output(x)


def test_operands_that_do_not_fit_are_refused_at_once() -> None:
    main = ModelBuilder().subgraph()
    x, n = main.input("x", F32, (2,)), main.input("n", I32, (2,))
    with pytest.raises(ShapeError, match="operands of one type, found float32 and int32"):
        main.apply(Add(), x, n)
    with pytest.raises(ShapeError, match="expected bool with exactly one element, found int32 of shape"):
        main.op(If(1, 2), n, outputs=None, count=0)
    assert main.apply(Less(), x, x).index == 2
    assert main.build().tensors[2].dtype is BOOL
