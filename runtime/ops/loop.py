"""The canonical loop, to which those of ONNX, OpenVINO and TensorRT are brought. `lower_loops` makes WHILE of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from circlet.runtime.ir.op import Callee, Count, Interface, Operands, Unknown, at_least
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.controlflow import ControlFlow
from circlet.runtime.ops.loop_check import check_body, check_cond, check_operands, check_options
from circlet.runtime.ops.loop_options import NONE, LoopOptions
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Loop(LoopOptions, ControlFlow):
    """Runs a body with carried values, slices of inputs, collected outputs, a trip count and a condition.

    Inputs, in this order:

    - the trip count N: int32 or int64, one element; or absent (-1)
    - the condition c before the first iteration: BOOL, one element; or absent (-1), which is true
    - for each of `carried` its first value
    - for each of `invariants` the value
    - for each of `scan_inputs` the tensor that is sliced
    - for each of `scan_outputs` with `has_length` the length: int32 or int64, one element

    Outputs, in this order, all of them whether or not somebody reads them:

    - for each of `carried` its last value
    - for each of `scan_outputs` the collected values
    - for each of `last_outputs` the value in the last iteration; zeros if there was none

    Every input of the body is named exactly once, by `iteration`, `cond_input`, `carried`, `invariants` or
    `scan_inputs`; outputs of the body may be used several times or not at all. It means:

        n = 0; c = condition or True; carry = first values
        while n < N and (c or IGNORE) and (no cond subgraph or cond(*carry, *invariants)):
            outputs = body(n, c, *carry, *invariants, *slices(n))
            collect scan outputs; remember last outputs
            carry = outputs[carried.body_output]        # all at once
            c = outputs[cond_output] if there is one, else True
            n = n + 1

    No format has this operator.
    """

    name: ClassVar[str] = "LOOP"
    inputs: ClassVar[Count] = at_least(2)
    results: ClassVar[Count] = at_least(0)
    optional: ClassVar[frozenset[int]] = frozenset({0, 1})

    def arrange(self, trip_count: int, cond: int, carried: Sequence[int], invariants: Sequence[int],
                scan_inputs: Sequence[int], lengths: Sequence[int] = ()) -> tuple[int, ...]:
        """The operator's inputs, by tensor index; -1 for a trip count or condition that is absent."""
        return (trip_count, cond, *carried, *invariants, *scan_inputs, *lengths)

    def calls(self) -> tuple[Callee, ...]:
        body = Callee("body", self.body_subgraph_index, is_mapped=True)
        if self.cond_subgraph_index == NONE:
            return (body,)
        return (Callee("cond", self.cond_subgraph_index, predicate=True, is_mapped=True), body)

    def check_callee(self, callee: Callee, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor],
                     interface: Interface) -> None:
        if callee.predicate:
            check_cond(self, inputs, interface)
        else:
            check_body(self, inputs, outputs, interface)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        raise Unknown

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        check_options(self)
        check_operands(self, args)
        carried = tuple(args[2 + k].dtype for k in range(len(self.carried)))
        return (*carried, *(None,) * (len(self.scan_outputs) + len(self.last_outputs)))
