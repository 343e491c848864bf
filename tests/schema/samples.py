"""Models that each use one feature of the formats, and what makes two models the same."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model, Subgraph
from circlet.runtime.ir.op import Opaque
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import (
    FLOATS,
    INTEGERS,
    Activation,
    Array,
    Blockwise,
    DimensionSparsity,
    DType,
    Padding,
    Quantization,
    Shape,
    Sparsity,
)
from circlet.runtime.ops.controlflow import Composite, If
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.variable import AssignVariable, VarHandle


def frozen(values: object, dtype: object = None) -> Array:
    """A read-only array."""
    array: Array = np.array(values, dtype)  # type: ignore[call-overload]
    array.setflags(write=False)
    return array


def chain(operators: int = 3, share: bool = False) -> Model:
    """Additions of constants, of which all may be one."""
    builder = ModelBuilder()
    main = builder.subgraph()
    value = main.input("x", np.float32, (2, -1))
    one = frozen([1.0], np.float32)
    for index in range(operators):
        data = one if share else frozen([float(index)], np.float32)
        term = main.tensor(Tensor(f"c{index}", DType.FLOAT32, (1,), data=data))
        value = main.op(Add(), value, term, outputs=[Tensor(f"y{index}", DType.FLOAT32, (2, 1), (2, -1))])[0]
    main.output(value)
    return builder.build()


def branches() -> Model:
    """Three subgraphs and two signatures."""
    builder = ModelBuilder()
    main = builder.subgraph()
    then, otherwise = builder.subgraph("then"), builder.subgraph("else")
    for branch, op in ((then, Add()), (otherwise, Mul(Activation.RELU6))):
        x = branch.input("x", np.float32, (2,))
        branch.output(branch.apply(op, x, branch.constant([2.0, 3.0])))
    p, x = main.input("p", bool), main.input("x", np.float32, (2,))
    y = main.op(If(then.index, otherwise.index), p, x, count=1)[0]
    main.output(y, y)
    builder.signature("serving_default", main, {"p": p, "x": x}, {"y": y})
    builder.signature("then", then, {"x": Value(then.index, 0)}, {"z": Value(then.index, 2)})
    return builder.build()


def convolution() -> Model:
    """Per-axis and per-tensor quantisation, many options."""
    builder = ModelBuilder()
    main = builder.subgraph()
    x = main.input("x", np.int8, (1, 4, 4, 2), Quantization((0.5,), (-3,), 0, (-1.0,), (2.5,)))
    per_axis = Quantization((0.125, 0.25, float(np.float32(0.3))), (0, 0, 0), 0)
    w = main.constant(np.arange(54, dtype=np.int8).reshape(3, 3, 3, 2), quantization=per_axis)
    op = Conv2D(Padding.VALID, 2, 1, Activation.RELU, dilation_w_factor=1, quantized_bias_type=DType.INT32)
    y = Tensor("y", DType.INT8, (1, 2, 1, 3), quantization=Quantization((1.5,), (7,)))
    b = main.constant([1, 2, 3], quantization=replace(per_axis, scales=(0.0625, 0.125, float(np.float32(0.15)))))
    main.output(*main.op(op, x, w, b, outputs=[y], version=3))
    return builder.build()


def dense() -> Model:
    """An optional input that is absent."""
    builder = ModelBuilder()
    main = builder.subgraph()
    main.output(main.apply(FullyConnected(keep_num_dims=True), main.input("x", np.float32, (1, 2, 3)),
                           main.constant(np.ones((4, 3), np.float32)), None))
    return builder.build()


def with_constant(dtype: DType, shape: Shape, data: Array, quantization: Quantization | None = None,
                  sparsity: Sparsity | None = None, scales: bool = False) -> Model:
    """A model that returns a constant."""
    builder = ModelBuilder()
    main = builder.subgraph()
    if scales:
        main.constant(np.ones((2, 2), np.float16), name="scales")
    main.output(main.tensor(Tensor("c", dtype, shape, data=data, quantization=quantization, sparsity=sparsity)))
    return builder.build()


def sparse() -> Model:
    data = frozen(np.array([1, 2], np.float32).view(np.uint8))
    sparsity = Sparsity((0, 1), (), (DimensionSparsity(2), DimensionSparsity(300, (0, 1, 2), (7, 290))))
    return with_constant(DType.FLOAT32, (2, 300), data, sparsity=sparsity)


def strings() -> Model:
    return with_constant(DType.STRING, (2, 2), frozen([[b"", b"a"], ["ü".encode(), b"\0\xff"]], object))


def custom() -> Model:
    """A custom operator with options, intermediates and a version."""
    builder = ModelBuilder()
    main = builder.subgraph("")
    x = main.input("", np.float32, (1,))
    y = main.op(Opaque("CUSTOM:my:op"), x, outputs=[Tensor("y", DType.FLOAT32, (1,))], version=4)
    main.output(*y)
    model = builder.build()
    operator = replace(model.subgraphs[0].operators[0], custom_options=bytes(range(100)), intermediates=(0,))
    return replace(model, subgraphs=(replace(model.subgraphs[0], operators=(operator,)),))


def variable() -> Model:
    builder = ModelBuilder()
    main = builder.subgraph()
    x = main.input("x", np.int32, (3,))
    handle = main.apply(VarHandle("box", "ünï"))
    main.op(AssignVariable(), handle, x, count=0)
    main.tensor(Tensor("state", DType.INT32, (3,), is_variable=True))
    main.output(x)
    return builder.build()


def composite() -> Model:
    builder = ModelBuilder()
    main, body = builder.subgraph(), builder.subgraph("decomposition")
    b = body.input("x", np.float32, (2,))
    body.output(body.apply(Add(), b, b))
    x = main.input("x", np.float32, (2,))
    op = Composite("odml.twice", body.index, b"\x01\x02", 0, 2)
    main.output(*main.op(op, x, count=1))
    return builder.build()


def products() -> Model:
    """Options that Circle calls otherwise, a rank that is not known, a vector of options."""
    builder = ModelBuilder()
    main = builder.subgraph()
    x = main.input("x", np.float32, (2, 3))
    y = main.apply(BatchMatMul(adj_y=True), x, x)
    z = main.op(Reshape((4, -1)), y, outputs=[Tensor("z", DType.FLOAT32, (), has_rank=False)])
    main.output(*z)
    return builder.build()


def _empty(main: SubgraphBuilder) -> None:
    main.output(main.constant(np.zeros((0, 3), np.float32)), main.input("x", np.float32, (0, 3)))


def empty() -> Model:
    """A constant without elements, and an input without."""
    builder = ModelBuilder()
    _empty(builder.subgraph())
    return builder.build()


def documented() -> Model:
    return replace(branches(), description="what it is", metadata={"a": b"\0\1", "b": b"", "ü": b"x" * 1000})


SAMPLES = {each.__name__: each() for each in (
    branches, chain, composite, convolution, custom, dense, documented, empty, products, sparse, strings, variable)}
SAMPLES |= {
    f"constant_{dtype.value}": with_constant(dtype, (2, 2), frozen([[0, 1], [1, 0]], dtype.numpy))
    for dtype in (*sorted(FLOATS | INTEGERS, key=str), DType.BOOL, DType.COMPLEX64, DType.COMPLEX128)
}
SAMPLES |= {
    "int4": with_constant(DType.INT4, (3, 3), frozen(np.arange(5), np.uint8)),
    "bfloat16": with_constant(DType.BFLOAT16, (3,), frozen(np.arange(3), np.uint16)),
    "blockwise": with_constant(DType.INT4, (2, 4), frozen(np.arange(4), np.uint8), scales=True,
                               quantization=Quantization(blockwise=Blockwise(0, -1, 2))),
}
TFLITE_ONLY = {
    "int2": with_constant(DType.INT2, (3, 3), frozen(np.arange(3), np.uint8)),
    "float8": with_constant(DType.FLOAT8_E4M3FN, (3,), frozen(np.arange(3), np.uint8)),
}
CIRCLE_ONLY = {
    "ggml": with_constant(DType.GGML_Q4_0, (32,), frozen(np.arange(18), np.uint8)),
    "mx": with_constant(DType.MXINT8, (32,), frozen(np.arange(33), np.uint8), quantization=Quantization(axis=-1)),
}


def assert_same(actual: Model, expected: Model) -> None:
    """Checks that two models are equal but for format and version."""
    assert actual.signatures == expected.signatures
    assert actual.description == expected.description
    assert actual.metadata == expected.metadata
    for left, right in zip(actual.subgraphs, expected.subgraphs, strict=True):
        _same_subgraph(left, right)


def _same_subgraph(actual: Subgraph, expected: Subgraph) -> None:
    assert (actual.name, actual.inputs, actual.outputs) == (expected.name, expected.inputs, expected.outputs)
    for left, right in zip(actual.operators, expected.operators, strict=True):
        for field in fields(left):
            name = field.name
            if isinstance(right.op, Opaque) and name == "op":
                assert left.name == right.name
            else:
                assert left.__getattribute__(name) == right.__getattribute__(name), name
    for one, other in zip(actual.tensors, expected.tensors, strict=True):
        _same_tensor(one, other)


def _same_tensor(actual: Tensor, expected: Tensor) -> None:
    for field in fields(actual):
        if field.name != "data":
            left, right = (each.__getattribute__(field.name) for each in (actual, expected))
            assert left == right, f"{field.name} of {expected.name}"
    assert (actual.data is None) == (expected.data is None), expected.name
    if actual.data is not None and expected.data is not None:
        assert actual.data.dtype == expected.data.dtype
        assert not actual.data.flags.writeable
        np.testing.assert_array_equal(actual.data, expected.data, strict=True)
