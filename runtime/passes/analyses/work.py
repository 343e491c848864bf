"""What operators and subgraphs cost, estimated from shapes: arithmetic operations, and bytes read and written.

Bytes are those of all operands, each once, as if no cache held them from one operator to the next: what a roofline
divides by. Less counts where less is touched: of what only part is read, as much as becomes the result; of what is
partly rewritten, the part; of a view, nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from operator import add
from typing import TypeAlias

from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.op import Callee, Op, Operand
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.controlflow import Branch
from circlet.runtime.passes.analyses.flops import flops
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.records import dataclass, replace

BITS: Mapping[DType, float] = {
    DType.INT2: 2, DType.INT4: 4, DType.UINT4: 4,
    DType.GGML_Q4_0: 8 * 18 / 32, DType.GGML_Q4_1: 8 * 20 / 32, DType.GGML_Q8_0: 8 * 34 / 32,
    DType.GGML_Q8_1: 8 * 36 / 32, DType.MXFP4: 8 * 17 / 32, DType.MXINT8: 8 * 33 / 32,
}
"""Of an element, where numpy's types do not tell. GGML's and MX's blocks of 32 have scales beside their elements."""
READ_IN_PART = frozenset({
    "EMBEDDING_LOOKUP", "GATHER", "GATHER_ELEMENTS", "GATHER_ND", "LOOP_TAKE", "LOOP_FRONT", "SLICE",
    "STABLEHLO_DYNAMIC_SLICE", "STABLEHLO_GATHER", "STABLEHLO_SLICE", "STRIDED_SLICE",
})
"""Operators that read as much of their data as their result has."""
TABLES: Mapping[str, tuple[int, ...]] = {"BLOCK_EMBEDDING_LOOKUP": (1, 2), "EMBEDDING_LOOKUP_SPARSE": (4,)}
"""Inputs of which operators read as many rows as input 0 has elements."""
NOT_READ = frozenset({"RANK", "SHAPE", "ZEROS_LIKE", "LOOP_LENGTH", "LOOP_SLICES"})
"""Operators that need but the shapes of their inputs."""

Specialize: TypeAlias = "Callable[[int, tuple[Shape, ...]], Specialization]"


@dataclass(frozen=True)
class Work:
    """What something costs."""

    flops: int = 0
    """Arithmetic operations, those on integers too; a multiply-accumulate is 2."""
    read: int = 0
    """Bytes."""
    written: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.read + other.read, self.written + other.written)

    @property
    def bytes(self) -> int:
        """Those read and those written."""
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Operations for each byte, of which a roofline is a function; 0 where there are no bytes."""
        return self.flops / self.bytes if self.bytes else 0.0


def operator_work(op: Op, inputs: Sequence[Operand | None], outputs: Sequence[Operand]) -> Work | None:
    """What one operator costs, without the subgraphs that it invokes; None where there is no estimate.

    Args:
        op: the operator; `flops.formula` tells how its operations are counted.
        inputs: None where one is absent.
        outputs: its results.
    """
    found = flops(op, inputs, outputs)
    if found is None:
        return None
    if op.calls():
        return Work(found)
    return Work(found, sum(bytes_read(op, inputs, outputs)), bytes_written(op, inputs, outputs))


def bytes_read(op: Op, inputs: Sequence[Operand | None], outputs: Sequence[Operand]) -> list[int]:
    """The bytes that an operator reads of each input."""
    if op.name in NOT_READ:
        return [0] * len(inputs)
    skipped = {*op.views().values(), *op.overwrites().values()}
    found = [0 if k in skipped else nbytes(each) for k, each in enumerate(inputs)]
    for position in TABLES.get(op.name, ()):
        ids, table = inputs[0], inputs[position]
        assert ids is not None
        assert table is not None
        found[position] = min(found[position], prod(ids.shape) * nbytes(replace(table, shape=(1, *table.shape[1:]))))
    if op.name in READ_IN_PART:
        found[_data(op)] = min(found[_data(op)], sum(map(nbytes, outputs)))
    return found


def bytes_written(op: Op, inputs: Sequence[Operand | None], outputs: Sequence[Operand]) -> int:
    """The bytes that an operator writes."""
    views, rewritten = op.views(), op.overwrites()
    return sum(_update_bytes(inputs, each, rewritten[k]) if k in rewritten else nbytes(each)
               for k, each in enumerate(outputs) if k not in views)


def nbytes(operand: Operand | None) -> int:
    """The bytes of an operand's elements; of strings and the like those of the references to them."""
    if operand is None:
        return 0
    count = prod(operand.shape)
    bits = BITS.get(operand.dtype)
    return count * operand.dtype.numpy.itemsize if bits is None else -int(-count * bits // 8)


def _data(op: Op) -> int:
    """The position of the data of which an operator reads a part."""
    return 1 if op.name == "EMBEDDING_LOOKUP" else 0


def _update_bytes(inputs: Sequence[Operand | None], output: Operand, source: int) -> int:
    """The bytes of what is written over a part of an input: the largest other input of its type."""
    sizes = [nbytes(each) for k, each in enumerate(inputs)
             if each is not None and k != source and each.dtype is output.dtype]
    return min(max(sizes, default=nbytes(output)), nbytes(output))


@dataclass(frozen=True)
class Estimate:
    """What one invocation of a subgraph costs, and each of its operators with what they invoke.

    A loop counts one test of its condition and one turn; a branch the dearer of its subgraphs.
    """

    operators: tuple[Work | None, ...]
    """None where there is no estimate."""
    total: Work
    unknown: int
    """How many operators have no estimate, those of invoked subgraphs among them."""


class Estimator:
    """Estimates what the subgraphs of a verified model cost."""

    def __init__(self, model: Model, specialize: Specialize | None) -> None:
        """
        Args:
            model: whose subgraphs do not call themselves.
            specialize: a subgraph at input shapes, as `Specializer.at`; without it all shapes are the declared ones.
        """
        self._model = model
        self._specialize = specialize
        self._found: dict[tuple[int, tuple[Shape, ...]], Estimate] = {}

    def at(self, index: int, inputs: tuple[Shape, ...]) -> Estimate:
        """A subgraph at input shapes. Where only a run tells a shape, the declared one counts, with 1 for lengths that
        are open."""
        key = index, inputs
        if key not in self._found:
            self._found[key] = self._estimate(index, inputs)
        return self._found[key]

    def _estimate(self, index: int, inputs: tuple[Shape, ...]) -> Estimate:
        subgraph = self._model.subgraphs[index]
        operands = self._operands(index, inputs)
        works = list[Work | None]()
        unknown = 0
        for operator in subgraph.operators:
            given = [None if each == ABSENT else operands[each] for each in operator.inputs]
            work = _work(operator, given, operands)
            invoked = self._invoked(operator, given)
            unknown += (work is None) + sum(each.unknown for each in invoked)
            works.append(None if work is None else work + _joined(operator.op, invoked))
        return Estimate(tuple(works), reduce(add, (each for each in works if each is not None), Work()), unknown)

    def _operands(self, index: int, inputs: tuple[Shape, ...]) -> list[Operand | None]:
        """By tensor; None where not even the rank is known."""
        subgraph = self._model.subgraphs[index]
        if self._specialize is None:
            return _declared(subgraph)
        try:
            found = self._specialize(index, inputs)
        except (ExecutionError, LimitError):
            return _declared(subgraph)
        return [_operand(tensor, shape, found.known.get(number))
                for number, (tensor, shape) in enumerate(zip(subgraph.tensors, found.shapes, strict=True))]

    def _invoked(self, operator: Operator, inputs: Sequence[Operand | None]) -> list[Estimate]:
        return [self.at(each.subgraph, self._passed(each, inputs)) for each in operator.op.calls()]

    def _passed(self, callee: Callee, inputs: Sequence[Operand | None]) -> tuple[Shape, ...]:
        """The shapes of the inputs of a subgraph that an operator invokes; the declared ones where these are mapped."""
        graph = self._model.subgraphs[callee.subgraph]
        given = inputs[callee.first:]
        if callee.is_mapped or len(given) != len(graph.inputs):
            return declared_shapes(graph)
        return tuple(() if each is None else each.shape for each in given)


def _joined(op: Op, invoked: Sequence[Estimate]) -> Work:
    totals = [each.total for each in invoked]
    if isinstance(op, Branch):
        return max(totals, key=lambda each: (each.flops, each.bytes), default=Work())
    return reduce(add, totals, Work())


def _work(operator: Operator, given: Sequence[Operand | None], operands: Sequence[Operand | None]) -> Work | None:
    """What an operator costs, if its operands have ranks, and those that it takes."""
    outputs = [found for each in operator.outputs if (found := operands[each]) is not None]
    present = sum(each is not None for each in given) + len(outputs)
    if present < sum(each != ABSENT for each in operator.inputs) + len(operator.outputs):
        return None
    try:
        return operator_work(operator.op, given, outputs)
    except (IndexError, ValueError):
        return None


def _declared(subgraph: Subgraph) -> list[Operand | None]:
    return [_operand(each, None, each.data) for each in subgraph.tensors]


def _operand(tensor: Tensor, shape: Shape | None, known: Array | None) -> Operand | None:
    if shape is None and tensor.declared is None:
        return None
    return Operand(tensor.dtype, tensor.shape if shape is None else shape, known, tensor.quantization)


def declared_shapes(subgraph: Subgraph) -> tuple[Shape, ...]:
    """The shapes of a subgraph's inputs as they are declared, with 1 for lengths that are open."""
    return tuple(subgraph.tensors[each].shape for each in subgraph.inputs)
