"""Variables: values that outlive a run."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import controlflow, variable
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer


@layer("ReadValue", since=3)
def read_value(node: Node) -> Value:
    """The value of a variable: the input, which must be constant, or zeros, until it is assigned."""
    g, first = node.graph, _first(node)
    init = node.unit.program.graph(f"{node.layer.name}/first", g)
    init.op(variable.AssignVariable(), _handle(node, init), first, types=())
    g.op(controlflow.CallOnce(init_subgraph_index=init.index), types=())
    (value,) = g.op(variable.ReadVariable(), _handle(node, g), types=[first.dtype], shapes=[None])
    return value


def _first(node: Node) -> Value:
    """The value of the variable before any is assigned."""
    given = node.get(0)
    if given is not None:
        if given.data is None:
            raise node.refusal("a first value that is not a constant")
        return given
    shape = node.integers("variable_shape")
    if min(shape, default=0) < 0:
        raise node.refusal("no first value, and a shape that is not known")
    node.bounded(prod(shape))
    return constant(np.zeros(shape, node.dtype("variable_type").numpy))


@layer("Assign", since=3)
def assigned(node: Node) -> Value:
    """The input; `assign` comes when all layers that read the variable are there."""
    return node[0]


def assign(node: Node) -> None:
    """Gives a variable the value of the input."""
    node.graph.op(variable.AssignVariable(), _handle(node, node.graph), node[0], types=())


def _handle(node: Node, g: Graph) -> Value:
    return g.apply(variable.VarHandle(shared_name=node.text("variable_id")), type=DType.RESOURCE)
