"""What rules use of the function that is being written."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from llvmlite import ir

from circlet.backends.native.emit.blocks import Blocks
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.value import Value
from circlet.backends.native.parts import FIXED, External, Source
from circlet.backends.native.rules.narrow import Narrow
from circlet.backends.native.targets.target import Goal
from circlet.runtime.errors import Place
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.op import Skip
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.passes.analyses.compressed import Compressed
from circlet.runtime.records import dataclass


class VariableCell(Protocol):
    """Where a variable keeps values of one type and shape."""

    def value(self, place: Place) -> ir.Value:
        """The address of its value; leaves the function, for the operator at a place, unless it has one of these."""
        ...

    def assign(self, value: Value) -> None:
        """Gives the variable a value."""
        ...


class Function(Protocol):
    """One native function, as rules see it."""

    e: Emitter
    variables: Variables
    blocks: Blocks
    """Memory for what is made of constants."""

    @property
    def is_repeatable(self) -> bool:
        """Whether what is being written may be called for another operator, so that what is made of the operator should
        be in memory, by `made`, rather than in the code."""
        ...

    def external(self, array: Array, source: Source = FIXED) -> ir.Value:
        """The address of an array outside the arena; its content never changes unless `source` says otherwise."""
        ...

    def cell(self, handle: int, shape: Shape, dtype: DType) -> VariableCell:
        """Where a variable keeps values of a type and shape."""
        ...

    def derived(self, source: Array, use: Hashable, make: Callable[[Array], Array]) -> Array:
        """What is made of a constant for a use, made once however often the operator is emitted."""
        ...

    def made(self, call: Call, make: Callable[[Call], Array]) -> ir.Value:
        """The address of an array outside the arena that is made of constants of an operator, and of how its tensors
        are quantised; code like this may be called for another operator, of which it is made then."""
        ...

    def narrow(self, array: Array) -> Narrow | None:
        """What the model has for a constant in fewer bits, if that is what is to be kept."""
        ...

    def are_halves(self, array: Array) -> bool:
        """Whether float16 has all numbers of a constant of float32."""
        ...

    def compressed(self, array: Array) -> Compressed | None:
        """What a constant of float32 is made of, if that is integers and scales."""
        ...

    def keep_narrow(self, array: Array, narrow: Narrow) -> None:
        """Says what the model has for a constant."""
        ...

    def behind(self, memory: ir.Value | None, shape: Shape, dtype: DType) -> External | None:
        """The array that lies at an address, if the host knows it."""
        ...

    def constant(self, array: Array, dtype: DType) -> Value:
        """A constant of the model."""
        ...

    def reserve(self, size: int) -> ir.Value:
        """The address of `size` bytes of the arena, until the invocation that asks for them ends; inside a loop that
        is shared out, of `scratch`."""
        ...

    def scratch(self, size: int) -> ir.Value:
        """The address of `size` bytes until the operator ends, others for each thread that shares out a loop: for what
        a turn of it writes and reads again."""
        ...

    def pointer(self, value: Value) -> ir.Value:
        """Where a tensor lies; it is written to the arena if it lies nowhere."""
        ...

    def write(self, value: Value, home: ir.Value) -> None:
        """Copies a tensor to memory."""
        ...

    def fail_unless(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        """Leaves the function with an error of an operator unless a condition holds; the message has a `{}` for each
        of the given indices."""
        ...

    def warn_where(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        """Has the host warn where a condition holds, and goes on; the message has a `{}` for each of the numbers.
        Embedded code has nobody to warn."""
        ...

    def expect_capacity(self, length: ir.Value, most: int, least: int | None = None) -> None:
        """Leaves the function unless there is room for a length that it computes, of which `most` says how much there
        is, and the length is at least `least`; the run then is begun again."""
        ...

    def leave_where(self, differs: ir.Value) -> bool:
        """Leaves a run to a frame for any values where what was taken for granted of lengths is not so; whether there
        is one, as there is where lengths are open of which the run tells some."""
        ...


@dataclass(frozen=True, eq=False)
class Made:
    """An array that is made of constants of an operator, and of how its tensors are quantised."""

    call: Call
    make: Callable[[Call], Array]
    """Makes it; of another operator, which differs from this one in nothing that the code is made of, too."""

    @classmethod
    def fixed(cls, array: Array) -> Made:
        """An array that is made of nothing else."""
        return cls(Call(Skip(), (), ()), lambda _: array)

    @property
    def array(self) -> Array:
        """That of this operator."""
        return self.make(self.call)

    def then(self, make: Callable[[Array], Array]) -> Made:
        """What is made of it."""
        return Made(self.call, lambda call: make(self.make(call)))

    def with_other(self, other: Made, make: Callable[[Array, Array], Array]) -> Made:
        """What is made of it and of another one of the operator."""
        return Made(self.call, lambda call: make(self.make(call), other.make(call)))

    def memory(self, function: Function) -> ir.Value:
        """Its address."""
        return function.made(self.call, self.make)

    def kept(self, function: Function) -> ir.Value:
        """Its address, or that of what takes no constant; see `kept`."""
        return self.memory(function) if function.e.target.goal is Goal.HERE else kept(function, self.array)


def kept(function: Function, array: Array) -> ir.Value:
    """Where an array lies that is only read: outside the arena, or in it if that takes no constant, as of zeros, which
    are then written in each run."""
    if function.e.target.goal is Goal.HERE or array.any():
        return function.external(array)
    memory = function.reserve(array.nbytes)
    function.e.fill(memory, 0, array.nbytes)
    return memory
