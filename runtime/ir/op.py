"""What an operator is to the rest of circlet: its options, its shape rule and how its results share memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from circlet.runtime.errors import CircletError
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization, Shape
from circlet.runtime.records import dataclass

UNBOUNDED = 1 << 30


class Unknown(Exception):
    """A shape rule asked for a value that only a run can tell."""


class ShapeError(CircletError, ValueError):
    """The operands' shapes or values do not fit the operator."""

    member: tuple[int, str] | None = None
    """The number and the name of the operator that it is, of those that were made one."""


@dataclass(frozen=True)
class Count:
    """How many operands an operator takes."""

    least: int
    most: int

    def admits(self, count: int) -> bool:
        return self.least <= count <= self.most

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.least)
        return f"at least {self.least}" if self.most == UNBOUNDED else f"{self.least} to {self.most}"


def exactly(count: int) -> Count:
    return Count(count, count)


def between(least: int, most: int) -> Count:
    return Count(least, most)


def at_least(least: int) -> Count:
    return Count(least, UNBOUNDED)


@dataclass(frozen=True)
class Operand:
    """One input as a shape rule sees it."""

    dtype: DType
    shape: Shape
    known: Array | None = None
    """The value, where it is constant or already computed."""
    quantization: Quantization | None = None

    @classmethod
    def of(cls, tensor: Tensor, array: Array, is_known: bool = True) -> Operand:
        """What a tensor is on an array, which has the bytes alone of a constant that numpy has no type for."""
        is_whole = tensor.data is None or tensor.dtype.is_computable
        return cls(tensor.dtype, array.shape if is_whole else tensor.shape, array if is_known else None,
                   tensor.quantization)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def value(self) -> Array:
        """The value of the operand.

        Raises:
            Unknown: only a run can tell.
        """
        if self.known is None:
            raise Unknown
        return self.known


class Operands:
    """The inputs of one operator as its shape and type rules see them."""

    def __init__(
        self, operands: tuple[Operand | None, ...], outputs: int,
        call: Callable[[int, tuple[Shape, ...]], tuple[Shape, ...]] | None = None, declared: Sequence[DType] = (),
        ask: Callable[[int, tuple[Shape, ...], int, bool], Shape] | None = None,
    ) -> None:
        self._operands = operands
        self._call = call
        self._ask = ask
        self.outputs = outputs
        """How many outputs the operator has."""
        self.declared = declared
        """Their element types, for operators that may give any; none where these are not known."""

    def __len__(self) -> int:
        return len(self._operands)

    def __getitem__(self, index: int) -> Operand:
        operand = self.get(index)
        if operand is None:
            raise ShapeError(f"input {index} is required and absent")
        return operand

    def get(self, index: int) -> Operand | None:
        """The operand at `index`; None where it is optional and absent."""
        return self._operands[index] if index < len(self._operands) else None

    def call(self, subgraph: int, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The output shapes of another subgraph for the given input shapes.

        Raises:
            Unknown: only a run can tell.
        """
        if self._call is None:
            raise Unknown
        return self._call(subgraph, shapes)

    def ask(self, subgraph: int, shapes: tuple[Shape, ...], output: int, is_told: bool = False) -> Shape:
        """The shape of one output of a subgraph that the operator does not invoke, for the given input shapes; if it
        `is_told`, of one that is sure to be invoked, and knows the numbers that are the same whenever it is.

        Raises:
            Unknown: only a run can tell.
        """
        if self._ask is None:
            return self.call(subgraph, shapes)[output]
        return self._ask(subgraph, shapes, output, is_told)


@dataclass(frozen=True)
class Callee:
    """A subgraph that an operator invokes, and what passes between the two."""

    role: str
    """What the subgraph is to the operator, e.g. `body`."""
    subgraph: int
    first: int = 0
    """The subgraph takes the operator's inputs from this one on."""
    predicate: bool = False
    """The subgraph gives one BOOL element; otherwise it gives the operator's outputs."""
    is_mapped: bool = False
    """What passes between the two is not all operands in order: `Op.check_callee` knows what it is."""


@dataclass(frozen=True)
class Interface:
    """The declared inputs and outputs of a subgraph."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]


@dataclass(frozen=True)
class Op(ABC):
    """Base of every operator: a frozen dataclass whose fields are the schema's options in snake case."""

    name: ClassVar[str]
    """The schema's name of the operator code, e.g. `CONV_2D`."""
    table: ClassVar[str | None] = None
    """The schema's options table, e.g. `Conv2DOptions`."""
    struct: ClassVar[tuple[str, ...]] = ()
    """The fields that a custom operator's options are, where these are a structure of C and no flexbuffer."""
    inputs: ClassVar[Count] = exactly(1)
    results: ClassVar[Count] = exactly(1)
    optional: ClassVar[frozenset[int]] = frozenset()
    """The positions of inputs that may be absent (-1)."""
    elementwise: ClassVar[bool] = False
    """Output element k depends on element k of each input of the same shape, so an output may lie on such an input."""
    pure: ClassVar[bool] = True
    """Equal inputs give equal outputs, and nothing else is read or written."""
    sizes: ClassVar[frozenset[int]] = frozenset()
    """The positions of inputs that hold sizes, such as those of results; what is computed does not hang on them
    otherwise."""
    least_size: ClassVar[int] = 0
    """What these are at the least."""
    starts: ClassVar[frozenset[int]] = frozenset()
    """The positions of those that sizes are counted from: nothing follows of their not being 0."""
    parts_from: ClassVar[frozenset[int]] = frozenset()
    """The positions of inputs that say which part of another one the result is."""
    asks_turn: ClassVar[bool] = False
    """Whether its shapes follow from those that a turn of a loop gives, whatever lengths that computes."""
    lays_together: ClassVar[bool] = False
    """Whether it asks inputs to be of one size because they become parts of one tensor, as elements of a list do."""
    has_state: ClassVar[bool] = False
    """Whether a session remembers something of it from run to run that no tensor holds."""
    is_taken_back: ClassVar[bool] = False
    """Whether it does the same again where a session has the values of its variables again."""

    @property
    def title(self) -> str:
        """What people call it: the name, or for what circlet cannot run that which the file says."""
        return self.name

    @abstractmethod
    def infer(self, args: Operands) -> tuple[Shape, ...]:
        """The shapes of the outputs.

        Raises:
            Unknown: the shapes depend on a value that is not known yet.
            ShapeError: the operands do not fit.
        """

    def checked(self, args: Operands) -> tuple[Shape, ...]:
        """As `infer`, of an operator that is to run: one may fail of values that are known before it does.

        Raises:
            Unknown, ShapeError: as `infer`; or it fails in each run.
        """
        return self.infer(args)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        """The element types of the outputs; None where any is allowed. By default that of the first input."""
        return (args[0].dtype,) * args.outputs

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        """The shapes of the outputs where only a run tells some lengths: `computed` makes such a length of what it is
        at the most, or of None where there is no bound. None where the operator is not one of these.

        Raises:
            ShapeError: the operands do not fit.
        """
        return None

    def from_shapes(self, args: Operands) -> tuple[Array, ...] | None:
        """The outputs, where the shapes of the operands alone decide them."""
        return None

    def open_results(self, inputs: Sequence[Array | None], evaluate: OpenResults) -> Sequence[Array] | None:
        """The results where inputs hold open lengths, for an operator that stands for several; `evaluate` gives those
        of one. None where only a run computes them."""
        return None

    def views(self) -> Mapping[int, int]:
        """`{output: input}` where the output is the input's bytes under another shape."""
        return {}

    def overwrites(self) -> Mapping[int, int]:
        """`{output: input}` where the output is the input partly rewritten, so that reuse saves copying it."""
        return {}

    def appends(self) -> Mapping[int, tuple[int, int]]:
        """`{output: (input, axis)}` where the output is the input and, behind it along an axis, more, so that memory
        with room for that saves copying it."""
        return {}

    def calls(self) -> tuple[Callee, ...]:
        """The subgraphs that the operator invokes, each with what passes between them."""
        return ()

    def check_callee(self, callee: Callee, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor],
                     interface: Interface) -> None:
        """Checks what passes to and from a subgraph for which `Callee.is_mapped` is set.

        Args:
            callee: one of `calls`.
            inputs: the operator's; None where absent.
            outputs: the operator's.
            interface: what the subgraph declares.

        Raises:
            ShapeError: the operator and the subgraph do not fit each other.
        """
        return

    def parts(self) -> tuple[int, ...]:
        """The operators of the subgraph, by index, that a pass put into this one."""
        return ()

    def joined(self) -> Sequence[tuple[Op, tuple[int, ...], tuple[int, ...]]]:
        """The same operators, with the tensors of the subgraph that each reads and gives."""
        return ()

    def variable(self) -> tuple[str, str] | None:
        """Container and name of the variable that the operator gives the handle of, if it does."""
        return None

    def updated(self) -> tuple[str, str] | None:
        """Container and name of the variable of which the operator writes over a part, if it does."""
        return None

    def asked_with(self, inputs: Sequence[int]) -> tuple[int, Mapping[int, int]] | None:
        """The subgraph that it asks for the shapes of results, without invoking it, and the tensors among inputs that
        are the same whenever that is invoked, by position there; None for most."""
        return None

    def callees(self) -> tuple[int, ...]:
        """The subgraphs that the operator invokes, by index."""
        return tuple(each.subgraph for each in self.calls())


OpenResults: TypeAlias = "Callable[[Op, Sequence[Array | None], tuple[Shape, ...]], Sequence[Array] | None]"


@dataclass(frozen=True)
class Opaque(Op):
    """An operator that circlet can hold and print, but not run."""

    name: ClassVar[str] = "UNKNOWN"
    inputs: ClassVar[Count] = at_least(0)
    results: ClassVar[Count] = at_least(0)
    pure: ClassVar[bool] = False
    code: str = ""
    """What the file calls it."""
    reason: str = ""
    """Why circlet cannot run it, where it is more than that nobody wrote it."""

    @property
    def title(self) -> str:
        return self.code

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        raise Unknown

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,) * args.outputs


@dataclass(frozen=True)
class Skip(Op):
    """Stands where a pass took an operator out, so that the others keep their indices."""

    name: ClassVar[str] = "SKIP"
    inputs: ClassVar[Count] = exactly(0)
    results: ClassVar[Count] = exactly(0)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return ()

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return ()
