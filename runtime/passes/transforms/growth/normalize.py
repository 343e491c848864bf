"""Softmax and normalisations over the last axis."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.types import FLOATS
from circlet.runtime.ops.normalize import L2Normalization, LogSoftmax, Softmax
from circlet.runtime.passes.transforms.growth.masks import expect_plain, masked
from circlet.runtime.passes.transforms.growth.state import Padded, Refused
from circlet.runtime.passes.transforms.growth.step import Callee, Step, pads


@pads(Softmax, LogSoftmax, L2Normalization)
def normalization(step: Step) -> None:
    """Exponentials of minus infinity are zero."""
    state, last = step.padded(), len(step.signature(0)) - 1
    if last not in state.axes:
        step.keep(Padded(state.axes))
        return
    tensor, is_softmax = step.tensor(0), isinstance(step.op, Softmax)
    expect_plain(tensor)
    if isinstance(step.op, L2Normalization) or tensor.dtype not in FLOATS:
        raise Refused(f"{step.operator.name} over what has no known length")

    def build(c: Callee) -> Value:
        x = masked(c, 0, [last], -np.inf)
        return c.s.op(step.op, x, outputs=[step.result("normalized")])[0]

    never_empty = step.padding.buffers.at_least(state.axes[last]) >= 1
    step.call(build, Padded(state.axes, is_softmax and never_empty and len(state.axes) == 1))
