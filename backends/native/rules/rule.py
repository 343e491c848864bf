"""Native rules: how an operator becomes code.

A *fused* rule gives the value of one output element as a function of its index, so that operators combine by
substitution. A *nest* rule writes the loops itself, and passes each element it makes to the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from math import prod
from typing import Generic, TypeAlias, TypeVar, cast

from llvmlite import ir

from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.families import modules, modules_of_stored
from circlet.backends.native.rules.function import Function
from circlet.backends.native.rules.preferences import PLAIN, PREFERENCES
from circlet.backends.native.rules.refusals import plain
from circlet.backends.native.targets.target import Target
from circlet.backends.refusal import Refusal
from circlet.runtime.errors import Place
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_open
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import QUANTIZABLE, DType, Shape
from circlet.runtime.ops.rules import Rules
from circlet.runtime.records import dataclass

OpT = TypeVar("OpT", bound=Op)
"""The operator of a rule."""


@dataclass(frozen=True, eq=False)
class Node(Generic[OpT]):
    """One operator with what its inputs are and what its outputs must be."""

    op: OpT
    call: Call
    inputs: tuple[Value | None, ...]
    shapes: tuple[Shape, ...]
    """Of the outputs."""
    place: Place
    function: Function

    def input(self, index: int) -> Value:
        """A required input."""
        value = self.inputs[index]
        assert value is not None, f"input {index} of {self.op.name} is required; verify() checks it"
        return value

    def optional(self, index: int) -> Value | None:
        """An input, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def shape(self) -> Shape:
        """Of the first output."""
        return self.shapes[0]


@dataclass(frozen=True, eq=False)
class Sink:
    """Where a nest rule puts each element that it makes."""

    put: Callable[[Emitter, Index, ir.Value], None]
    memory: ir.Value | None = None
    """Where the elements lie in row-major order, if nothing is computed from them first, so that a rule may also store
    vectors there."""

    def __call__(self, e: Emitter, index: Index, value: ir.Value) -> None:
        self.put(e, index, value)


Fused: TypeAlias = Callable[[Node[OpT]], "tuple[Value, ...]"]
"""A rule that gives the outputs as values whose elements are computed when they are read."""
Nest: TypeAlias = Callable[[Node[OpT], Emitter, "tuple[Sink, ...]"], None]
"""A rule that writes loops, and passes each element of an output to its sink."""
Looks: TypeAlias = Callable[[Call, Target], Hashable]
"""What code hangs on of a call, on a processor."""
Condition: TypeAlias = Callable[[Call], bool]
"""Something that holds for a call or not."""


def nothing(call: Call, target: Target) -> Hashable:
    """How tensors are quantised has no part in the code."""
    return None


def _never(_: Call) -> bool:
    """No call."""
    return False


@dataclass(frozen=True)
class Rule(Generic[OpT]):
    """A native rule of an operator; exactly one of `fused` and `nest` is given."""

    refuses: Refusal
    name: str = PLAIN
    """What tells it from the operator's other rules."""
    fused: Fused[OpT] | None = None
    nest: Nest[OpT] | None = None
    is_free: bool = False
    """A fused rule that only moves an index, so that several readers may repeat it."""
    memory_inputs: frozenset[int] | None = frozenset()
    """The inputs that must lie in memory or a register, since the rule reads their elements repeatedly or before it
    computes the first element of the result; None for all."""
    parameters: frozenset[int] = frozenset()
    """The inputs whose values must be known when the code is made; where they are not, the host computes the call."""
    may_fail: Condition = _never
    """Whether elements of the result are errors, for some calls; these are then computed wholly, as numpy does."""
    is_last: bool = False
    """A nest rule that writes its one result itself, at the sink's `memory`, so that no epilogue can follow. It may
    find an input there that it is declared to overwrite."""
    lends: Callable[[Node[OpT]], Value] | None = None
    """Does what the nest does, but gives the result where it lies already."""
    opaque: frozenset[int] = frozenset()
    """The inputs of which, where they are constants, the values have no part in the code, but for whether all of them
    are finite: the rule takes what lies in memory, or what `Function.derived` or `Function.made` makes of them."""
    quantized_as: Looks | None = None
    """What the code is made of where tensors are quantised, in place of all that their quantisation says, or of opaque
    inputs: all else of these is in what `Function.made` makes. It is given the processor, too."""

    def holds(self, declared: Call, call: Call) -> bool:
        """Whether what made this the rule of a call as declared is so with the shapes that its tensors have."""
        if call is declared:
            return True
        return self.refuses(call) is None and (self.may_fail(declared) or not self.may_fail(call))


def shaped(call: Call, inputs: Sequence[Shape | None], outputs: Sequence[Shape]) -> Call:
    """A call whose tensors are declared with the shapes that they have; itself where they are already."""
    def with_shape(tensor: Tensor, shape: Shape) -> Tensor:
        if not is_open(shape) and tensor.declared == shape:
            return tensor
        return replace(tensor, shape=shape, shape_signature=None, has_rank=True)

    given = tuple(None if tensor is None or shape is None else with_shape(tensor, shape)
                  for tensor, shape in zip(call.inputs, inputs, strict=True))
    made = tuple(map(with_shape, call.outputs, outputs))
    same = all(one is other for one, other in zip((*given, *made), (*call.inputs, *call.outputs), strict=True))
    return call if same else replace(call, inputs=given, outputs=made)


_NARROW = QUANTIZABLE | {DType.INT4}
_CPU = CpuBackend()
"""Says which calls are refused altogether."""
RULES: Rules[tuple[Rule[Op], ...]] = Rules(modules, modules_of_stored)
"""The native rules of each operator that has any, by `PREFERENCES`; the first that does not refuse a call is used."""


def is_single(tensor: Tensor) -> bool:
    """Whether a tensor has one element, as declared."""
    return tensor.is_static and prod(tensor.shape) == 1


def fused(op: type[OpT], refuses: Refusal = plain, is_free: bool = False, memory_inputs: frozenset[int] = frozenset(),
          parameters: frozenset[int] = frozenset(), may_fail: Condition = _never, opaque: frozenset[int] = frozenset(),
          name: str = PLAIN, quantized_as: Looks | None = None
          ) -> Callable[[Fused[OpT]], Fused[OpT]]:
    """Registers the decorated function as a fused rule of `op`, named where the operator has several."""
    def register(function: Fused[OpT]) -> Fused[OpT]:
        _add(op, Rule(refuses, name, fused=function, is_free=is_free, memory_inputs=memory_inputs,
                      parameters=parameters, may_fail=may_fail, opaque=opaque, quantized_as=quantized_as))
        return function

    return register


def nest(op: type[OpT], refuses: Refusal = plain, memory_inputs: frozenset[int] | None = None,
         parameters: frozenset[int] = frozenset(), is_last: bool = False, name: str = PLAIN,
         lends: Callable[[Node[OpT]], Value] | None = None, opaque: frozenset[int] = frozenset(),
         quantized_as: Looks | None = None) -> Callable[[Nest[OpT]], Nest[OpT]]:
    """Registers the decorated function as a nest rule of `op`, named where the operator has several."""
    def register(function: Nest[OpT]) -> Nest[OpT]:
        _add(op, Rule(refuses, name, nest=function, memory_inputs=memory_inputs, parameters=parameters,
                      is_last=is_last, lends=lends, opaque=opaque, quantized_as=quantized_as))
        return function

    return register


def _add(op: type[OpT], rule: Rule[OpT]) -> None:
    """Puts a rule to its place among those of its operator.

    Raises:
        ValueError: there is one of this name, or several of which `PREFERENCES` does not give the order.
    """
    found = (*RULES.get(op, ()), cast("Rule[Op]", rule))
    names, order = [each.name for each in found], PREFERENCES.get(op.name, (PLAIN,))
    if len({*names}) < len(names) or not {*names} <= {*order}:
        raise ValueError(f"rules of {op.name}: expected one each of {', '.join(order)}, found {', '.join(names)}")
    RULES[op] = tuple(sorted(found, key=lambda each: order.index(each.name)))


def rule_of(call: Call) -> Rule[Op] | str:
    """The rule for a call or, where none can be used, why.

    What the numpy backend refuses has none, so that rules may rely on types and quantisation that it takes.
    """
    refused = _CPU.refuses(call)
    if refused is not None:
        return refused
    found = None if _is_of_stored(call) else _first(RULES.of(type(call.op)) or (), call)
    if not isinstance(found, Rule):  # those of stored values have reasons too
        found = _first(RULES.of(type(call.op), 2) or (), call)
    return found


def rules_of(call: Call) -> tuple[Rule[Op], ...]:
    """All rules that take a call of which none is refused."""
    return tuple(each for each in RULES.of(type(call.op)) or () if each.refuses(call) is None)


def _is_of_stored(call: Call) -> bool:
    """Whether a call has a tensor that is quantised, or may hold what quantisation makes."""
    return any(each is not None and (each.quantization is not None or each.dtype in _NARROW)
               for each in (*call.inputs, *call.outputs))


def _first(rules: Sequence[Rule[Op]], call: Call) -> Rule[Op] | str:
    """The first rule that takes a call, or why none does."""
    reasons: dict[str, list[str]] = {}
    for each in rules:
        reason = each.refuses(call)
        if reason is None:
            return each
        reasons.setdefault(reason, []).append(each.name)
    if len(reasons) < 2:
        return next(iter(reasons), "no native rule")
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
