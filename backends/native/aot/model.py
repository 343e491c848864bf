"""A model as one module of LLVM's language, for object files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from llvmlite import ir

from circlet.backends.native.aot.cases import Cases, EntryPoint, invoke
from circlet.backends.native.aot.entry import EntryCode, enter
from circlet.backends.native.aot.function import STATE, EmbeddedFunction, Knowledge, Shared
from circlet.backends.native.aot.limits import HEADER_BYTES, ITERATIONS, STOP
from circlet.backends.native.aot.refused import RefusedError, listed
from circlet.backends.native.aot.storage import Constants, State
from circlet.backends.native.emit.emitter import I32, POINTER
from circlet.backends.native.lower.subgraphs import SubgraphLowering
from circlet.backends.native.targets.target import Target
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.ops.controlflow import CallOnce, PreTestedLoop
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class ModelCode:
    """A model in LLVM's language.

    Attributes:
        module: with a function for each entry point, and `init` and `reset` if there is a state.
        constants: of all of them.
        state: of the model.
        entries: the points.
    """

    module: ir.Module
    constants: Constants
    state: State
    entries: Sequence[EntryCode]

    @property
    def arena_bytes(self) -> int:
        """Of an arena for any of the entry points."""
        return max((each.arena_bytes for each in self.entries), default=0)


def lower_model(executors: ExecutorMap, target: Target, name: str, entries: Sequence[EntryPoint], is_limited: bool,
                is_small: bool) -> ModelCode:
    """A model in LLVM's language.

    Args:
        executors: of the model, after the passes of compiled code.
        target: the processor.
        name: of the model, that symbols begin with.
        entries: where runs begin.
        is_limited: whether loops look whether they may go on.
        is_small: whether code is to be small rather than fast.

    Raises:
        RefusedError: there are operators that cannot be compiled.
    """
    model = executors.model
    knowledge = Knowledge(called=_called_first(model, [each.subgraph for each in entries]))
    has_loops = any(isinstance(each.op, PreTestedLoop) for each in _operators(model, [e.subgraph for e in entries]))
    lowering = _Lowering(executors, target, name, is_limited, has_loops and is_limited)
    lowering.start(knowledge)
    settled = knowledge.settled
    found = lowering.lower(entries, knowledge)
    _expect_assigned(knowledge, lowering.variables)
    if knowledge.settled != settled:
        found = lowering.lower(entries, knowledge)
    if is_small:
        for each in found.module.functions:
            if each.blocks:
                each.attributes.add("optsize")
    return found


def _expect_assigned(knowledge: Knowledge, variables: Variables) -> None:
    """Raises RefusedError if a variable is read as what it never is."""
    for handle, kinds in knowledge.kinds.items():
        for shape, dtype in kinds:
            if (handle, shape, dtype) not in knowledge.given:
                raise RefusedError(f"variable {variables.name_of(handle)!r} is read as {dtype.value}{list(shape)}, "
                                   "which is assigned nowhere; it has shapes that are known only when it runs")


class _Lowering:
    def __init__(self, executors: ExecutorMap, target: Target, name: str, is_limited: bool, has_header: bool) -> None:
        self._executors = executors
        self._target = target
        self._name = name
        self._is_limited = is_limited
        self._header_bytes = HEADER_BYTES if has_header else 0
        self.variables = Variables()

    def _shared(self, knowledge: Knowledge) -> Shared:
        """An empty module, with what is known of variables."""
        module = ir.Module(name=self._name)
        module.triple, module.data_layout = self._target.triple, self._target.data_layout
        return Shared(self._target, module, Constants(module, f"{self._name}_constant"), State(self._header_bytes),
                      self.variables, knowledge, self._is_limited)

    def start(self, knowledge: Knowledge) -> None:
        """Finds out which variables have a value before any run, and of which kind."""
        knowledge.assigned = frozenset(self._start(self._shared(knowledge)).assigned)

    def lower(self, entries: Sequence[EntryPoint], knowledge: Knowledge) -> ModelCode:
        """The model, with what is known of its variables; adds to that."""
        shared = self._shared(knowledge)
        cases = [Cases(shared, self._executors, each) for each in entries]
        for each in cases:
            each.lower()
        start = self._start(shared)
        functions = (start, *(body.function for each in cases for body in each.bodies))
        refused = {place: reason for each in functions for place, reason in each.refused.items()}
        if refused:
            raise RefusedError(listed(refused))
        codes = [enter(shared, entry, found) for entry, found in zip(entries, cases, strict=True)]
        if shared.state.nbytes:
            _publish(shared, self._name, start)
        return ModelCode(shared.module, shared.constants, shared.state, codes)

    def _start(self, shared: Shared) -> EmbeddedFunction:
        """The function that makes the state what it is before any run; written last, as the others place it."""
        function = EmbeddedFunction(f"{self._name}_start", shared, (STATE,))
        function.initialise(shared.state)
        for callee in shared.knowledge.called:
            invoke(SubgraphLowering(function, self._executors), function, callee, [], [], ends=False)
        function.finish()
        if function.arena_bytes:
            raise RefusedError("what CALL_ONCE invokes needs memory to compute in")
        return function


def _publish(shared: Shared, name: str, start: EmbeddedFunction) -> None:
    """The functions `init` and `reset`, of the address of the state."""
    for suffix, has_header in (("init", True), ("reset", False)):
        function = ir.Function(shared.module, ir.FunctionType(ir.VoidType(), [POINTER]), f"{name}_{suffix}")
        function.attributes.add("nounwind")
        (state,) = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        if has_header and shared.state.header_bytes:
            for word, value in ((STOP, 0), (ITERATIONS, -1)):
                b.store(I32(value), b.gep(state, [I32(word)], source_etype=I32))
        b.call(start.e.function, [state])
        b.ret_void()


def _operators(model: Model, entries: Sequence[int]) -> Iterator[Operator]:
    """All operators that entry points come to."""
    left, seen = [*entries], set(entries)
    while left:
        for each in model.subgraphs[left.pop()].operators:
            yield each
            left += (found := [callee for callee in each.op.callees() if callee not in seen])
            seen.update(found)


def _called_first(model: Model, entries: Sequence[int]) -> tuple[int, ...]:
    """The subgraphs that CALL_ONCE runs at the beginning of every entry point that has to do with variables, in the
    same order, and that do nothing but assign them: they may be run before."""
    found: tuple[int, ...] | None = None
    for index in entries:
        kinds = (CallOnce, AssignVariable, ReadVariable)
        if not any(isinstance(each.op, kinds) for each in _operators(model, [index])):
            continue
        first = tuple(dict.fromkeys(_leading(model, index)))
        found = first if found is None else tuple(one for one, _ in takewhile(
            lambda pair: pair[0] == pair[1], zip(found, first, strict=False)))
    return found or ()


def _leading(model: Model, index: int) -> Iterator[int]:
    """The subgraphs that CALL_ONCE runs before anything else may have to do with variables."""
    for each in model.subgraphs[index].operators:
        if isinstance(each.op, CallOnce):
            (callee,) = each.op.callees()
            inner = model.subgraphs[callee].operators
            if not all(isinstance(each.op, (VarHandle, AssignVariable)) for each in inner):
                return
            yield callee
        elif each.op.callees() or isinstance(each.op, (AssignVariable, ReadVariable)):
            return
