"""Makes a WHILE of every `Loop`.

A loop's operator becomes a CALL of a new subgraph, so that operators keep their places. It makes the first values, runs
a WHILE whose body calls the loop's own, and puts the results together:

- Scan outputs are written into a tensor for all of them, which goes round the loop. Where the trip count alone says how
  many there are it has just that size. Else an outer WHILE gives it more room, and the inner one, whose shapes are
  fixed, runs until it is full; the room grows by a factor, so that all copies together cost as much as the result.
- A loop that is known to have one turn is a call of its body.
- Conditions that never end a loop are left out, which makes its trip count all there is to know.
- Values that each turn broadcasts to one shape have it from the start (`loops/spread.py`).
- Values that are passed are not known before the run. Invariants that are constants therefore become part of the body,
  those that follow from shapes are computed again in it, and so is the trip count in the new subgraph.
"""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder
from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.ops.controlflow import CallSubgraph
from circlet.runtime.ops.loop import Loop
from circlet.runtime.passes.transforms.loops.condition import build_test
from circlet.runtime.passes.transforms.loops.invariants import with_known_invariants
from circlet.runtime.passes.transforms.loops.layout import Layout
from circlet.runtime.passes.transforms.loops.once import build_once, runs_once
from circlet.runtime.passes.transforms.loops.plan import Plan, make_plan
from circlet.runtime.passes.transforms.loops.setup import Setup, build_growth, run_loop
from circlet.runtime.passes.transforms.loops.turn import build_turn


def lower_loops(model: Model, spreads: bool = True) -> Model:
    """Replaces each LOOP by a CALL of a subgraph that holds a WHILE. New subgraphs follow those of the model.

    Args:
        model: has the loops.
        spreads: whether values that turns broadcast begin in the shape that they make.
    """
    index = 0
    while index < len(model.subgraphs):
        for number, operator in enumerate(model.subgraphs[index].operators):
            if isinstance(operator.op, Loop):
                model = _lower(model, index, number, operator, operator.op, spreads)
        index += 1
    return model


def _lower(model: Model, index: int, number: int, operator: Operator, op: Loop, spreads: bool) -> Model:
    model, operator, op = with_known_invariants(model, index, operator, op)
    caller = model.subgraphs[index]
    plan = make_plan(model, caller, operator, op)
    b, name = ModelBuilder(model), f"{caller.name}[{number}]"
    place = caller.place(index, number)
    setup = Setup(b.subgraph(f"{name} loop", place), plan, caller, operator, place, spreads)
    if runs_once(plan, caller, operator):
        build_once(setup, plan)
    else:
        _build_loop(b, setup, model, plan, name)
    call = Operator(CallSubgraph(setup.s.index), tuple(setup.passed), operator.outputs)
    return _replaced(b.build(), index, number, call)


def _build_loop(b: ModelBuilder, setup: Setup, model: Model, plan: Plan, name: str) -> None:
    """Fills the subgraph that is called instead of the loop, and adds those that it needs."""
    place = setup.place
    layout, values = setup.first_values()
    turn = b.subgraph(f"{name} turn", place)
    build_turn(turn, plan, layout)
    test = _test(b.subgraph(f"{name} test", place), model, plan, layout, room=False)
    body = turn.index
    if plan.open_scans:
        room = _test(b.subgraph(f"{name} room", place), model, plan, layout, room=True)
        growth = b.subgraph(f"{name} growth", place)
        build_growth(growth, plan, layout, room, turn.index)
        body = growth.index
    setup.finish(values, run_loop(setup.s, layout, values, test, body))


def _test(s: SubgraphBuilder, model: Model, plan: Plan, layout: Layout, room: bool) -> int:
    build_test(s, model, plan, layout, room)
    return s.index


def _replaced(model: Model, index: int, number: int, operator: Operator) -> Model:
    caller = model.subgraphs[index]
    operators = (*caller.operators[:number], operator, *caller.operators[number + 1:])
    subgraphs = list(model.subgraphs)
    subgraphs[index] = replace(caller, operators=operators)
    return replace(model, subgraphs=tuple(subgraphs))
