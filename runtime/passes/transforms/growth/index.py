"""Operators that read where data says."""

from __future__ import annotations

from circlet.runtime.ir.builder import Value
from circlet.runtime.ops.index import Gather
from circlet.runtime.passes.transforms.growth.masks import masked
from circlet.runtime.passes.transforms.growth.state import Padded, Refused
from circlet.runtime.passes.transforms.growth.step import Callee, Step, pads


@pads(Gather)
def gather(step: Step) -> None:
    """Of a padded table along another axis, or of padded indices."""
    op, data, indices = step.op, step.state(0), step.state(1)
    assert isinstance(op, Gather)
    axis = step.axis(op.axis)
    if op.batch_dims or (data is not None and indices is not None):
        raise Refused("GATHER by batches, or with two padded operands")
    if data is None:
        looked_up(step, indices=1, table=0, axis=axis)
        return
    if axis in data.axes:
        raise Refused("GATHER from what has no known length")
    more = len(step.signature(1)) - 1
    step.keep(Padded({each + more * (each > axis): length for each, length in data.axes.items()}))


def looked_up(step: Step, indices: int, table: int, axis: int) -> None:
    """Indices beyond the length become 0, which every table has."""
    state = step.padded(indices)
    if step.signature(table)[axis] < 1:
        raise Refused(f"{step.operator.name} looks up in a table that may be empty")

    def build(c: Callee) -> Value:
        operands = [c.given(k) for k in range(2)]
        operands[indices] = masked(c, indices, state.axes, 0)
        return c.s.op(step.op, *operands, outputs=[step.result("found")])[0]

    step.call(build, Padded({each + axis: length for each, length in state.axes.items()}))
