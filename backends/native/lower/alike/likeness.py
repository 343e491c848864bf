"""What two operators have in common that are written alike: all that rules are given but some constants."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import is_real
from circlet.backends.native.emit.value import Value
from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.program import EMBEDDED_BYTES
from circlet.backends.native.rules.rule import Rule, rule_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.passes.analyses.specialize import is_open_value


class _Own(Exception):
    """An operator is like no other."""


def likeness(o: OperatorLowering) -> Hashable | None:
    """All that decides what an operator becomes; None if that is more than is looked at here."""
    told = o.spec.told.values
    if any(each in told for each in o.operator.inputs) or any(map(o.function.e.is_undefined, chain(*o.shapes))):
        return None
    try:
        found = (_operator(o), o.shapes, _places(o), id(o.function.e.function),
                 tuple(None if each is None else _value(o, k, each) for k, each in enumerate(o.inputs)))
        hash(found)
    except (_Own, TypeError):
        return None
    return found


def _operator(o: OperatorLowering) -> Hashable:
    """The operator, or those of a group, and their tensors, numbered as they appear."""
    op, tensors = o.operator.op, o.spec.subgraph.tensors
    numbers: dict[int, int] = {ABSENT: ABSENT}
    members = _members(o)
    for each in (*_sources(o), *(tensor for member in members for tensor in (*member.inputs, *member.outputs))):
        numbers.setdefault(each, len(numbers))
    kinds = tuple(_tensor(tensors[each]) for each in numbers if each != ABSENT)
    return (type(op), op.overwritten if isinstance(op, Fused) else None, tuple(numbers[each] for each in _sources(o)),
            tuple(_member(each, numbers) for each in members), kinds)


def _sources(o: OperatorLowering) -> tuple[int, ...]:
    """The tensors that the inputs are."""
    op = o.operator.op
    return op.sources if isinstance(op, Fused) else o.operator.inputs


def _members(o: OperatorLowering) -> list[Operator]:
    """The operator, or those of a group."""
    op = o.operator.op
    return [each.operator for each in op.members] if isinstance(op, Fused) else [o.operator]


def _member(operator: Operator, numbers: dict[int, int]) -> Hashable:
    """An operator. What it is called too, since numbers that are equal may still differ, as 0.0 and -0.0 do."""
    if operator.intermediates:
        raise _Own
    return (operator.op, repr(operator.op), operator.version, operator.custom_options,
            *(tuple(numbers[each] for each in tensors) for tensors in (operator.inputs, operator.outputs)))


def _tensor(tensor: Tensor) -> Hashable:
    """A tensor as it is declared."""
    if tensor.quantization is not None or tensor.sparsity is not None or tensor.held is not None:
        raise _Own
    return (tensor.dtype, tensor.shape, tensor.shape_signature, tensor.has_rank, tensor.is_constant,
            tensor.is_variable)


def _places(o: OperatorLowering) -> Hashable:
    """Which tensors lie in the same memory."""
    numbers: dict[ir.Value | None, int] = {None: -1}
    places = [*(None if each is None else each.memory for each in o.inputs), *o.homes]
    return tuple(numbers.setdefault(each, len(numbers)) for each in places)


def _value(o: OperatorLowering, position: int, value: Value) -> Hashable:
    """What is known of an input."""
    array = value.known
    if value.quantization is not None or (array is None and value.memory is None):
        raise _Own
    if array is None:
        return value.shape, value.dtype
    if is_open_value(array):
        return value.shape, value.dtype, tuple(array.reshape(-1).tolist())
    if array.dtype.hasobject:
        raise _Own
    if array.nbytes <= EMBEDDED_BYTES:
        return value.shape, value.dtype, array.dtype.str, array.tobytes()
    lies = (value.shape, value.dtype, array.dtype.str, array.shape, array.strides)
    if array.flags.c_contiguous and _is_opaque(o, position):
        return *lies, not is_real(value.dtype) or bool(np.isfinite(array).all())
    return *lies, array.ctypes.data


def _is_opaque(o: OperatorLowering, position: int) -> bool:
    """Whether the value of a constant has no part in the code."""
    tensor = _sources(o)[position]
    for each in _members(o):
        if tensor in each.inputs:
            rule = rule_of(Call.of(o.spec.subgraph, each, o.place))
            if not isinstance(rule, Rule) or any(
                    other == tensor and k not in rule.opaque for k, other in enumerate(each.inputs)):
                return False
    return True
