"""Takes variables to be read in the shapes that are declared.

Files write a tensor of unknown rank as they do a scalar, so that what reads a variable gives a shape that only a run
knows. Code that checks the shape of each value that it reads may be made for the declared one.
"""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ops.variable import ReadDeclared, ReadVariable
from circlet.runtime.passes.transforms.rewrite import rewrite_subgraphs


def declare_reads(model: Model) -> Model:
    """Replaces what reads variables by operators that give the declared shapes, where these are fixed."""
    return rewrite_subgraphs(model, _declared)


def _declared(subgraph: Subgraph) -> Subgraph:
    operators = tuple(_read(subgraph, each) for each in subgraph.operators)
    return subgraph if operators == subgraph.operators else replace(subgraph, operators=operators)


def _read(subgraph: Subgraph, operator: Operator) -> Operator:
    if type(operator.op) is not ReadVariable:
        return operator
    shape = subgraph.tensors[operator.outputs[0]].signature
    return operator if any(each < 0 for each in shape) else replace(operator, op=ReadDeclared(shape))
