"""What a network is made of: layers in the order they were made, and the constructs that some of them delimit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, DType, Shape, shape_text


@dataclass(frozen=True, eq=False)
class Result:
    """What a layer computes."""

    layer: Layer
    position: int
    """Which output of the layer it is."""
    dtype: DType
    shape: Shape | None
    """Dimensions, -1 where only a run can tell; None where not even their number is known."""
    data: Array | None
    """The value of a constant."""

    @property
    def name(self) -> str:
        return self.layer.name if self.position == 0 else f"{self.layer.name}:{self.position}"

    def __str__(self) -> str:
        return f"{self.name} ({type_text(self.dtype, self.shape)})"


def type_text(dtype: DType, shape: Shape | None) -> str:
    """An element type and a shape as messages show them, e.g. `float32[2,?]`."""
    return dtype.value + shape_text(shape)


@dataclass(frozen=True, eq=False)
class Region:
    """The layers of a construct that become one subgraph: a branch, or what a loop repeats."""

    construct: Construct
    name: str

    def __str__(self) -> str:
        return f"the {self.name} of {self.construct.name}"

    def chain(self) -> Iterator[Region]:
        """The region, the one its construct was traced in, and so on outwards."""
        region: Region | None = self
        while region is not None:
            yield region
            region = region.construct.region


@dataclass(frozen=True, eq=False)
class Layer:
    """A step of a network."""

    number: int
    name: str
    operands: tuple[Result | None, ...]
    region: Region | None
    """Where it was traced; None outside of all functions under trace."""
    results: list[Result] = field(default_factory=list, init=False)
    """What it computes, put there when the layer is added to a graph."""

    @property
    def dependencies(self) -> tuple[Result, ...]:
        """What must be known before the layer can run, its recurrences of later iterations left out."""
        return tuple(each for each in self.operands if each is not None)


@dataclass(frozen=True, eq=False)
class Input(Layer):
    """An input of the network."""


@dataclass(frozen=True, eq=False)
class Constant(Layer):
    """A value known when the network is built; it belongs to every region that uses it."""


@dataclass(frozen=True, eq=False)
class Operation(Layer):
    """An operator applied to tensors."""

    op: Op


@dataclass(frozen=True, eq=False)
class Entry(Layer):
    """Where a value enters a construct."""

    construct: Construct

    @property
    def dependencies(self) -> tuple[Result, ...]:
        return (*super().dependencies, *self.construct.gates())


@dataclass(frozen=True, eq=False)
class Exit(Layer):
    """Where a value leaves a construct."""

    construct: Construct

    @property
    def dependencies(self) -> tuple[Result, ...]:
        tails = (tensor for region in self.construct.regions for tensor in self.construct.tails(region))
        return (*tails, *self.construct.outer())


class Construct(ABC):
    """A conditional or a loop: entries, exits and the regions between them."""

    def __init__(self, name: str, region: Region | None, traced: bool) -> None:
        self.name = name
        self.region = region
        """Where it was traced."""
        self.traced = traced
        """Whether its regions hold what was traced in them; otherwise the data flow tells."""

    def check_place(self, region: Region | None) -> None:
        """Raises ModelError unless the construct was made in the function under trace."""
        if region is not self.region:
            raise ModelError(f"{self.name}: expected to be used in the function that made it, found another one")

    @property
    @abstractmethod
    def entries(self) -> tuple[Entry, ...]:
        """Where values enter."""

    @property
    @abstractmethod
    def exits(self) -> tuple[Exit, ...]:
        """Where values leave."""

    @property
    @abstractmethod
    def regions(self) -> tuple[Region, ...]:
        """The branches, or what is repeated."""

    @abstractmethod
    def gates(self) -> tuple[Result, ...]:
        """What decides, from outside, whether or how often regions run."""

    @abstractmethod
    def outer(self) -> tuple[Result, ...]:
        """All that must come from outside: gates, initial values, lengths."""

    @abstractmethod
    def tails(self, region: Region) -> tuple[Result, ...]:
        """What a region computes for the construct."""

    @abstractmethod
    def check(self) -> None:
        """Checks that nothing is missing.

        Raises:
            ModelError: something is.
        """
