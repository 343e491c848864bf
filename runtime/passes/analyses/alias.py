"""Derives which tensors of a subgraph may lie in the same memory, from what operators declare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from circlet.runtime.ir.length import larger, may_differ, value
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.records import dataclass, field, replace


@dataclass(frozen=True)
class Effects:
    """How an operator's outputs may use the memory of its inputs, by position."""

    views: Mapping[int, int] = field(default_factory=dict)
    """`{output: input}`: the same bytes, unchanged."""
    overwrites: Mapping[int, int] = field(default_factory=dict)
    """`{output: input}`: the output may be written over the input, if nothing reads the input later."""
    appends: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """`{output: (input, axis)}`: the output is the input and, behind it along the axis, more."""


NO_ROOM: Mapping[int, int] = MappingProxyType({})
EffectsOf: TypeAlias = Callable[[int], Effects]
"""The effects of an operator, by its index."""


def declared_effects(operator: Operator) -> Effects:
    """What an operator that invokes no other subgraph declares."""
    return Effects(operator.op.views(), operator.op.overwrites(), operator.op.appends())


@dataclass
class _Class:
    """Tensors that share their memory, and what is true of any of them."""

    members: list[int]
    is_fixed: bool
    first_write: int
    last_read: int
    size: int

    def add(self, other: _Class) -> None:
        self.members += other.members
        self.is_fixed |= other.is_fixed
        self.first_write = min(self.first_write, other.first_write)
        self.last_read = max(self.last_read, other.last_read)
        self.size = larger(self.size, other.size)


class Aliases:
    """The storage classes of the tensors of a subgraph: a class is a set of tensors that share their memory."""

    def __init__(self, spec: Specialization, span: range, fixed: Collection[int],
                 room: Mapping[int, int] = NO_ROOM) -> None:
        self.spec = spec
        self.span = span
        self._fixed = fixed
        self._room = room
        self._root: dict[int, int] = {}
        self._classes: dict[int, _Class] = {}
        """By root, those of several tensors."""
        self._written: set[int] = set()
        self._first_write = first_writes(spec, span)
        self._last_read = last_reads(spec, span)

    def root(self, tensor: int) -> int:
        """The tensor that stands for the class of `tensor`."""
        return self._root.get(tensor, tensor)

    def members(self, root: int) -> list[int]:
        return self._classes[root].members if root in self._classes else [root]

    def is_fixed(self, root: int) -> bool:
        """Whether the class holds a tensor whose memory must not be written."""
        return self._classes[root].is_fixed if root in self._classes else root in self._fixed

    def is_constant(self, tensor: int) -> bool:
        """Whether the value is the same in every run."""
        return any(each in self.spec.known for each in self.members(self.root(tensor)))

    def is_overwritten(self, root: int) -> bool:
        """Whether an operator writes over the class after it was first written."""
        return root in self._written

    def first_write(self, root: int) -> int:
        """The operator that first writes the class; -1 if it holds an input, a constant or an earlier result."""
        return self._classes[root].first_write if root in self._classes else self._first_write.get(root, -1)

    def last_read(self, root: int) -> int:
        """The last operator that reads the class; the number of operators if it holds an output."""
        return self._classes[root].last_read if root in self._classes else self._last_read.get(root, -1)

    def size(self, root: int) -> int:
        """The bytes that the class needs."""
        return self._classes[root].size if root in self._classes else tensor_bytes(self.spec, root)

    def join(self, tensor: int, root: int, overwritten: bool) -> None:
        """Puts a tensor that has no class yet into one."""
        if root not in self._classes:
            self._classes[root] = self._alone(root)
        self._classes[root].add(self._alone(tensor))
        self._root[tensor] = root
        if overwritten:
            self._written.add(root)

    def case(self, spec: Specialization) -> Aliases:
        """The same classes at open lengths that are given: `spec` is a case of the subgraph."""
        found = copy(self)
        found.spec = spec
        found._classes = {root: replace(each, size=value(each.size, spec.lengths))
                          for root, each in self._classes.items()}
        return found

    def lends_as(self, other: Aliases) -> bool:
        """Whether what a caller may lend, inputs and results, is written and read from when on and until when it is in
        other classes of the subgraph."""
        subgraph = self.spec.subgraph
        return all(self.root(each) == other.root(each) and self._life(each) == other._life(each)
                   for each in (*subgraph.inputs, *subgraph.outputs))

    def _life(self, tensor: int) -> tuple[int, int]:
        root = self.root(tensor)
        return self.first_write(root), self.last_read(root)

    def _alone(self, tensor: int) -> _Class:
        return _Class([tensor], tensor in self._fixed, self._first_write.get(tensor, -1),
                      self._last_read.get(tensor, -1), tensor_bytes(self.spec, tensor))

    def may_overwrite(self, number: int, output: int, position: int) -> bool:
        """Whether an output of an operator may be written over its input at `position`."""
        operator = self.spec.subgraph.operators[number]
        root = self.root(operator.inputs[position])
        if self.is_fixed(root) or self.last_read(root) > number or output in self._root:
            return False
        others = [each for k, each in enumerate(operator.inputs) if k != position and each != ABSENT]
        taken = any(self.root(each) == root for each in (*others, *operator.outputs))
        return not taken and not may_differ(self.size(root), tensor_bytes(self.spec, output))

    def may_append(self, number: int, output: int, position: int, axis: int) -> bool:
        """Whether an output of an operator may begin where its input at `position` lies, to which it appends along an
        axis; what is there stays, whoever reads it."""
        source = self.spec.subgraph.operators[number].inputs[position]
        root, shape = self.root(source), self.spec.shape(source)
        size, tensors = tensor_bytes(self.spec, source), self.spec.subgraph.tensors
        if root not in self._room or self.is_fixed(root) or output in self._root or may_differ(self.size(root), size):
            return False
        is_behind = not any(may_differ(each, 1) for each in shape[:axis % len(shape)])
        is_same = tensors[source].quantization == tensors[output].quantization
        return is_behind and is_same and not may_differ(self._room[root], tensor_bytes(self.spec, output))


def find_aliases(spec: Specialization, span: range, fixed: Collection[int], effects: EffectsOf,
                 room: Mapping[int, int] = NO_ROOM) -> Aliases:
    """Joins views with what they view, and results with the inputs that they may be written over.

    Results that are known lie where they were computed.

    Args:
        spec: the subgraph; shapes are known for all operators of `span`.
        span: the operators to look at.
        fixed: tensors whose memory must not be written: constants, inputs that the caller keeps, earlier results.
        effects: what each operator may do.
        room: inputs in larger memory than they need, and how many bytes that has.
    """
    aliases = Aliases(spec, span, fixed, room)
    for number in span:
        operator = spec.subgraph.operators[number]
        declared = effects(number)
        if all(each in spec.known for each in operator.outputs):
            continue
        for position, source in declared.views.items():
            output = operator.outputs[position]
            if operator.inputs[source] != ABSENT and _same_bytes(spec, output, operator.inputs[source]):
                aliases.join(output, aliases.root(operator.inputs[source]), overwritten=False)
        for position, source in declared.overwrites.items():
            output = operator.outputs[position]
            if operator.inputs[source] != ABSENT and aliases.may_overwrite(number, output, source):
                aliases.join(output, aliases.root(operator.inputs[source]), overwritten=True)
        for position, (source, axis) in declared.appends.items():
            output = operator.outputs[position]
            if room and aliases.may_append(number, output, source, axis):
                aliases.join(output, aliases.root(operator.inputs[source]), overwritten=True)
    return aliases


def appended(aliases: Aliases) -> Mapping[int, tuple[int, int]]:
    """`{output: (input, axis)}` of a subgraph whose caller keeps its inputs: what one operator appends to an input, and
    no other one changes."""
    subgraph, found = aliases.spec.subgraph, dict[int, tuple[int, int]]()
    roots = [aliases.root(each) for each in subgraph.outputs]
    for number in aliases.span:
        operator = subgraph.operators[number]
        for position, (source, axis) in operator.op.appends().items():
            root, given = aliases.root(operator.outputs[position]), operator.inputs[source]
            if roots.count(root) == 1 and given in subgraph.inputs and aliases.first_write(root) == number \
                    and not aliases.is_overwritten(root):
                found[roots.index(root)] = subgraph.inputs.index(given), axis
    return found


def may_reuse(aliases: Aliases, source: int, target: int) -> bool:
    """Whether class `target` may be written into the memory of class `source` because that is dead by then."""
    write, read = aliases.first_write(target), aliases.last_read(source)
    if write < 0 or aliases.is_fixed(source) or may_differ(
            aliases.size(source), aliases.size(target)):
        return False
    return read < write or (read == write and _element_by_element(aliases, write, source, target))


def _element_by_element(aliases: Aliases, number: int, source: int, target: int) -> bool:
    """Whether an operator reads class `source` at the very elements where it writes class `target`."""
    spec = aliases.spec
    operator = spec.subgraph.operators[number] if number < len(spec.subgraph.operators) else None
    if operator is None or not operator.op.elementwise:
        return False
    written = [each for each in operator.outputs if aliases.root(each) == target]
    read = [each for each in operator.inputs if each != ABSENT and aliases.root(each) == source]
    return all(
        _same_shape(spec, each, out) and not may_differ(tensor_bytes(spec, each), tensor_bytes(spec, out))
        for each in read for out in written
    )


def first_writes(spec: Specialization, span: range) -> dict[int, int]:
    """The operator of `span` that writes each tensor; results that are already known are not written."""
    return {each: number for number in span for each in spec.subgraph.operators[number].outputs
            if each not in spec.known}


def last_reads(spec: Specialization, span: range) -> dict[int, int]:
    """The last operator that reads each tensor; the end, for outputs and for what operators after `span` read."""
    subgraph, reads = spec.subgraph, dict[int, int]()
    for number in span:
        for each in subgraph.operators[number].inputs:
            reads[each] = number
    end = len(subgraph.operators)
    for operator in subgraph.operators[span.stop:]:
        reads.update(dict.fromkeys(operator.inputs, end))
    reads.update(dict.fromkeys(subgraph.outputs, end))
    return reads


def tensor_bytes(spec: Specialization, tensor: int) -> int:
    """The size of a tensor in bytes."""
    return prod(spec.shape(tensor)) * spec.subgraph.tensors[tensor].dtype.numpy.itemsize


def _same_bytes(spec: Specialization, one: int, other: int) -> bool:
    tensors = spec.subgraph.tensors
    objects = {tensors[each].dtype.numpy.hasobject for each in (one, other)}
    return len(objects) == 1 and not may_differ(tensor_bytes(spec, one), tensor_bytes(spec, other))


def _same_shape(spec: Specialization, one: int, other: int) -> bool:
    """Whether two tensors have one shape, whatever open lengths are."""
    left, right = spec.shape(one), spec.shape(other)
    return len(left) == len(right) and not any(map(may_differ, left, right))
