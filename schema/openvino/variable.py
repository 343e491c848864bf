"""Variables: values that outlive a run."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import controlflow, variable
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer


@layer("ReadValue", since=3)
def read_value(node: Node) -> Value:
    """The value of a variable: the input, or zeros, until it is assigned."""
    g, first = node.graph, _first(node)
    if first.data is None:
        return _computed(node, first)
    init = node.unit.program.graph(f"{node.layer.name}/first", g)
    init.op(variable.AssignVariable(), _handle(node, init), first, types=())
    g.op(controlflow.CallOnce(init_subgraph_index=init.index), types=())
    (value,) = g.op(variable.ReadVariable(), _handle(node, g), types=[first.dtype], shapes=[None])
    return value


def _computed(node: Node, first: Value) -> Value:
    """The value of a variable whose first one each run computes: which of them it is, a second variable says."""
    g, graphs = node.graph, node.unit.program
    init = graphs.graph(f"{node.layer.name}/unassigned", g)
    init.op(variable.AssignVariable(), _flag(node, init), c.number(False, DType.BOOL), types=())
    g.op(controlflow.CallOnce(init_subgraph_index=init.index), types=())
    (is_assigned,) = g.op(variable.ReadVariable(), _flag(node, g), types=[DType.BOOL], shapes=[()])
    then, other = (graphs.graph(f"{node.layer.name}/{name}", g) for name in ("assigned", "first"))
    then.input(first.dtype, first.shape, "first")
    then.output(*then.op(variable.ReadVariable(), _handle(node, then), types=[first.dtype], shapes=[None]))
    other.output(other.input(first.dtype, first.shape, "first"))
    op = controlflow.If(then_subgraph_index=then.index, else_subgraph_index=other.index)
    (value,) = g.op(op, is_assigned, first, types=[first.dtype], shapes=[None])
    return value


def _first(node: Node) -> Value:
    """The value of the variable before any is assigned; without one it has nothing where its shape is not known."""
    given = node.get(0)
    if given is not None:
        return given
    declared = node.dimensions("variable_shape")
    if declared is None:
        raise node.refusal("no first value, and a shape that is not known")
    shape = tuple(max(each, 0) for each in declared)
    node.bounded(prod(shape))
    return constant(np.zeros(shape, node.dtype("variable_type").numpy))


@layer("Assign", since=3)
def assigned(node: Node) -> Value:
    """The input; `assign` comes when all layers that read the variable are there."""
    return node[0]


def assign(node: Node) -> None:
    """Gives a variable the value of the input."""
    g = node.graph
    g.op(variable.AssignVariable(), _handle(node, g), node[0], types=())
    g.op(variable.AssignVariable(), _flag(node, g), c.number(True, DType.BOOL), types=())


def _handle(node: Node, g: Graph, container: str = "") -> Value:
    return g.apply(variable.VarHandle(container, node.text("variable_id")), type=DType.RESOURCE)


def _flag(node: Node, g: Graph) -> Value:
    """The variable that says whether the one of the layer was assigned."""
    return _handle(node, g, "assigned")
