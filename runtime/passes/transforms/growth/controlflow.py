"""Operators that invoke other subgraphs."""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ops.controlflow import CallSubgraph
from circlet.runtime.passes.transforms.growth.step import Step, pads


@pads(CallSubgraph)
def call(step: Step) -> None:
    """The callee is padded too."""
    padding, operator = step.padding, step.operator
    results = padding.pad(operator.op.callees()[0], step.states)
    step.put(replace(operator, inputs=(*operator.inputs, *padding.lengths)), *results)
