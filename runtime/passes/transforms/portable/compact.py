"""Takes out what no entry point reaches: subgraphs, operators and tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from circlet.runtime.ir.model import ABSENT, Model, Operator, Signature, Subgraph
from circlet.runtime.ir.op import Op, Skip
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from circlet.runtime.passes.transforms.portable.editor import with_scales
from circlet.runtime.passes.transforms.rewrite import is_same


def compact(model: Model) -> Model:
    """The model without what is not needed; where there is such, subgraphs, operators and tensors get other indices."""
    model = eliminate_dead(model)
    reached = _reached(model)
    places = {old: new for new, old in enumerate(reached)}
    subgraphs, signatures = list[Subgraph](), {each.key: each for each in model.signatures}
    for old in reached:
        subgraph = model.subgraphs[old]
        operators = tuple(_calling(each, places) for each in subgraph.operators if not isinstance(each.op, Skip))
        kept = _kept(replace(subgraph, operators=operators))
        stays = is_same(operators, subgraph.operators) and len(kept) == len(subgraph.tensors)
        subgraphs.append(subgraph if stays else _renumbered(replace(subgraph, operators=operators), kept))
        for each in model.signatures:
            if each.subgraph == old:
                signatures[each.key] = _signature(each, places[old], kept)
    if is_same(subgraphs, model.subgraphs):
        return model
    return replace(model, subgraphs=tuple(subgraphs), signatures=tuple(signatures.values()))


def _reached(model: Model) -> list[int]:
    pending, found = [0, *(each.subgraph for each in model.signatures)], set[int]()
    while pending:
        index = pending.pop()
        if index not in found:
            found.add(index)
            pending.extend(callee for each in model.subgraphs[index].operators for callee in each.op.callees())
    return sorted(found)


def _calling(operator: Operator, places: Mapping[int, int]) -> Operator:
    """The operator with its subgraphs at their new places."""
    moves = any(places[each] != each for each in operator.op.callees())
    return replace(operator, op=_moved(operator.op, places)) if moves else operator


def _moved(op: Op, places: Mapping[int, int]) -> Op:
    changed: dict[str, object] = {}
    for each in fields(op):
        if each.name.endswith(("subgraph_index", "subgraph")):
            changed[each.name] = places[getattr(op, each.name)]
        elif each.name.endswith("subgraph_indices"):
            changed[each.name] = tuple(places[index] for index in getattr(op, each.name))
    return replace(op, **changed)


def _kept(subgraph: Subgraph) -> dict[int, int]:
    """The new index of each tensor that is used."""
    used = {*subgraph.inputs, *subgraph.outputs}
    for operator in subgraph.operators:
        used.update(operator.inputs, operator.outputs, operator.intermediates)
    used.discard(ABSENT)
    for index in used.copy():
        used.update(_scales(subgraph.tensors[index]))
    return {old: new for new, old in enumerate(sorted(used))}


def _scales(tensor: Tensor) -> Iterable[int]:
    blockwise = None if tensor.quantization is None else tensor.quantization.blockwise
    return () if blockwise is None else (each for each in (blockwise.scales, blockwise.zero_points) if each != ABSENT)


def _renumbered(subgraph: Subgraph, kept: Mapping[int, int]) -> Subgraph:
    def moved(indices: Iterable[int]) -> tuple[int, ...]:
        return tuple(each if each == ABSENT else kept[each] for each in indices)

    operators = tuple(replace(each, inputs=moved(each.inputs), outputs=moved(each.outputs),
                              intermediates=moved(each.intermediates)) for each in subgraph.operators)
    tensors = tuple(with_scales(subgraph.tensors[old], kept) for old in kept)
    return Subgraph(subgraph.name, tensors, moved(subgraph.inputs), moved(subgraph.outputs), operators)


def _signature(signature: Signature, place: int, kept: Mapping[int, int]) -> Signature:
    return replace(signature, subgraph=place, inputs={name: kept[each] for name, each in signature.inputs.items()},
                   outputs={name: kept[each] for name, each in signature.outputs.items()})
