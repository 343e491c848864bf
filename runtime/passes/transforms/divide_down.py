"""Makes FLOOR_DIV of what JAX, and OpenVINO's reader of TensorFlow, write for it, which is a quotient rounded towards
zero, less one where its sign differs from the divisor's and something remains: shapes are followed through the one, and
not through the sign, or by asking whether something remains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.comparison import Less, LogicalAnd, NotEqual, Select, SelectV2
from circlet.runtime.ops.elementwise import Add, Div, FloorDiv, FloorMod, StablehloRemainder, Sub
from circlet.runtime.ops.unary import Sign
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs
from circlet.runtime.records import replace

_TYPES = frozenset({DType.INT32, DType.BOOL})
"""Of numbers and conditions. Quotients of int64 may not be exact in double precision, in which FLOOR_DIV computes."""


def divide_down(model: Model) -> Model:
    """Replaces each choice between a quotient by a constant and the whole number below it, and each sum of one and a
    choice between -1 and 0, by a FLOOR_DIV."""
    return rewrite_subgraphs(model, _changed)


def _changed(subgraph: Subgraph) -> Subgraph:
    return rewrite_operators(subgraph, _Quotients(subgraph).changed)


class _Quotients:
    """Those of one subgraph."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._tensors = subgraph.tensors
        self._writers: Mapping[int, Operator] = {
            each.outputs[0]: each for each in subgraph.operators if len(each.outputs) == 1}

    def changed(self, operator: Operator) -> Operator:
        if isinstance(operator.op, (Select, SelectV2)):
            return self._chosen(operator)
        if isinstance(operator.op, Add) and self._written(operator.outputs[0], Add) is operator:
            pairs = (operator.inputs, operator.inputs[::-1])
            return next((each for pair in pairs if (each := self._added(operator, *pair)) is not operator), operator)
        return operator

    def _added(self, operator: Operator, quotient: int, correction: int) -> Operator:
        """A FLOOR_DIV instead of a sum of a quotient and a choice between -1 and 0."""
        divides, chooses = self._written(quotient, Div), self._written(correction, Select, SelectV2)
        if divides is None or chooses is None or [self._number(each) for each in chooses.inputs[1:]] != [-1, 0]:
            return operator
        number, divisor = divides.inputs
        if not self._number(divisor) or not self._rounds(chooses.inputs[0], number, divisor):
            return operator
        return replace(operator, op=FloorDiv(), inputs=(number, divisor), version=1)

    def _chosen(self, operator: Operator) -> Operator:
        """A FLOOR_DIV instead of a choice between a quotient and what is one less."""
        condition, below, quotient = operator.inputs
        divides, subtracts = self._written(quotient, Div), self._written(below, Sub)
        if divides is None or subtracts is None or subtracts.inputs[0] != quotient:
            return operator
        number, divisor = divides.inputs
        by = self._number(divisor)
        if not by or self._number(subtracts.inputs[1]) != 1 or not self._rounds(condition, number, divisor):
            return operator
        return replace(operator, op=FloorDiv(), inputs=(number, divisor), version=1)

    def _rounds(self, condition: int, number: int, divisor: int) -> bool:
        """Whether a condition is that the signs of two numbers differ, and something remains."""
        both = self._written(condition, LogicalAnd)
        compared = [] if both is None else [self._written(each, NotEqual) for each in both.inputs]
        pairs = [each.inputs for each in compared if each is not None]
        return len(pairs) == 2 and any(self._differ(one, number, divisor) and self._remains(other, number, divisor)
                                       for one, other in (pairs, pairs[::-1]))

    def _differ(self, pair: tuple[int, ...], number: int, divisor: int) -> bool:
        """Whether the sign of a number is compared with that of a constant, or whether it is negative."""
        found, by = self._written(pair[0], Sign, Less), self._number(divisor)
        if found is None or by is None or found.inputs[0] != number:
            return False
        if isinstance(found.op, Sign):
            return self._number(pair[1]) == int(np.sign(by))
        return self._number(found.inputs[1]) == 0 and self._number(pair[1]) == (by < 0)

    def _remains(self, pair: tuple[int, ...], number: int, divisor: int) -> bool:
        """Whether the remainder of two numbers is compared with 0."""
        rest = self._written(pair[0], FloorMod, StablehloRemainder)
        return rest is not None and rest.inputs == (number, divisor) and self._number(pair[1]) == 0

    def _written(self, tensor: int, *kinds: type[Op]) -> Operator | None:
        """The operator that makes a tensor of integers or conditions, if it is one of some kinds and nothing more."""
        found, made = self._writers.get(tensor), self._tensors[tensor]
        if found is None or not isinstance(found.op, kinds) or made.dtype not in _TYPES or made.quantization:
            return None
        activation = getattr(found.op, "fused_activation_function", Activation.NONE)
        return found if activation is Activation.NONE else None

    def _number(self, tensor: int) -> int | None:
        """The value of a constant without axes."""
        data: Array | None = self._tensors[tensor].data
        return int(data.item()) if data is not None and not data.ndim else None
