"""Models that passes change, one for each pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DimensionSparsity, DType, Padding, Quantization, Sparsity
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import Concatenation, Transpose
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import Carried
from circlet.runtime.ops.matmul import BatchMatMul, EmbeddingLookup
from circlet.runtime.ops.pad import PadV2
from circlet.runtime.ops.pool import MaxPool2D
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.reduce_window import StablehloReduceWindow
from circlet.runtime.ops.scatter import StablehloScatter
from circlet.runtime.ops.sequence import SequenceAt, SequenceConcat, SequenceConstruct, SequenceInsert, SequenceSplit
from circlet.runtime.ops.shape import BroadcastTo, Densify, Reshape
from circlet.runtime.ops.unary import Logistic
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from tests.exec.kept import appending
from tests.ops.loop_cases import LoopCase, loop_model
from tests.ops.test_loop import ROW, TOTAL, TOTAL_KINDS, i32, total
from tests.passes.growth_cases import PADDED, growing
from tests.passes.test_divide_down import model as quotients
from tests.passes.test_fuse_row_updates import model as row_update
from tests.passes.test_lift_words import looked_up, naming
from tests.passes.test_pick_elements import picking
from tests.passes.test_place_slices import placing
from tests.passes.test_separate_lists import SEPARATED
from tests.passes.test_thread_branches import DECIDED

F32, LIST = DType.FLOAT32, DType.VARIANT


def _main(write: Callable[[SubgraphBuilder, Value], Value]) -> Model:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    main.output(write(main, main.input("x", F32, (2, 3))))
    return builder.build()


def _unused(m: SubgraphBuilder, x: Value) -> Value:
    m.apply(Mul(), x, x)
    return m.apply(Add(), x, x)


def _loop(collects: bool = False) -> Model:
    op = TOTAL if collects else replace(TOTAL, scan_outputs=())
    case = LoopCase("", op, total, TOTAL_KINDS, ((i32(6), None, ROW),))
    return loop_model(case, case.runs[0], (0,))


def _list() -> Model:
    """Three turns, each of which appends a row to a list, and the list stacked."""
    builder = ModelBuilder()
    main, body = builder.subgraph("main"), builder.subgraph("body")
    items, row = (body.input(name, kind, shape) for name, kind, shape in (("items", LIST, ()), ("row", F32, (2,))))
    body.output(*body.op(SequenceInsert(), items, row, outputs=[Tensor("longer", LIST, ())]))
    none = main.op(SequenceConstruct(), outputs=[Tensor("none", LIST, ())])[0]
    op = Loop(body.index, carried=(Carried(0, 0),), invariants=(1,))
    x = main.input("x", F32, (2,))
    (rows,) = main.op(op, main.constant(i32(3)), None, none, x, outputs=[Tensor("rows", LIST, ())])
    main.output(*main.op(SequenceConcat(1, True), rows, outputs=[Tensor("y", F32, (2, 1), (2, -1))]))
    return builder.build()


def _swap() -> Model:
    """`(k, a, b) -> (k + 1, b, a)`"""
    builder = ModelBuilder()
    main, cond, body = (builder.subgraph(each) for each in ("main", "cond", "body"))
    main.output(*main.op(While(cond.index, body.index), *_state(main), count=3))
    cond.output(cond.apply(Less(), _state(cond)[0], cond.constant(3)))
    count, one, other = _state(body)
    body.output(body.apply(Add(), count, body.constant(1)), other, one)
    return builder.build()


def _state(s: SubgraphBuilder) -> tuple[Value, Value, Value]:
    return s.input("k", DType.INT32), s.input("a", F32, (2,)), s.input("b", F32, (2,))


def _turned(m: SubgraphBuilder, x: Value) -> Value:
    """The logistic of x, computed in another layout."""
    axes = m.constant(np.array([1, 0], np.int32))
    return m.apply(Transpose(), m.apply(Logistic(), m.apply(Transpose(), x, axes)), axes)


def _cached(m: SubgraphBuilder, x: Value) -> Value:
    """Writes x to a variable, and adds up what that holds then."""
    (handle,) = m.op(VarHandle("", "cache"), outputs=[Tensor("handle", DType.RESOURCE, ())])
    (cache,) = m.op(ReadVariable(), handle, outputs=[Tensor("cache", F32, (4, 3))])
    made = m.apply(DynamicUpdateSlice(), cache, x, m.constant(np.array([1, 0], np.int32)))
    m.op(AssignVariable(), handle, made, outputs=[])
    return m.apply(Sum(), made, m.constant(np.array([0], np.int32)))


def _windows() -> Model:
    """Sums of pairs in the rows of x, and these with another row added to the second."""
    builder = ModelBuilder()
    main, body = builder.subgraph("main"), builder.subgraph("body")
    body.output(body.apply(Add(), body.input("a", F32), body.input("b", F32)))
    pairs = main.op(StablehloReduceWindow((1, 2), body_subgraph_index=body.index), main.input("x", F32, (2, 3)),
                    main.constant(np.float32(0)), outputs=[Tensor("pairs", F32, (2, 2))])[0]
    rows = StablehloScatter((1,), (0,), (0,), 1, update_computation_subgraph_index=body.index)
    main.output(*main.op(rows, pairs, main.constant(np.array([[1]], np.int32)), main.input("row", F32, (1, 2)),
                         outputs=[Tensor("y", F32, (2, 2))]))
    return builder.build()


def _cut(m: SubgraphBuilder, x: Value) -> Value:
    """The second piece of two columns or less."""
    parts = m.op(SequenceSplit(axis=1), x, m.constant(np.int64(2)), outputs=[Tensor("parts", LIST, ())])[0]
    return m.op(SequenceAt(), parts, m.constant(np.int64(1)), outputs=[Tensor("part", F32, (2, 1))])[0]


def _surrounded(m: SubgraphBuilder, x: Value) -> Value:
    """The largest of windows over an image in padding."""
    image = m.apply(Reshape(), x, m.constant(np.array([1, 2, 3, 1], np.int32)))
    table = np.array([(0, 0), (1, 0), (1, 1), (0, 0)], np.int32)
    padded = m.apply(PadV2(), image, m.constant(table), m.constant(np.float32(-np.inf)))
    return m.apply(MaxPool2D(Padding.VALID, 1, 1, filter_width=2, filter_height=2), padded)


def _by_channel(m: SubgraphBuilder, x: Value) -> Value:
    """Each of two channels with a filter of its own."""
    image = m.apply(Reshape(), x, m.constant(np.array([1, 3, 1, 2], np.int32)))
    filters = m.constant(np.arange(4, dtype=np.float32).reshape(2, 2, 1, 1))
    return m.apply(Conv2D(Padding.VALID, 1, 1), image, filters)


def _sparse(m: SubgraphBuilder, x: Value) -> Value:
    """Adds what is stored row by row."""
    rows = Sparsity((0, 1), (), (DimensionSparsity(2), DimensionSparsity(0, (0, 1, 2), (2, 0))))
    stored = m.tensor(Tensor("stored", F32, (2, 3), data=np.array([1, 2], np.float32).view(np.uint8), sparsity=rows))
    return m.apply(Add(), x, m.op(Densify(), stored, outputs=[Tensor("whole", F32, (2, 3))])[0])


def _packed(m: SubgraphBuilder, x: Value) -> Value:
    """Rows of a table of int4."""
    scales = Quantization((0.5,), (0,), 0)
    table = m.tensor(Tensor("table", DType.INT4, (3, 2), data=np.array([33, 67, 101], np.uint8), quantization=scales))
    rows = m.op(EmbeddingLookup(), m.constant(np.array([2, 0], np.int32)), table, outputs=[Tensor("rows", F32, (2, 2))])
    return m.apply(Concatenation(1), x, rows[0])


SAMPLES: Mapping[str, Callable[[], Model]] = {
    "propagate_layout": lambda: _main(_turned),
    "collect_lists": _list,
    "lower_loops": _loop,
    "divide_down": lambda: quotients(2),
    "name_combinations": _windows,
    "simplify_identities": lambda: _main(lambda m, x: m.apply(Cast(F32, F32), x)),
    "fuse_row_updates": row_update,
    "pick_elements": lambda: picking(lambda s, _: s.constant(np.array([10 ** 9], np.int32))),
    "place_slices": lambda: placing(1),
    "update_variables": lambda: _main(_cached),
    "expand_sparse": lambda: _main(_sparse),
    "unpack_filters": lambda: _main(_packed),
    "eliminate_dead": lambda: _main(_unused),
    "fold_constants": lambda: _main(lambda m, x: m.apply(Add(), x, m.apply(
        Logistic(), m.constant(np.arange(3, dtype=np.float32))))),
    "separate_lists": lambda: SEPARATED["rotated"],
    "spread_lists": lambda: _main(_cut),
    "thread_branches": lambda: DECIDED["nested"][0],
    "lift_variables": lambda: appending(is_computed=True),
    "lift_words": lambda: naming(looked_up),
    "pad_growth": lambda: growing(PADDED["doubles"]),
    "name_depthwise": lambda: _main(_by_channel),
    "absorb_padding": lambda: _main(_surrounded),
    "absorb_transposition": lambda: _main(lambda m, x: m.apply(
        BatchMatMul(), x, m.apply(Transpose(), m.apply(Mul(), x, x), m.constant(np.array([1, 0]))))),
    "fuse_silu": lambda: _main(lambda m, x: m.apply(Mul(), x, m.apply(Logistic(), x))),
    "fuse_operators": lambda: _main(lambda m, x: m.apply(Add(), m.apply(Mul(), x, x), m.constant(np.float32(1)))),
    "inline_calls": _loop,
    "declare_shapes": _loop,
    "compact": _loop,
    "expand_steps": lambda: _loop(collects=True),
    "narrow_parameters": lambda: _main(lambda m, x: m.apply(Transpose(), x, m.constant(np.array([1, 0])))),
    "separate_results": _swap,
    "set_versions": lambda: _main(lambda m, x: m.apply(BroadcastTo(), x, m.constant(np.array([4, 2, 3], np.int32)))),
}
