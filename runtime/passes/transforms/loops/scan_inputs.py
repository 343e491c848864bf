"""The slices of scanned tensors that an iteration sees."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ops.elementwise import Add, Maximum, Minimum, Mul
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.loop_options import Base, Overrun, ScanInput
from circlet.runtime.ops.loop_steps import LoopLength
from circlet.runtime.passes.transforms.loops.layout import ITERATION, LIMIT, Key, Role, Values, scalar
from circlet.runtime.passes.transforms.loops.plan import Plan


def sliced(s: SubgraphBuilder, plan: Plan, values: Values, number: int, element: Tensor) -> Value:
    """The slice of a scan input; GATHER makes one that leaves the axis an error."""
    scan, tensor = plan.op.scan_inputs[number], values[Key(Role.SLICED, number)]
    arithmetic = Arithmetic(s, plan)
    low = arithmetic.plus(arithmetic.scaled(values[ITERATION], scan.step), scan.begin.offset)
    if scan.begin.base is Base.END:
        low = arithmetic.apply(Add(), low, arithmetic.length(tensor, scan.axis))
    elif scan.begin.base is Base.TRIP:
        low = arithmetic.apply(Add(), low, values[LIMIT])
    if plan.op.overrun is Overrun.HOLD_LAST:
        low = arithmetic.apply(Minimum(), low, arithmetic.plus(arithmetic.length(tensor, scan.axis), -scan.size))
        low = arithmetic.apply(Maximum(), low, arithmetic.constant(0))
    indices = _indices(arithmetic, low, scan)
    return s.op(Gather(axis=scan.axis), tensor, indices, outputs=[element])[0]


def _indices(arithmetic: Arithmetic, low: Value, scan: ScanInput) -> Value:
    if not scan.keep_axis:
        return low
    offsets = np.arange(scan.size, dtype=arithmetic.plan.counter.numpy)
    indices = Tensor("indices", arithmetic.plan.counter, (scan.size,))
    return arithmetic.s.op(Add(), low, arithmetic.s.constant(offsets), outputs=[indices])[0]


class Arithmetic:
    """Scalars of the counter's type in a subgraph under construction."""

    def __init__(self, s: SubgraphBuilder, plan: Plan) -> None:
        self.s = s
        self.plan = plan

    def apply(self, op: Add | Mul | Minimum | Maximum, one: Value, other: Value) -> Value:
        return self.s.op(op, one, other, outputs=[scalar("index", self.plan.counter)])[0]

    def constant(self, value: int) -> Value:
        return self.s.constant(np.array(value, self.plan.counter.numpy))

    def plus(self, value: Value, amount: int) -> Value:
        return self.apply(Add(), value, self.constant(amount)) if amount else value

    def scaled(self, value: Value, factor: int) -> Value:
        return value if factor == 1 else self.apply(Mul(), value, self.constant(factor))

    def length(self, tensor: Value, axis: int) -> Value:
        """The size of an axis."""
        counter = self.plan.counter
        return self.s.op(LoopLength(axis, dtype=counter), tensor, outputs=[scalar("length", counter)])[0]
