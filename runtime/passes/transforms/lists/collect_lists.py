"""Makes a scan output of a sequence to which each turn of a loop appends a tensor, and which is joined after the loop.

That is what exporters make of a list that a script fills in a loop and stacks. A scan output has a type and, for a
turn, a shape, so that the loop can be code; a sequence is an object of Python. What is in the sequence before the loop
is joined too, in front, if shapes tell what the loop's elements are when it takes no turn. Sequences that are read in
another way, or whose elements might differ along the axis on which they are joined, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import Concatenation, Pack
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import Carried, Mode, ScanOutput
from circlet.runtime.ops.sequence import SequenceConcat, SequenceConstruct, SequenceInsert
from circlet.runtime.ops.shape import Alias
from circlet.runtime.passes.transforms.eliminate_dead import SKIP, eliminate_dead
from circlet.runtime.passes.transforms.rewrite import is_same, rewrite_subgraphs
from circlet.runtime.records import dataclass, replace

_T = TypeVar("_T")


Left: TypeAlias = "Callable[[int, int, Tensor], bool]"
"""Whether a list stays that a loop fills, by subgraph and number, with elements that are declared so."""


def collect_lists(model: Model, is_left: Left = lambda *_: False) -> Model:
    """Replaces such sequences, and what joins them by a `Skip`; the numbers of operators and subgraphs stay. Bodies
    that change are new subgraphs, as anyone may run the old ones."""
    calls = [callee for graph in model.subgraphs for each in graph.operators for callee in each.op.callees()]
    changed, old, count = model, set[int](), len(model.subgraphs)
    index = 0
    while index < len(changed.subgraphs):
        number = 0
        while index not in old and number < len(changed.subgraphs[index].operators):
            operator = changed.subgraphs[index].operators[number]
            found = None
            if isinstance(operator.op, Loop) and calls.count(operator.op.body_subgraph_index) <= 1:
                found = _found(changed, index, number, is_left)
            if found is None:
                number += 1
                continue
            changed = _collected(changed, index, number, found, count)
            old.update(each for each in operator.op.callees() if each < count)
        index += 1
    return model if changed is model else rewrite_subgraphs(eliminate_dead(changed), _without_objects)


def _without_objects(graph: Subgraph) -> Subgraph:
    """A subgraph whose sequences that nothing reads or makes any more are declared as numbers, which code may have."""
    used = {*graph.inputs, *graph.outputs,
            *(tensor for each in graph.operators for tensor in (*each.inputs, *each.outputs))}
    tensors = tuple(replace(each, dtype=DType.FLOAT32, held=None)
                    if each.dtype is DType.VARIANT and number not in used else each
                    for number, each in enumerate(graph.tensors))
    return graph if is_same(tensors, graph.tensors) else replace(graph, tensors=tensors)


@dataclass(frozen=True)
class _List:
    """A sequence that a loop appends to."""

    place: int
    """Among the carried values."""
    element: int
    """The tensor of the body that is appended."""
    inserts: frozenset[int]
    """The operators of the body that the sequence goes through."""
    scans: tuple[tuple[ScanOutput, int], ...]
    """What collects it, and the tensors that are what joined it."""
    joins: frozenset[int]
    """The operators that it goes through after the loop."""
    begin: int
    """The operator that makes it."""


def _found(model: Model, index: int, number: int, is_left: Left) -> _List | None:
    """A list of a loop; None where there is none."""
    graph = model.subgraphs[index]
    operator = graph.operators[number]
    op = operator.op
    assert isinstance(op, Loop), f"{operator.name} is no loop"
    body = model.subgraphs[op.body_subgraph_index]
    for place, each in enumerate(op.carried):
        begin = _writer(graph, operator.inputs[2 + place])
        if begin is None or not isinstance(begin.op, SequenceConstruct):
            continue
        appended = _appended(op, body, each)
        joins = _joins(graph, number, operator.outputs[place])
        if appended is None or not joins or is_left(index, number, body.tensors[appended[0]]):
            continue
        element, inserts = appended
        scans = [(_scan(body, each.body_output, element, join.op), join.outputs[0]) for join in joins.values()
                 if isinstance(join.op, SequenceConcat)]
        found = tuple((scan, tensor) for scan, tensor in scans if scan is not None)
        ways = {each.op for each in joins.values() if isinstance(each.op, SequenceConcat)}
        if found and len(found) == len(scans) and (not begin.inputs or (len(ways) == 1 and _is_shaped(body, element))):
            return _List(place, element, inserts, found, frozenset(joins), graph.operators.index(begin))
    return None


def _is_shaped(body: Subgraph, tensor: int) -> bool:
    """Whether a value hangs on tensors alone. Where no turn is taken shapes do not tell that of what is taken from a
    sequence, and nothing could be put behind what is in the list before the loop."""
    needed = {tensor}
    for each in reversed(body.operators):
        if not needed.isdisjoint(each.outputs):
            needed.update(each.inputs)
    return all(each == ABSENT or body.tensors[each].dtype is not DType.VARIANT for each in needed)


def _writer(graph: Subgraph, tensor: int) -> Operator | None:
    """The operator that makes a value, behind those that only give it another name."""
    for each in reversed(graph.operators):
        if tensor in each.outputs:
            if not isinstance(each.op, Alias):
                return each
            tensor, = each.inputs
    return None


def _readers(graph: Subgraph, tensor: int) -> Mapping[int, Operator] | None:
    """The operators that read a value, by number, and those that give it another name; None where it is returned."""
    names, found = {tensor}, {}
    for number, each in enumerate(graph.operators):
        if not names.isdisjoint(each.inputs):
            found[number] = each
            if isinstance(each.op, Alias):
                names.update(each.outputs)
    return None if names & {*graph.outputs} else found


def _appended(op: Loop, body: Subgraph, carried: Carried) -> tuple[int, frozenset[int]] | None:
    """What a turn appends to a carried sequence, which nothing else in it reads, and the operators that do so."""
    result = body.outputs[carried.body_output]
    insert = _writer(body, result)
    given = body.inputs[carried.body_input]
    if insert is None or not isinstance(insert.op, SequenceInsert) or (*insert.inputs[2:], ABSENT)[0] != ABSENT:
        return None
    if body.outputs.count(result) != 1 or _uses(op, carried.body_output) != 1:
        return None
    numbers = {number for number, each in enumerate(body.operators)
               if each is insert or (isinstance(each.op, Alias) and _writer(body, each.outputs[0]) is insert)}
    before = _readers(body, given)
    after = _readers(replace(body, outputs=tuple(each for each in body.outputs if each != result)), insert.outputs[0])
    if before is None or after is None or insert.inputs[1] == given:
        return None
    if any(each is not insert and not isinstance(each.op, Alias) for each in before.values()):
        return None
    if not set(after) <= numbers:
        return None
    return insert.inputs[1], frozenset({*before, *numbers})


def _uses(op: Loop, output: int) -> int:
    """How often a loop takes an output of its body."""
    return [*(each.body_output for each in op.carried), *(each.body_output for each in op.scan_outputs),
            *op.last_outputs, op.cond_output].count(output)


def _joins(graph: Subgraph, number: int, tensor: int) -> Mapping[int, Operator]:
    """The operators that join a sequence, which nothing else reads, and those that give it another name."""
    found = _readers(graph, tensor)
    return found if found and all(isinstance(each.op, (SequenceConcat, Alias)) for each in found.values()) else {}


def _scan(body: Subgraph, output: int, element: int, op: Op) -> ScanOutput | None:
    """The scan output that is what joins the elements; None where these may differ in length."""
    assert isinstance(op, SequenceConcat), f"{op.title} joins no sequence"
    if op.new_axis:
        return ScanOutput(output, op.axis)
    declared = body.tensors[element].declared
    if declared is None or not -len(declared) <= op.axis < len(declared) or declared[op.axis] < 1:
        return None
    return ScanOutput(output, op.axis, Mode.CONCAT, part=declared[op.axis])


def _collected(model: Model, index: int, number: int, found: _List, made: int) -> Model:
    """The model with a list as scan outputs of the loop at a place; subgraphs from a number on were made for that."""
    subgraphs = list(model.subgraphs)
    graph = model.subgraphs[index]
    operator = graph.operators[number]
    assert isinstance(operator.op, Loop), f"{operator.name} is no loop"
    op, removed = operator.op, operator.op.carried[found.place]
    body = subgraphs[op.body_subgraph_index]
    outputs = list(body.outputs)
    outputs[removed.body_output] = found.element
    changed_body = replace(
        body, inputs=_without(body.inputs, removed.body_input), outputs=tuple(outputs),
        operators=tuple(SKIP if each in found.inserts else own for each, own in enumerate(body.operators)))
    if op.body_subgraph_index < made:
        own = op.body_subgraph_index if body.origin is None else body.origin
        op, changed_body = replace(op, body_subgraph_index=len(subgraphs)), replace(changed_body, origin=own)
        subgraphs.append(body)
    subgraphs[op.body_subgraph_index] = changed_body
    changes = {each: SKIP for each in found.joins}
    collected = [tensor for _, tensor in found.scans]
    if graph.operators[found.begin].inputs:
        graph, collected, put_in_front = _with_first(graph, found)
        changes.update(put_in_front)
    carried, scans = len(op.carried), len(op.scan_outputs)
    results = (*_without(operator.outputs[:carried], found.place), *operator.outputs[carried:carried + scans],
               *collected, *operator.outputs[carried + scans:])
    changed = replace(operator, op=_options(op, found), inputs=_without(operator.inputs, 2 + found.place),
                      outputs=results)
    changes[number] = changed
    subgraphs[index] = replace(graph, operators=tuple(
        changes.get(each, own) for each, own in enumerate(graph.operators)))
    return replace(model, subgraphs=tuple(subgraphs))


def _with_first(graph: Subgraph, found: _List) -> tuple[Subgraph, list[int], dict[int, Operator]]:
    """The graph with tensors for what is in a list before the loop, joined, and for what the loop collects; the latter;
    and the operators, by number, that join the former and put it in front."""
    begin = graph.operators[found.begin]
    joins = {number: each for number, each in ((k, graph.operators[k]) for k in sorted(found.joins))
             if isinstance(each.op, SequenceConcat)}
    tensors, collected, changes = list(graph.tensors), [], dict[int, Operator]()
    for number, join in joins.items():
        assert isinstance(join.op, SequenceConcat), f"{join.name} joins no sequence"
        like = graph.tensors[join.outputs[0]]
        if not changes:
            first = Pack(len(begin.inputs), join.op.axis) if join.op.new_axis else Concatenation(axis=join.op.axis)
            changes[found.begin] = Operator(first, begin.inputs, (len(tensors),))
            tensors.append(replace(like, name=f"{like.name}_first"))
        collected.append(len(tensors))
        tensors.append(replace(like, name=f"{like.name}_collected"))
        joined = (changes[found.begin].outputs[0], collected[-1])
        changes[number] = Operator(Concatenation(axis=join.op.axis), joined, join.outputs)
    return replace(graph, tensors=tuple(tensors)), collected, changes


def _options(op: Loop, found: _List) -> Loop:
    """The options of a loop whose body has an input less."""
    removed = op.carried[found.place].body_input

    def place(number: int) -> int:
        return number - (number > removed)

    return replace(
        op,
        carried=tuple(replace(each, body_input=place(each.body_input)) for each in _without(op.carried, found.place)),
        invariants=tuple(map(place, op.invariants)),
        scan_inputs=tuple(replace(each, body_input=place(each.body_input)) for each in op.scan_inputs),
        scan_outputs=(*op.scan_outputs, *(scan for scan, _ in found.scans)),
        iteration=op.iteration and replace(op.iteration, body_input=place(op.iteration.body_input)),
        cond_input=op.cond_input and replace(op.cond_input, body_input=place(op.cond_input.body_input)))


def _without(values: Sequence[_T], place: int) -> tuple[_T, ...]:
    return (*values[:place], *values[place + 1:])
