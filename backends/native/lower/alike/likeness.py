"""What two operators have in common that are written alike: all that rules are given but some constants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import is_real
from circlet.backends.native.emit.value import Value, in_memory, of_one
from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.program import EMBEDDED_BYTES
from circlet.backends.native.rules.rule import Rule, rule_of
from circlet.backends.native.targets.target import Target
from circlet.runtime.errors import CircletError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import Length, Scope
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.terms import Terms
from circlet.runtime.ir.types import Array, DType, Quantization
from circlet.runtime.passes.analyses.specialize import is_open_value
from circlet.runtime.records import dataclass, replace

_NUMBERED = "length"
"""What is in the place of open lengths, before a number."""


class _Own(Exception):
    """An operator is like no other."""


@dataclass(frozen=True, eq=False)
class _Member:
    """The operator, or one of a group."""

    operator: Operator
    call: Call

    @cached_property
    def rule(self) -> Rule[Op]:
        """What it is written by.

        Raises:
            _Own: the host computes it.
        """
        found = rule_of(self.call)
        if not isinstance(found, Rule):
            raise _Own
        return found

    @cached_property
    def quantization(self) -> tuple[Quantization | None, ...]:
        """Of its tensors."""
        return tuple(None if each is None else each.quantization for each in (*self.call.inputs, *self.call.outputs))

    @property
    def is_quantized(self) -> bool:
        """Whether any of them is quantised."""
        return any(each is not None for each in self.quantization)

    @property
    def makes_all(self) -> bool:
        """Whether its rule reads nothing of opaque inputs but what it makes of them, not the elements."""
        return self.is_quantized and self.rule.quantized_as is not None and self.rule.fused is None

    def is_opaque(self, tensor: int) -> bool:
        """Whether the value of a constant among its inputs has no part in the code."""
        return all(k in self.rule.opaque for k, each in enumerate(self.operator.inputs) if each == tensor)


def likeness(o: OperatorLowering) -> Hashable | None:
    """All that decides what an operator becomes; None if that is more than is looked at here."""
    told = o.spec.told.values
    if any(each in told for each in o.operator.inputs) or any(map(o.function.e.is_undefined, chain(*o.shapes))):
        return None
    members = _members(o)
    try:
        found = (_operator(o, members), o.shapes, _places(o), id(o.function.e.function), tuple(
            None if each is None else _value(o, members, tensor, each)
            for tensor, each in zip(_sources(o), o.inputs, strict=True)))
        hash(found)
    except (_Own, TypeError):
        return None
    return found


def numbered(found: Hashable, scope: Scope) -> tuple[Hashable, tuple[Terms, ...]]:
    """A likeness with numbers for its open lengths, in the order in which they appear, and these; none where some are
    of another scope."""
    lengths: dict[Terms, int] = {}
    others: list[bool] = []

    def inner(each: Hashable) -> Hashable:
        if isinstance(each, Length):
            others.append(each.scope is not scope)
            return _NUMBERED, lengths.setdefault(each.terms, len(lengths))
        return tuple(map(inner, each)) if isinstance(each, tuple) else each

    numbers = inner(found)
    return numbers, () if any(others) else tuple(lengths)


def _operator(o: OperatorLowering, members: Sequence[_Member]) -> Hashable:
    """The operator, or those of a group, and their tensors, numbered as they appear."""
    op, tensors = o.operator.op, o.spec.subgraph.tensors
    numbers: dict[int, int] = {ABSENT: ABSENT}
    for each in (*_sources(o), *(tensor for member in members for tensor in (
            *member.operator.inputs, *member.operator.outputs))):
        numbers.setdefault(each, len(numbers))
    kinds = tuple(_tensor(tensors[each]) for each in numbers if each != ABSENT)
    return (type(op), op.overwritten if isinstance(op, Fused) else None, tuple(numbers[each] for each in _sources(o)),
            tuple((_member(each.operator, numbers), _quantized(each, o.function.e.target)) for each in members), kinds)


def _sources(o: OperatorLowering) -> tuple[int, ...]:
    """The tensors that the inputs are."""
    op = o.operator.op
    return op.sources if isinstance(op, Fused) else o.operator.inputs


def _members(o: OperatorLowering) -> Sequence[_Member]:
    """The operator, or those of a group."""
    op = o.operator.op
    operators = [each.operator for each in op.members] if isinstance(op, Fused) else [o.operator]
    return [_Member(each, Call.of(o.spec.subgraph, each, o.place)) for each in operators]


def _member(operator: Operator, numbers: dict[int, int]) -> Hashable:
    """An operator. What it is called too, since numbers that are equal may still differ, as 0.0 and -0.0 do."""
    if operator.intermediates:
        raise _Own
    return (operator.op, repr(operator.op), operator.version, operator.custom_options,
            *(tuple(numbers[each] for each in tensors) for tensors in (operator.inputs, operator.outputs)))


def _quantized(member: _Member, target: Target) -> Hashable:
    """How the tensors of an operator are quantised, or what of that its rule looks at."""
    if not member.is_quantized:
        return None
    looks = member.rule.quantized_as
    try:
        return member.rule.name, member.quantization if looks is None else looks(member.call, target)
    except CircletError:  # the rule says where
        raise _Own from None


def _tensor(tensor: Tensor) -> Hashable:
    """A tensor as it is declared, but for how it is quantised."""
    if tensor.sparsity is not None or tensor.held is not None:
        raise _Own
    return (tensor.dtype, tensor.shape, tensor.shape_signature, tensor.has_rank, tensor.is_constant,
            tensor.is_variable)


def _places(o: OperatorLowering) -> Hashable:
    """Which tensors lie in the same memory, or are in the same register."""
    numbers: dict[ir.Value | None, int] = {None: -1}
    places = [*(None if each is None else each.holder for each in o.inputs), *o.homes]
    return tuple(numbers.setdefault(each, len(numbers)) for each in places)


def _value(o: OperatorLowering, members: Sequence[_Member], tensor: int, value: Value) -> Hashable:
    """What is known of an input."""
    array = value.known
    if value.quantization is not None:
        raise _Own
    if array is None:
        if value.holder is None:
            raise _Own
        return value.shape, value.dtype, value.memory is None
    if is_open_value(array):
        return value.shape, value.dtype, tuple(array.reshape(-1).tolist())
    if array.dtype.hasobject:
        raise _Own
    readers = [each for each in members if tensor in each.operator.inputs]
    lies = (value.shape, value.dtype, array.dtype.str, array.shape, array.strides)
    is_opaque = _is_opaque(readers, tensor)
    is_made_of = is_opaque and all(each.makes_all for each in readers)
    if array.nbytes <= EMBEDDED_BYTES and not is_made_of and not _is_external(value):
        return *lies, array.tobytes()
    if array.flags.c_contiguous and is_opaque:
        is_plain = is_made_of or not is_real(value.dtype)
        return (*lies, is_plain or bool(np.isfinite(array).all()), not is_plain and o.function.are_halves(array),
                None if is_plain else _compressed(o, array))
    return *lies, array.ctypes.data


def apart(o: OperatorLowering, lying: Callable[[Array], ir.Value]) -> OperatorLowering | None:
    """The operator with small constants in memory, as larger ones are, where their values have no part in the code;
    None if it has none. Integers stay: what divides and multiplies by one that is known is faster.

    Args:
        o: the operator.
        lying: says where a constant lies.
    """
    members = _members(o)
    inputs = tuple(
        _apart(each, lying) if each is not None and _is_small(each) and _is_opaque(members, tensor) else each
        for tensor, each in zip(_sources(o), o.inputs, strict=True))
    is_same = all(one is other for one, other in zip(inputs, o.inputs, strict=True))
    return None if is_same else replace(o, inputs=inputs)


def _is_small(value: Value) -> bool:
    """Whether it is a constant of real numbers that the code has."""
    array = value.known
    return (array is not None and value.dtype is DType.FLOAT32 and value.quantization is None
            and not _is_external(value) and 0 < array.nbytes <= EMBEDDED_BYTES and array.flags.c_contiguous)


def _apart(value: Value, lying: Callable[[Array], ir.Value]) -> Value:
    """A constant that the code has, in memory."""
    assert value.known is not None, "it is a constant"
    found = of_one if value.known.size == 1 else in_memory
    return found(lying(value.known), value.shape, value.dtype, value.known)


def _is_opaque(members: Sequence[_Member], tensor: int) -> bool:
    """Whether the value of a constant has no part in the code of any member."""
    return all(each.is_opaque(tensor) for each in members if tensor in each.operator.inputs)


def _is_external(value: Value) -> bool:
    """Whether a constant lies outside the code."""
    return value.memory is not None and not isinstance(value.memory, ir.GlobalVariable)


def _compressed(o: OperatorLowering, array: Array) -> Hashable:
    """What code takes up of what a constant is made of."""
    found = o.function.compressed(array)
    return None if found is None else (found.bits, found.stored.dtype.str, found.scales.shape, found.shifts)
