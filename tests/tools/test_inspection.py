"""What `circlet inspect` says of costs, constants and likely problems."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.index import GatherNd, Where
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.shape import Range
from circlet.runtime.ops.unary import Neg, Tanh
from circlet.schema.foreign import Foreign
from circlet.tools import support
from circlet.tools.inspection.inspection import Inspection, inspection_of
from circlet.tools.support import SURVEYED
from tests.native.hosted import spectrum
from tests.needs import NATIVE, ONNX
from tests.tools.conftest import Program

F32 = DType.FLOAT32
Write = Callable[[SubgraphBuilder, tuple[Value, Value, Value]], tuple[Value, Value, Value]]


def inspected(model: Model, backend: str = "cpu") -> Inspection:
    return inspection_of("model", 0, model, range(len(model.subgraphs)), backend)


def found(model: Model, kind: str, backend: str = "cpu") -> list[tuple[int, int | None, int | None, str]]:
    """The problems of a kind: subgraph, operator, tensor, text."""
    return [(each.subgraph, each.operator, each.tensor, each.text)
            for each in inspected(model, backend).problems if each.kind == kind]


def loop(write: Write, shape: tuple[int, ...] = (4,), reads: int = 3) -> Model:
    """A While of 10 turns that carries a count k and arrays x and y; so many of its results are read."""
    builder = circlet.ModelBuilder()
    main, cond, body = (builder.subgraph(each) for each in ("main", "cond", "body"))
    k, x, y = _state(main, shape)
    results = main.op(While(cond.index, body.index), k, x, y, count=3)
    main.output(*results[:reads])
    cond.output(cond.apply(Less(), _state(cond, shape)[0], cond.constant(10)))
    body.output(*write(body, _state(body, shape)))
    return builder.build()


def _state(graph: SubgraphBuilder, shape: tuple[int, ...]) -> tuple[Value, Value, Value]:
    return graph.input("k", DType.INT32), graph.input("x", F32, shape), graph.input("y", F32, shape)


def _next(graph: SubgraphBuilder, k: Value) -> Value:
    return graph.apply(Add(), k, graph.constant(1))


def _swap(graph: SubgraphBuilder, state: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
    k, x, y = state
    return _next(graph, k), y, x


def _both(graph: SubgraphBuilder, state: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
    """Returns one value twice."""
    k, x, y = state
    total = graph.apply(Add(), x, y)
    return _next(graph, k), total, total


def _apart(graph: SubgraphBuilder, state: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
    """Nothing but y itself depends on y."""
    k, x, y = state
    return _next(graph, k), graph.apply(Tanh(), x), graph.apply(Neg(), y)


def _grow(graph: SubgraphBuilder, state: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
    k, x, y = state
    longer, = graph.op(Concatenation(0), x, y, outputs=[Tensor("longer", F32, (1,), (-1,))])
    return _next(graph, k), longer, y


def _filter(graph: SubgraphBuilder, state: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
    k, x, y = state
    places, = graph.op(Where(), x, outputs=[Tensor("places", DType.INT64, (1, 1), (-1, 1))])
    kept, = graph.op(GatherNd(), x, places, outputs=[Tensor("kept", F32, (1,), (-1,))])
    return _next(graph, k), kept, y


def test_a_loop_that_copies() -> None:
    (subgraph, operator, tensor, text), = found(loop(_both), "copies")
    assert (subgraph, operator) == (0, 0)
    assert tensor in (1, 2)
    assert text.startswith("copies 16 bytes in every turn: carry ")
    assert found(loop(_swap), "copies") == []
    assert found(loop(_apart), "copies") == []


def test_values_carried_for_nothing() -> None:
    assert found(loop(_apart), "unread") == []
    (_, _, tensor, text), = found(loop(_apart, reads=2), "unread")
    assert tensor == 2
    assert text.startswith("carries value 2, on which neither")
    assert found(loop(_swap, reads=2), "unread") == []
    assert [each[2] for each in found(loop(_swap, reads=1), "unread")] == [1, 2]


def test_a_loop_with_effects_is_read(tmp_path: Path) -> None:
    """What a value is written to a variable with is not carried for nothing."""
    path = Path(__file__).parents[1] / "models" / "counter.tflite"
    assert found(circlet.load(path), "unread") == []


def test_loops_that_others_compute_wrongly() -> None:
    (subgraph, operator, tensor, text), = found(loop(_swap), "litert")
    assert (subgraph, operator, tensor) == (0, 0, 1)
    assert text.startswith("its body returns input 2 as output 1: LiteRT and OpenVINO")
    assert found(loop(_both), "litert") == []


def test_conversion_is_a_remedy() -> None:
    assert found(circlet.convert(loop(_swap)), "litert") == []


def branches(then: int, other: int, twice: bool = False) -> Model:
    """An If whose branches give vectors of some lengths."""
    builder = circlet.ModelBuilder()
    graphs = main, *callees = [builder.subgraph(each) for each in ("main", "then", "else")]
    inputs = [each.input("x", F32, (then,)) for each in graphs]
    for graph, x, length in zip(callees, inputs[1:], (then, other), strict=True):
        y = graph.apply(Neg(), x) if length == then else graph.constant(np.zeros(length, np.float32))
        graph.output(*[y] * (2 if twice else 1))
    op = If(callees[0].index, callees[1].index)
    declared = Tensor("y", F32, (then,), None if then == other else (-1,))
    main.output(*main.op(op, main.input("c", DType.BOOL), inputs[0], outputs=[declared] * (2 if twice else 1)))
    return builder.build()


def test_branches_that_others_compute_wrongly() -> None:
    (_, _, _, text), = found(branches(3, 5), "onert")
    assert text.startswith("result 0 has shape (3,) in @1 and (5,) in @2: onert takes")
    assert found(branches(3, 3), "onert") == []
    texts = [each[3] for each in found(branches(3, 3, twice=True), "litert")]
    assert [each.partition(":")[0] for each in texts] == [
        "its then branch @1 returns one tensor twice", "its else branch @2 returns one tensor twice"]


def test_loops_that_share_a_body() -> None:
    builder = circlet.ModelBuilder()
    main, cond, body = (builder.subgraph(each) for each in ("main", "cond", "body"))
    for graph in (cond, body):
        x = graph.input("x", F32, (-1,))
        graph.output(x if graph is body else graph.apply(
            Less(), graph.apply(Sum(), x, graph.constant([0])), graph.constant(5.0)))
    for length in (2, 2, 3):
        x = main.input("x", F32, (length,))
        main.output(*main.op(While(cond.index, body.index), x, outputs=[Tensor("y", F32, (length,))]))
    (subgraph, operator, _, text), = found(builder.build(), "litert")
    assert (subgraph, operator) == (0, 2)
    assert text.startswith("invokes @1 as @0[0] does, with other shapes")


def test_shapes_that_a_run_finds_out() -> None:
    (subgraph, operator, tensor, text), = found(loop(_grow, (-1,)), "shapes")
    assert (subgraph, operator, tensor) == (0, 0, 1)
    assert text.startswith("carries value 1 whose shapes change")
    assert found(loop(_swap), "shapes") == []


@NATIVE
def test_code_for_any_lengths_finds_out_shapes() -> None:
    """Native code goes on where numpy's turns are bound anew, even where shapes follow from data."""
    shrink = circlet.load(Path(__file__).parents[1] / "models" / "shrink.tflite")
    for model in (loop(_grow, (-1,)), loop(_filter, (-1,)), shrink):
        assert found(model, "shapes", "cpu")
        assert found(model, "shapes", "native") == []


def test_a_shape_that_follows_from_data() -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    y, = main.op(Range(), main.constant(0), main.input("n", DType.INT32), main.constant(1),
                 outputs=[Tensor("y", DType.INT32, (1,), (-1,))])
    main.output(main.apply(Add(), y, y))
    (subgraph, operator, tensor, text), = found(builder.build(), "shapes")
    assert (subgraph, operator, tensor) == (0, 0, 3)
    assert text.endswith("is bound in the run; 1 operator after it waits for that")


@NATIVE
def test_why_operators_are_not_native(program: Program, tmp_path: Path) -> None:
    path = str(tmp_path / "spectrum.tflite")
    model = spectrum()
    circlet.save(model, path)
    hosted = list(inspected(model, "native").hosted)
    assert hosted
    assert all(verdict.backend == "cpu" and verdict.reason for _, _, verdict in hosted)
    assert list(inspected(model, "cpu").hosted) == []
    text = program.text("inspect", path, "--backend", "native")
    assert "not native" in text
    assert hosted[0][2].reason in text


def dense() -> Model:
    """Two products by the same weights, by equal ones, and a tensor that nothing names."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", F32, (1, 8))
    weights = np.arange(64, dtype=np.float32).reshape(8, 8)
    first = main.constant(weights, name="weights")
    shared = main.tensor(replace(main.build().tensors[first.index], name="shared"))
    copied = main.constant(weights.copy(), name="copied")
    for each in (first, shared, copied):
        x = main.apply(FullyConnected(), x, each)
    main.apply(Mul(), x, x)
    main.tensor(Tensor("forgotten", F32, (3,)))
    main.input("ignored", F32, (1,))
    main.output(x)
    return builder.build()


def test_constants_and_unused_tensors(program: Program, tmp_path: Path) -> None:
    found = inspected(dense())
    assert found.constants.bytes == 512
    assert [(each.bytes, each.is_shared, each.tensors) for each in found.constants.same] == [
        (256, True, [(0, 1), (0, 2)]), (256, False, [(0, 1), (0, 3)])]
    path = tmp_path / "dense.tflite"
    circlet.save(dense(), path)
    text = program.text("inspect", path, "--tensors")
    assert [line.split("  ")[0] for line in text.splitlines()[1:4]] == [
        "@0 %7 mul_7", "@0 %8 forgotten", "@0 %9 ignored"]
    assert "a result of [3] that nothing reads" in text
    assert "no operator names it" in text
    assert "an input that nothing reads" in text
    assert program.text("inspect", "examples/collatz.tflite", "--tensors", "--subgraph", "2") == (
        "no unused tensors\n\nno constants are there twice\n")


def test_costs_of_a_product(program: Program) -> None:
    """Three products of 128 operations; what nobody reads costs nothing."""
    cost, = inspected(dense()).costs
    assert cost.estimate.total.flops == 3 * 128
    assert [each and each.flops for each in cost.estimate.operators] == [128, 128, 128, 0]
    assert cost.peak is not None
    assert cost.peak.bytes == 2 * 64  # what a product reads and what it writes, each a line of the cache


def test_memory_at_its_peak() -> None:
    """x of 4 kB doubles in length twice: 16 kB are made of 8 kB at operator 1, and do not fit where x was."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", F32, (1024,))
    for _ in range(2):
        x = main.apply(Concatenation(0), x, x)
    main.output(main.apply(Sum(), x, main.constant([0])))
    cost, = inspected(builder.build()).costs
    assert cost.peak is not None
    assert (cost.peak.bytes, cost.peak.operator) == (4096 * (1 + 2 + 4), 1)


def test_a_model_that_cannot_be_run_has_costs() -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", F32, (4,))
    y, = main.op(Foreign("CUSTOM:Mystery"), x, outputs=[Tensor("y", F32, (4,))])
    main.output(main.apply(Add(), y, y))
    found = inspected(builder.build())
    cost, = found.costs
    assert (cost.estimate.total.flops, cost.estimate.unknown, cost.peak) == (4, 1, None)
    assert found.support.problem is not None


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("depth", [50, 400, 2000])
def test_calls_within_calls(depth: int, backend: str) -> None:
    """What is too deep for Python's stack is shown without costs."""
    builder = circlet.ModelBuilder()
    graphs = [builder.subgraph(f"level {k}") for k in range(depth)]
    for k, graph in enumerate(graphs):
        x = graph.input("x", F32, (2,))
        graph.output(graph.apply(Neg(), x) if k == depth - 1 else graph.op(
            CallSubgraph(graphs[k + 1].index), x, outputs=[Tensor("y", F32, (2,))])[0])
    found = inspected(builder.build(), backend)
    assert len(found.support.verdicts) == depth
    assert found.costs[0].estimate.total.flops == 2 if depth == 50 else len(found.costs) in (0, depth)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_ten_thousand_operators_are_quick(backend: str) -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", F32, (4,))
    for _ in range(10 * SURVEYED):
        x = main.apply(Tanh(), x)
    main.output(x)
    started = time.process_time()
    found = inspected(builder.build(), backend)
    assert time.process_time() - started < 8  # takes 1
    assert {each.backend for each in found.support.verdicts[0]} == {backend}
    assert found.costs[0].estimate.total.flops == 40 * SURVEYED


@ONNX
@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_loops_of_large_models_run(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "SURVEYED", 0)
    model = circlet.load(Path(__file__).parents[2] / "examples" / "sum_even.onnx")
    (number,) = (k for k, each in enumerate(model.subgraphs[0].operators) if each.name == "LOOP")
    found = inspected(model, backend).support
    assert found.verdicts[0][number].backend == "controlflow"
    assert found.problem is None
