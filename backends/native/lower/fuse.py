"""Groups operators that combine by substitution into one, so that every later pass plans memory for what remains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from circlet.backends.native.lower.fused import Fused, FusedElementwise, Member
from circlet.backends.native.rules.quantized.table import BYTES
from circlet.backends.native.rules.rule import Rule, rule_of
from circlet.runtime.exec.kernel import NOWHERE, Call
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.op import (
    Op,
    Operand,
    Operands,
    ShapeError,
    Skip,
    Unknown,
)
from circlet.runtime.ir.tensor import Tensor, types_of
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.layout import (
    Slice,
    Split,
    SplitV,
    StablehloSlice,
    StablehloTranspose,
    StridedSlice,
    Transpose,
    Unpack,
)
from circlet.runtime.ops.quantize import Dequantize, Quantize
from circlet.runtime.ops.resample import Resample
from circlet.runtime.ops.shape import StablehloReshape
from circlet.runtime.ops.transcendental import Erf
from circlet.runtime.ops.unary import (
    Elu,
    Exp,
    Gelu,
    Log,
    Logistic,
    Silu,
    StablehloExponential,
    StablehloLog,
    StablehloLogistic,
    StablehloTanh,
    Tanh,
)
from circlet.runtime.passes.transforms.rewrite import rewrite_subgraphs
from circlet.runtime.records import dataclass

MOST_PARTS = 8
"""Results of an operator that several groups may have as a member, each for what it reads: a choice; each computes all,
so a tensor that is cut in many parts is cut once."""
LARGEST_GROUP = 48
"""Members. A choice between work in registers and chains of instructions that wait for each other: of 192 ADD and MUL
one after another, of 4096 floats in the first-level cache, groups of 8 or 16 take half the time of 48, and all in one
twice as long (AVX-512); all compile equally fast."""
LEAST_LOOKED_UP = 6
"""What a group comes to at the least that a table of bytes replaces, where it could have been computed with what makes
the bytes, counted in operators of float32: a choice. To replace bytes takes about as long as two or three."""
_COUNTED: dict[type[Op], int] = {
    Dequantize: 3, Quantize: 4,
    **dict.fromkeys((Elu, Erf, Exp, Gelu, Log, Logistic, Silu, Tanh, StablehloExponential, StablehloLog,
                     StablehloLogistic, StablehloTanh), 4)}
"""How many such operators some are: those that QuantizeLinear and DequantizeLinear are written with, and the least that
a function takes which is a polynomial."""
TURNING = (Transpose, StablehloTranspose)
MOVING = (*TURNING, Slice, StridedSlice, StablehloSlice, Split, SplitV, Unpack)
"""Operators that exchange axes; those whose results lie where an input does, in strides."""
DECLARED = (StablehloReshape,)
"""Operators whose results have the shape that the model declares, which it may not."""
SKIP = Operator(Skip(), (), ())
"""What stands where a member of a group was."""


def fuse_operators(model: Model) -> Model:
    """Replaces each group of operators by one at the place of its last member; the other places become `Skip`."""
    return rewrite_subgraphs(model, lambda subgraph: _Grouping(subgraph).apply())


@dataclass
class _Group:
    """Members found so far; `anchor` is the operator whose nest the others join."""

    members: set[int]
    anchor: int | None


class _Grouping:
    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._calls = [Call.of(subgraph, each, NOWHERE) for each in subgraph.operators]
        self._foldable = _foldable(subgraph)
        self._rules = [self._rule(each) for each in range(len(self._calls))]
        self._readers: dict[int, list[tuple[int, int]]] = {}
        for number, operator in enumerate(subgraph.operators):
            for position, tensor in enumerate(operator.inputs):
                self._readers.setdefault(tensor, []).append((number, position))
        self._exported = set(subgraph.outputs)
        self._origin = _origins(subgraph)
        self._overwriters = self._find_overwriters()
        self._makers = {tensor: number for number, operator in enumerate(subgraph.operators)
                        for tensor in operator.outputs}
        self._turning = frozenset(filter(self._exchanges, range(len(self._calls))))
        self._group_of: dict[int, set[int]] = {}
        self._groups: dict[int, _Group] = {}

    def _rule(self, number: int) -> Rule[Op] | None:
        """The rule of an operator whose parameters are known by the time that code is made."""
        rule, operator = rule_of(self._calls[number]), self._subgraph.operators[number]
        if isinstance(rule, str) or _is_told(operator) or not all(operator.inputs[k] in self._foldable
                                   for k in rule.parameters if k < len(operator.inputs)):
            return None
        return rule

    def _find_overwriters(self) -> dict[int, list[int]]:
        """The operators that may write over a tensor, by the tensor whose memory it is."""
        found: dict[int, list[int]] = {}
        for number, operator in enumerate(self._subgraph.operators):
            positions = range(len(operator.inputs)) if operator.op.callees() else operator.op.overwrites().values()
            for position in positions:
                found.setdefault(self._origin[operator.inputs[position]], []).append(number)
        return found

    def apply(self) -> Subgraph:
        """The subgraph with groups for operators."""
        for number in reversed(range(len(self._subgraph.operators))):
            self._place(number)
        fused = {last: group for last, group in self._groups.items() if len(group.members) > 1}
        if not fused:
            return self._subgraph
        inner = {each for last, group in fused.items() for each in group.members if each != last}
        operators = tuple(
            self._fuse(number, fused[number]) if number in fused else SKIP if number in inner else operator
            for number, operator in enumerate(self._subgraph.operators)
        )
        return replace(self._subgraph, operators=operators)

    def _place(self, number: int) -> None:
        """Puts an operator into the groups that read it, or begins a group of its own."""
        rule = self._rules[number]
        if rule is None:
            return
        targets = self._targets(number)
        if targets is None:
            anchor = number if rule.nest is not None else None
            self._groups[number] = _Group({number}, anchor)
            self._group_of[number] = {number}
            return
        self._group_of[number] = targets
        for last in targets:
            self._groups[last].members.add(number)
            if rule.nest is not None:
                self._groups[last].anchor = number

    def _targets(self, number: int) -> set[int] | None:
        """The groups that an operator can join, if its results are then needed nowhere else."""
        rule, operator = self._rules[number], self._subgraph.operators[number]
        assert rule is not None
        readers = [each for tensor in operator.outputs for each in self._readers.get(tensor, [])]
        if not readers or rule.is_last or self._exported.intersection(operator.outputs):
            return None
        if self._is_view(number) and all(reader in self._groups and self._is_view(reader) for reader, _ in readers):
            return None
        targets = {last for reader, _ in readers for last in self._group_of.get(reader, {-1})}
        if self._is_looked_up(operator.outputs, targets):
            return None
        if -1 in targets or not all(self._accepts(reader, position) for reader, position in readers):
            return None
        if max(targets) >= self._barrier(number) or not self._is_tellable(number, rule):
            return None
        if self._turns_midway(number, targets) or (len(operator.outputs) > MOST_PARTS and len(targets) > 1):
            return None
        if rule.nest is not None:
            return targets if self._may_anchor(number, targets) else None
        if rule.may_fail(self._calls[number]) and not self._is_wholly_read(number, targets):
            return None
        if not rule.is_free and not self._is_read_once(number, targets):
            return None
        return targets if all(len(self._groups[last].members) < LARGEST_GROUP for last in targets) else None

    def _is_looked_up(self, outputs: Sequence[int], targets: set[int]) -> bool:
        """Whether all that a group does is to replace the bytes of a tensor by others, by so much that a table does it
        sooner."""
        if len(outputs) != 1 or len(targets) != 1 or not targets <= self._groups.keys():
            return False
        (source,), (last,) = outputs, targets
        tensors, members = self._subgraph.tensors, self._groups[last].members
        found = [self._subgraph.operators[each] for each in members]
        ends = source, self._subgraph.operators[last].outputs[0]
        count = sum(_COUNTED.get(type(each.op), 1) for each in found)
        if count < LEAST_LOOKED_UP or any(tensors[each].dtype not in BYTES for each in ends):
            return False
        made = {source, *(each for operator in found for each in operator.outputs)}
        return all(operator.op.elementwise and all(
            each in made or (each != ABSENT and _is_one(tensors[each])) for each in operator.inputs)
            for operator in found) and not any(
                rule is None or rule.may_fail(self._calls[each]) for each in members for rule in (self._rules[each],))

    def _turns_midway(self, number: int, targets: set[int]) -> bool:
        """Whether an operator that exchanges the innermost axis would stand in front of or behind one that computes. By
        itself it copies whole squares; in a group each element would be read or written apart. Two of them may cancel,
        around what computes in another layout."""
        if not self._turning:
            return False
        path = {each for last in targets for each in (*self._path(number, last), last)} - {number}
        if number in self._turning:
            return self._turning.isdisjoint(path) and not all(map(self._moves, path))
        makers = {self._makers.get(each) for each in self._subgraph.operators[number].inputs}
        return not self._moves(number) and not self._turning.isdisjoint(path) and self._turning.isdisjoint(makers)

    def _moves(self, number: int) -> bool:
        """Whether an operator moves elements and computes nothing."""
        return self._is_view(number) or isinstance(self._subgraph.operators[number].op, MOVING)

    def _exchanges(self, number: int) -> bool:
        """Whether an operator makes another axis the innermost one, as far as is known."""
        op, inputs = self._subgraph.operators[number].op, self._subgraph.operators[number].inputs
        if not isinstance(op, TURNING):
            return False
        order = op.permutation if isinstance(op, StablehloTranspose) else self._subgraph.tensors[inputs[1]].data
        shape = self._subgraph.tensors[inputs[0]].signature
        if order is None or sorted(map(int, order)) != list(range(len(shape))):
            return False
        moved = [axis for axis in map(int, order) if shape[axis] != 1]
        return bool(moved) and moved[-1] != max(moved)

    def _is_view(self, number: int) -> bool:
        """Whether the result is an input's bytes; a group of nothing but views would copy them."""
        return 0 in self._subgraph.operators[number].op.views()

    def _accepts(self, reader: int, position: int) -> bool:
        """Whether a reader can compute its input as it reads it. One whose shape is told as it runs makes no group, of
        which nobody would know what it follows from."""
        rule, outputs = self._rules[reader], self._subgraph.operators[reader].outputs
        if rule is None or rule.memory_inputs is None or position in rule.memory_inputs | rule.parameters:
            return False
        is_declared = all(self._subgraph.tensors[each].is_static for each in outputs)
        if not is_declared and not self._is_tellable(reader, rule):
            return False
        return reader not in self._groups or len(outputs) == 1

    def _barrier(self, number: int) -> int:
        """The first operator that an operator must not be moved to: it may write over an input of it."""
        found = len(self._subgraph.operators)
        for tensor in self._subgraph.operators[number].inputs:
            if tensor == ABSENT or self._subgraph.tensors[tensor].is_constant:
                continue
            if self._subgraph.tensors[tensor].is_variable:
                return number
            later = (each for each in self._overwriters.get(self._origin[tensor], ()) if each > number)
            found = min(found, *later, found)
        return found

    def _is_tellable(self, number: int, rule: Rule[Op]) -> bool:
        """Whether the shapes of an operator's results do not depend on values that only a run can tell."""
        operator = self._subgraph.operators[number]
        values = [operator.inputs[k] for k in (rule.memory_inputs or frozenset()) | rule.parameters
                  if k < len(operator.inputs)]
        if rule.nest is not None or (not isinstance(operator.op, DECLARED) and all(
                each in self._foldable for each in values)):
            return True
        tensors = [None if each == ABSENT else self._subgraph.tensors[each] for each in operator.inputs]
        operands = tuple(None if each is None else Operand(each.dtype, each.shape, each.data) for each in tensors)
        try:
            operator.op.infer(Operands(operands, len(operator.outputs),
                                       declared=types_of(self._subgraph.tensors, operator.outputs)))
        except (Unknown, ShapeError):
            return False
        return True

    def _is_read_once(self, number: int, targets: set[int]) -> bool:
        """Whether a group needs each element of a result once: several readers share it where they need it at once."""
        readers = {reader for tensor in self._subgraph.operators[number].outputs
                   for reader, _ in self._readers.get(tensor, ())}
        if len(readers) == 1 and len(targets) == 1:
            (reader,) = readers
            rule = self._rules[reader]
            once = rule is None or not rule.is_free or reader in targets or self._is_read_once(reader, targets)
            return once and not self._is_repeated(number, reader)
        return len(targets) == 1 and self._is_wholly_read(number, targets)

    def _is_wholly_read(self, number: int, targets: set[int]) -> bool:
        """Whether groups surely compute each element of a result, for the same element of their own."""
        return all(self._is_pointwise(each, self._shape(number))
                   for last in targets for each in self._path(number, last))

    def _is_repeated(self, number: int, reader: int) -> bool:
        """Whether a reader reads the elements of a result again and again, in its outer loops."""
        rule = self._rules[reader]
        if rule is None or rule.nest is not None:
            return False
        shape, read = (_at_length(self._shape(each)) for each in (reader, number))
        aligned = (1,) * (len(shape) - len(read)) + read
        if len(aligned) > len(shape) or prod(read) <= 1 or prod(read) >= prod(shape):
            return False
        kept = [axis for axis, size in enumerate(aligned) if size > 1]
        return any(aligned[axis] < shape[axis] for axis in range(kept[-1]))

    def _may_anchor(self, number: int, targets: set[int]) -> bool:
        """Whether the elements of a nest can go through a group of operators as its epilogue."""
        if len(targets) != 1 or len(self._subgraph.operators[number].outputs) != 1:
            return False
        (last,) = targets
        shape = self._shape(number)
        return self._groups[last].anchor is None and all(self._passes(each, shape) for each in self._path(number, last))

    def _path(self, number: int, last: int) -> set[int]:
        """The members of a group that depend on an operator."""
        found: set[int] = set()
        for each in (number, *sorted(self._groups[last].members)):
            if each == number or each in found:
                found.update(reader for tensor in self._subgraph.operators[each].outputs
                             for reader, _ in self._readers.get(tensor, ()) if each != last)
        return found

    def _is_pointwise(self, number: int, shape: Shape) -> bool:
        """Whether an operator computes each element of an operand of the given shape from that place alone."""
        return self._subgraph.operators[number].op.elementwise and self._shape(number) == shape

    def _passes(self, number: int, shape: Shape) -> bool:
        """Whether an operator makes one element of each element of a result of the given shape; where lengths are open,
        whether that is likely, as groups are also lowered where it is not so."""
        op, found, call = self._subgraph.operators[number].op, self._shape(number), self._calls[number]
        alike = (-1 in shape) == (-1 in found) and abs(prod(shape)) == abs(prod(found))
        is_view = 0 in op.views() and call.input(0).dtype is call.outputs[0].dtype
        return self._is_pointwise(number, shape) or (alike and (op.elementwise or is_view))

    def _shape(self, number: int) -> Shape:
        """The declared shape of an operator's first result; -1 is open."""
        return self._subgraph.tensors[self._subgraph.operators[number].outputs[0]].signature

    def _fuse(self, last: int, group: _Group) -> Operator:
        """The operator that a group becomes."""
        numbers = sorted(group.members)
        operators = [self._subgraph.operators[each] for each in numbers]
        made = {tensor for operator in operators for tensor in operator.outputs}
        sources = dict.fromkeys(tensor for operator in operators for tensor in operator.inputs
                                if tensor not in made and tensor != ABSENT)
        moved = self._moved(operators)
        result, target = operators[-1].outputs[0], operators[-1].op.overwrites().get(0)
        outer = [each for each in moved if each in sources]
        in_step = not self._has_inner_nest(numbers) and not any(self._may_match(each, result) for each in outer)
        over = None if target is None or operators[-1].inputs[target] in moved else operators[-1].inputs[target]
        op = (FusedElementwise if in_step else Fused)(
            tuple(map(Member, numbers, operators)), tuple(sources), self._subgraph.tensors,
            tuple(sources).index(over) if over in sources else None)
        return Operator(op, tuple(sources), operators[-1].outputs)

    def _has_inner_nest(self, numbers: Sequence[int]) -> bool:
        """Whether a nest that may make an element twice is in a group, given by its members in order."""
        rules = [(number, self._rules[number]) for number in numbers]
        return any(rule is not None and rule.nest is not None and not rule.is_last for _, rule in rules)

    def _moved(self, operators: Sequence[Operator]) -> set[int]:
        """The tensors in a group whose elements are read for other places of the result than their own."""
        moved: set[int] = set()
        for operator in reversed(operators):
            op = operator.op
            own = {op.views().get(0)} | ({op.overwrites().get(0)} if operator is operators[-1] else set())
            for position, tensor in enumerate(operator.inputs):
                if not (op.elementwise or position in own) or not moved.isdisjoint(operator.outputs):
                    moved.add(tensor)
        return moved

    def _may_match(self, tensor: int, result: int) -> bool:
        """Whether a tensor may have the shape of another one."""
        pair = self._subgraph.tensors[tensor], self._subgraph.tensors[result]
        one, other = (each.signature for each in pair)
        return not all(each.has_rank for each in pair) or (len(one) == len(other) and all(
            a == b or -1 in (a, b) for a, b in zip(one, other, strict=True)))


def _is_one(tensor: Tensor) -> bool:
    """Whether a tensor is one number that is known."""
    return tensor.data is not None and tensor.data.size == 1


_OPEN = 1 << 20
"""What stands for a length that is open where sizes are compared: more than other lengths mostly are."""


def _at_length(shape: Shape) -> Shape:
    """A declared shape with a number for each length that is open, the same for all."""
    return tuple(_OPEN if size == -1 else size for size in shape)


def _foldable(subgraph: Subgraph) -> frozenset[int]:
    """The tensors that are known once the shapes of the inputs are."""
    found = {number for number, tensor in enumerate(subgraph.tensors) if tensor.data is not None} | {ABSENT}
    for operator in subgraph.operators:
        op = operator.op
        by_shape = type(op).from_shapes is not Op.from_shapes
        if by_shape or (op.pure and not op.callees() and found.issuperset(operator.inputs)):
            found.update(operator.outputs)
    return frozenset(found)


def _is_told(operator: Operator) -> bool:
    """Whether the run tells the size of a result, which was rounded and so follows from no lengths."""
    return isinstance(operator.op, Resample) and len(operator.inputs) > 3


def _origins(subgraph: Subgraph) -> dict[int, int]:
    """For each tensor the one whose memory it is a view of, or itself."""
    found = {number: number for number in range(ABSENT, len(subgraph.tensors))}
    for operator in subgraph.operators:
        for output, position in operator.op.views().items():
            found[operator.outputs[output]] = found[operator.inputs[position]]
    return found
