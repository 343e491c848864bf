"""What a model becomes that is compiled ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from circlet.backends.native.aot.between import Dims, most_elements, opened
from circlet.backends.native.aot.entry import EntryCode
from circlet.backends.native.aot.model import ModelCode
from circlet.backends.native.targets.catalogue import Processor
from circlet.embed import elf
from circlet.embed.contents import Contents
from circlet.embed.wasm import object_file as wasm
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Port:
    """An input or an output.

    Attributes:
        name: in C.
        tensor: what the model says of it.
        shape: that it has, with lengths that a run is given, or tells, within bounds.
        lengths: what these are called in C.
    """

    name: str
    tensor: Tensor
    shape: Dims
    lengths: str

    @property
    def opened(self) -> Sequence[int]:
        """The axes whose lengths a run is given, or tells."""
        return opened(self.shape)

    @property
    def count(self) -> int:
        """The number of elements, at the most."""
        return most_elements(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, at the most."""
        return self.count * self.tensor.dtype.numpy.itemsize


@dataclass(frozen=True)
class Interface:
    """An entry point as C sees it.

    Attributes:
        name: that its symbols begin with.
        key: of the signature; None if it has none.
        code: what became of it.
        inputs, outputs: the members of its structs, in order.
    """

    name: str
    key: str | None
    code: EntryCode
    inputs: Sequence[Port]
    outputs: Sequence[Port]


@dataclass(frozen=True)
class Compiled:
    """A model as an object file.

    Attributes:
        name: that symbols begin with.
        processor: that it is for.
        object: the file's content.
        code: what it was made of.
        interfaces: its entry points.
        alignment: of arena and state, in bytes.
    """

    name: str
    processor: Processor
    object: bytes
    code: ModelCode
    interfaces: Sequence[Interface]
    alignment: int

    @cached_property
    def contents(self) -> Contents:
        """What the file holds."""
        return wasm.contents(self.object) if self.is_wasm else elf.read(self.object)

    @property
    def is_wasm(self) -> bool:
        """Whether it is for WebAssembly."""
        return self.processor.triple.startswith("wasm")

    @property
    def takes_lengths(self) -> bool:
        """Whether runs are given lengths of inputs."""
        return any(each.code.takes_lengths for each in self.interfaces)

    @property
    def exports(self) -> tuple[str, ...]:
        """The functions that programs call."""
        return (*self.starters, *(f"{each.name}_run" for each in self.interfaces))

    @property
    def starters(self) -> tuple[str, ...]:
        """The functions `init` and `reset`; none where there is no state."""
        return (f"{self.name}_init", f"{self.name}_reset") if self.code.state.nbytes else ()
