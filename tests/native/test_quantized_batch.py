"""Native products of quantised matrices: equal to the bit to the numpy backend."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Quantization
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from tests.native.native_cases import native_test
from tests.native.quantized_models import Network, stored
from tests.native.test_budget import session_of
from tests.native.test_outlined import defined
from tests.native.test_quantized_conv import activations, seeds
from tests.ops.cases import as_t, check, q
from tests.ops.test_matmul import BATCH

test_cases = native_test([each for each in BATCH if as_t(each.outputs[0]).array.dtype.kind == "i"])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([((), ()), ((2,), (2,)), ((3, 1), (2,)), ((2, 3), ())]), st.sampled_from([1, 5, 40]),
       st.sampled_from([1, 3, 4, 30, 64]), st.sampled_from([1, 7, 64, 100]), st.booleans(), st.booleans(),
       st.booleans(), activations, activations, seeds)
def test_batch_matmul(outer: tuple[tuple[int, ...], tuple[int, ...]], rows: int, depth: int, columns: int, adj_x: bool,
                      adj_y: bool, is_raw: bool, first: Quantization, second: Quantization, seed: int) -> None:
    network = Network()
    given = (depth, rows) if adj_x else (rows, depth)
    x = network.input(stored((*outer[0], *given), DType.INT8, seed), first)
    matrix = (columns, depth) if adj_y else (depth, columns)
    y = network.input(stored((*outer[1], *matrix), DType.INT8, seed + 1), second)
    made = {"dtype": DType.INT32} if is_raw else {"quantization": Quantization((first.scale,), (second.zero_point,))}
    network.op(BatchMatMul(adj_x, adj_y), x, y, **made)
    network.agree(is_native=True)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([((), ()), ((2,), (2,)), ((3, 1), (2,)), ((2, 3), ()), ((), (2,))]), st.sampled_from([1, 5, 40]),
       st.sampled_from([1, 3, 30, 65]), st.sampled_from([1, 7, 64, 100]), st.booleans(), st.booleans(),
       st.sampled_from([DType.INT16, DType.INT8]), st.sampled_from([1e-4, 1.0, 7e3]), seeds)
def test_batch_matmul_of_int16(outer: tuple[tuple[int, ...], tuple[int, ...]], rows: int, depth: int, columns: int,
                               adj_x: bool, adj_y: bool, other: DType, scale: float, seed: int) -> None:
    network = Network()
    first, second = (depth, rows) if adj_x else (rows, depth), (columns, depth) if adj_y else (depth, columns)
    x = network.input(stored((*outer[0], *first), DType.INT16, seed), q(0.5))
    y = network.input(stored((*outer[1], *second), other, seed + 1), q(0.25))
    network.op(BatchMatMul(adj_x, adj_y), x, y, quantization=q(scale * depth**0.5))
    network.agree(is_native=True)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([(1,), (5,), (2, 20)]), st.sampled_from([1, 3, 30, 65]), st.sampled_from([1, 7, 64, 100]),
       st.sampled_from([None, np.int32, np.int64]), st.sampled_from([Activation.NONE, Activation.RELU6]), activations,
       activations, seeds)
def test_fully_connected_by_computed_weights(outer: tuple[int, ...], depth: int, columns: int, bias: type | None,
                                             activation: Activation, first: Quantization, second: Quantization,
                                             seed: int) -> None:
    network, dtype = Network(), DType.INT16 if bias is np.int64 or seed % 2 else DType.INT8
    given = (first, second) if dtype is DType.INT8 else (q(first.scale), q(second.scale))
    x, weights = (network.input(stored((*shape, depth), dtype, seed), each)
                  for shape, each in zip((outer, (columns,)), given, strict=True))
    added = [] if bias is None else [network.input(stored((columns,), DType.INT8, seed).astype(bias))]
    zero = second.zero_point if dtype is DType.INT8 else 0
    network.op(FullyConnected(activation, keep_num_dims=True), x, weights, *added,
               quantization=q(first.scale * second.scale * 40 * depth**0.5, zero))
    network.agree(is_native=True)


def test_greatest_sums_of_int16() -> None:
    """Each is more than 32 bits hold."""
    network = Network()
    x, y = (network.input(np.full(shape, -32768, np.int16), q(1.0)) for shape in ((2, 5000), (3, 5000)))
    network.op(BatchMatMul(adj_y=True), x, y, quantization=q(2.0**28))
    network.agree(is_native=True)


def test_products_of_all_sizes_pack_by_one_function() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    given: list[Value] = []
    results: list[Value] = []
    for k, (rows, depth, columns) in enumerate([(30, 8, 64), (30, 19, 64), (20, 64, 128)]):
        x, y = (main.tensor(Tensor("", DType.INT8, shape, quantization=q(0.05, k + 1)))
                for shape in ((rows, depth), (columns, depth)))
        given += [x, y]
        results += main.op(BatchMatMul(adj_y=True), x, y, outputs=[
            Tensor("", DType.INT8, (rows, columns), quantization=q(0.1 + k, k))])
    main.feed(*given)
    main.output(*results)
    model = b.build()
    session, backend = session_of(model)
    xs = [stored(model.subgraphs[0].tensors[each].shape, DType.INT8, each) for each in model.subgraphs[0].inputs]
    for found, wanted in zip(session.invoke(0, xs), circlet.Session(model, "cpu").invoke(0, xs), strict=True):
        check(found, wanted, None)
    names = [name for each in backend.listings for name in defined(each)]
    assert sum(name.startswith("pack_columns_") for name in names) == 1
    assert names.count("add_up_bytes") == 1


def test_many_weights_of_an_open_number_of_rows() -> None:
    """They stay bytes in memory where a processor multiplies pairs."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.INT8, (-1, 258), q(0.05, -7))
    weights = np.random.default_rng(0).integers(-128, 128, (258, 520)).astype(np.int8)
    weights[:2, :2] = [[-128, 127], [127, -128]]
    y = main.constant(weights, DType.INT8, quantization=q(0.1))
    main.output(*main.op(BatchMatMul(), x, y, outputs=[
        Tensor("y", DType.INT32, (1, 520), shape_signature=(-1, 520), quantization=Quantization((0.05,), (0,)))]))
    model = b.build()
    native, cpu = (circlet.Session(model, each) for each in ("native", "cpu"))
    for rows in (5, 1, 2, 7, 30):
        given = [stored((rows, 258), DType.INT8, rows)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], None)
    assert set(native.backend_of(0)) == {"native"}
