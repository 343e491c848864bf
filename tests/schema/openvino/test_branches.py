"""If, built and saved by OpenVINO, against values worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from tests.schema.openvino.models import Array, const, f32, i32, op, ov, ports, run, run_openvino, same, save

X, Y = np.array([[1, 2], [3, 4]], f32), np.array([[2, 1], [2, 3]], f32)
WIDE = np.arange(6, dtype=f32).reshape(3, 2)
Body = tuple[Sequence[int], Callable[..., Any]]
"""Which of the values the Parameters of a body stand for, and what it makes of them."""


@dataclass(frozen=True)
class Branches:
    """An If, and what it gives where the condition holds and where not."""

    id: str
    then: Body
    other: Body
    values: Sequence[Array]
    when_true: Sequence[Array]
    when_false: Sequence[Array]
    oracle: bool = True
    """Whether OpenVINO computes it, and right."""

    def build(self, condition: Any, outer: Sequence[Any]) -> list[Any]:
        node = op.if_op(condition)
        bodies, taken = [], []
        for uses, make in (self.then, self.other):
            own = {k: op.parameter(list(self.values[k].shape), self.values[k].dtype) for k in uses}
            bodies.append(ov.Model(ports(make(*own.values())), list(own.values())))
            taken.append(own)
        node.set_then_body(bodies[0])
        node.set_else_body(bodies[1])
        for k, value in enumerate(outer):
            if any(k in own for own in taken):
                node.set_input(value.output(0), *(own.get(k) for own in taken))
        return [node.set_output(*both) for both in zip(bodies[0].results, bodies[1].results, strict=True)]


CASES = [
    Branches("arithmetic", ((0, 1), op.multiply), ((0, 1), op.add), [X, Y], [X * Y], [X + Y]),
    Branches("swapped_parameters", ((1, 0), op.subtract), ((0, 1), op.subtract), [X, Y], [Y - X], [X - Y]),
    Branches("one_input_each", ((0,), op.negative), ((1,), op.abs), [X, Y], [-X], [Y]),
    Branches("no_inputs", ((), lambda: const([1.0, 2.0])), ((), lambda: const([3.0, 4.0])), [], [np.array([1, 2], f32)],
             [np.array([3, 4], f32)]),
    Branches("several_outputs", ((0, 1), lambda x, y: [op.add(x, y), x, op.convert(y, "i32")]),
             ((0, 1), lambda x, y: [y, op.subtract(x, y), const(np.array([[7]], i32))]), [X, Y],
             [X + Y, X, Y.astype(i32)], [Y, X - Y, np.array([[7]], i32)]),
    Branches("one_result_twice", ((0,), lambda x: [x, x]), ((0,), lambda x: [op.negative(x), x]), [X], [X, X], [-X, X]),
    Branches("other_shapes", ((0,), op.relu), ((1,), op.relu), [X, WIDE], [X], [WIDE]),
    Branches("other_ranks", ((0,), op.relu), ((0,), lambda x: op.reshape(x, const([4]), False)), [X], [X],
             [X.reshape(4)], oracle=False),
    Branches("identity", ((0,), lambda x: x), ((0,), op.negative), [X], [X], [-X]),
]


@pytest.mark.parametrize("shape", [(), (1,)], ids=["scalar", "vector"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_chosen_at_run_time(tmp_path: Path, case: Branches, shape: tuple[int, ...]) -> None:
    condition = op.parameter(list(shape), np.bool_)
    outer = [op.parameter(list(each.shape), each.dtype) for each in case.values]
    path = save(tmp_path, case.build(condition.output(0), outer), [condition, *outer])
    for chosen, expected in ((True, case.when_true), (False, case.when_false)):
        inputs = [np.full(shape, chosen), *case.values]
        for one, other in zip(run(path, inputs), expected, strict=True):
            same(one, other, f"{chosen}")
        if case.oracle and shape:
            for one, other in zip(run_openvino(path, inputs), expected, strict=True):
                same(one, other, f"OpenVINO, {chosen}")


@pytest.mark.parametrize("chosen", [True, False])
def test_chosen_by_a_constant(tmp_path: Path, chosen: bool) -> None:
    """The body becomes part of the graph; the other one may have another element type."""
    case = Branches("", ((0,), op.negative), ((0,), lambda x: op.convert(x, "i32")), [X], [], [])
    x = op.parameter([2, 2], f32)
    path = save(tmp_path, case.build(op.constant(np.array(chosen)).output(0), [x]), [x])
    (found,) = run(path, [X])
    same(found, -X if chosen else X.astype(i32), "body")
    assert len(circlet.load(path).subgraphs) == 1


def test_only_the_chosen_body_runs(tmp_path: Path) -> None:
    """An index out of range in the other one does not matter."""
    case = Branches("", ((0,), op.relu), ((0, 1), lambda x, i: op.gather(x, i, const(0))),
                    [X, np.array([7, 7], np.int64)], [X], [])
    condition = op.parameter([], np.bool_)
    outer = [op.parameter(list(each.shape), each.dtype) for each in case.values]
    path = save(tmp_path, case.build(condition.output(0), outer), [condition, *outer])
    same(run(path, [True, *case.values])[0], X, "then")
    with pytest.raises(circlet.ExecutionError, match="out of range"):
        run(path, [False, *case.values])


def test_bodies_of_dynamic_shapes(tmp_path: Path) -> None:
    condition, x = op.parameter([], np.bool_), op.parameter([-1, -1], f32)
    case = Branches("", ((0,), op.exp), ((0,), lambda x: op.concat([x, x], 0)), [X], [], [])
    node = op.if_op(condition.output(0))
    bodies = []
    for _, make in (case.then, case.other):
        own = op.parameter([-1, -1], f32)
        bodies.append((ov.Model(ports(make(own)), [own]), own))
    node.set_then_body(bodies[0][0])
    node.set_else_body(bodies[1][0])
    node.set_input(x.output(0), bodies[0][1], bodies[1][1])
    path = save(tmp_path, [node.set_output(bodies[0][0].results[0], bodies[1][0].results[0])], [condition, x])
    session = circlet.Session(circlet.load(path), backend="cpu")
    for value in (X, WIDE):
        for chosen, expected in ((True, np.exp(value)), (False, np.concatenate([value, value]))):
            (found,) = session.run([chosen, value]).values()
            same(found, expected, f"{chosen}")
