"""Infers the shape of every tensor of a subgraph for concrete input shapes, and computes what is constant there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeAlias

from circlet.runtime.errors import ExecutionError, LimitError, Place
from circlet.runtime.ir.faults import FAULTS, raise_located
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph, Tensor
from circlet.runtime.ir.op import Operand, Operands, ShapeError, Unknown
from circlet.runtime.ir.types import MOST_DIMENSIONS, Array, Shape

MEMO_SIZE = 256
MOST_ELEMENTS = 1 << 58
FOLDED_BYTES = 1 << 20
"""A constant result larger than this is kept only if it is no larger than what it was computed from."""

Evaluate: TypeAlias = Callable[[int, int, list["Array | None"], tuple[Shape, ...]], "list[Array]"]
"""Computes operator `(subgraph, operator)` from constant inputs into arrays of the given shapes."""


@dataclass(frozen=True, eq=False)
class Specialization:
    """A subgraph at concrete input shapes, as far as it is known before it runs."""

    index: int
    subgraph: Subgraph
    promised: bool
    """The input shapes fit the declared ones, so that declared output shapes hold."""
    shapes: tuple[Shape | None, ...]
    """By tensor; None where only a run can tell."""
    known: Mapping[int, Array]
    """Constants of the model and results computed from them and from shapes, by tensor."""
    stop: int
    """The first operator whose output shapes depend on data; the number of operators if there is none."""

    @property
    def is_static(self) -> bool:
        return self.stop == len(self.subgraph.operators)

    def shape(self, tensor: int) -> Shape:
        """The shape of a tensor.

        Raises:
            Unknown: only a run can tell.
        """
        shape = self.shapes[tensor]
        if shape is None:
            raise Unknown
        return shape

    @property
    def output_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the subgraph's outputs; raises Unknown where only a run can tell."""
        if not self.is_static:
            raise Unknown
        return tuple(self.shape(index) for index in self.subgraph.outputs)


class Specializer:
    """Specialises the subgraphs of one model; results are kept for a bounded number of input shapes."""

    def __init__(self, model: Model, evaluate: Evaluate) -> None:
        self._model = model
        self._evaluate = evaluate
        self.at = lru_cache(MEMO_SIZE)(self._at)
        """`at(subgraph, input_shapes) -> Specialization`"""

    def _at(self, index: int, inputs: tuple[Shape, ...]) -> Specialization:
        subgraph = self._model.subgraphs[index]
        shapes: list[Shape | None] = [None] * len(subgraph.tensors)
        known: dict[int, Array] = {}
        for number, tensor in enumerate(subgraph.tensors):
            if tensor.data is not None:
                shapes[number] = tensor.shape
                known[number] = tensor.data
            elif tensor.is_variable:
                shapes[number] = tensor.shape
        promised = True
        for tensor_index, shape in zip(subgraph.inputs, inputs, strict=True):
            shapes[tensor_index] = shape
            problem = _quantization_problem(subgraph.tensors[tensor_index], shape)
            if problem is not None:
                label = subgraph.tensor_label(tensor_index)
                raise ExecutionError(f"subgraph {index} ({subgraph.name!r}), input {label}: {problem}")
            promised = promised and fits(shape, subgraph.tensors[tensor_index].signature)
        return self.extend(Specialization(index, subgraph, promised, tuple(shapes), known, 0))

    def extend(self, so_far: Specialization, values: Mapping[int, Array] | None = None) -> Specialization:
        """Goes on from operator `so_far.stop`, whose inputs now have `values`.

        Where its output shapes stay unknown the result stops there again.

        Raises:
            ExecutionError: the shapes or values do not fit an operator.
            LimitError: a result is larger than any memory.
        """
        shapes, known, stop = list(so_far.shapes), dict(so_far.known), so_far.stop
        subgraph = so_far.subgraph
        at_hand: Mapping[int, Array] = known if values is None else {**values, **known}
        for stop in range(so_far.stop, len(subgraph.operators)):
            operator = subgraph.operators[stop]
            found = self._infer(so_far, stop, shapes, at_hand)
            if found is None:
                break
            for tensor, shape in zip(operator.outputs, found, strict=True):
                shapes[tensor] = shape
            self._fold(so_far.index, stop, operator, shapes, known)
            at_hand = known
        else:
            stop = len(subgraph.operators)
        return Specialization(so_far.index, subgraph, so_far.promised, tuple(shapes), known, stop)

    def _infer(self, so_far: Specialization, number: int, shapes: list[Shape | None],
               values: Mapping[int, Array]) -> tuple[Shape, ...] | None:
        operator = so_far.subgraph.operators[number]
        try:
            found = operator.op.infer(self._operands(so_far.subgraph, operator, shapes, values))
            _expect_storable(found)
            if len(found) != len(operator.outputs):
                raise ShapeError(f"expected {len(found)} outputs, found {len(operator.outputs)}")
            for tensor, shape in zip(operator.outputs, found, strict=False):
                problem = _quantization_problem(so_far.subgraph.tensors[tensor], shape)
                if problem is not None:
                    raise ShapeError(f"output {so_far.subgraph.tensor_label(tensor)}: {problem}")
            return found
        except Unknown:
            declared = [so_far.subgraph.tensors[index] for index in operator.outputs]
            promised = so_far.promised and not operator.op.callees()
            if promised and all(each.shape and each.is_static for each in declared):
                return tuple(each.shape for each in declared)
            return None
        except FAULTS as error:
            raise_located(error, Place(so_far.index, so_far.subgraph.name, number, operator.name))

    def _operands(self, subgraph: Subgraph, operator: Operator, shapes: list[Shape | None],
                  values: Mapping[int, Array]) -> Operands:
        operands: list[Operand | None] = []
        for index in operator.inputs:
            if index == ABSENT:
                operands.append(None)
                continue
            shape, tensor = shapes[index], subgraph.tensors[index]
            if shape is None:
                raise Unknown
            operands.append(Operand(tensor.dtype, shape, values.get(index), tensor.quantization))
        return Operands(tuple(operands), len(operator.outputs), self._call)

    def callee(self, index: int, inputs: tuple[Shape, ...]) -> Specialization:
        """A subgraph that an operator invokes, with output shapes that are known.

        Raises:
            Unknown: only a run can tell them, or whether the subgraph can run at all. It may never be invoked: the
                branch not taken, the body of a loop without turns.
        """
        try:
            found = self.at(index, inputs)
        except (ExecutionError, LimitError):
            raise Unknown from None
        if not found.is_static:
            raise Unknown
        return found

    def _call(self, subgraph: int, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return self.callee(subgraph, shapes).output_shapes

    def _fold(self, index: int, number: int, operator: Operator, shapes: list[Shape | None],
              known: dict[int, Array]) -> None:
        """Computes the operator's results now if they are the same in every run."""
        subgraph = self._model.subgraphs[index]
        op = operator.op
        if not operator.outputs or not op.pure:
            return
        out_shapes = tuple(shapes[each] or () for each in operator.outputs)
        values: Sequence[Array] | None = op.from_shapes(self._operands(subgraph, operator, shapes, known))
        if values is None:
            if any(each != ABSENT and each not in known for each in operator.inputs):
                return
            inputs = [None if each == ABSENT else known[each] for each in operator.inputs]
            if not _worth_keeping(subgraph, operator, out_shapes, inputs):
                return
            values = self._evaluate(index, number, inputs, out_shapes)
        for tensor, value in zip(operator.outputs, values, strict=True):
            value.setflags(write=False)
            known[tensor] = value


def _worth_keeping(subgraph: Subgraph, operator: Operator, shapes: tuple[Shape, ...],
                   inputs: list[Array | None]) -> bool:
    size = 0
    for index, shape in zip(operator.outputs, shapes, strict=True):
        count = subgraph.tensors[index].dtype.numpy.itemsize
        for dim in shape:
            count *= dim
        size += count
    return size <= max(FOLDED_BYTES, 4 * sum(each.nbytes for each in inputs if each is not None))


def _quantization_problem(tensor: Tensor, shape: Shape) -> str | None:
    """What is wrong where an axis is not as long as the tensor has scales for it."""
    quantization = tensor.quantization
    if quantization is None or not quantization.per_axis or quantization.blockwise is not None:
        return None
    scales, axis = len(quantization.scales), quantization.axis
    if axis < len(shape) and shape[axis] == scales:
        return None
    return f"expected length {scales} of axis {axis}, which has {scales} scales, found shape {shape}"


def _expect_storable(shapes: Sequence[Shape]) -> None:
    """Raises LimitError where no array holds one of the results, ShapeError where nothing could."""
    for shape in shapes:
        if shape and min(shape) < 0:
            raise ShapeError(f"the result has a negative size: {shape}")
        if len(shape) > MOST_DIMENSIONS:
            raise LimitError(f"the result has {len(shape)} dimensions; arrays have at most {MOST_DIMENSIONS}")
        if prod(dim or 1 for dim in shape) > MOST_ELEMENTS:
            raise LimitError("the result has more elements than any memory holds")


def fits(shape: Shape, signature: Shape) -> bool:
    """Whether a concrete shape is one that a declared shape, with -1 for any length, allows."""
    return len(shape) == len(signature) and all(want in (-1, dim)
                                                for dim, want in zip(shape, signature, strict=True))
