"""Which parts the lowering of a loop needs."""

from __future__ import annotations

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import NONE, Base, CondUse, TripPolicy
from circlet.runtime.passes.transforms.loops.constants import never_ends
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Plan:
    """What a loop is lowered to."""

    op: Loop
    body: Subgraph
    counter: DType
    """The element type of the number of the iteration and of everything compared with it."""
    is_bounded: bool
    """Whether there is a trip count, given or taken from slices."""
    tests_cond: bool
    """Whether the condition may end the loop."""
    carries_cond: bool
    """Whether the condition goes round."""

    @property
    def is_counted(self) -> bool:
        """Whether the trip count alone says how many iterations there are."""
        return self.is_bounded and not self.tests_cond and self.op.cond_subgraph_index == NONE

    def is_open(self, scan: int) -> bool:
        """Whether only the end of the loop tells how many elements a scan output has."""
        return not self.op.scan_outputs[scan].has_length and not self.is_counted

    @property
    def open_scans(self) -> list[int]:
        return [k for k in range(len(self.op.scan_outputs)) if self.is_open(k)]


def make_plan(model: Model, subgraph: Subgraph, operator: Operator, op: Loop) -> Plan:
    """The plan for a loop; `op` is what the operator is once its constant operands are part of its body."""
    body = model.subgraphs[op.body_subgraph_index]
    trip_count, cond = (None if each == ABSENT else subgraph.tensors[each] for each in operator.inputs[:2])
    iteration = None if op.iteration is None else body.tensors[body.inputs[op.iteration.body_input]]
    is_long = any(each is not None and each.dtype is DType.INT64 for each in (trip_count, iteration))
    # A count that the run may find to be infinite must not end after as many iterations as int32 counts.
    is_long = is_long or (trip_count is not None and not trip_count.is_constant
                          and op.trip_policy is TripPolicy.NEGATIVE_IS_INFINITE)
    ends = not never_ends(model, op, cond)
    return Plan(
        op, body, DType.INT64 if is_long else DType.INT32,
        is_bounded=op.count_from_scan or (trip_count is not None and not _is_infinite(op, trip_count)),
        tests_cond=ends and op.cond_use is CondUse.HONOR,
        carries_cond=ends and (op.cond_use is CondUse.HONOR or op.cond_input is not None),
    )


def _is_infinite(op: Loop, trip_count: Tensor) -> bool:
    """Whether a trip count is known to bound nothing, and nothing else needs it."""
    if any(each.begin.base is Base.TRIP for each in op.scan_inputs):
        return False
    data = trip_count.data
    return op.trip_policy is TripPolicy.NEGATIVE_IS_INFINITE and data is not None and bool((data == -1).all())
