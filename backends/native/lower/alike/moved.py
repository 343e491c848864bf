"""Operators that only move elements which lie in memory at even distances, as slices do: all that read as many at the
same distances are alike, wherever they begin."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import TypeAlias

from circlet.backends.native.emit.layout.strided import Strided
from circlet.backends.native.emit.value import Value, in_memory, in_strides
from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.lower.groups import GroupLowering
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.rules.moving.move import SHORTEST_RUN
from circlet.backends.native.rules.moving.runs import Lying, copy_runs
from circlet.backends.native.rules.rule import Node, Rule, rule_of
from circlet.runtime.ir.length import is_known, is_open
from circlet.runtime.ir.op import Op
from circlet.runtime.records import dataclass, replace

Axes: TypeAlias = "tuple[tuple[int, int], ...]"
"""How many elements follow each other, and how far apart."""


@dataclass(frozen=True, eq=False)
class Moved:
    """An operator that only moves elements.

    Attributes:
        lowering: the operator, given where the first element lies.
        alike: what makes others like it.
        axes: what it goes through.
    """

    lowering: OperatorLowering
    alike: Hashable
    axes: Axes

    @classmethod
    def of(cls, o: OperatorLowering) -> Moved | None:
        """That of an operator of known shapes; None if it is another one."""
        given = [each for each in o.inputs if each is not None and each.known is None]
        if len(given) != 1 or given[0].memory is None or len(o.homes) != 1 or o.homes[0] is None or not (
                o.is_apart and o.function.repeats) or is_open((*given[0].shape, *o.shapes[0])):
            return None
        value = _value(o)
        place = None if value is None or value.memory is o.homes[0] else value.place
        if value is None or place is None or not prod(value.shape):
            return None
        axes = place.merged()
        source = in_memory(place.memory, tuple(size for size, _ in axes), value.dtype)
        alike = "moved", value.dtype, axes, id(o.function.e.function), given[0].memory is o.homes[0]
        return cls(replace(o, inputs=(source,)), alike, axes)

    def write(self, o: OperatorLowering) -> Sequence[Value]:
        """Copies the elements of this, or of one like it, to where they must lie."""
        (source,), (home,) = o.inputs, o.homes
        assert source is not None, "it is given where the first element lies"
        assert source.memory is not None, "and that is in memory"
        assert home is not None, "it has to lie somewhere"
        item, e = source.dtype.numpy.itemsize, o.function.e
        *outer, (run, step) = self.axes or ((1, 1),)
        if is_known(step, 1) and not outer:
            source.write(e, home)
        elif is_known(step, 1) and len(outer) == 1 and run * item >= SHORTEST_RUN:
            (count, further), = outer
            copy_runs(e, Lying(home, run * item), Lying(source.memory, further * item), run * item, count)
        else:
            strided = Strided(source.memory, tuple((each,) for each in self.axes))
            in_strides(source.shape, strided, source.dtype).write(e, home)
        return [in_memory(home, o.shapes[0], o.spec.subgraph.tensors[o.operator.outputs[0]].dtype)]


def _value(o: OperatorLowering) -> Value | None:
    """What an operator gives, or a group, if all it does is to move elements; by where these lie."""
    op = o.operator.op
    if isinstance(op, Fused):
        return GroupLowering(o, op).value() if all(map(_moves, map(rule_of, op.calls_at(o.place)))) else None
    rule = o.rule()
    if isinstance(rule, str) or rule.fused is None or not rule.is_free:
        return None
    return rule.fused(Node(op, o.call(), o.inputs, o.shapes, o.place, o.function))[0]


def _moves(rule: Rule[Op] | str) -> bool:
    """Whether an operator with a rule only moves elements."""
    return isinstance(rule, Rule) and rule.is_free and rule.fused is not None
