"""Operators like one that was written before, as the layers of a network have them: its function is called again.

What an operator is written to hangs on what its rule is given: the operator, types and shapes of its tensors, which of
them lie in the same memory, values of constants. All that is its *likeness*. Constants that rules promise not to look
at are left out of it, which is what makes layers alike; what a rule makes of such a constant is made of the other one
too. Open lengths may be others as well, as at another level of a pyramid, where all that was computed of them and asked
of them while the function was written is the same of the others: it is given these then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TypeAlias, cast

from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.emit.outlined import begun, lasts
from circlet.backends.native.emit.value import Value, in_memory
from circlet.backends.native.lower.alike.likeness import apart, likeness, numbered
from circlet.backends.native.lower.alike.trace import Derivation, Trace
from circlet.backends.native.lower.function import FunctionLowering
from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.parts import Site
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.asked import Asked
from circlet.runtime.ir.length import is_late, is_length, made, may_differ, terms_of
from circlet.runtime.ir.terms import Terms
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass, replace

MOST_TRIED = 4
"""Functions that differ in what was answered of open lengths, of which each is tried with others: a choice, as more are
of many operators that differ."""
Origin: TypeAlias = Callable[[OperatorLowering], ir.Value]
"""What stands for a value that a function reads of the one around it, for an operator like that it was written for."""


@dataclass(frozen=True, eq=False)
class Open:
    """What there is to know of the function of an operator for one that is alike but for open lengths."""

    asked: Asked
    """What was computed of the lengths, and asked of them."""
    registers: Mapping[ir.Value, Terms]
    """What it reads of the function around it that are lengths."""
    captured: tuple[tuple[int, ir.Value], ...]
    """All that it reads there, by the word where it is."""
    tops: Sequence[int]
    """Up to where it uses the arena."""
    scratch: int
    """How much memory each participant of a team needs for it."""


@dataclass(frozen=True, eq=False)
class Written:
    """The function of an operator."""

    function: ir.Function | None
    """None where there was nothing to write."""
    context: ir.Value
    """What it reads of the function around it."""
    read: tuple[tuple[int, Origin], ...]
    """What of that is another for others, by the word where it is."""
    may_fail: bool
    called: int
    """How many instructions it counts as; see `Meter.again`."""
    cost: int
    work: int
    top: int | None
    """How much of the arena was in use; None where that does not matter."""
    callees: tuple[str, ...]
    """What is called for it, itself among them."""
    sites: Sequence[Site]
    """Where it can fail."""
    parts: tuple[int, ...]
    """The operators that it computes, which `sites` name; see `_parts`."""
    inputs: tuple[Value | None, ...]
    """Of the operator, whose constants are told from others by where they lie, so that these must stay."""
    open: Open | None = None
    """None where it is for these lengths alone."""


class Repeats:
    """The operators that one function has been written for, by what makes others like them."""

    def __init__(self, function: FunctionLowering) -> None:
        self._function = function
        self._found: dict[Hashable, list[Written]] = {}
        self._open: dict[Hashable, list[Written]] = {}
        """The same by what makes others like them but for open lengths."""
        self._once: set[Hashable] = set()
        """What makes others like those that were written with small constants in the code, but for these."""

    def lowered(self, o: OperatorLowering, write: Callable[[OperatorLowering], Sequence[Value]],
                alike: Hashable | None = None) -> Sequence[Value]:
        """The results of an operator: of one like it that was written before, or of what is written now. What makes
        others like it is what rules are given, unless it is said."""
        is_said = alike is not None
        if not is_said and self._function.repeats and o.is_apart:
            alike = likeness(o)
        if alike is None:
            return write(o)
        o = o.with_homes() if o.is_apart else o
        top = self._function.top
        found = self._fitting(alike)
        if found is None and not is_said:
            o, alike = self._with_constants(o, alike)
            found = self._fitting(alike)
        if found is not None:
            return self._again(o, found)
        scope = o.spec.scope
        numbers, lengths = ((), ()) if scope is None else numbered(alike, scope)
        if scope is None or not lengths:
            return self._written(o, alike, None, write)
        if is_length(top):  # of a scope of its own, in which the memory was planned
            self._function.top = cast(int, made(scope, terms_of(top)))
        numbers, given = (numbers, is_length(top)), (*lengths, *([terms_of(top)] if is_length(top) else ()))
        for each in self._open.get(numbers, ())[-MOST_TRIED:]:
            other = self._with_lengths(o, each, given) if is_length(top) or _fits(each, top) else None
            if other is not None:
                self._found.setdefault(alike, []).append(other)
                return self._called(o, other, ())
        asked, before = Asked(given), len(self._found.get(alike, ()))
        results = self._written(o, alike, asked, write)
        self._open.setdefault(numbers, []).extend(
            each for each in self._found.get(alike, ())[before:] if each.open is not None)
        return results

    def _fitting(self, alike: Hashable) -> Written | None:
        """What was written for an operator like one, at as much of the arena in use."""
        return next((each for each in self._found.get(alike, ()) if _fits(each, self._function.top)), None)

    def _with_constants(self, o: OperatorLowering, alike: Hashable) -> tuple[OperatorLowering, Hashable]:
        """An operator and what makes others like it: with small constants in memory, if it differs from one that was
        written in nothing but these."""
        tried = apart(o, lambda array: ir.Constant(I64, array.ctypes.data))
        found = None if tried is None else likeness(tried)
        other = apart(o, self._function.external) if found is not None and found in self._once else None
        self._once.add(found)
        return (o, alike) if other is None else (other, found)

    def _again(self, o: OperatorLowering, found: Written) -> Sequence[Value]:
        """Calls the function of an operator for one like it, of the same lengths."""
        return self._called(o, found, [(word, origin(o)) for word, origin in found.read])

    def _called(self, o: OperatorLowering, found: Written, read: Sequence[tuple[int, ir.Value]]) -> Sequence[Value]:
        """Calls the function of an operator for one like it, given what is another for that."""
        function, e = self._function, self._function.e
        function.note(o.describe())
        if found.function is not None:
            function.call_again(found.function, found.context, read, found.may_fail, _moved(found, o))
        for each in found.callees:
            e.callers[each][e.label] = None
        if e.meter is not None:
            e.meter.again(found.called, found.cost, found.work)
        return o.read_again(_in_homes(o))

    def _with_lengths(self, o: OperatorLowering, found: Written, given: Sequence[Terms]) -> Written | None:
        """The function of an operator with a context of an operator that has other open lengths; None where it is not
        that of this one."""
        function, scope, of = self._function, o.spec.scope, found.open
        assert scope is not None, "there are open lengths"
        assert of is not None, "it is known what was asked of them"
        instead = of.asked.others(given)
        if instead is None:
            return None

        def other(value: int) -> int:
            return cast(int, made(scope, instead[terms_of(value)])) if is_length(value) else value

        read: list[tuple[int, ir.Value]] = []
        origins = dict(found.read)
        for word, value in of.captured:
            if value in of.registers:
                length = cast(int, made(scope, instead[of.registers[value]]))
                origins[word] = partial(_length, length=length)
                read.append((word, function.e.number(length)))
                if not is_late(length):
                    del origins[word]
            else:
                read.append((word, origins[word](o) if word in origins else value))
        function.take(list(map(other, of.tops)), 0, other(of.scratch))
        context = found.context if found.function is None else begun(function.e, read, o.subgraphs.loops > 0)
        return replace(found, context=context, read=tuple(origins.items()), work=other(found.work), inputs=o.inputs,
                       top=None if found.top is None else function.top, parts=_parts(o), sites=_moved(found, o),
                       open=None)

    def _written(self, o: OperatorLowering, alike: Hashable, asked: Asked | None,
                 write: Callable[[OperatorLowering], Sequence[Value]]) -> Sequence[Value]:
        """Writes an operator, and remembers it if others can be computed by the same function."""
        function, e = self._function, self._function.e
        top, called, cost = function.top, e.called, _cost(e)
        with function.traced(asked, o.spec.scope) as trace:
            results = write(o)
        outlined = trace.outlined
        parts = _parts(o)
        is_own = all(each.place.subgraph == o.place.subgraph and each.place.operator in parts for each in trace.sites)
        if outlined is None or not trace.is_alone or not is_own or not all(map(_is_given, results, _in_homes(o))):
            return results
        read = {word: _origin(o, trace, value) for word, value in outlined.captured}
        own = {word for word, value in outlined.captured if read[word] is None and (
            value in trace.derivations or value in trace.made or not lasts(e.function, value))}
        if not own:
            self._found.setdefault(alike, []).append(Written(
                outlined.function if outlined.is_called else None, outlined.context,
                tuple((word, origin) for word, origin in read.items() if origin is not None), outlined.may_fail,
                e.called - called, _cost(e) - cost, trace.work, top if trace.tops else None,
                tuple(name for name, users in e.callers.items() if e.label in users), trace.sites, parts, o.inputs,
                _open(trace, outlined.captured, e.function)))
        return results


def _fits(found: Written, top: int) -> bool:
    """Whether a function is one for as much of the arena in use."""
    return found.top is None or not may_differ(found.top, top)


def _open(trace: Trace, captured: Sequence[tuple[int, ir.Value]], around: ir.Function) -> Open | None:
    """What there is to know of a function for other open lengths; None where it cannot be for others: what it was
    written to hangs on more than was given, or it computes lengths itself."""
    asked, registers = trace.asked, {value: trace.lengths[value] for _, value in captured if value in trace.lengths}
    if asked is None or not asked.is_whole or not all(map(asked.knows, (*registers.values(), *(
            terms_of(each) for each in (*trace.tops, trace.work, trace.scratch) if is_length(each))))) or any(
            isinstance(value, ir.Instruction) and value.function is not around for value in trace.lengths):
        return None
    return Open(asked, registers, tuple(captured), tuple(trace.tops), trace.scratch)


def _length(o: OperatorLowering, length: int) -> ir.Value:
    """A length, which may hang on what the function computes."""
    return o.function.e.number(length)


def _parts(o: OperatorLowering) -> tuple[int, ...]:
    """The operator, and those of a group, by their numbers in the subgraph; of operators alike the same in turn."""
    op = o.operator.op
    return (o.place.operator, *(op.parts() if isinstance(op, Fused) else ()))


def _moved(found: Written, o: OperatorLowering) -> list[Site]:
    """Where an operator can fail that is like one which was written; those that cannot may have other parts."""
    if not found.sites:
        return []
    numbers = dict(zip(found.parts, _parts(o), strict=True))
    return [replace(each, place=replace(o.place, operator=numbers[each.place.operator],
                                        operator_name=each.place.operator_name)) for each in found.sites]


def _in_homes(o: OperatorLowering) -> Sequence[Value]:
    """The results of an operator, where its function leaves them."""
    tensors = o.spec.subgraph.tensors
    return [in_memory(home, shape, tensors[each].dtype)
            for each, shape, home in zip(o.operator.outputs, o.shapes, o.homes, strict=True)]


def _is_given(result: Value, home: Value) -> bool:
    """Whether a result is what lies in its home, or a number that was read from there, and nothing else is known."""
    lies = result.memory is not None and result.memory is home.memory
    return ((lies or result.register is not None) and result.shape == home.shape and result.dtype is home.dtype
            and result.known is None and result.quantization is None)


def _origin(o: OperatorLowering, trace: Trace, value: ir.Value) -> Origin | None:
    """Where a value comes from that the function of an operator reads; None if it is no operand's, and nothing that
    follows from one."""
    for k, each in enumerate(o.inputs):
        if each is not None and each.holder is value:
            return partial(_given, position=k)
    for k, home in enumerate(o.homes):
        if home is value:
            return partial(_home, position=k)
    if value in trace.derivations:
        return _derived(o, trace.derivations[value])
    if value in trace.made:
        return _of_call(o, *trace.made[value])
    late = None if o.function.e.lengths is None else o.function.e.lengths.late(value)
    return None if late is None else lambda other: late(other.function.e.builder)


def _derived(o: OperatorLowering, found: Derivation) -> Origin | None:
    """The address of what is made of the same input of another operator."""
    for k, each in enumerate(o.inputs):
        if each is not None and each.known is not None and _is_all_of(found.source, each.known):
            return partial(_made, position=k, of=found)
    return None


def _given(o: OperatorLowering, position: int) -> ir.Value:
    """Where an input lies, or the register that holds it."""
    value = o.inputs[position]
    assert value is not None, "operators are alike in which inputs they have"
    assert value.holder is not None, "and in which of them lie in memory, and in registers"
    return value.holder


def _home(o: OperatorLowering, position: int) -> ir.Value:
    """Where a result must lie."""
    home = o.homes[position]
    assert home is not None, "it lies in memory, as the function may be one of its own"
    return home


def _made(o: OperatorLowering, position: int, of: Derivation) -> ir.Value:
    """The address of what is made of a constant."""
    value, function = o.inputs[position], o.function
    assert value is not None, "operators are alike in which inputs they have"
    assert value.known is not None, "and in which of them are constants"
    return function.external(function.derived(value.known.reshape(of.source.shape), of.use, of.make))


def _of_call(o: OperatorLowering, call: Call, make: Callable[[Call], Array]) -> Origin | None:
    """The address of what is made of another operator, or of the same one of another group."""
    for k, each in enumerate(_calls(o)):
        if each.op is call.op and each.place == call.place:
            return partial(_made_of_call, position=k, make=make)
    return None


def _calls(o: OperatorLowering) -> Sequence[Call]:
    """The operator, and those of a group, each as its rule is given it."""
    op = o.operator.op
    return (o.known_call(), *(op.calls_at(o.place) if isinstance(op, Fused) else ()))


def _made_of_call(o: OperatorLowering, position: int, make: Callable[[Call], Array]) -> ir.Value:
    """The address of what is made of an operator."""
    return o.function.external(make(_calls(o)[position]))


def _is_all_of(source: Array, known: Array) -> bool:
    """Whether an array is a constant, perhaps of another shape."""
    return (source.ctypes.data == known.ctypes.data and source.nbytes == known.nbytes > 0
            and source.dtype == known.dtype and source.flags.c_contiguous and known.flags.c_contiguous)


def _cost(e: Emitter) -> int:
    """What the function has cost so far."""
    return 0 if e.meter is None else e.meter.pending
