"""Looks up text behind what computes where, as classifiers give the names of classes.

Text lies in no bytes, so that what gives some is left to numpy, and all of its subgraph is bound for each length. A
subgraph that gives integers instead is code for any lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph, entries_of
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallOnVariables, Words
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.shape import Alias, Reshape
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.records import dataclass


def lift_words(model: Model) -> Model:
    """Makes each subgraph that runs begin with, and whose only text are results that it takes of constant tables, a
    `CallOnVariables` of one that gives integers in their place."""
    for index in entries_of(model):
        lifted = _lifted(model, index)
        model = model if lifted is None else lifted
    return model


@dataclass(frozen=True)
class _Chain:
    """How a result of text is made: the integers, and the operators that do nothing else."""

    words: Words
    places: int
    """The tensor."""
    operators: tuple[int, ...]


def _lifted(model: Model, index: int) -> Model | None:
    """The model with the text of a subgraph lifted; None if it has none, or other text."""
    graph, chains = model.subgraphs[index], list[_Chain]()
    writers = {tensor: number for number, each in enumerate(graph.operators) for tensor in each.outputs}
    for result, tensor in enumerate(graph.outputs):
        if graph.tensors[tensor].dtype is DType.STRING:
            found = _chain(graph, writers, index, result)
            if found is None:
                return None
            chains.append(found)
    gone = {number for each in chains for number in each.operators}
    kept = [each for number, each in enumerate(graph.operators) if number not in gone]
    if not gone or any(graph.tensors[each].dtype is DType.STRING for each in _used(kept)):
        return None
    places = {each.words.result: each.places for each in chains}
    computing = replace(graph, operators=_without(graph, gone), outputs=tuple(
        places.get(number, each) for number, each in enumerate(graph.outputs)))
    op = CallOnVariables(len(model.subgraphs), words=tuple(each.words for each in chains),
                         plain_subgraph=len(model.subgraphs) + 1)
    entry = replace(graph, operators=tuple(Operator(op, graph.inputs, graph.outputs) if number == max(gone) else SKIP
                                           for number in range(len(graph.operators))))
    origin = index if graph.origin is None else graph.origin
    graphs = [*model.subgraphs, replace(computing, origin=origin), replace(graph, origin=origin)]
    graphs[index] = entry
    return replace(model, subgraphs=tuple(graphs))


def _chain(graph: Subgraph, writers: Mapping[int, int], index: int, result: int) -> _Chain | None:
    """How a result is made of a constant table, reshaped once at most."""
    target, tensor, passed = None, graph.outputs[result], list[int]()
    while tensor in writers:
        passed.append(writers[tensor])
        operator = graph.operators[writers[tensor]]
        op, inputs = operator.op, operator.inputs
        if isinstance(op, Gather):
            return _looked_up(graph, writers, Words(result, (), (), op.axis, target, graph.place(index, passed[-1])),
                              passed)
        if isinstance(op, Reshape) and target is None and len(inputs) == 2:
            shape = graph.tensors[inputs[1]].data
            if shape is None or sorted(shape.reshape(-1).tolist()) != [-1, *[1] * (shape.size - 1)]:
                return None
            target = tuple(shape.tolist())
        elif not isinstance(op, Alias):
            return None
        tensor = inputs[0]
    return None


def _looked_up(graph: Subgraph, writers: Mapping[int, int], words: Words, passed: list[int]) -> _Chain | None:
    operator = graph.operators[passed[-1]]
    table, places = (graph.tensors[each] for each in operator.inputs)
    if not _is_plain(operator, table) or operator.inputs[1] not in writers or places.dtype.numpy.kind != "i":
        return None
    assert table.data is not None, "the table is plain"
    found = replace(words, table=tuple(table.data.reshape(-1).tolist()), shape=table.shape,
                    axis=words.axis % len(table.shape))
    return _Chain(found, operator.inputs[1], tuple(passed))


def _is_plain(operator: Operator, table: Tensor) -> bool:
    """Whether a GATHER takes elements of a constant of text, the same in each batch."""
    assert isinstance(operator.op, Gather), "the caller asked"
    return table.data is not None and table.dtype is DType.STRING and bool(table.shape) and not operator.op.batch_dims


def _used(operators: list[Operator]) -> Iterator[int]:
    return (each for operator in operators for each in (*operator.inputs, *operator.outputs) if each != ABSENT)


def _without(graph: Subgraph, gone: set[int]) -> tuple[Operator, ...]:
    return tuple(SKIP if number in gone else each for number, each in enumerate(graph.operators))
