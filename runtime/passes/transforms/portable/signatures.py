"""Keeps the entry points of a model in step with its subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlet.runtime.ir.model import Model, Signature, Subgraph
from circlet.runtime.passes.transforms.rewrite import is_same


def with_subgraphs(model: Model, subgraphs: Sequence[Subgraph]) -> Model:
    """The model with other subgraphs, whose inputs and outputs are in the same places; the model itself if they are
    those that it has."""
    if is_same(subgraphs, model.subgraphs):
        return model
    signatures = tuple(_moved(each, model.subgraphs[each.subgraph], subgraphs[each.subgraph])
                       for each in model.signatures)
    return replace(model, subgraphs=tuple(subgraphs), signatures=signatures)


def _moved(signature: Signature, before: Subgraph, after: Subgraph) -> Signature:
    inputs, outputs = (dict(zip(old, new, strict=True)) for old, new in
                       ((before.inputs, after.inputs), (before.outputs, after.outputs)))
    return replace(signature, inputs={name: inputs[each] for name, each in signature.inputs.items()},
                   outputs={name: outputs[each] for name, each in signature.outputs.items()})
