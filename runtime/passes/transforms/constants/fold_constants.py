"""Computes once what follows from constants alone, such as a window or a table that a model makes by a formula.

What is quantised is left as it is: rules of quantised products ask for the weights, not for what they stand for. So are
large constants, which the code that reads them lays out as it needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.pad import Tile
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import BroadcastTo, Fill
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.passes.transforms.rewrite import rewrite_subgraphs
from circlet.runtime.records import replace

Evaluate: TypeAlias = "Callable[[Model], Sequence[Array] | None]"
"""What a model without inputs gives; None where it fails, or comes to too much."""

SMALL = 1 << 16
"""Bytes that a constant of the model may have."""
LARGEST, MOST = 1 << 22, 1 << 24
"""Bytes that a constant may have that is computed, and all those of a subgraph."""
_PLAIN = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.BOOL})
_REPEATED = (BroadcastTo, Fill, Tile)
"""What is made of less than it takes to read it, and is left to the run."""


def fold_constants(model: Model, evaluate: Evaluate) -> Model:
    """Replaces operators of which all inputs are constants by `Skip`s, and their results by constants."""
    return rewrite_subgraphs(model, lambda subgraph: _folded(subgraph, evaluate))


def _folded(subgraph: Subgraph, evaluate: Evaluate) -> Subgraph:
    chosen = _Chosen(subgraph)
    results = chosen.results()
    if not results:
        return subgraph
    operators = tuple(subgraph.operators[each] for each in chosen.numbers)
    found = evaluate(Model((replace(subgraph, inputs=(), outputs=results, operators=operators),)))
    sizes = [each.nbytes for each in found or ()]
    if found is None or max(sizes) > LARGEST or sum(sizes) > MOST:
        return subgraph
    tensors = list(subgraph.tensors)
    for tensor, array in zip(results, found, strict=True):
        array.setflags(write=False)
        tensors[tensor] = replace(tensors[tensor], data=array, shape=array.shape, shape_signature=None, has_rank=True)
    left = tuple(SKIP if number in chosen.gone else each for number, each in enumerate(subgraph.operators))
    return replace(subgraph, tensors=tuple(tensors), operators=left)


class _Chosen:
    """The operators of a subgraph that follow from constants alone."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._made: dict[int, int] = {}
        """The number of the operator that gives each tensor."""
        self.numbers: list[int] = []
        for number, each in enumerate(subgraph.operators):
            if self._follows(each):
                self.numbers.append(number)
                self._made.update(dict.fromkeys(each.outputs, number))
        self.gone = self._unread()
        """Those that nothing needs once results are constants."""

    def results(self) -> tuple[int, ...]:
        """The tensors that others read, or the subgraph gives, and that are to be constants."""
        kept = [each for number, each in enumerate(self._subgraph.operators) if number not in self.gone]
        read = {*self._subgraph.outputs, *(tensor for each in kept for tensor in each.inputs)}
        return tuple(sorted(tensor for tensor in read if self._made.get(tensor) in self.gone))

    def _follows(self, operator: Operator) -> bool:
        op, inputs = operator.op, [each for each in operator.inputs if each != ABSENT]
        if not op.pure or not inputs or op.calls() or operator.intermediates:
            return False
        if isinstance(op, Cast) and self._tensor(inputs[0]).dtype is DType.INT32:
            return False
        return all(map(self._is_known, inputs)) and all(map(self._is_plain, operator.outputs))

    def _unread(self) -> frozenset[int]:
        """All but those whose repeated elements somebody else reads."""
        numbers, operators = {*self.numbers}, self._subgraph.operators
        others = (each.inputs for number, each in enumerate(operators) if number not in numbers)
        needed = {*self._subgraph.outputs}.union(*others)
        return frozenset(each for each in self.numbers if not isinstance(operators[each].op, _REPEATED)
                         or needed.isdisjoint(operators[each].outputs))

    def _is_known(self, index: int) -> bool:
        tensor = self._tensor(index)
        return index in self._made or (tensor.data is not None and self._is_plain(index)
                                       and tensor.data.nbytes <= SMALL)

    def _is_plain(self, index: int) -> bool:
        tensor = self._tensor(index)
        size = prod(each for each in tensor.signature if each > 0) * tensor.dtype.numpy.itemsize
        return tensor.dtype in _PLAIN and tensor.quantization is None and tensor.sparsity is None \
            and not tensor.is_variable and size <= LARGEST

    def _tensor(self, index: int) -> Tensor:
        return self._subgraph.tensors[index]
