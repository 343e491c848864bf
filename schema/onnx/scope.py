"""The names of ONNX graphs and what they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.records import dataclass, field
from circlet.schema.importer.graph import Graph, Narrow, Value, constant, expect_text, type_text
from circlet.schema.onnx.functions import LocalFunctions
from circlet.schema.onnx.types import read_tensor

CHARGED_BYTES = 256
"""So many bytes of data cost as much as a node."""


@dataclass(frozen=True, eq=False)
class Unit:
    """What the nodes of a model or of a function have in common."""

    opsets: Mapping[str, int]
    functions: LocalFunctions
    folder: Path | None
    """Where files lie that hold tensors."""
    honours_absent_cond: bool
    """Whether a Loop without the input `cond` stops when its body says so, as ONNX Runtime has it."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """The attributes that a function is called with."""
    depth: int = 0


@dataclass(frozen=True, eq=False)
class Dequantized:
    """What real values of a graph were made of.

    Attributes:
        data: stored integers.
        scale: one, or one for each index of an axis.
        zero: the zero points, as many as there are scales; None if they are 0.
        axis: of the data.
    """

    data: Value
    scale: Array
    zero: Array | None
    axis: int

    @property
    def is_whole(self) -> bool:
        """Whether there is one scale."""
        return self.scale.ndim == 0

    def is_along(self, axis: int) -> bool:
        """Whether there is one scale, or one for each index of an axis."""
        rank = self.data.rank or 0
        return self.is_whole or self.axis % rank == axis % rank

    def known(self) -> Array:
        """The stored integers, which are constant."""
        assert self.data.data is not None
        return self.data.data

    def real(self) -> Array:
        """What is made of them, float32."""
        stored, zero = self.known().astype(np.int32), np.int32(0) if self.zero is None else self.zero.astype(np.int32)
        shape = [-1 if k == self.axis % stored.ndim else 1 for k in range(stored.ndim)]
        scale, zero = (each if each.ndim == 0 else each.reshape(shape) for each in (self.scale, zero))
        found: Array = (stored - zero).astype(np.float32) * scale.astype(np.float32)
        return found


@dataclass(frozen=True, eq=False)
class Slices:
    """A sequence of the slices of a tensor along an axis, counted from the front."""

    data: Value
    axis: int
    keeps_axis: bool
    """Whether they have the axis, of length 1."""


@dataclass(frozen=True, eq=False)
class Listed:
    """A sequence of tensors that were named one by one."""

    elements: tuple[Value, ...]


class Scope:
    """The names of one ONNX graph or function, and of those around it."""

    def __init__(self, graph: Graph, unit: Unit, parent: Scope | None = None) -> None:
        self.graph = graph
        self.unit = unit
        self._parent = parent
        self.is_trial: bool = parent is not None and parent.is_trial
        """Whether graphs in it are read again, as a list in them is taken to be empty that may not stay so."""
        self._names: dict[str, Value | None] = {}
        self.dequantized: dict[str, Dequantized] = {}
        """By name."""
        self.filled: dict[str, Array] = {}
        """What all elements of a tensor are, by name."""
        self.sums: dict[str, tuple[str, int]] = {}
        """By the name of an integer plus a number, the name of the integer, and the number."""
        self._sequences: dict[str, Slices | Listed] = {}
        self._singles: set[str] = set()

    def define(self, name: str, value: Value | None) -> None:
        """Gives a name a value; None is an absent one.

        Raises:
            ModelError: the name has a value, or is no text.
        """
        expect_text(name)
        if name in self._names:
            raise ModelError(f"{name!r} is defined twice")
        self._names[name] = value

    def look_up(self, name: str) -> Value | None:
        """The value of a name, as a value of this scope's graph, but for a sequence that one around it knows the
        elements of, which may not be needed.

        Raises:
            ModelError: nothing defines the name.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope._names:
                value = scope._names[name]
                return value if value is None or name in scope._sequences else self.graph.capture(value)
            scope = scope._parent
        raise ModelError(f"{name!r} is read, but nothing defines it before")

    def value(self, name: str) -> Value:
        """The value of a name, which is not an absent one."""
        found = self.look_up(name)
        if found is None:
            raise ModelError(f"{name!r} is read, but it is an optional input that is absent")
        refuse_narrow(found)
        return self.graph.capture(found)

    def note(self, name: str, made_of: Slices | Listed) -> None:
        """Keeps what a sequence is made of, which the name will stand for."""
        self._sequences[name] = made_of

    def slices(self, name: str) -> Slices | None:
        """The slices that the sequence is made of that a name stands for; None where it is made of none."""
        found = self._sequence(name)
        return found if isinstance(found, Slices) else None

    def listed(self, name: str) -> tuple[Value, ...] | None:
        """The tensors in the sequence that a name stands for; None where they are not known one by one."""
        found = self._sequence(name)
        return found.elements if isinstance(found, Listed) else None

    def _sequence(self, name: str) -> Slices | Listed | None:
        scope: Scope | None = self
        while scope is not None and name not in scope._names:
            scope = scope._parent
        return None if scope is None else scope._sequences.get(name)

    def sum_of(self, name: str) -> tuple[str, int]:
        """The name of an integer, and a number, that are added up where a name stands for their sum."""
        return self.sums.get(name, (name, 0))

    def note_single(self, name: str) -> None:
        """Keeps that a name will stand for a slice from an index to the next one: one element, or none where the index
        lies outside."""
        self._singles.add(name)

    def is_single(self, name: str) -> bool:
        """Whether a name stands for such a slice."""
        scope: Scope | None = self
        while scope is not None and name not in scope._names:
            scope = scope._parent
        return scope is not None and name in scope._singles

    def own(self, name: str) -> Value | None:
        """The value that this scope, not one around it, gives a name; None where it gives none."""
        return self._names.get(name)

    def inner(self, name: str) -> Scope:
        """A scope for a graph inside of this one, with a graph of its own."""
        return Scope(self.graph.program.graph(name, self.graph), self.unit, self)

    def read_constants(self, proto: Any, contents: Mapping[int, memoryview] | None = None) -> None:
        """Defines the initializers of a graph; the content of some of them, by position, may be elsewhere."""
        for number, each in enumerate(proto.initializer):
            dtype, data = self.read(each, None if contents is None else contents.get(number))
            self.define(each.name, constant(data, dtype, each.name))
        if len(proto.sparse_initializer):
            raise UnsupportedError(f"sparse initializers, first {proto.sparse_initializer[0].values.name!r}")

    def read(self, proto: Any, content: memoryview | None = None) -> tuple[DType | Narrow, Array]:
        """The element type and the value of a tensor in the file, or in another that it names; see `read_tensor`."""
        dtype, data = read_tensor(proto, self.unit.folder, content)
        if proto.data_location != TensorProto.EXTERNAL:
            self.graph.program.charge(data.nbytes // CHARGED_BYTES)
        return dtype, data


def refuse_narrow(value: Value) -> None:
    """Refuses a constant that is held in a wider type than it has.

    Raises:
        UnsupportedError: it is one.
    """
    if value.narrow is not None:
        raise UnsupportedError(f"element type {type_text(value.narrow)}")


def plain(domain: str) -> str:
    """The name of an operator set; ONNX's own has two."""
    return "" if domain == "ai.onnx" else domain


def qualified(domain: str, operator: str) -> str:
    """What the table of rules calls an operator."""
    return f"{plain(domain)}.{operator}" if plain(domain) else operator
