"""Lowers a group of operators to one nest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.quantization import stored_values
from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.value import Value, computed, in_memory, shared
from circlet.backends.native.lower.fused import Fused, place_of
from circlet.backends.native.lower.fused_kernel import FusedKernel
from circlet.backends.native.lower.operators import KnownCall, OperatorLowering, operands, shapes_of, unknown
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.quantized.table import BYTES, look_up
from circlet.backends.native.rules.rule import Node, Rule, Sink, rule_of, shaped
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.length import is_known, may_differ
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import Op, Unknown
from circlet.runtime.ir.tensor import types_of
from circlet.runtime.ir.types import Array, Shape


class GroupLowering:
    """A group of operators on its way to one nest."""

    def __init__(self, outer: OperatorLowering, op: Fused) -> None:
        self._outer = outer
        self._op = op
        self._values: dict[int, Value] = {
            tensor: value for tensor, value in zip(op.sources, outer.inputs, strict=True) if value is not None
        }

    def lower(self) -> Value:
        """The result: by the nest of the anchor, if a member is a nest rule, else as the computed value that all
        members make."""
        anchor = next((k for k, each in enumerate(self._op.members) if self._rule(k).nest is not None), None)
        found = self._looked_up()
        if found is not None:
            return found
        if anchor is not None:
            return self._anchored(anchor)
        return self._outer.settle(self.value())

    def value(self) -> Value:
        """The computed value that all members make, none of which is a nest."""
        for k in range(len(self._op.members)):
            self._substitute(k)
        return self._values[self._op.members[-1].operator.outputs[0]]

    def _looked_up(self) -> Value | None:
        """The result where all members together replace bytes by others."""
        outer = self._outer
        call = outer.known_call()
        given = _looked_up_by(self._op, call, outer.inputs)
        if given is None or given.shape != outer.shapes[0]:
            return None
        finish, sink = outer.target()
        look_up(outer.function, given, Made(call, _table), sink)
        return finish()

    def _anchored(self, anchor: int) -> Value:
        """The nest of the anchor, with what depends on its result as the epilogue."""
        function = self._outer.function
        result = self._op.members[anchor].operator.outputs[0]
        after = self._dependents(anchor)
        for k in range(len(self._op.members)):
            if k != anchor and k not in after:
                self._substitute(k)
        node, rule = self._node(anchor), self._rule(anchor)
        assert rule.nest is not None
        last = self._op.members[-1].operator.outputs[0]
        shape = self._outer.shapes[0]
        if may_differ(prod(node.shape), prod(shape)):
            return self._apart(anchor, node, sorted(after))
        finish, sink = self._outer.target()

        def epilogue(e: Emitter, index: Sequence[ir.Value], value: ir.Value) -> None:
            dtype = self._op.tensors[result].dtype
            self._values[result] = computed(node.shape, dtype, lambda *_: value, lambda *_: value)
            for k in sorted(after):
                self._substitute(k)
            into = e.reindex(index, node.shape, shape)
            sink(e, into, self._values[last].element(e, into))

        only_views = all(0 in self._op.members[k].operator.op.views() for k in after)
        rule.nest(node, function.e, (Sink(epilogue, sink.memory if only_views else None) if after else sink,))
        return finish()

    def _apart(self, anchor: int, node: Node[Op], after: Sequence[int]) -> Value:
        """The nest of the anchor with its result in memory, then what depends on it, which has another size."""
        function, rule = self._outer.function, self._rule(anchor)
        (result,) = self._op.members[anchor].operator.outputs
        dtype = self._op.tensors[result].dtype
        memory = function.reserve(prod(node.shape) * dtype.numpy.itemsize)
        assert rule.nest is not None
        rule.nest(node, function.e, (Sink(
            lambda e, index, value: e.store(value, memory, dtype, e.linear(index, node.shape)), memory),))
        self._values[result] = in_memory(memory, node.shape, dtype)
        for k in after:
            self._substitute(k)
        return self._outer.settle(self._values[self._op.members[-1].operator.outputs[0]])

    def _dependents(self, anchor: int) -> set[int]:
        """The members that depend on the anchor's result, by their places in the group."""
        reached = set(self._op.members[anchor].operator.outputs)
        found: set[int] = set()
        for k, member in enumerate(self._op.members):
            if k != anchor and reached.intersection(member.operator.inputs):
                reached.update(member.operator.outputs)
                found.add(k)
        return found

    def _rule(self, k: int) -> Rule[Op]:
        """The rule of a member."""
        rule = rule_of(self._call(k))
        assert isinstance(rule, Rule), f"only operators with a rule are grouped: {rule}"
        return rule

    def _call(self, k: int) -> Call:
        """A member and its tensors."""
        member = self._op.members[k]
        tensors = self._op.tensors
        inputs = tuple(None if each == ABSENT else tensors[each] for each in member.operator.inputs)
        outputs = tuple(tensors[each] for each in member.operator.outputs)
        return Call(member.operator.op, inputs, outputs, member.operator.version,
                    place=place_of(self._outer.place, member))

    def _node(self, k: int) -> Node[Op]:
        """What the rule of a member is given."""
        operator = self._op.members[k].operator
        inputs = tuple(None if each == ABSENT else self._values[each] for each in operator.inputs)
        call, shapes = self._call(k), self._shapes(k, inputs)
        if not self._rule(k).holds(call, shaped(call, shapes_of(inputs), shapes)):
            raise Unlowerable(f"{call.place}: the shapes are not those for which it was grouped")
        return Node(operator.op, call, inputs, shapes, call.place, self._outer.function)

    def _shapes(self, k: int, inputs: Sequence[Value | None]) -> tuple[Shape, ...]:
        """The shapes of a member's results, found from its inputs."""
        operator, parameters = self._op.members[k].operator, self._rule(k).parameters
        declared = self._outer.shapes if k == len(self._op.members) - 1 else None
        live = unknown(inputs, parameters)
        if live:
            raise Unlowerable(f"{self._outer.place}: {operator.name}: {live} known only when it runs")
        if declared is not None and not parameters:
            return declared
        try:
            found = operator.op.infer(operands(inputs, types_of(self._op.tensors, operator.outputs)))
        except Unknown:
            found = declared or self._told_shapes(operator, inputs)
        if found != (declared or found) or not found:
            raise Unlowerable(f"{self._outer.place}: {operator.name} has a shape that is known only when it runs")
        return found

    def _told_shapes(self, operator: Operator, inputs: Sequence[Value | None]) -> tuple[Shape, ...]:
        """The same where they follow from numbers that the run tells, as lengths; none where they do not."""
        told = self._outer.spec.told.values
        given = [replace(value, known=told[tensor]) if value is not None and tensor in told else value
                 for tensor, value in zip(operator.inputs, inputs, strict=True)]
        with suppress(Unknown):
            return operator.op.infer(operands(given, types_of(self._op.tensors, operator.outputs)))
        return ()

    def _substitute(self, k: int) -> None:
        """Puts what a fused rule makes in the place of a member's results; what is read several times is computed
        once."""
        rule = self._rule(k)
        assert rule.fused is not None
        node = self._node(k)
        flat = all(each is None or each.flat or is_known(each.size, 1) for each in node.inputs)
        for tensor, value in zip(self._op.members[k].operator.outputs, rule.fused(node), strict=True):
            self._values[tensor] = shared(replace(value, flat=value.flat and (flat or value.memory is not None)))


def _looked_up_by(op: Fused, call: Call, inputs: Sequence[Value | None]) -> Value | None:
    """The input of whose bytes a group makes others: the only one that is not constant. None if there are more, or if
    not all members compute each element from one element."""
    varying = [each for each in inputs if each is not None and each.known is None]
    made = call.outputs[0].dtype
    if len(varying) != 1 or not {varying[0].dtype, made} <= set(BYTES) or any(
            each is not None and each.known is not None and each.size != 1 for each in inputs) or not all(
            each.operator.op.elementwise for each in op.members):
        return None
    return varying[0]


def _table(call: Call) -> Array:
    """What a group makes of all bytes."""
    assert isinstance(call.op, Fused), "it is a group"
    assert isinstance(call, KnownCall), "another group like it has constants of its own"
    (dtype,) = (each.dtype for each, known in zip(call.inputs, call.known, strict=True)
                if each is not None and known is None)
    x = stored_values(dtype).astype(dtype.numpy)
    given = [None if each is None else x if known is None else known.reshape(1)
             for each, known in zip(call.inputs, call.known, strict=True)]
    y = np.empty(x.shape, call.outputs[0].dtype.numpy)
    FusedKernel(call, call.op, CpuBackend()).bind(given, [y], Run(Variables()))()
    return y
