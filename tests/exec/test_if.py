"""IF and STABLEHLO_CASE: upstream's cases and the traps that peers fall into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import If, StablehloCase
from circlet.runtime.ops.elementwise import Maximum, Minimum, Mul
from circlet.runtime.ops.pad import Pad
from tests.exec import graphs as g
from tests.exec.graphs import ELISION, Array, Formula, f32, i32


@dataclass(frozen=True)
class Choice:
    """An IF, its operands and what each branch gives."""

    id: str
    then: Formula
    other: Formula
    inputs: Sequence[Array]
    when_true: Sequence[Array]
    when_false: Sequence[Array]
    loose: bool = False


def plus_formula(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.add(b, v[0], v[1])]


def times_formula(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [b.apply(Mul(), v[0], v[1])]


def padded(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [b.apply(Pad(), v[0], b.constant([[1, 2]]))]


def unchanged(count: int) -> Formula:
    return lambda b, v: list(v[:count])


def full(value: int, count: int) -> Array:
    return np.full(count, value, np.int32)


def loop_body(id: str, body: Formula, inputs: Sequence[Array], outputs: Sequence[Array], loose: bool = False) -> Choice:
    """A body of the WHILE cases as the then branch, with operands passed through by the other."""
    return Choice(id, body, unchanged(len(outputs)), inputs, outputs, inputs[:len(outputs)], loose)


MILLION = 1_000_000
LONG = np.arange(100_000, dtype=np.int32)

UPSTREAM = [
    Choice("simple", plus_formula, times_formula, [i32([5, 7]), i32([[1, 2]])], [i32([[6, 9]])], [i32([[5, 14]])]),
    Choice("large_inputs", plus_formula, times_formula, [LONG, LONG], [LONG + LONG], [LONG * LONG]),
    Choice("dynamic_subgraph", plus_formula, padded, [i32([5, 7]), i32([[1, 2]])], [i32([[6, 9]])],
           [i32([0, 5, 7, 0, 0])]),
    loop_body("with_xnnpack", g.doubled, [f32([1]), f32([1])], [f32([4]), f32([4])]),
    loop_body("input_is_output", g.forwarded, [i32([1]), i32([1]), i32([1])], [i32([2]), i32([2]), i32([1])]),
    loop_body("input_is_output_but_different", g.forwarded_elsewhere, [i32([1]), i32([2])], [i32([2]), i32([3])]),
    loop_body("counter_only", g.counter, [i32([1])], [i32([2])]),
    loop_body("all_cases", g.all_in_place, [i32([2]), i32([1]), i32([2]), i32([2]), i32([1])],
              [i32([3]), i32([3]), i32([2, 2]), i32([3, 3]), i32([1])], loose=True),
    loop_body("static_unconsumed_outputs", g.forwarded, [i32([1]), i32([2]), i32([2])], [i32([2]), i32([4]), i32([2])]),
    loop_body("static_unconsumed_outputs_resized", g.forwarded, [i32([1]), i32([2, 2]), i32([2, 2])],
              [i32([2]), i32([4, 4]), i32([2, 2])]),
    loop_body("dynamic_op_triggers_allocation_of_unused_input", g.unused_input_allocated,
              [i32([2]), i32([1]), i32([2])], [i32([3]), i32([4, 4]), i32([2, 2])], loose=True),
    loop_body("static_in_place", g.deep, [i32([0]), i32([1])], [i32([1]), i32([3])]),
    loop_body("static_in_place_large", g.large, [i32(1), full(1, 10000)], [i32(10000), full(6, 10000)]),
    loop_body("triangular_number_sequence", g.accumulate, [i32([1]), i32([1])], [i32([2]), i32([3])]),
    loop_body("triangular_number_sequence_with_shallow_copy", g.accumulate, [i32([1]), full(1, MILLION)],
              [i32([2]), full(3, MILLION)]),
    loop_body("pad_loop", g.pad(1, 2), [i32([1]), i32([5, 7])], [i32([2]), i32([0, 5, 7, 0, 0])], loose=True),
    loop_body("dynamic_body_with_sharing", g.increasing,
              [i32([1]), i32([1, 2, 3]), full(1, MILLION), full(2, MILLION)],
              [i32([2]), i32([2, 3, 4]), full(3, MILLION), full(4, MILLION)], loose=True),
    loop_body("dynamic_body_with_sharing_and_aliases", g.aliases, [i32([0]), i32([1]), i32([2]), i32([3]), i32([4])],
              [i32([1]), i32([11]), i32([12]), i32([13]), i32([13])]),
    loop_body("output_not_consumed", g.not_consumed, [i32([1]), i32([2]), i32([3])],
              [i32([3]), i32([1, 1, 1]), i32([1])], loose=True),
    loop_body("pad_loop_with_sharing", g.large_pad(1, 2), [i32([1]), i32([2]), i32([3, 4])],
              [i32([3]), i32([5, 6]), i32([0, 5, 6, 0, 0])], loose=True),
    loop_body("pad_loop_with_shallow_copy", g.pad(1, 2), [i32([1]), full(1, MILLION)],
              [i32([2]), np.pad(full(1, MILLION), (1, 2))], loose=True),
    loop_body("loop_with_dynamic_tensor", g.string_fill, [g.text(b"A"), g.text([b"A"]), i32([1])],
              [g.text(b"A"), g.text([b"A", b"A"]), i32([2])], loose=True),
]


def twice_the_sum(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    total = g.add(b, v[0], v[1])
    return [total, total]


def crossed(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [v[1], v[0]]


def constants(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    value = b.constant(i32([7, 7]))
    return [value, value]


A, B = i32([0, 0]), i32([2, 3])

TRAPS = [
    Choice("one_tensor_in_two_places", twice_the_sum, crossed, [A, B], [i32([2, 3]), i32([2, 3])], [B, A]),
    Choice("one_input_in_two_places", lambda b, v: [v[0], v[0]], constants, [B, A], [B, B],
           [i32([7, 7]), i32([7, 7])]),
    Choice("shapes_differ", lambda b, v: [v[0]], lambda b, v: [v[1]], [f32([1, 2, 3, 4]), f32([5, 6])],
           [f32([1, 2, 3, 4])], [f32([5, 6])]),
]


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("case", [*UPSTREAM, *TRAPS], ids=lambda case: case.id)
def test_if(case: Choice, elide: bool) -> None:
    session = circlet.Session(g.if_model(case.then, case.other, case.inputs, case.loose), copy_elision=elide)
    for chosen in (True, False, False, True):
        expected = case.when_true if chosen else case.when_false
        g.assert_equal(g.run(session, [np.bool_(chosen), *case.inputs]), expected)


def test_only_the_chosen_branch_runs() -> None:
    session = circlet.Session(g.if_model(plus_formula, times_formula, [A, B]))
    for chosen, expected in ((True, {0: 1, 1: 1}), (False, {0: 1, 2: 1})):
        counter = circlet.Counter()
        session.run([np.bool_(chosen), A, B], listener=counter)
        assert counter.invocations == expected


def test_branches_of_different_types_are_refused() -> None:
    floats = g.if_model(plus_formula, lambda b, v: [b.constant(1.5)], [i32(1), i32(2)])
    with pytest.raises(circlet.ModelError, match=r"IF.*int32.*float32|IF.*float32.*int32"):
        circlet.Session(floats)


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 1)])
def test_condition_must_have_one_element(shape: tuple[int, ...]) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds = [(DType.INT32, ())]
    op = If(g.define(b, "then", g.counter, kinds), g.define(b, "else", g.counter, kinds))
    cond, x = main.input("cond", DType.BOOL, shape), main.input("x", DType.INT32)
    main.output(*main.op(op, cond, x, outputs=[Tensor("y", DType.INT32, ())]))
    with pytest.raises(circlet.ModelError, match=r"IF.*one element"):
        circlet.Session(b.build())


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize(("index", "expected"), [
    (0, [4, 6]), (1, [3, 8]), (2, [3, 4]), (3, [1, 2]), (9, [1, 2]), (-1, [1, 2]),
])
def test_case_runs_the_last_branch_out_of_range(index: int, expected: list[int], elide: bool) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds = [(DType.INT32, (2,))] * 2
    formulas: list[Formula] = [
        plus_formula, times_formula, lambda s, v: [s.apply(Maximum(), v[0], v[1])],
        lambda s, v: [s.apply(Minimum(), v[0], v[1])],
    ]
    op = StablehloCase(tuple(g.define(b, f"branch_{k}", each, kinds) for k, each in enumerate(formulas)))
    selector = main.input("index", DType.INT32)
    x, y = (main.input(name, *kinds[0]) for name in "xy")
    main.output(*main.op(op, selector, x, y, outputs=[Tensor("z", DType.INT32, (2,))]))
    session = circlet.Session(b.build(), copy_elision=elide)
    for _ in range(2):
        g.assert_equal(g.run(session, [np.int32(index), i32([1, 2]), i32([3, 4])]), [i32(expected)])
