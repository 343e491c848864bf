"""Infers the shape of every tensor of a subgraph for concrete input shapes, and computes what is constant there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from itertools import chain
from math import prod
from typing import TypeAlias

from circlet.runtime.errors import ExecutionError, LimitError, plural
from circlet.runtime.ir.faults import FAULTS, raise_located
from circlet.runtime.ir.length import Scope, computed_number, is_open, scope_of, value
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.op import Operand, Operands, ShapeError, Unknown
from circlet.runtime.ir.ratio import EXACT
from circlet.runtime.ir.tensor import types_of
from circlet.runtime.ir.types import Array, DType, Shape, fits
from circlet.runtime.late import LOADING
from circlet.runtime.ops.controlflow import Branch, Invoke, PreTestedLoop, one_element
from circlet.runtime.ops.operands import expect_storable
from circlet.runtime.passes.analyses.entry import (
    MOST_OPEN,
    NUMBERS,
    Values,
    closed,
    entry,
    invoked_with,
    is_few,
    known_inputs,
    late_sizes,
    passed_on,
    sized_inputs,
    values_of,
)
from circlet.runtime.passes.analyses.equalities import laying
from circlet.runtime.passes.analyses.growing import in_turns, settled
from circlet.runtime.passes.analyses.joining import is_in_error, joined, of_more_axes
from circlet.runtime.passes.analyses.told import NOTHING, Teller, Told, lacks_sizes
from circlet.runtime.records import dataclass

MEMO_SIZE = 256
FOLDED_BYTES = 1 << 20
"""A larger constant result is kept only if it has at most four bytes for each element that it was computed from."""
MOST_FLOATS = 16
"""In a tensor of floats that lengths become in between; a choice."""

Evaluate: TypeAlias = Callable[[int, int, list["Array | None"], tuple[Shape, ...]], "Sequence[Array]"]
"""Computes operator `(subgraph, operator)` from constant inputs into arrays of the given shapes."""


@dataclass(frozen=True, eq=False)
class Specialization:
    """A subgraph at concrete input shapes, as far as it is known before it runs."""

    index: int
    subgraph: Subgraph
    promised: bool
    """The input shapes fit the declared ones, so that declared output shapes hold."""
    shapes: tuple[Shape | None, ...]
    """By tensor; None where only a run can tell."""
    known: Mapping[int, Array]
    """Constants of the model and results computed from them and from shapes, by tensor."""
    stop: int
    """The first operator whose output shapes depend on data; the number of operators if there is none."""
    general: General | None = None
    """What it is a case of, if it was derived so."""
    lengths: tuple[int, ...] = ()
    """The lengths of which case: open ones, and what there is at first of those that the run computes."""
    scope: Scope | None = None
    """What is assumed of lengths that differ from run to run, where there are any."""
    told: Told = NOTHING
    """What only the run tells of tensors of integers, as lengths that it computes."""
    is_of_one_run: bool = False
    """Whether shapes follow from values of a run, so that inputs of the same shapes may have others."""

    @property
    def is_open(self) -> bool:
        """Whether there may be lengths among shapes and values that differ from run to run."""
        return self.scope is not None

    @property
    def is_static(self) -> bool:
        return self.stop == len(self.subgraph.operators)

    def shape(self, tensor: int) -> Shape:
        """The shape of a tensor.

        Raises:
            Unknown: only a run can tell.
        """
        shape = self.shapes[tensor]
        if shape is None:
            raise Unknown
        return shape

    @property
    def output_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the subgraph's outputs; raises Unknown where only a run can tell."""
        if not self.is_static:
            raise Unknown
        return tuple(self.shape(index) for index in self.subgraph.outputs)


@dataclass(frozen=True, eq=False)
class General:
    """A subgraph at shapes of which some lengths are open, as far as it is known before it runs."""

    spec: Specialization
    """With a `Length` for what is open."""
    scope: Scope
    """What is assumed of these."""
    stop: int
    """The first operator of which a run computes the lengths of results; the end of `spec` if there is none."""
    at_first: tuple[int, ...]
    """What there is at first of the lengths that the run computes; plans of subgraphs that are never run may add others
    to the scope later."""
    opened: tuple[tuple[int, int], ...]
    """Input and axis of each open length, by number."""

    def all_lengths(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """Open lengths, and behind them what there is at first of those that the run computes."""
        return (*lengths, *self.at_first)

    def fits(self, lengths: Sequence[int]) -> bool:
        """Whether it holds for some open lengths."""
        found = self.all_lengths(lengths)
        return self.scope.premises.serve(lengths) and all(each.fits(found) for each in self.scope.assumptions)

    def case(self, opened: tuple[int, ...]) -> Specialization:
        """The subgraph at some open lengths.

        Raises:
            ExecutionError, LimitError: a result does not fit any memory.
        """
        spec, late, lengths = self.spec, self._late, self.all_lengths(opened)
        shapes = tuple(None if each is None or number in late else tuple([value(size, lengths) for size in each])
                       for number, each in enumerate(spec.shapes))
        known = {tensor: closed(array, lengths, spec.subgraph.tensors[tensor].dtype.numpy)
                 if is_open_value(array) else array for tensor, array in spec.known.items() if tensor not in late}
        return replace(spec, shapes=shapes, known=known, stop=self.stop, general=self, lengths=lengths, scope=None,
                       told=NOTHING)

    @cached_property
    def _late(self) -> frozenset[int]:
        """The results of operators from `stop` on."""
        operators = self.spec.subgraph.operators[self.stop:]
        return frozenset(tensor for each in operators for tensor in each.outputs)


def is_open_value(array: Array) -> bool:
    """Whether a value holds a length that is open."""
    return array.dtype.hasobject and is_open(array.flat)


class Specializer:
    """Specialises the subgraphs of one model; results are kept for a bounded number of input shapes."""

    def __init__(self, model: Model, evaluate: Evaluate) -> None:
        self._model = model
        self._evaluate = evaluate
        self._read = cache(self._read_inputs)
        self._sized = cache(self._sized_inputs)
        self._fixed = lru_cache(MEMO_SIZE)(self._derived)

    def at(self, index: int, inputs: tuple[Shape, ...], scope: Scope | None = None) -> Specialization:
        """A subgraph at some shapes of inputs; with a scope, of which open lengths are, it holds for others, too."""
        scope = scope or scope_of(chain(*inputs, *(numbers for _, numbers in values_of(inputs))))
        if scope is None:
            return self._fixed(index, inputs)
        found = scope.derived.get((index, inputs))
        if not isinstance(found, Specialization):
            found = scope.derived[index, inputs] = self._derived(index, inputs, scope)
        return found

    def _derived(self, index: int, inputs: tuple[Shape, ...], scope: Scope | None = None) -> Specialization:
        subgraph = self._model.subgraphs[index]
        shapes: list[Shape | None] = [None] * len(subgraph.tensors)
        known: dict[int, Array] = {}
        for number, tensor in enumerate(subgraph.tensors):
            if tensor.data is not None:
                shapes[number] = tensor.shape
                known[number] = tensor.data
            elif tensor.is_variable:
                shapes[number] = tensor.shape
        known.update(known_inputs(subgraph, inputs))
        promised = True
        for tensor_index, shape in zip(subgraph.inputs, inputs, strict=True):
            shapes[tensor_index] = shape
            problem = subgraph.tensors[tensor_index].misfit(shape)
            if problem is not None:
                label = subgraph.tensor_label(tensor_index)
                raise ExecutionError(f"subgraph {index} ({subgraph.name!r}), input {label}: {problem}")
            promised = promised and fits(shape, subgraph.tensors[tensor_index].signature)
        return self.extend(Specialization(index, subgraph, promised, tuple(shapes), known, 0, scope=scope))

    def extend(self, so_far: Specialization, values: Mapping[int, Array] | None = None) -> Specialization:
        """Goes on from operator `so_far.stop`, whose inputs now have `values`.

        Where its output shapes stay unknown the result stops there again.

        Raises:
            ExecutionError: the shapes or values do not fit an operator.
            LimitError: a result is larger than any memory.
        """
        shapes, known, stop = list(so_far.shapes), dict(so_far.known), so_far.stop
        floats: dict[int, Array] = {}
        subgraph = so_far.subgraph
        teller = None if so_far.scope is None else Teller(subgraph, so_far.scope, shapes, known, so_far.told)
        at_hand: Mapping[int, Array] = known if values is None else {**values, **known}
        for stop in range(so_far.stop, len(subgraph.operators)):
            operator = subgraph.operators[stop]
            found = self._infer(so_far, stop, shapes, at_hand, teller)
            if found is None:
                break
            for tensor, shape in zip(operator.outputs, found, strict=True):
                shapes[tensor] = shape
            self._fold(so_far, stop, shapes, known, floats)
            at_hand = known
        else:
            stop = len(subgraph.operators)
        return replace(so_far, shapes=tuple(shapes), known=known, stop=stop, general=None, lengths=(),
                       told=NOTHING if teller is None else teller.told,
                       is_of_one_run=so_far.is_of_one_run or values is not None)

    def _infer(self, so_far: Specialization, number: int, shapes: list[Shape | None],
               values: Mapping[int, Array], teller: Teller | None) -> tuple[Shape, ...] | None:
        operator = so_far.subgraph.operators[number]
        passed: Values = ()
        if teller is not None:
            passed = teller.pass_on(operator, {position: values[each] for position, each in self._passed_on(
                so_far.subgraph, operator, shapes, self._read).items() if each in values})
        try:
            with laying(so_far.scope, operator.op):
                found = operator.op.checked(self._operands(so_far, operator, shapes, values, passed))
            expect_storable(found)
            if len(found) != len(operator.outputs):
                raise ShapeError(f"expected {plural(len(found), 'output')}, found {len(operator.outputs)}")
            for tensor, shape in zip(operator.outputs, found, strict=False):
                problem = so_far.subgraph.tensors[tensor].misfit(shape)
                if problem is not None:
                    raise ShapeError(f"output {so_far.subgraph.tensor_label(tensor)}: {problem}")
            return found
        except Unknown:
            declared = [so_far.subgraph.tensors[index] for index in operator.outputs]
            is_whole = so_far.scope is None or not operator.op.parts()  # of a group, members have shapes beside
            promised = so_far.promised and is_whole and not operator.op.callees()
            if promised and all(each.is_static for each in declared):
                return tuple(each.shape for each in declared)
            return self._computed(so_far, number, shapes, values, teller)
        except FAULTS as error:
            if so_far.is_open:
                return None
            raise_located(error, so_far.subgraph.place(so_far.index, number))

    def _computed(self, so_far: Specialization, number: int, shapes: list[Shape | None],
                  values: Mapping[int, Array], teller: Teller | None) -> tuple[Shape, ...] | None:
        """The shapes of results of which the run computes lengths, where these are bounded."""
        operator = so_far.subgraph.operators[number]
        if so_far.scope is None or teller is None or any(
                shapes[each] is None for each in operator.inputs if each != ABSENT):
            return None
        same = _of_same(so_far.subgraph, number, shapes)
        if same is not None:
            return same
        try:
            if operator.op.callees():
                return self._through(so_far, operator, shapes, values, teller)
            return teller.shapes(operator, lambda told: self._operands(so_far, operator, shapes, told)) or (
                operator.op.bounded(self._operands(so_far, operator, shapes, {**values, **teller.parts(operator)}),
                                    partial(so_far.scope.late, least=so_far.scope.premises.told)
                                    if operator.op.parts_from or operator.op.sizes else so_far.scope.late))
        except (Unknown, *FAULTS):
            return None

    def _through(self, so_far: Specialization, operator: Operator, shapes: list[Shape | None],
                 values: Mapping[int, Array], teller: Teller) -> tuple[Shape, ...] | None:
        """The shapes of what subgraphs give that an operator invokes. If they do not follow otherwise, these know
        numbers as lengths that sizes follow from in them."""
        passed = dict(teller.told.passed.get(operator, ()))
        if isinstance(operator.op, Branch) and operator.inputs[0] not in values:
            given = entry((shapes[each] or () for each in invoked_with(operator)), tuple(passed.items()))
            only = self._only_branch(operator.op, given, so_far.scope)
            if only is not None:
                found = self.callee(operator.op.branches()[only], given, so_far.scope, takes_late=True).output_shapes
                teller.take(operator, only)
                return found
        with suppress(Unknown, *FAULTS):
            return self._invoked(so_far, operator, shapes, values, tuple(passed.items()))
        wanted = self._passed_on(so_far.subgraph, operator, shapes, self._sized)
        if wanted.keys() <= passed.keys():
            return None
        operands = {**wanted, **{position: invoked_with(operator)[position] for position in passed}}
        return teller.invoking(operator, operands, partial(self._invoked, so_far, operator, shapes, values))

    def _invoked(self, so_far: Specialization, operator: Operator, shapes: list[Shape | None],
                 values: Mapping[int, Array], passed: Values) -> tuple[Shape, ...]:
        """The same, where some operands are known to the subgraphs."""
        op, scope = operator.op, so_far.scope
        assert scope is not None
        given = entry((shapes[each] or () for each in invoked_with(operator)), passed)
        if isinstance(op, PreTestedLoop):
            return self._settled(op, given, scope)
        if isinstance(op, Branch) and operator.inputs[0] not in values:
            return self._joined(op, given, scope)
        return op.infer(self._operands(so_far, operator, shapes, values, passed))

    def _passed_on(self, subgraph: Subgraph, operator: Operator, shapes: list[Shape | None],
                   among: Callable[[int], Collection[int]]) -> Mapping[int, int]:
        """See `passed_on`; of operands those that are numbers which shapes may follow from."""
        return {position: each for position, each in passed_on(self._model, operator, among).items()
                if is_few(subgraph.tensors[each].dtype, shapes[each])}

    def _read_inputs(self, index: int) -> frozenset[int]:
        """The inputs of a subgraph, by position, that its operators read."""
        subgraph = self._model.subgraphs[index]
        read = {each for operator in subgraph.operators for each in operator.inputs}
        return frozenset(position for position, each in enumerate(subgraph.inputs) if each in read)

    def _sized_inputs(self, index: int) -> frozenset[int]:
        """The inputs of a subgraph, by position, that sizes follow from."""
        return sized_inputs(self._model.subgraphs[index], self._sized)

    def _settled(self, op: PreTestedLoop, initial: tuple[Shape, ...], scope: Scope) -> tuple[Shape, ...]:
        """The shapes of a loop's carried values in any turn."""
        if not op.counts:
            raise Unknown
        found = settled(op, initial, scope, lambda shapes: self.body(op, shapes, scope).output_shapes)
        scope.turns.end(computed_number(size) for shape in found for size in shape)
        return found

    def _joined(self, op: Branch, inputs: tuple[Shape, ...], scope: Scope) -> tuple[Shape, ...]:
        """The shapes of what one of several subgraphs gives, of which the run tells which one it is."""
        with scope.tentatively() as keep:
            found = joined([self.callee(each, inputs, scope, takes_late=True).output_shapes for each in op.branches()],
                           scope)
            keep()
            return found

    def _only_branch(self, op: Branch, inputs: tuple[Shape, ...], scope: Scope | None) -> int | None:
        """The branch, by number, that is the only one which can be computed for these inputs, or gives results of more
        axes than others; None if there are more, or none."""
        left = [number for number, each in enumerate(op.branches()) if not self._fails(each, inputs, scope)]
        if len(left) == 1 < len(op.branches()):
            return left[0]
        with suppress(Unknown):
            return of_more_axes([self.callee(each, inputs, scope, takes_late=True).output_shapes
                                 for each in op.branches()])
        return None

    def _fails(self, index: int, inputs: tuple[Shape, ...], scope: Scope | None) -> bool:
        """Whether a subgraph cannot be computed for any inputs of these shapes, for which an operator is in error."""
        try:
            spec = self.within(index, inputs, scope)
        except (ExecutionError, LimitError):
            return True
        if spec.is_static or spec.scope is None:
            return False
        operator = spec.subgraph.operators[spec.stop]
        return is_in_error(operator, spec.shapes, lambda: operator.op.infer(
            self._operands(spec, operator, list(spec.shapes), spec.known)))

    def within(self, index: int, inputs: tuple[Shape, ...], scope: Scope | None) -> Specialization:
        """As `at`, where lengths differ from run to run: the subgraph may compute some if its shapes are fixed, too."""
        found = self.at(index, inputs)
        return found if found.is_static or found.is_open or scope is None else self.at(index, inputs, scope)

    def body(self, op: PreTestedLoop, shapes: tuple[Shape, ...], scope: Scope | None) -> Specialization:
        """The body of a loop in any turn, of carried values of these shapes, which need not be those that it makes.

        Raises:
            Unknown: only a run can tell those, or whether the body and the condition can run at all.
            ShapeError: the condition has several elements, or none.
        """
        one_element(self.callee(op.cond_subgraph_index, shapes, scope).output_shapes[0])
        return self.callee(op.body_subgraph_index, in_turns(op, shapes, scope), scope, takes_late=True)

    def _operands(self, so_far: Specialization, operator: Operator, shapes: list[Shape | None],
                  values: Mapping[int, Array], passed: Values = ()) -> Operands:
        operands: list[Operand | None] = []
        for index in operator.inputs:
            if index == ABSENT:
                operands.append(None)
                continue
            shape, tensor = shapes[index], so_far.subgraph.tensors[index]
            if shape is None:
                raise Unknown
            operands.append(Operand(tensor.dtype, shape, values.get(index), tensor.quantization))
        is_certain = isinstance(operator.op, Invoke) or operator.op.asks_turn or (
            isinstance(operator.op, Branch) and operator.inputs[0] in values)
        return Operands(tuple(operands), len(operator.outputs), partial(
            self._call, so_far.scope, is_certain, passed), types_of(so_far.subgraph.tensors, operator.outputs),
            partial(self._asked, so_far.scope, passed))

    def callee(self, index: int, inputs: tuple[Shape, ...], scope: Scope | None = None,
               takes_late: bool = False) -> Specialization:
        """A subgraph that an operator invokes, with output shapes that are known when its inputs are, or `takes_late`.

        Raises:
            Unknown: only a run can tell them, or whether the subgraph can run at all. It may never be invoked: the
                branch not taken, the body of a loop without turns.
        """
        try:
            found = self._fixed(index, inputs) if scope is None else self.at(index, inputs)
            if scope is not None and not found.is_static and not found.is_open:  # as `within`, of which calls nest deep
                found = self.at(index, inputs, scope)
        except (ExecutionError, LimitError):
            raise Unknown from None
        if not found.is_static:
            if scope is not None:
                scope.lacks_sizes = scope.lacks_sizes or lacks_sizes(found.subgraph.operators[found.stop], found.known)
            raise Unknown
        if not takes_late and found.is_open and not late_sizes(found.output_shapes) <= late_sizes(inputs):
            raise Unknown
        return found

    def _call(self, scope: Scope | None, is_certain: bool, passed: Values, subgraph: int, shapes: tuple[Shape, ...]
              ) -> tuple[Shape, ...]:
        """The shapes of the results of a subgraph, whose lengths may be computed by it where it is certain to run."""
        return self.callee(subgraph, entry(shapes, passed), scope, takes_late=is_certain).output_shapes

    def _asked(self, scope: Scope | None, passed: Values, subgraph: int, shapes: tuple[Shape, ...], output: int,
               is_told: bool) -> Shape:
        """The shape of one result of a subgraph that may never be invoked, or is sure to be if it `is_told` numbers."""
        given = entry(shapes, passed if is_told else ())
        found = self.callee(subgraph, given, scope, takes_late=is_told).output_shapes[output]
        if not late_sizes((found,)) <= late_sizes(given):
            raise Unknown
        return found

    def _fold(self, so_far: Specialization, number: int, shapes: list[Shape | None], known: dict[int, Array],
              floats: dict[int, Array]) -> None:
        """Computes the operator's results now if they are the same in every run, or follow from open lengths alone;
        `floats` has those of floats that do, which the run computes all the same."""
        subgraph = so_far.subgraph
        operator = subgraph.operators[number]
        op = operator.op
        if not operator.outputs or not op.pure:
            return
        out_shapes = tuple(shapes[each] or () for each in operator.outputs)
        if is_open(size for shape in out_shapes for size in shape):
            return
        values: Sequence[Array] | None = op.from_shapes(self._operands(so_far, operator, shapes, known))
        if values is None:
            if any(each != ABSENT and each not in known and each not in floats for each in operator.inputs):
                return
            inputs = [None if each == ABSENT else known[each] if each in known else floats[each]
                      for each in operator.inputs]
            if not _worth_keeping(subgraph, operator, out_shapes, inputs):
                return
            is_open_now = any(each in floats for each in operator.inputs) or any(
                each is not None and is_open_value(each) for each in inputs)
            values = (_followed(subgraph, operator, inputs, out_shapes) if is_open_now else
                      self._evaluate(so_far.index, number, inputs, out_shapes))
            if values is None:
                return
            if is_open_now and subgraph.tensors[operator.outputs[0]].dtype in EXACT:
                floats.update(zip(operator.outputs, values, strict=True))
                return
        for tensor, found in zip(operator.outputs, values, strict=True):
            dtype = subgraph.tensors[tensor].dtype.numpy
            known[tensor] = found if found.dtype == dtype or is_open_value(found) else closed(found, (), dtype)
            known[tensor].setflags(write=False)


def _of_same(subgraph: Subgraph, number: int, shapes: Sequence[Shape | None]) -> tuple[Shape, ...] | None:
    """The shapes of what an operator before gives that computes the same of the same; None where there is none."""
    same = subgraph.same_before(number)
    found = () if same is None else tuple(shape for each in same.outputs if (shape := shapes[each]) is not None)
    return found if len(found) == len(subgraph.operators[number].outputs) > 0 else None


def _followed(subgraph: Subgraph, operator: Operator, inputs: list[Array | None], shapes: tuple[Shape, ...]
              ) -> Sequence[Array] | None:
    """The results of an operator on values that hold open lengths; None where only a run computes them."""
    dtypes = [subgraph.tensors[each].dtype for each in operator.outputs]
    if not {*dtypes} <= {*NUMBERS, DType.BOOL, *EXACT}:
        return None
    if any(prod(each) > (MOST_FLOATS if EXACT.keys() & {*dtypes} else MOST_OPEN) for each in shapes):
        return None
    with LOADING:
        from circlet.runtime.passes.analyses.open_values import open_results, valued

    try:
        found = open_results(operator.op, inputs, shapes)
        return None if found is None else [valued(each, dtype) for dtype, each in zip(dtypes, found, strict=True)]
    except (Unknown, *FAULTS):
        return None


def _worth_keeping(subgraph: Subgraph, operator: Operator, shapes: tuple[Shape, ...],
                   inputs: list[Array | None]) -> bool:
    size = sum(prod(shape) * subgraph.tensors[index].dtype.numpy.itemsize
               for index, shape in zip(operator.outputs, shapes, strict=True))
    given = sum(max(each.nbytes, prod(subgraph.tensors[index].shape))
                for index, each in zip(operator.inputs, inputs, strict=True) if each is not None)
    return size <= max(FOLDED_BYTES, 4 * given)
