"""What a network refuses, and what it says then."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import circlet
from circlet import LoopOutput, Network, TripLimit
from circlet.network import Tensor
from circlet.network.loop import Loop
from circlet.runtime.ops.elementwise import Add

FLAG, X, V = "flag", "x", "v"


def network(strict: bool = False) -> tuple[Network, Tensor, Tensor, Tensor]:
    """With a flag, a number and a vector."""
    net = Network(strict=strict)
    return net, net.input(FLAG, bool), net.input(X, np.float32), net.input(V, np.float32, (3,))


def build(x: Tensor, net: Network) -> None:
    net.output(x, "out")
    net.build()


def counted(net: Network) -> Loop:
    loop = net.loop("walk")
    loop.trip_limit(3)
    return loop


def operand_types(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.concat([net.constant([1, 2, 3], name="whole"), v])


def operand_shapes(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    v + np.ones(2, np.float32)


def scalar_types(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.constant([1, 2]) * 1.5


def scalar_range(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.constant([1, 2], np.uint8) + 256


def constant_type(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.constant(1.5, np.int32)


def integer_division(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.constant([1, 2]) / 2


def invert_float(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    abs(~x)


def index_range(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    v[3]


def index_count(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    v[0, 0]


def index_mask(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    v[v > 0]


def matmul_shapes(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    v @ np.ones((2, 2), np.float32)


def reshape_size(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    v.reshape(2, 2)


def other_network(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    v + network()[3]


def input_twice(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.input(X, np.float32)


def output_twice(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.output(x, "y")
    net.output(v, "y")


def nothing(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.build()


def predicate_type(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.conditional(x)


def predicate_shape(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.conditional(v > 0)


def conditional_without_output(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.conditional(flag, name="choice").input(x)
    build(x, net)


def branch_types(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.conditional(flag, name="choice").output(x, flag, name="chosen")


def cross_edge(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    conditional = net.conditional(flag, name="choice")
    one = conditional.input(x) + 1
    build(conditional.output(one, one * 2), net)


def branch_leaks(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    conditional = net.conditional(flag, name="choice")
    one = conditional.input(x) + 1
    build(conditional.output(one, 0.0) + one, net)


def branch_is_output(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    conditional = net.conditional(flag, name="choice")
    build(conditional.input(x), net)


def branch_needs_output(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    conditional = net.conditional(flag, name="choice")
    first = conditional.output(conditional.input(x), 0.0, name="first")
    build(conditional.output(first + 1, 1.0, name="second"), net)


def loop_without_limit(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = net.loop("walk")
    r = loop.recurrence(x)
    r.set_next(r + 1)
    build(loop.output(r), net)


def limit_type(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.loop("walk").trip_limit(x)


def limit_kind(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.loop("walk").trip_limit(3, TripLimit.WHILE)


def limit_shape(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.loop("walk").trip_limit(v > 0)


def limit_twice(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    counted(net).trip_limit(4)


def no_next(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = counted(net)
    build(loop.output(loop.recurrence(x, name="state")), net)


def next_twice(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    r = counted(net).recurrence(x, name="state")
    r.set_next(r + 1)
    r.set_next(r + 2)


def next_type(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    counted(net).recurrence(x, name="state").set_next(flag)


def next_shape(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    r = counted(net).recurrence(v, name="state")
    r.set_next(net.concat([r, r]))


def initial_shape(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    counted(net).recurrence(v, shape=(4,), name="state")


def last_value_of_another(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = counted(net)
    loop.output(loop.recurrence(x) + 1, name="end")


def iterated_axis(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    counted(net).iterator(v, axis=1)


def output_axis(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = counted(net)
    loop.output(loop.iterator(v), LoopOutput.CONCATENATE, axis=1, name="end")


def reverse_without_count(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = net.loop("walk")
    r = loop.recurrence(x)
    loop.trip_limit(r < 3)
    r.set_next(r + loop.iterator(v, reverse=True))
    build(loop.output(r), net)


def loop_leaks(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = counted(net)
    r = loop.recurrence(x)
    following = r + 1
    r.set_next(following)
    build(loop.output(r) + following, net)


def inner_output_leaks(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    """One output of a loop in a branch is used there, the other outside."""
    conditional = net.conditional(flag, name="choice")
    loop = counted(net)
    r, s = loop.recurrence(x), loop.recurrence(x)
    r.set_next(r + conditional.input(x))
    s.set_next(s + 1)
    build(conditional.output(loop.output(r), 0.0) + loop.output(s, name="other"), net)


def initial_from_inside(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = counted(net)
    r = loop.recurrence(x, name="state")
    s = loop.recurrence(r, name="copy")
    r.set_next(r + 1)
    s.set_next(s + r)
    build(loop.output(s), net)


def count_from_inside(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = net.loop("walk")
    r = loop.recurrence(np.int32(2), name="state")
    loop.trip_limit(r)
    r.set_next(r + 1)
    build(loop.output(r), net)


def own_output(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = counted(net)
    r = loop.recurrence(x, name="state")
    r.set_next(r + loop.output(r, name="end"))
    build(loop.output(r), net)


def overlapping_loops(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    one, other = counted(net), counted(net)
    r, s = one.recurrence(x), other.recurrence(x)
    both = net.apply(Add(), r, s, name="both")[0]
    r.set_next(both)
    s.set_next(both)
    build(one.output(r) + other.output(s), net)


def condition_on_iterator(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = counted(net)
    r, element = loop.recurrence(x), loop.iterator(v)
    loop.trip_limit(element < r)
    r.set_next(r + 1)
    build(loop.output(r), net)


def cond_structures(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.cond(flag, lambda: (x, x), lambda: x)


def cond_none(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.cond(flag, lambda: None, lambda: None)


def cond_types(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.cond(flag, lambda: x, lambda: flag, name="choice")


def while_structure(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.while_loop(lambda a, b: a < 1, lambda a, b: a, (x, x))


def while_type(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.while_loop(lambda a: a < 1, lambda a: a > 1, x, name="walk")


def trace_leaks(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    kept: list[Tensor] = []

    def branch() -> Tensor:
        kept.append(x + 1)
        return kept[0]

    chosen = net.cond(flag, branch, lambda: x, name="choice")
    build(chosen + kept[0], net)


def trace_crosses(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    kept: list[Tensor] = []

    def branch() -> Tensor:
        kept.append(x + 1)
        return kept[0]

    build(net.cond(flag, branch, lambda: kept[0] + 1, name="choice"), net)


def abandoned(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    kept: list[Tensor] = []

    def branch() -> Tensor:
        kept.append(x + 1)
        raise LookupError

    with pytest.raises(LookupError):
        net.cond(flag, branch, branch)
    kept[0] + 1


def output_in_trace(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    def branch() -> Tensor:
        net.output(x, "y")
        return x

    net.cond(flag, branch, branch, name="choice")


def used_in_another_function(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    conditional = net.conditional(flag, name="choice")
    net.cond(flag, lambda: conditional.input(x), lambda: x)


REFUSED: list[tuple[Callable[[Network, Tensor, Tensor, Tensor], None], str]] = [
    (operand_types, "expected operands of one element type, found whole (int32[3]) and v (float32[3]): cast one"),
    (operand_shapes, "ADD of v (float32[3]), constant_3 (float32[2]): shapes (3,) and (2,) do not broadcast"),
    (scalar_types, "expected a value that int32 holds, found 1.5"),
    (scalar_range, "expected a value that uint8 holds, found 256"),
    (constant_type, "expected a value that int32 holds, found 1.5"),
    (integer_division,
     "/ of constant_3 (int32[2]): expected floats, found int32; cast first, or divide integers with //"),
    (invert_float, "~ of x (float32[]): expected elements of bool, found float32"),
    (index_range, "v (float32[3]): expected an index of -3 to 2 into axis 0, found 3"),
    (index_count, "v (float32[3]): expected an index of at most 1 entries, found 2"),
    (index_mask,
     "v (float32[3]): expected an index that is a scalar or a vector of integers, found greater_4 (bool[3])"),
    (matmul_shapes, "shapes (1, 3) and (2, 2) do not multiply: 3 columns meet 2 rows"),
    (reshape_size, "cannot reshape (3,) (3 elements) to (2, 2)"),
    (other_network, "v (float32[3]): expected a tensor of this network, found one of another"),
    (input_twice, "input 'x': expected a name that no other input has, found it twice"),
    (output_twice, "output 'y': expected a name that no other output has, found it twice"),
    (nothing, "network 'main': expected at least one output, found none"),
    (predicate_type, "conditional_3: the predicate: expected bool, found x (float32[])"),
    (predicate_shape, "the predicate: expected exactly one element, found greater_4 (bool[3])"),
    (conditional_without_output, "choice: expected at least one output, found none"),
    (branch_types,
     "choice, output chosen: expected operands of one element type, found x (float32[]) and flag (bool[])"),
    (cross_edge, "add_5: expected a layer of one branch of choice, found it in the then branch and in the else branch"),
    (branch_leaks, "add_5 (float32[]): expected to leave the then branch of choice by an output of choice, found it "
                   "used by add_8 outside of it"),
    (branch_is_output, "choice: expected at least one output, found none"),
    (branch_needs_output, "first: expected a layer that does not depend on itself, found"),
    (loop_without_limit, "walk: expected a trip limit, found none"),
    (limit_type, "walk: the COUNT trip limit: expected int32 or int64, found x (float32[])"),
    (limit_kind, "walk: the WHILE trip limit: expected bool, found constant_3 (int32[])"),
    (limit_shape, "walk: the WHILE trip limit: expected exactly one element, found greater_4 (bool[3])"),
    (limit_twice, "walk: the COUNT trip limit: expected one of its kind, found constant_4 (int32[]) beside another"),
    (no_next, "walk, state: expected a next value, found none; say it with set_next"),
    (next_twice, "walk, state: expected one next value, found add_8 (float32[]) beside add_6 (float32[])"),
    (next_type, "walk, state: expected a next value of float32, found flag (bool[])"),
    (next_shape, "walk, state: expected a next value of shape (3,), found concatenation_5 (float32[6]); "
                 "loop.recurrence(..., shape=...) declares a shape that changes"),
    (initial_shape, "walk, state: expected an initial value of shape (4,), found v (float32[3])"),
    (last_value_of_another, "walk, output end: expected the last value of a recurrence of the loop, found add_6"),
    (iterated_axis, "walk, iterator_4 over v (float32[3]): axis: expected -1 to 0 for rank 1, found 1"),
    (output_axis, "walk, output end: axis: expected -1 to 0 for rank 1, found 1"),
    (reverse_without_count, "walk, iterator_6: expected a COUNT trip limit, from which a reverse iterator counts down"),
    (loop_leaks, "add_6 (float32[]): expected to leave the body of walk by an output of walk, found it used by add_8"),
    (inner_output_leaks, "other (float32[]): expected to leave the then branch of choice by an output of choice"),
    (initial_from_inside, "state (float32[]): expected from outside of walk, which needs it before it begins"),
    (count_from_inside, "state: expected a layer that does not depend on itself, found state <- state"),
    (own_output, "end: expected a layer that does not depend on itself, found end <- add_6 <- end; what walk gives "
                 "cannot be used within it"),
    (overlapping_loops, "both: expected constructs that nest, found it in the body of walk and in the body of walk, of "
                        "which neither holds the other"),
    (condition_on_iterator,
     "walk: expected a condition on recurrences of the loop, found greater_6 (bool[]), which depends "
                            "on iterator_5"),
    (cond_structures, "expected branches that return values of one structure, found (*, *) and *"),
    (cond_none, "then_fn: expected tensors, found None"),
    (cond_types, "choice, output conditional_output_3: expected operands of one element type, found x (float32[]) and"),
    (while_structure, "expected a body that returns values of the structure of init, (*, *), found *"),
    (while_type, "walk, recurrence_3: expected a next value of float32, found greater_7 (bool[])"),
    (trace_leaks,
     "add_4 (float32[]): expected to leave the then branch of choice by an output of choice, found it used by "
                  "add_6 outside"),
    (trace_crosses,
     "add_4 (float32[]): expected to leave the then branch of choice by an output of choice, found it used "
                    "by add_6"),
    (abandoned, "add_4 (float32[]): expected a tensor of the network, found one of a trace that was abandoned"),
    (output_in_trace, "output 'y': expected outside of functions under trace, found in the then branch of choice"),
    (used_in_another_function, "choice: expected to be used in the function that made it, found another one"),
]


def test_unknown_kinds() -> None:
    net, _, x, v = network()
    loop = counted(net)
    with pytest.raises(ValueError, match="'stack' is not a valid LoopOutput"):
        loop.output(loop.iterator(v), "stack")
    with pytest.raises(ValueError, match="'until' is not a valid TripLimit"):
        loop.trip_limit(x > 0, "until")


@pytest.mark.parametrize(("refused", "message"), REFUSED, ids=[refused.__name__ for refused, _ in REFUSED])
def test_refused(refused: Callable[[Network, Tensor, Tensor, Tensor], None], message: str) -> None:
    with pytest.raises(circlet.ModelError, match=re.escape(message)):
        refused(*network())


def strict_shapes(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.conditional(flag, name="choice").output(v, x, name="chosen")


def strict_predicate(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.conditional(flag.reshape(1), name="choice")


def strict_recurrence(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    counted(net).recurrence(v, shape=(-1,), name="state")


def strict_length(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    loop = counted(net)
    loop.output(loop.iterator(v), LoopOutput.CONCATENATE, name="end")


def strict_while(net: Network, flag: Tensor, x: Tensor, v: Tensor) -> None:
    net.while_loop(lambda v: v.sum() < 9, lambda v: net.concat([v, v]), v)


STRICT: list[tuple[Callable[[Network, Tensor, Tensor, Tensor], None], str]] = [
    (strict_shapes, "choice, output chosen: expected branches of one shape, found v (float32[3]) and x (float32[])"),
    (strict_predicate, "choice: the predicate: expected a scalar, found reshape_4 (bool[1])"),
    (strict_recurrence, "walk, state: expected one shape in all iterations, found (-1,)"),
    (strict_length, "walk, output end: expected the length of the new axis, found none"),
    (strict_while, "while_loop: expected carried values that keep their shapes, found [(3,)] and then [(-1,)]"),
]


@pytest.mark.parametrize(("refused", "message"), STRICT, ids=[refused.__name__ for refused, _ in STRICT])
def test_refused_if_strict(refused: Callable[[Network, Tensor, Tensor, Tensor], None], message: str) -> None:
    refused(*network())
    with pytest.raises(circlet.ModelError, match=re.escape(message)):
        refused(*network(strict=True))


TRAPS: list[tuple[str, Callable[[Tensor], object], str]] = [
    ("if", lambda v: 1 if v.sum() > 0 else 2, "has no truth value while the network is built: branch with net.cond"),
    ("chained", lambda v: 0 < v[0] < 1, "has no truth value"),
    ("and", lambda v: v[0] > 0 and v[1] > 0, "has no truth value"),
    ("numpy", lambda v: np.asarray(v), "apply the functions of the network, not those of numpy"),
    ("range", lambda v: range(v[0]), "has no value while the network is built"),
    ("len", lambda v: len(v[0]), "has no length that is known while the network is built"),
    ("iterate", lambda v: list(v.reshape(net_size(v))), "iterate with net.loop() and loop.iterator"),
]


def net_size(v: Tensor) -> Tensor:
    return v.graph.tensor([1]).astype(np.int32) * v.argmax(0)


@pytest.mark.parametrize(("trap", "message"), [case[1:] for case in TRAPS], ids=[case[0] for case in TRAPS])
def test_what_needs_a_value_explains_itself(trap: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        trap(network()[3])
