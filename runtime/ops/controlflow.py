"""Operators that invoke other subgraphs."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from circlet.runtime.errors import Place
from circlet.runtime.ir.op import Callee, Count, Op, Operand, Operands, ShapeError, Unknown, at_least, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.ir.model import Subgraph

Variable: TypeAlias = "tuple[str, str]"
"""Container and name."""


def _shapes(args: Operands, skip: int = 0) -> tuple[Shape, ...]:
    return tuple(args[k].shape for k in range(skip, len(args)))


def one_element(shape: Shape) -> None:
    """Raises ShapeError unless a condition of this shape is scalar or has one element."""
    if prod(shape) != 1:
        raise ShapeError(f"the condition must have exactly one element, found shape {shape}")


@dataclass(frozen=True)
class ControlFlow(Op):
    """Base of the operators that invoke other subgraphs."""

    pure: ClassVar[bool] = False

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,) * args.outputs


@dataclass(frozen=True)
class Branch(ControlFlow):
    """Input 0 selects a subgraph; the other inputs are its inputs and its outputs are the results."""

    inputs: ClassVar[Count] = at_least(1)
    results: ClassVar[Count] = at_least(0)
    selector: ClassVar[DType]
    """The element type of input 0."""

    def branches(self) -> tuple[int, ...]:
        """The subgraphs to select from."""
        return self.callees()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        self._check_selector(args[0])
        shapes = _shapes(args, skip=1)
        if args[0].known is not None:
            return args.call(self.branches()[self.select(int(args[0].known.item()))], shapes)
        found = {args.call(branch, shapes) for branch in self.branches()}
        if len(found) != 1:
            raise Unknown
        return found.pop()

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        self._check_selector(args[0])
        return super().types(args)

    @abstractmethod
    def select(self, value: int) -> int:
        """Which of `branches` the value of input 0 selects."""

    def _check_selector(self, found: Operand) -> None:
        if not self.branches():
            raise ShapeError("expected at least one subgraph to select from, found none")
        if found.dtype is not self.selector or prod(found.shape) != 1:
            raise ShapeError(f"input 0 selects the subgraph: expected {self.selector.value} with exactly one element, "
                             f"found {found.dtype.value} of shape {found.shape}")


@operator
@dataclass(frozen=True)
class If(Branch):
    """Runs one of two subgraphs."""

    name: ClassVar[str] = "IF"
    table: ClassVar[str | None] = "IfOptions"
    selector: ClassVar[DType] = DType.BOOL
    then_subgraph_index: int = -1
    else_subgraph_index: int = -1

    def calls(self) -> tuple[Callee, ...]:
        return (Callee("then", self.then_subgraph_index, first=1), Callee("else", self.else_subgraph_index, first=1))

    def select(self, value: int) -> int:
        return 0 if value else 1


@operator
@dataclass(frozen=True)
class StablehloCase(Branch):
    """Runs the subgraph that an int32 index selects, the last one where the index is out of range."""

    name: ClassVar[str] = "STABLEHLO_CASE"
    table: ClassVar[str | None] = "StablehloCaseOptions"
    selector: ClassVar[DType] = DType.INT32
    branch_subgraph_indices: tuple[int, ...] = ()

    def calls(self) -> tuple[Callee, ...]:
        return tuple(Callee(f"branch {k}", each, first=1) for k, each in enumerate(self.branch_subgraph_indices))

    def select(self, value: int) -> int:
        count = len(self.branch_subgraph_indices)
        return value if 0 <= value < count else count - 1


@dataclass(frozen=True)
class PreTestedLoop(ControlFlow):
    """Runs a body on the carried values while a condition on them holds."""

    inputs: ClassVar[Count] = at_least(1)
    results: ClassVar[Count] = at_least(1)
    counts: ClassVar[bool] = True
    """Whether its turns are iterations of the model, of which a run may have a limited number."""
    cond_subgraph_index: int = -1
    body_subgraph_index: int = -1

    def calls(self) -> tuple[Callee, ...]:
        return (Callee("cond", self.cond_subgraph_index, predicate=True), Callee("body", self.body_subgraph_index))

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return tuple(args[k].dtype for k in range(len(args)))

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        carried = _shapes(args)
        if args.call(self.body_subgraph_index, carried) != carried:
            raise Unknown
        one_element(args.call(self.cond_subgraph_index, carried)[0])
        return carried


@operator
@dataclass(frozen=True)
class While(PreTestedLoop):
    """The converter's loop."""

    name: ClassVar[str] = "WHILE"
    table: ClassVar[str | None] = "WhileOptions"


@operator
@dataclass(frozen=True)
class StablehloWhile(PreTestedLoop):
    """StableHLO's loop, with the same meaning."""

    name: ClassVar[str] = "STABLEHLO_WHILE"
    table: ClassVar[str | None] = "StablehloWhileOptions"


@dataclass(frozen=True)
class LoopRounds(PreTestedLoop):
    """A WHILE whose turns are not iterations of the model: each of them makes room for many.

    No format has this operator; `pad_growth` makes it.
    """

    name: ClassVar[str] = "LOOP_ROUNDS"
    counts: ClassVar[bool] = False


@dataclass(frozen=True)
class Invoke(ControlFlow):
    """Runs a subgraph unconditionally."""

    inputs: ClassVar[Count] = at_least(0)
    results: ClassVar[Count] = at_least(0)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return args.call(self.callees()[0], _shapes(args))


@operator
@dataclass(frozen=True)
class CallSubgraph(Invoke):
    """CALL of the Circle format."""

    name: ClassVar[str] = "CALL"
    table: ClassVar[str | None] = "CallOptions"
    subgraph: int = -1

    def calls(self) -> tuple[Callee, ...]:
        return (Callee("callee", self.subgraph),)


@operator
@dataclass(frozen=True)
class Composite(Invoke):
    """A named operation given by its decomposition."""

    name: ClassVar[str] = "STABLEHLO_COMPOSITE"
    table: ClassVar[str | None] = "StableHLOCompositeOptions"
    composite_name: str = ""
    decomposition_subgraph_index: int = -1
    composite_attributes: bytes = b""
    composite_attributes_format: int = 0
    version: int = 0

    def calls(self) -> tuple[Callee, ...]:
        return (Callee("decomposition", self.decomposition_subgraph_index),)


@operator
@dataclass(frozen=True)
class CallOnce(ControlFlow):
    """Runs an initialisation subgraph the first time a session reaches it."""

    name: ClassVar[str] = "CALL_ONCE"
    table: ClassVar[str | None] = "CallOnceOptions"
    has_state: ClassVar[bool] = True
    inputs: ClassVar[Count] = exactly(0)
    results: ClassVar[Count] = exactly(0)
    init_subgraph_index: int = -1

    def calls(self) -> tuple[Callee, ...]:
        return (Callee("init", self.init_subgraph_index),)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if args.call(self.init_subgraph_index, ()) != ():
            raise ShapeError("the initialisation subgraph has outputs")
        return ()


@dataclass(frozen=True)
class Words:
    """A result of text: of a table along an axis, at the integers that a subgraph gives in its place."""

    result: int
    """Which it is of all."""
    table: tuple[bytes, ...]
    shape: Shape
    """Of the table."""
    axis: int
    target: Shape | None
    """What the result is reshaped to, a -1 and ones; None if it is not."""
    place: Place
    """Of the operator that looks it up."""


@dataclass(frozen=True)
class CallOnVariables(ControlFlow):
    """Runs a subgraph on the inputs and, behind them, the values of variables; what it gives behind the results is what
    variables become, and integers among these may stand for text.

    No format has this operator; `lift_variables` and `lift_words` make it.
    """

    name: ClassVar[str] = "CALL_ON_VARIABLES"
    inputs: ClassVar[Count] = at_least(0)
    results: ClassVar[Count] = at_least(0)
    subgraph: int = -1
    first_subgraph: int = -1
    """The subgraph that gives of the inputs what stands for those variables that have no value."""
    read: tuple[Variable, ...] = ()
    """What the subgraph takes; a variable may be there more than once."""
    assigned: tuple[Variable, ...] = ()
    flags: tuple[Variable, ...] = ()
    """What becomes true, as variables have values from here on."""
    once: tuple[int, ...] = ()
    """The subgraphs that count as those that CALL_ONCE has run."""
    words: tuple[Words, ...] = ()
    plain_subgraph: int = -1
    """The subgraph as it was, for runs that are bound to arrays; -1 where that is no better."""

    def calls(self) -> tuple[Callee, ...]:
        found = {"callee": self.subgraph, "first": self.first_subgraph, "plain": self.plain_subgraph}
        return tuple(Callee(name, index, is_mapped=True) for name, index in found.items() if index >= 0)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        raise Unknown


def lifted_variables(graph: Subgraph) -> CallOnVariables | None:
    """What a subgraph is whose variables, or integers that stand for text, are inputs and results of another one; None
    of others."""
    return next((each.op for each in graph.operators if isinstance(each.op, CallOnVariables)), None)
