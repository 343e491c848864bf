"""Which tensors lie in the same memory, and which may."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.unary import Neg
from circlet.runtime.passes.analyses.alias import (
    Aliases,
    Effects,
    appended,
    declared_effects,
    find_aliases,
    may_reuse,
)
from tests.passes.specialized import Write, specialized

ROW = np.array([7.0], np.float32)


def aliases_of(write: Write, *shapes: tuple[int, ...], kept: Collection[int] = (), room: int = 0) -> Aliases:
    """The classes of a subgraph whose caller keeps some inputs, and has memory of `room` bytes for the first one."""
    spec = specialized(write, *shapes)
    fixed = {*spec.known, *(spec.subgraph.inputs[each] for each in kept)}
    span = range(len(spec.subgraph.operators))
    return find_aliases(spec, span, fixed, lambda number: declared_effects(spec.subgraph.operators[number]),
                        {spec.subgraph.inputs[0]: room} if room else {})


def outputs(aliases: Aliases) -> list[int]:
    return [aliases.root(each) for each in aliases.spec.subgraph.outputs]


def inputs(aliases: Aliases) -> list[int]:
    return [aliases.root(each) for each in aliases.spec.subgraph.inputs]


def column(s: SubgraphBuilder, x: Value) -> Value:
    return s.apply(Reshape(), x, s.constant([-1, 1]))


def update(s: SubgraphBuilder, x: Value) -> Value:
    return s.apply(DynamicUpdateSlice(), x, s.constant(ROW), s.constant([0]))


def test_a_view_is_in_the_class_of_what_it_views() -> None:
    found = aliases_of(lambda s, v: [column(s, v[0])], (4,))
    assert outputs(found) == inputs(found)
    root = inputs(found)[0]
    assert len(found.members(root)) == 2
    assert not found.is_overwritten(root)
    assert found.size(root) == 16
    assert found.first_write(root) == -1
    assert found.last_read(root) == 1


def test_views_of_views() -> None:
    found = aliases_of(lambda s, v: [column(s, column(s, s.apply(Neg(), v[0])))], (4,))
    assert outputs(found) != inputs(found)
    assert len(found.members(outputs(found)[0])) == 3
    assert found.first_write(outputs(found)[0]) == 0


def test_a_result_is_written_over_what_nobody_reads_later() -> None:
    found = aliases_of(lambda s, v: [update(s, v[0])], (4,))
    assert outputs(found) == inputs(found)
    assert found.is_overwritten(inputs(found)[0])


def test_what_the_caller_keeps_is_not_overwritten() -> None:
    found = aliases_of(lambda s, v: [update(s, v[0])], (4,), kept=[0])
    assert outputs(found) != inputs(found)
    assert found.is_fixed(inputs(found)[0])


def test_a_view_of_what_is_kept_is_kept_too() -> None:
    def write(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        flat = s.apply(Reshape(), v[0], s.constant([-1]))
        return [update(s, flat)]

    found = aliases_of(write, (2, 2), kept=[0])
    assert outputs(found) != inputs(found)


def test_what_is_read_later_is_not_overwritten() -> None:
    found = aliases_of(lambda s, v: [s.apply(Add(), update(s, v[0]), v[0])], (4,))
    assert not found.is_overwritten(inputs(found)[0])


def test_what_a_view_reads_later_is_not_overwritten() -> None:
    def write(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        seen = column(s, v[0])
        return [update(s, v[0]), s.apply(Neg(), seen)]

    assert not aliases_of(write, (4,)).is_overwritten(0)


APPENDED: dict[str, tuple[Write, tuple[int, ...], int]] = {
    "a row": (lambda s, v: [s.apply(Concatenation(), v[0], s.constant(ROW))], (4,), 20),
    "itself": (lambda s, v: [s.apply(Concatenation(), v[0], v[0])], (4,), 32),
    "what is read later": (lambda s, v: [s.apply(Concatenation(), v[0], s.constant(ROW)), s.apply(Neg(), v[0])],
                           (4,), 20),
    "behind axes of 1": (lambda s, v: [s.apply(Concatenation(-2), v[0], s.constant(ROW.reshape(1, 1, 1)))],
                         (1, 4, 1), 20),
}
APART: dict[str, tuple[Write, tuple[int, ...], int]] = {
    "without room": (lambda s, v: [s.apply(Concatenation(), v[0], s.constant(ROW))], (4,), 0),
    "with other room": (lambda s, v: [s.apply(Concatenation(), v[0], s.constant(ROW))], (4,), 24),
    "in front": (lambda s, v: [s.apply(Concatenation(), s.constant(ROW), v[0])], (4,), 20),
    "between": (lambda s, v: [s.apply(Concatenation(1), v[0], s.constant(np.ones((2, 1), np.float32)))], (2, 2), 24),
}


@pytest.mark.parametrize(("cases", "is_one"), [(APPENDED, True), (APART, False)], ids=["appended", "apart"])
def test_what_is_appended_to_lies_where_it_was(cases: dict[str, tuple[Write, tuple[int, ...], int]],
                                               is_one: bool) -> None:
    for name, (write, shape, room) in cases.items():
        found = aliases_of(write, shape, room=room)
        assert (outputs(found)[0] == inputs(found)[0]) is is_one, name


def test_what_the_caller_keeps_is_not_appended_to() -> None:
    write, shape, room = APPENDED["a row"]
    assert outputs(aliases_of(write, shape, kept=[0], room=room)) != [0]


def test_one_value_is_appended_to_once() -> None:
    found = aliases_of(lambda s, v: [s.apply(Concatenation(), v[0], s.constant(ROW)),
                                     s.apply(Concatenation(), v[0], s.constant(-ROW))], (4,), room=20)
    assert len({*outputs(found)}) == 2
    assert found.size(outputs(found)[0]) == 20


def longer(s: SubgraphBuilder, x: Value) -> Value:
    return s.apply(Concatenation(), x, s.constant(ROW))


@pytest.mark.parametrize(("write", "wanted"), [
    (lambda s, v: [s.apply(Neg(), v[0]), longer(s, v[0])], {1: (0, 0)}),
    (lambda s, v: [longer(s, v[0]), s.apply(Neg(), v[0])], {0: (0, 0)}),
    (lambda s, v: [update(s, longer(s, v[0]))], {}),
    (lambda s, v: [longer(s, s.apply(Neg(), v[0]))], {}),
    (lambda s, v: [made := longer(s, v[0]), made], {}),
], ids=["alone", "read later", "changed", "no input", "given twice"])
def test_what_a_subgraph_appends_to_its_input(write: Write, wanted: dict[int, tuple[int, int]]) -> None:
    assert appended(aliases_of(write, (4,), kept=[0])) == wanted


def test_an_output_is_not_overwritten() -> None:
    found = aliases_of(lambda s, v: [v[0], update(s, v[0])], (4,))
    assert len(set(outputs(found))) == 2


def test_known_results_are_constant() -> None:
    found = aliases_of(lambda s, v: [s.apply(Neg(), s.constant(ROW)), s.apply(Neg(), v[0])], (1,))
    assert [found.is_constant(each) for each in outputs(found)] == [True, False]


def test_no_effects_no_classes() -> None:
    spec = specialized(lambda s, v: [column(s, v[0])], (4,))
    found = find_aliases(spec, range(1), set(), lambda number: Effects())
    assert outputs(found) != inputs(found)


def test_memory_is_used_again_element_by_element() -> None:
    same = aliases_of(lambda s, v: [s.apply(Add(), v[0], s.constant(ROW))], (4,))
    assert may_reuse(same, inputs(same)[0], outputs(same)[0])
    wider = aliases_of(lambda s, v: [s.apply(Add(), v[0], v[1])], (1,), (4,))
    assert [may_reuse(wider, each, outputs(wider)[0]) for each in inputs(wider)] == [False, True]


def test_memory_is_not_used_again_while_it_is_read() -> None:
    def write(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        negative = s.apply(Neg(), v[0])
        return [s.apply(Add(), negative, v[0])]

    found = aliases_of(write, (4,))
    first = found.spec.subgraph.operators[0].outputs[0]
    assert not may_reuse(found, inputs(found)[0], first)
    assert may_reuse(found, inputs(found)[0], outputs(found)[0])
    assert not may_reuse(aliases_of(write, (4,), kept=[0]), inputs(found)[0], outputs(found)[0])
