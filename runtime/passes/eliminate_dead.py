"""Takes out operators whose results nobody reads."""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Skip

SKIP = Operator(Skip(), (), ())


def eliminate_dead(model: Model) -> Model:
    """Replaces every pure operator none of whose results reaches an output or a stateful operator by a `Skip`."""
    subgraphs = tuple(_eliminate(each) for each in model.subgraphs)
    unchanged = all(one is other for one, other in zip(subgraphs, model.subgraphs, strict=True))
    return model if unchanged else replace(model, subgraphs=subgraphs)


def _eliminate(subgraph: Subgraph) -> Subgraph:
    needed = set(subgraph.outputs)
    kept: list[Operator] = []
    for operator in reversed(subgraph.operators):
        if operator.op.pure and needed.isdisjoint(operator.outputs):
            kept.append(SKIP)
            continue
        needed.update(operator.inputs)
        kept.append(operator)
    if all(each is not SKIP or old.op == SKIP.op for each, old in zip(kept, reversed(subgraph.operators), strict=True)):
        return subgraph
    return replace(subgraph, operators=tuple(reversed(kept)))
