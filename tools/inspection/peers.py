"""Graphs that other runtimes compute wrongly, where circlet does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ops.controlflow import If, PreTestedLoop, While
from circlet.tools.inspection.problem import Problem

CONVERT = "`circlet convert` writes a model that LiteRT computes rightly"


def moved_carries(model: Model) -> Iterator[Problem]:
    """A body that returns one of its inputs in another place: LiteRT copies results one by one over values that it has
    yet to read (`tflite/kernels/while.cc`, as of 2.3), and so does OpenVINO 2026.4."""
    for index, number, operator in _operators(model):
        if isinstance(operator.op, PreTestedLoop):
            body = model.subgraphs[operator.op.body_subgraph_index]
            places = {tensor: position for position, tensor in enumerate(body.inputs)}
            moved = [(places[tensor], position) for position, tensor in enumerate(body.outputs)
                     if places.get(tensor, position) != position]
            if moved:
                source, target = moved[0]
                yield Problem("litert", index, number, operator.inputs[target],
                              f"its body returns input {source} as output {target}: LiteRT and OpenVINO may overwrite "
                              "one before they read it, and give wrong values", CONVERT)


def repeated_results(model: Model) -> Iterator[Problem]:
    """A branch that returns one tensor twice: of two results LiteRT, as of 2.3, writes the last one alone."""
    for index, number, operator in _operators(model):
        if isinstance(operator.op, If):
            for callee in operator.op.calls():
                outputs = Counter(model.subgraphs[callee.subgraph].outputs)
                twice = next((k for k, each in enumerate(model.subgraphs[callee.subgraph].outputs)
                              if outputs[each] > 1), None)
                if twice is not None:
                    yield Problem("litert", index, number, operator.outputs[twice],
                                  f"its {callee.role} branch @{callee.subgraph} returns one tensor twice: LiteRT "
                                  f"leaves result {twice} uninitialised", "return copies, as by ADD of 0")


def shared_bodies(model: Model) -> Iterator[Problem]:
    """Loops of different shapes with the same subgraphs: LiteRT, as of 2.3, prepares these for the last one alone."""
    first: dict[int, tuple[int, int, list[tuple[int, ...]]]] = {}
    for index, number, operator in _operators(model):
        if isinstance(operator.op, While):
            shapes = [model.subgraphs[index].tensors[each].signature for each in operator.inputs if each >= 0]
            for callee in operator.op.callees():
                found = first.setdefault(callee, (index, number, shapes))
                if found[2] != shapes:
                    yield Problem("litert", index, number, None,
                                  f"invokes @{callee} as @{found[0]}[{found[1]}] does, with other shapes: LiteRT fails "
                                  "at one of the two", "give each loop subgraphs of its own")
                    break


def unequal_branches(model: Model) -> Iterator[Problem]:
    """Branches whose results differ in shape: onert, as of 0.2, takes the shapes of `then` for both."""
    for index, number, operator in _operators(model):
        if isinstance(operator.op, If):
            then, other = (model.subgraphs[each] for each in operator.op.callees())
            for k, (one, two) in enumerate(zip(_declared(then), _declared(other), strict=False)):
                if one is not None and two is not None and one != two:
                    yield Problem("onert", index, number, operator.outputs[k],
                                  f"result {k} has shape {one} in @{operator.op.then_subgraph_index} and {two} in "
                                  f"@{operator.op.else_subgraph_index}: onert takes the first for both, and gives "
                                  "wrong values", "pad both branches to one shape")
                    break


CHECKS = (moved_carries, repeated_results, shared_bodies, unequal_branches)
"""Each is given a well-formed model."""


def wrong_elsewhere(model: Model) -> Iterator[Problem]:
    """All of them."""
    for check in CHECKS:
        yield from check(model)


def _operators(model: Model) -> Iterator[tuple[int, int, Operator]]:
    for index, subgraph in enumerate(model.subgraphs):
        for number, operator in enumerate(subgraph.operators):
            yield index, number, operator


def _declared(subgraph: Subgraph) -> list[tuple[int, ...] | None]:
    return [subgraph.tensors[each].declared for each in subgraph.outputs]
