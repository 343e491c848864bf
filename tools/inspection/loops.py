"""Likely problems of loops: copies that are left, values carried for nothing, shapes that a run has to find out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ops.controlflow import LoopRounds, PreTestedLoop
from circlet.runtime.passes.analyses.transfer import Action
from circlet.runtime.passes.analyses.work import declared_shapes
from circlet.tools.inspection.costs import Runnable
from circlet.tools.inspection.problem import Problem
from circlet.tools.tables import plural

SHOWN = 4
"""How many edges of one operator are named."""


def copies(model: Model, edges: Sequence[CopyEdge]) -> Iterator[Problem]:
    """Values of known size that loops copy in every turn."""
    found: dict[tuple[int, int], list[CopyEdge]] = {}
    for each in edges:
        if (each.per_iteration and each.action is Action.COPY and each.bytes is not None
                and _is_of(model, each.subgraph, each.operator)):
            found.setdefault(each.position, []).append(each)
    for (subgraph, number), left in found.items():
        operator = model.subgraphs[subgraph].operators[number]
        labels = [f"{each.edge} ({plural(each.bytes or 0, 'byte')}: {each.reason})" for each in left[:SHOWN]]
        more = [f"{len(left) - SHOWN} more"] if len(left) > SHOWN else []
        total = plural(sum(each.bytes or 0 for each in left), "byte")
        yield Problem("copies", subgraph, number, _carried(operator, left[0].edge),
                      f"copies {total} in every turn: {', '.join([*labels, *more])}",
                      "let the body write the new value over the old one, or return it once, and pass nothing that is "
                      "a constant; `circlet inspect --copies` lists all that crosses")


def _is_of(model: Model, subgraph: int, operator: int) -> bool:
    """Whether the model itself has an operator, not only what passes made of it."""
    return subgraph < len(model.subgraphs) and operator < len(model.subgraphs[subgraph].operators)


def _carried(operator: Operator, edge: str) -> int | None:
    """The tensor that an edge is about, where it is one of a loop's inputs."""
    position = int(edge.rpartition(" ")[2])
    if not isinstance(operator.op, PreTestedLoop) or position >= len(operator.inputs):
        return None
    return operator.inputs[position]


def unread(model: Model) -> Iterator[Problem]:
    """Carried values that decide nothing: neither the condition nor a result that is read depends on them."""
    for index, subgraph in enumerate(model.subgraphs):
        read = {*subgraph.outputs, *(each for one in subgraph.operators for each in one.inputs)}
        for number, operator in enumerate(subgraph.operators):
            if isinstance(operator.op, PreTestedLoop):
                for position in _unread(model, operator.op, operator, read):
                    yield Problem("unread", index, number, operator.inputs[position],
                                  f"carries value {position}, on which neither its condition nor any result that is "
                                  "read depends",
                                  "take the value out of the loop, and what computes it out of its body")


def _unread(model: Model, op: PreTestedLoop, operator: Operator, read: set[int]) -> list[int]:
    cond, body = (model.subgraphs[each] for each in (op.cond_subgraph_index, op.body_subgraph_index))
    of_cond = _needed(cond, {*cond.outputs})
    needed = {k for k, tensor in enumerate(operator.outputs) if tensor in read}
    needed |= {k for k, tensor in enumerate(cond.inputs) if tensor in of_cond}
    while True:
        reached = _needed(body, {body.outputs[k] for k in needed})
        more = {k for k, tensor in enumerate(body.inputs) if tensor in reached} - needed
        if not more:
            return [k for k in range(len(operator.inputs)) if k not in needed]
        needed |= more


def _needed(subgraph: Subgraph, wanted: set[int]) -> set[int]:
    """The tensors that some depend on, and what else an operator with effects reads."""
    found = set(wanted)
    for operator in reversed(subgraph.operators):
        has_effects = not operator.op.pure and not operator.op.callees()
        if has_effects or operator.op.has_state or found.intersection(operator.outputs) or (
                operator.op.callees() and not operator.outputs):
            found.update(operator.inputs)
    return found


def shapes(model: Model, runnable: Runnable, entries: Sequence[int]) -> Iterator[Problem]:
    """Where a run has to find out shapes: what follows is bound anew whenever they change."""
    left = [(each, declared_shapes(runnable.model.subgraphs[each])) for each in entries
            if not runnable.is_code_for_any_lengths(each)]
    seen = set(left)
    while left:
        index, given = left.pop()
        spec = runnable.specialized(index, given)
        if spec is None:
            continue
        operators = spec.subgraph.operators
        if not spec.is_static and _is_of(model, index, spec.stop):
            yield _cut(model, runnable, index, spec.stop, [spec.shapes[each] for each in operators[spec.stop].inputs])
        for operator in operators[:spec.stop + 1]:
            known = [spec.shapes[each] for each in operator.inputs if each >= 0]
            for callee in operator.op.calls():
                way = callee.subgraph, tuple(each for each in known[callee.first:] if each is not None)
                if len(way[1]) == len(runnable.model.subgraphs[callee.subgraph].inputs) and way not in seen:
                    seen.add(way)
                    left.append(way)


def _cut(model: Model, runnable: Runnable, index: int, number: int,
         given: Sequence[tuple[int, ...] | None]) -> Problem:
    """Why a subgraph is bound in pieces."""
    operator = runnable.model.subgraphs[index].operators[number]
    after = sum(1 for each in runnable.model.subgraphs[index].operators[number + 1:] if each.op.name != "SKIP")
    rest = f"; {plural(after, 'operator')} after it {'waits' if after == 1 else 'wait'} for that" if after else ""
    if isinstance(operator.op, (PreTestedLoop, LoopRounds)):
        changing = _changing(runnable, operator.op, given)
        values = (f"{'value' if len(changing) == 1 else 'values'} {', '.join(map(str, changing))}" if changing
                  else "values")
        return Problem("shapes", index, number, operator.inputs[changing[0]] if changing else None,
                       f"carries {values} whose shapes change, or are known only in a run: turns are bound anew{rest}",
                       "carry a tensor of the final size, and write into it with DYNAMIC_UPDATE_SLICE; declare shapes")
    tensor = operator.outputs[0] if operator.outputs else None
    source = "is that of a variable, which only a run knows" if operator.op.name == "READ_VARIABLE" else (
        "follows from data")
    return Problem("shapes", index, number, tensor,
                   f"the shape of its result {source}: what comes after is bound in the run{rest}",
                   "declare the shape, compute it from constants or from shapes, or pad to a fixed length")


def _changing(runnable: Runnable, op: PreTestedLoop, given: Sequence[tuple[int, ...] | None]) -> list[int]:
    """The positions of values that come out of a loop's body in another shape."""
    known = tuple(each for each in given if each is not None)
    body = runnable.specialized(op.body_subgraph_index, known) if len(known) == len(given) else None
    if body is None:
        return []
    return [k for k, tensor in enumerate(body.subgraph.outputs) if body.shapes[tensor] != known[k]]
