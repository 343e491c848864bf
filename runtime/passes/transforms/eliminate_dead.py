"""Takes out operators whose results nobody reads."""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Skip
from circlet.runtime.passes.transforms.rewrite import rewrite_subgraphs

SKIP = Operator(Skip(), (), ())


def eliminate_dead(model: Model) -> Model:
    """Replaces every pure operator none of whose results reaches an output or a stateful operator by a `Skip`."""
    return rewrite_subgraphs(model, _eliminate)


def _eliminate(subgraph: Subgraph) -> Subgraph:
    needed = set(subgraph.outputs)
    dead: set[int] = set()
    for number, operator in reversed(list(enumerate(subgraph.operators))):
        if operator.op.pure and operator.outputs and needed.isdisjoint(operator.outputs):
            dead.add(number)
        else:
            needed.update(operator.inputs)
    if not dead:
        return subgraph
    operators = tuple(SKIP if number in dead else each for number, each in enumerate(subgraph.operators))
    return replace(subgraph, operators=operators)
