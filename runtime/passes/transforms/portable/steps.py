"""Spells what lowered loops are made of, and other operators that no format has, in operators that formats have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from circlet.runtime.errors import Place, UnsupportedError
from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.comparison import Less, SelectV2
from circlet.runtime.ops.elementwise import Add, Div, Maximum, Mul, Sub
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather, UpdateRow
from circlet.runtime.ops.layout import Concatenation, Pack, Slice
from circlet.runtime.ops.loop_options import Base, Mode, Position, ScanInput, TripPolicy
from circlet.runtime.ops.loop_steps import (
    GROWTH,
    Collection,
    LoopBuffer,
    LoopCount,
    LoopFront,
    LoopGrow,
    LoopKeep,
    LoopLength,
    LoopRoom,
    LoopScalar,
    LoopSlices,
    LoopStore,
    LoopTake,
    LoopZeros,
)
from circlet.runtime.ops.operands import normalize_axis
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Alias, ExpandDims, Fill, Reshape, ShapeOf
from circlet.runtime.passes.transforms.portable.editor import Editor
from circlet.runtime.passes.transforms.portable.signatures import with_subgraphs
from circlet.runtime.records import dataclass

I32 = DType.INT32
COMPUTED: dict[type[Op], np.ufunc] = {Add: np.add, Sub: np.subtract, Mul: np.multiply, Maximum: np.maximum}


def expand_steps(model: Model) -> Model:
    """Replaces the operators that no format has; operators and tensors get other indices.

    Raises:
        UnsupportedError: the file could not tell what a run can; all such places are listed.
    """
    problems = Problems([], [])
    subgraphs = [_expanded(subgraph, index, problems) for index, subgraph in enumerate(model.subgraphs)]
    found = problems.causes or problems.others
    if found:
        raise UnsupportedError(f"{len(found)} {'result' if len(found) == 1 else 'results'} of operators cannot be "
                               "computed by what formats have:\n  " + "\n  ".join(found))
    return with_subgraphs(model, subgraphs)


@dataclass(frozen=True)
class Problems:
    """Why operators cannot be replaced."""

    causes: list[str]
    """What is wrong with results of loops, from which other problems follow."""
    others: list[str]


def _expanded(subgraph: Subgraph, index: int, problems: Problems) -> Subgraph:
    if not any(type(each.op) in EXPANSIONS for each in subgraph.operators):
        return subgraph
    editor = Editor(subgraph)
    for number, operator in enumerate(subgraph.operators):
        expand = EXPANSIONS.get(type(operator.op))
        if expand is None:
            editor.keep(operator)
            continue
        try:
            expand(Step(editor, operator), operator.op)
        except UnsupportedError as problem:
            if isinstance(operator.op, LoopZeros):
                problems.causes.append(f"{operator.op.role}: {problem}")
            else:
                problems.others.append(f"{Place(index, subgraph.name, number, operator.name)}: {problem}")
    return editor.finish()


class Step:
    """One operator on its way to several. Positions and counts are int32."""

    def __init__(self, editor: Editor, operator: Operator) -> None:
        self.editor = editor
        self.inputs = tuple(map(editor.current, operator.inputs))
        self.result = operator.outputs[0]

    def dtype(self, tensor: int) -> DType:
        return self.editor.tensors[tensor].dtype

    def signature(self, tensor: int) -> Shape:
        """The declared shape with -1 for what is not known."""
        declared = self.editor.tensors[tensor]
        if not (declared.has_rank or declared.shape):
            raise UnsupportedError(f"expected a declared rank of tensor {declared.name!r}, found none")
        return declared.signature

    def known(self, tensor: int) -> Array | None:
        return self.editor.tensors[tensor].data

    def number(self, value: int, dtype: DType = I32) -> int:
        return self.editor.constant(value, dtype)

    def index(self, tensor: int) -> int:
        """A scalar as int32."""
        known, dtype = self.known(tensor), self.dtype(tensor)
        if known is not None:
            return self.number(min(int(known.item()), np.iinfo(np.int32).max))
        return tensor if dtype is I32 else self.editor.add(Cast(dtype, I32), [tensor], I32)

    def compute(self, op: Op, *inputs: int, dtype: DType = I32) -> int:
        """A scalar; what is known is computed at once."""
        known = [each for each in map(self.known, inputs) if each is not None]
        if type(op) in COMPUTED and len(known) == len(inputs):
            return self.editor.constant(COMPUTED[type(op)](*known), dtype)
        return self.editor.add(op, inputs, dtype)

    def times(self, tensor: int, factor: int) -> int:
        return tensor if factor == 1 else self.compute(Mul(), tensor, self.number(factor))

    def length(self, tensor: int, axis: int) -> int:
        """The size of an axis."""
        size = self.signature(tensor)[axis]
        if size >= 0:
            return self.number(size)
        shape = self.editor.add(ShapeOf(I32), [tensor], I32, (len(self.signature(tensor)),))
        return self.editor.add(Gather(), [shape, self.number(axis)], I32)

    def vector(self, rank: int, axis: int, value: int, rest: int) -> int:
        """A vector that is `rest` but for one element."""
        known = self.known(value)
        if known is not None:
            return self.editor.constant([int(known.item()) if k == axis else rest for k in range(rank)], I32)
        others = self.number(rest)
        parts = [value if k == axis else others for k in range(rank)]
        return self.editor.add(Pack(rank), parts, I32, (rank,))

    def zero(self, dtype: DType) -> int:
        return self.editor.constant(b"" if dtype is DType.STRING else 0, dtype)

    def zeros(self, dims: int, dtype: DType, signature: Shape) -> int:
        return self.editor.add(Fill(), [dims, self.zero(dtype)], dtype, signature)

    def write(self, op: Op, *inputs: int) -> None:
        self.editor.write(op, inputs, self.result)

    def use(self, tensor: int) -> None:
        self.editor.use(self.result, tensor)


def _alias(step: Step, op: Op) -> None:
    step.use(step.inputs[0])


def _scalar(step: Step, op: LoopScalar) -> None:
    if step.signature(step.inputs[0]) == ():
        step.use(step.inputs[0])
    else:
        step.write(Reshape(), step.inputs[0], step.editor.constant(np.zeros(0, np.int32), I32))


def _count(step: Step, op: LoopCount) -> None:
    given = step.inputs[0]
    known = step.known(given)
    if known is not None:
        return step.use(step.editor.constant(op.resolve(int(known.item())), op.dtype))
    if step.signature(given) != ():
        given = step.editor.add(Reshape(), [given, step.editor.constant(np.zeros(0, np.int32), I32)],
                                step.dtype(given))
    if step.dtype(given) is not op.dtype:
        given = step.editor.add(Cast(step.dtype(given), op.dtype), [given], op.dtype)
    zero = step.number(0, op.dtype)
    if op.policy is TripPolicy.NEGATIVE_IS_ZERO:
        return step.write(Maximum(), given, zero)
    is_infinite = step.editor.add(Less(), [given, zero], DType.BOOL)
    return step.write(SelectV2(), is_infinite, step.number(op.resolve(-1), op.dtype), given)


def _slices(step: Step, op: LoopSlices) -> None:
    """What the first input has; the file cannot say that the others must have as many, but where they are declared."""
    signatures = [step.signature(each) for each in step.inputs]
    if all(min(each, default=0) >= 0 for each in signatures):
        return step.use(step.editor.constant(op.count(tuple(signatures)), op.dtype))
    scan, tensor = op.scans[0], step.inputs[0]
    factor, offset = _slice_span(scan)
    length = step.times(step.length(tensor, normalize_axis(scan.axis, len(signatures[0]))), factor)
    span = step.compute(Add(), length, step.number(offset))
    found = span if abs(scan.step) == 1 else step.editor.add(Div(), [span, step.number(abs(scan.step))], I32)
    return step.use(found) if op.dtype is I32 else step.write(Cast(I32, op.dtype), found)


def _slice_span(scan: ScanInput) -> tuple[int, int]:
    """By how much of the length of the axis, and how much more, the slices extend."""
    begin = _terms(scan.begin)
    if scan.step > 0:
        end = (1, 0) if scan.end is None else _terms(scan.end)
        return end[0] - begin[0], end[1] - begin[1]
    end = (0, 0) if scan.end is None else _terms(scan.end)
    return begin[0] - end[0], begin[1] + scan.size - end[1]


def _terms(position: Position) -> tuple[int, int]:
    return int(position.base is Base.END), position.offset


def _length(step: Step, op: LoopLength) -> None:
    tensor = step.inputs[0]
    axis = normalize_axis(op.axis, len(step.signature(tensor)))
    size = step.signature(tensor)[axis]
    if size >= 0:
        return step.use(step.editor.constant(size // op.part, op.dtype))
    found = step.length(tensor, axis)
    if op.part != 1:
        found = step.editor.add(Div(), [found, step.number(op.part)], I32)
    return step.use(found) if op.dtype is I32 else step.write(Cast(I32, op.dtype), found)


def _declared(step: Step, op: LoopZeros) -> Shape:
    declared = step.editor.tensors[step.result]
    if not (declared.has_rank or declared.shape):
        raise UnsupportedError("expected a rank that is known before the run, found none")
    return declared.signature


def _zeros(step: Step, op: LoopZeros) -> None:
    signature = _declared(step, op)
    if min(signature, default=0) < 0:
        raise UnsupportedError(f"expected a shape that is known before the run, found {signature}")
    dims = step.editor.constant(np.array(signature, np.int32), I32)
    step.write(Fill(), dims, step.zero(step.dtype(step.result)))


def _buffer(step: Step, op: LoopBuffer) -> None:
    """Room for one element at least: LiteRT updates no tensor that is smaller than the update. Lengths that are not
    known are 1 until there is an element."""
    signature = tuple(abs(size) for size in _declared(step, op))
    axis = normalize_axis(op.scan.axis, len(signature))
    if step.dtype(step.result) is DType.STRING:
        raise UnsupportedError("expected numbers, found strings, which no DYNAMIC_UPDATE_SLICE takes elsewhere")
    room = step.times(step.compute(Maximum(), step.index(step.inputs[0]), step.number(1)), op.scan.part)
    known = step.known(room)
    if known is not None:
        dims = step.editor.constant([int(known.item()) if k == axis else size for k, size in enumerate(signature)], I32)
    else:
        parts = [room if k == axis else step.number(size) for k, size in enumerate(signature)]
        dims = step.editor.add(Pack(len(parts)), parts, I32, (len(parts),))
    step.write(Fill(), dims, step.zero(step.dtype(step.result)))


def _place(step: Step, op: Collection, axis: int) -> tuple[int, int]:
    """The rank of input 0 and where along the axis the element whose number is input 2 goes."""
    buffer, number, part = step.inputs[0], step.index(step.inputs[2]), op.scan.part
    if not op.backwards:
        return len(step.signature(buffer)), step.times(number, part)
    last = step.compute(Sub(), step.length(buffer, axis), step.number(part))
    return len(step.signature(buffer)), step.compute(Sub(), last, step.times(number, part))


def _store(step: Step, op: LoopStore) -> None:
    buffer, element = step.inputs[:2]
    axis = normalize_axis(op.scan.axis, len(step.signature(buffer)))
    rank, place = _place(step, op, axis)
    if op.scan.mode is Mode.STACK:
        signature = step.signature(element)
        element = step.editor.add(ExpandDims(), [element, step.number(axis)], step.dtype(element),
                                  (*signature[:axis], 1, *signature[axis:]))
    if any(size < 0 for k, size in enumerate(step.signature(buffer)) if k != axis):
        buffer = _widened(step, buffer, element, axis)
    step.write(DynamicUpdateSlice(), buffer, element, step.vector(rank, axis, place, 0))


def _widened(step: Step, buffer: int, element: int, axis: int) -> int:
    """The tensor with the lengths of an element, which those of the first one may differ from, in all other axes."""
    add, signature = step.editor.add, step.signature(buffer)
    rank = len(signature)
    own, wanted = (add(ShapeOf(I32), [each], I32, (rank,)) for each in (buffer, element))
    others = step.editor.constant([int(k != axis) for k in range(rank)], I32)
    more = add(Mul(), [add(Sub(), [wanted, own], I32, (rank,)), others], I32, (rank,))
    none = step.editor.constant(np.zeros(rank, np.int32), I32)
    paddings = add(Pack(2, axis=1), [none, more], I32, (rank, 2))
    return add(Pad(), [buffer, paddings], step.dtype(buffer), signature)


def _update_row(step: Step, op: UpdateRow) -> None:
    rank = len(step.signature(step.inputs[0]))
    step.write(DynamicUpdateSlice(), *step.inputs[:2], step.vector(rank, 0, step.index(step.inputs[2]), 0))


def _grow(step: Step, op: LoopGrow) -> None:
    buffer = step.inputs[0]
    signature = step.signature(buffer)
    axis = normalize_axis(op.scan.axis, len(signature))
    shape = step.editor.add(ShapeOf(I32), [buffer], I32, (len(signature),))
    more = [step.zeros(shape, step.dtype(buffer), signature)] * (GROWTH - 1)
    step.write(Concatenation(axis), *([*more, buffer] if op.backwards else [buffer, *more]))


def _take(step: Step, op: LoopTake) -> None:
    buffer = step.inputs[0]
    signature = step.signature(buffer)
    if signature == step.signature(step.result) and min(signature) > 0:
        return step.use(buffer)
    rank, axis = len(signature), normalize_axis(op.scan.axis, len(signature))
    taken = step.times(step.index(step.inputs[1]), op.scan.part)
    return step.write(Slice(), *_part(step, op, buffer, rank, axis, taken))


def _part(step: Step, op: Collection, buffer: int, rank: int, axis: int, taken: int) -> Iterator[int]:
    """The inputs of the SLICE that takes elements from the end of the axis where they lie."""
    begin = step.compute(Sub(), step.length(buffer, axis), taken) if op.backwards else step.number(0)
    yield buffer
    yield step.vector(rank, axis, begin, 0)
    yield step.vector(rank, axis, taken, -1)


def _front(step: Step, op: LoopFront) -> None:
    buffer = step.inputs[0]
    signature = step.signature(buffer)
    rank, axis = len(signature), normalize_axis(op.scan.axis, len(signature))
    taken = step.times(step.index(step.inputs[1]), op.scan.part)
    open_ = tuple(-1 if k == axis else size for k, size in enumerate(signature))
    moved = step.editor.add(Slice(), list(_part(step, op, buffer, rank, axis, taken)), step.dtype(buffer), open_)
    left = step.compute(Sub(), step.length(buffer, axis), taken)
    begin, size = step.vector(rank, axis, step.number(0), 0), step.vector(rank, axis, left, -1)
    rest = step.editor.add(Slice(), [buffer, begin, size], step.dtype(buffer), open_)
    shape = step.editor.add(ShapeOf(I32), [rest], I32, (rank,))
    step.write(Concatenation(axis), moved, step.zeros(shape, step.dtype(buffer), open_))


Expansion: TypeAlias = Callable[[Step, Any], None]

EXPANSIONS: dict[type[Op], Expansion] = {
    Alias: _alias,
    LoopBuffer: _buffer,
    LoopCount: _count,
    LoopFront: _front,
    LoopGrow: _grow,
    LoopKeep: _alias,
    LoopLength: _length,
    LoopRoom: _alias,
    LoopScalar: _scalar,
    LoopSlices: _slices,
    LoopStore: _store,
    LoopTake: _take,
    LoopZeros: _zeros,
    UpdateRow: _update_row,
}
