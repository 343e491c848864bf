"""Emits subgraphs into a native function: decides where each tensor is, and lowers the operators in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import cast

import numpy as np
from llvmlite import ir

from circlet.backends.native.compilation import Abandoned, Wish
from circlet.backends.native.emit.emitter import in_register_alone
from circlet.backends.native.emit.value import Value, in_memory, in_register, is_copied
from circlet.backends.native.lower.alike.moved import Moved
from circlet.backends.native.lower.alike.repeats import Repeats
from circlet.backends.native.lower.budget import MOST_BESIDE, MOST_INSIDE, Growth, Sizes
from circlet.backends.native.lower.controlflow import CONTROL_FLOW, refuses, taken
from circlet.backends.native.lower.function import FunctionLowering
from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.lower.groups import GroupLowering
from circlet.backends.native.lower.host import lower_host_call
from circlet.backends.native.lower.lent import lent
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.parts import COUNTED_COPIES, Variable
from circlet.backends.native.program import RuleError, Unlowerable
from circlet.backends.native.rules.dequantized import dequantized, of_integers
from circlet.backends.native.rules.moving.move import extended
from circlet.backends.native.rules.narrow import Narrow
from circlet.backends.native.rules.rule import Rule
from circlet.backends.native.targets.target import Goal
from circlet.runtime.errors import CircletError, LimitError, Place
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.faults import raise_located
from circlet.runtime.ir.length import Indefinite, Scope, bound, lowest, made
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import Op, Skip
from circlet.runtime.ir.premises import ToldApart
from circlet.runtime.ir.terms import Terms
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.compressed import LEAST, Compression
from circlet.runtime.passes.analyses.elide_copies import given
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.passes.analyses.told import parts_of
from circlet.runtime.records import replace


class SubgraphLowering:
    """Subgraphs on their way into one function."""

    def __init__(self, function: FunctionLowering, executors: ExecutorMap, wish: Wish | None = None,
                 written: Callable[[], None] | None = None, scope: Scope | None = None, beside: int = 0) -> None:
        """
        Args:
            function: that they become.
            executors: the model.
            wish: may be withdrawn.
            written: is called after each operator, when all functions are complete but for that one.
            scope: of the lengths that differ from run to run, where there are any.
            beside: how many operators the function has beside a loop of the model.
        """
        self._scope = scope
        self._expected: set[Terms] = set()
        """What was taken to be 0 and is looked at."""
        self._function = function
        self._wish = wish or Wish()
        self._written = written
        self._growth = Growth()
        self._repeats = Repeats(function)
        self.executors = executors
        self.writes_loops_apart = beside > MOST_BESIDE
        self.loops = 0
        """How many loops of the model are around what is being written."""
        self.undivided = 0
        """How many of these have bodies whose operators are no functions of their own."""
        self.refused: dict[Specialization, str | None] = {}
        """Why subgraphs cannot be native code, as far as that was asked; None where they can."""

    @contextmanager
    def in_loop(self, op: Op | None = None) -> Iterator[None]:
        """What is written inside is done in every turn of a loop of the model; of an operator, if it is what that
        invokes."""
        is_divided = op is not None and self.divides(op)
        self.loops += 1
        self.undivided += not is_divided
        try:
            yield
        finally:
            self.loops -= 1
            self.undivided -= not is_divided

    def divides(self, op: Op) -> bool:
        """Whether the operators that a loop invokes may be functions of their own."""
        return self.undivided == 0 and Sizes(self.executors.model).invoked(op) > MOST_INSIDE

    def invoke(self, index: int, inputs: Sequence[Value], homes: Sequence[ir.Value | None],
               destroyable: frozenset[int], shapes: tuple[Shape, ...], is_turn: bool = False) -> list[Value]:
        """Emits a subgraph in place.

        Args:
            index: which.
            inputs: its inputs.
            homes: where each output must lie; None leaves that to the subgraph.
            destroyable: the inputs whose memory it may overwrite.
            shapes: those of the inputs, and what is known of their values.
            is_turn: it is the body of a loop, whose inputs lie where there is room for what it makes of them.
        """
        self._function.count(COUNTED_COPIES + index, 1)
        spec = self.executors.specializer.within(index, shapes, self._scope)
        if not spec.is_static:
            raise Unlowerable(f"subgraph {index} has shapes that are known only when it runs")
        span = range(len(spec.subgraph.operators))
        aliases = self.executors.planner.aliases(spec, span, destroyable, is_turn)
        tensors = spec.subgraph.tensors
        values = {tensor: self._function.constant(spec.known[tensor], tensors[tensor].dtype) if tensor in spec.known
                  else value for tensor, value in zip(spec.subgraph.inputs, inputs, strict=True)}
        places: dict[int, ir.Value] = {
            aliases.root(tensor): each.memory for tensor, each in zip(spec.subgraph.inputs, inputs, strict=True)
            if each.memory is not None and not in_register_alone(each.size, each.dtype)
        }
        for tensor, home in zip(spec.subgraph.outputs, homes, strict=True):
            if home is not None and aliases.root(tensor) not in places and tensor not in spec.known:
                places[aliases.root(tensor)] = home
        with self._function.scope():
            with self._function.times.subgraph(index):
                self.arrange(spec, span, aliases, places)
                self.emit(spec, span, aliases, values, places)
            return [self._delivered(self._tensor(spec, values, tensor), home)
                    for tensor, home in zip(spec.subgraph.outputs, homes, strict=True)]

    def _delivered(self, value: Value, home: ir.Value | None) -> Value:
        """The value at its home; a number is read from where it was, as its home may be for the caller alone."""
        if home is None or value.memory is home:
            return value
        self.transfer(value, home)
        if in_register_alone(value.size, value.dtype):
            return in_register(value.scalar(self._function.e), value.shape, value.dtype)
        return in_memory(home, value.shape, value.dtype)

    def transfer(self, value: Value, home: ir.Value) -> None:
        """Brings a tensor across the border of a subgraph; that is a copy where it lies in memory already."""
        if not is_copied(value, home):
            self._function.write(value, home)
            return
        self._function.count(0, 1)
        self._function.count(1, value.nbytes)
        with self._function.times.copy(self._function.e.number(value.nbytes)):
            self._function.write(value, home)

    def arrange(self, spec: Specialization, span: range, aliases: Aliases, places: dict[int, ir.Value]) -> None:
        """Gives every class of tensors that needs memory and has none a part of the arena, but for those that are read
        where variables hold them."""
        subgraph = spec.subgraph
        written = (each for number in span for each in subgraph.operators[number].outputs if each not in spec.known)
        borrowed = lent(self.executors.model, spec, span, aliases)
        wanted = dict.fromkeys(aliases.root(each) for each in written if aliases.root(each) not in (*places, *borrowed)
                               and not in_register_alone(prod(spec.shape(each)), subgraph.tensors[each].dtype))
        places.update(self._function.arrange(aliases, wanted))

    def _tensor(self, spec: Specialization, values: dict[int, Value], tensor: int) -> Value:
        """A tensor of a subgraph."""
        if tensor in values:
            return values[tensor]
        declared = spec.subgraph.tensors[tensor]
        if tensor in spec.known:
            value = self._function.constant(spec.known[tensor], declared.dtype)
            is_packed = declared.data is not None and not declared.dtype.is_computable
            return replace(value, shape=declared.shape) if is_packed else value
        if not declared.is_variable:
            raise Unlowerable(f"tensor {spec.subgraph.tensor_label(tensor)} of subgraph {spec.index} is no number")
        array = self._function.variables.tensor(spec.index, tensor, declared)
        memory = self._function.external(array, Variable(spec.index, tensor))
        values[tensor] = in_memory(memory, array.shape, declared.dtype)
        return values[tensor]

    def _kept(self, spec: Specialization, operator: Operator) -> Iterator[tuple[int, Value]]:
        """The result of an operator on constants that is computed as it is read, since what it is made of is narrower:
        of DEQUANTIZE, where constants are to be small."""
        if self._function.e.target.goal is Goal.HERE or not isinstance(operator.op, Dequantize):
            return
        found, (result,) = Narrow.of(spec.subgraph.tensors[operator.inputs[0]]), operator.outputs
        known = spec.known[result]
        if found is not None and known.size > 1 and found.values.tobytes() == np.ascontiguousarray(known).tobytes():
            self._function.keep_narrow(known, found)
            yield result, dequantized(self._function, found, known)

    def _keep_origins(self, spec: Specialization, operator: Operator, compression: Compression) -> None:
        """Says how to find out what the results of an operator on constants are made of."""
        for each in operator.outputs:
            if spec.known[each].nbytes >= LEAST and spec.known[each].dtype == np.float32 and compression.is_large:
                self._function.keep_origin(spec.known[each], partial(compression.of, each))

    def _of_integers(self, spec: Specialization, operator: Operator, tensor: int) -> Value | None:
        """A constant that is computed of integers as it is read, since an operator reads some rows of it alone."""
        known, function = spec.known.get(tensor), self._function
        if known is None or known.nbytes < LEAST or function.e.target.goal is not Goal.HERE or any(
                tensor in inputs and not (isinstance(op, Gather) and tensor not in inputs[1:])
                for op, inputs, _ in operator.op.joined() or [(operator.op, operator.inputs, ())]):
            return None
        found = function.compressed(known)
        return None if found is None else of_integers(function, found, known)

    def emit(self, spec: Specialization, span: range, aliases: Aliases, values: dict[int, Value],
             places: Mapping[int, ir.Value]) -> None:
        """Emits operators in order; adds their results to `values`."""
        told, compression = spec.told.roots, Compression(spec)
        self._tell(told, values, [each for each in told if each in values])
        for number in span:
            self._wish.check()
            operator = spec.subgraph.operators[number]
            is_known = operator.outputs and all(each in spec.known for each in operator.outputs)
            if isinstance(operator.op, Skip):
                continue
            if is_known:
                values.update(self._kept(spec, operator))
                self._keep_origins(spec, operator, compression)
                continue
            inputs = tuple(None if each == ABSENT else self._of_integers(spec, operator, each)
                           or self._tensor(spec, values, each) for each in operator.inputs)
            homes = tuple(places.get(aliases.root(each)) for each in operator.outputs)
            place = Place(spec.index, spec.subgraph.name, number, operator.name)
            lowering = OperatorLowering(self._function, self, spec, number, operator, inputs, homes, place)
            with (self._function.operator(place, lowering.name),
                  self._function.times.operator(spec.index, number)):
                for tensor, value in zip(operator.outputs, _located(self._results, lowering), strict=True):
                    values[tensor] = value
                self._tell(told, values, [each for each in operator.outputs if each in told])
                self._expect_promised()
                self._growth.expect_room(self._function.e.function)
            if self._written is not None and not self._function.is_apart:
                self._written()

    def _results(self, lowering: OperatorLowering) -> Sequence[Value]:
        """The results of an operator."""
        moved = Moved.of(lowering)
        if moved is None:
            return self._repeats.lowered(lowering, _lower)
        return self._repeats.lowered(moved.lowering, partial(_move, moved), moved.alike)

    def _tell(self, told: Mapping[int, Array], values: Mapping[int, Value], tensors: Sequence[int]) -> None:
        """Says what lengths are that tensors hold; leaves where they cannot be, or there is no room for them."""
        function = self._function
        e = function.e
        for tensor in tensors:
            value = values[tensor]
            for position, length in enumerate(told[tensor].reshape(-1).tolist()):
                if length is None:  # it follows from others
                    continue
                number = extended(e, value.linear(e, e.number(position)), value.dtype)
                parts = parts_of(length)
                for part, sign in parts:
                    each = number if sign > 0 else e.builder.neg(number)
                    each = each if len(parts) == 1 else e.intrinsic("smax", each, e.number(0))
                    self._expect_told(each, part)
                    e.define(part, each)

    def _expect_told(self, number: ir.Value, length: int) -> None:
        """Leaves where a number is none that a length may be, or there is no room for it."""
        function, e, least = self._function, self._function.e, lowest(length)
        if least >= 0:
            function.expect_capacity(number, bound(length), least)
            return
        b = e.builder
        function.leave_where(b.or_(b.icmp_signed("<", number, e.number(least)),
                                   b.icmp_signed(">", number, e.number(bound(length)))))

    def _expect_promised(self) -> None:
        """Leaves a run to a frame for any values where sizes are known by now that were taken to be equal, and are
        not."""
        e, scope = self._function.e, self._scope
        if scope is None:
            return
        for terms in scope.promised.terms:
            if terms not in self._expected and e.is_told(terms):
                self._expected.add(terms)
                differs = e.builder.icmp_signed("!=", e.number(cast(int, made(scope, terms))), e.number(0))
                self._function.leave_where(differs)


def _located(make: Callable[[OperatorLowering], Sequence[Value]], lowering: OperatorLowering) -> Sequence[Value]:
    """What is made of an operator.

    Raises:
        LimitError: there is not memory enough.
        Unlowerable: its rule says that it cannot be computed, which numpy does too when it is reached, or needs a
            number that differs from run to run.
        RuleError: its rule failed.
    """
    try:
        return make(lowering)
    except (Abandoned, ToldApart, Unlowerable, RecursionError):
        raise
    except (LimitError, MemoryError) as error:
        raise_located(error, lowering.place)
    except (CircletError, Indefinite) as error:
        raise Unlowerable(f"{lowering.place}: {error}") from error
    except Exception as error:
        raise RuleError(lowering.place, error) from error


def _lower(o: OperatorLowering) -> Sequence[Value]:
    """Emits an operator; gives its results."""
    op, o = o.operator.op, o.with_told()
    if isinstance(op, Fused):
        o.function.note(o.describe())
        return _apart(o, lambda o: (GroupLowering(o, op).lower(),))
    rule: Rule[Op] | str
    if type(op) in CONTROL_FLOW:
        refused = refuses(o.subgraphs.executors, taken(o.spec, o.operator), given(o.spec, o.operator), o.spec.scope,
                          o.subgraphs.refused)
        if refused is None:
            lower = CONTROL_FLOW[type(op)]
            return _apart(o, lower) if o.is_loop_apart else lower(o)
        rule = refused
    else:
        rule = o.rule()
    if isinstance(rule, str):
        o.function.note(f"{o.describe()}  (host call: {rule})")
        return lower_host_call(o, rule)
    o.function.note(o.describe())
    return _apart(o, lambda o: o.by_rule(rule))


def _move(moved: Moved, o: OperatorLowering) -> Sequence[Value]:
    """Emits an operator that only moves elements; gives its results."""
    o.function.note(o.describe())
    return _apart(o, moved.write)


def _apart(o: OperatorLowering, write: Callable[[OperatorLowering], Sequence[Value]]) -> Sequence[Value]:
    """Writes an operator to a function of its own, if it may have one; the lengths that it tells, and numbers, are
    taken from memory then."""
    if not (o.is_apart or o.is_loop_apart):
        return write(o)
    o, e = o.with_homes(), o.function.e
    with o.unasked():
        untold = [each for shape in o.shapes for each in shape if e.is_undefined(each)]
    with o.function.apart(o.subgraphs.loops > 0):
        found = write(o)
    for each in untold:
        if not e.is_undefined(each):
            e.recall(each)
    return o.read_again(found)
