"""A node of an ONNX graph as a rule sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import MOST_DIMENSIONS, Array, DType, Shape
from circlet.runtime.ops.shape import Alias
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Narrow, Type, Value, constant, type_text
from circlet.schema.onnx.scope import Dequantized, Scope

MemberT = TypeVar("MemberT", bound=Enum)


@dataclass(frozen=True, eq=False)
class Node:
    """One node: its operands as values of the graph under construction, and its attributes."""

    name: str
    operator: str
    version: int
    """The operator set that the node's graph imports."""
    scope: Scope
    inputs: tuple[Value | None, ...]
    """None where an optional input is absent."""
    wanted: tuple[bool, ...]
    """Whether each output has a name."""
    attributes: Mapping[str, Any]
    """AttributeProtos by name, references resolved."""
    proto: Any

    @property
    def graph(self) -> Graph:
        return self.scope.graph

    def __getitem__(self, position: int) -> Value:
        """A required input."""
        value = self.get(position)
        if value is None:
            raise ModelError(f"input {position} is required and absent")
        return value

    def get(self, position: int) -> Value | None:
        """An optional input; None where it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def dequantized(self, position: int) -> Dequantized | None:
        """What a node of the same graph made an input of, if it was stored integers."""
        return self.scope.dequantized.get(self.proto.input[position]) if self.get(position) is not None else None

    def weights(self, position: int) -> Value:
        """An input; where it was made of stored integers that are constant, what that gives."""
        found = self.dequantized(position)
        if found is None or found.data.data is None or self[position].dtype is not DType.FLOAT32:
            return self[position]
        return constant(found.real())

    @property
    def given(self) -> list[Value]:
        """All inputs of a node none of whose inputs may be absent."""
        return [self[k] for k in range(len(self.inputs))]

    def wants(self, position: int) -> bool:
        """Whether an optional output has a name."""
        return position < len(self.wanted) and self.wanted[position]

    def expect_outputs(self) -> None:
        """Refuses a node without outputs.

        Raises:
            ModelError: there is none.
        """
        if not self.wanted:
            raise ModelError("expected at least one output, found none")

    def apply(self, op: Op, *inputs: Value | None, type: Type | None = None) -> Value:
        """Applies a circlet operator that has one result."""
        return self.graph.apply(op, *inputs, type=type)

    def constant(self, data: npt.ArrayLike, dtype: DType | None = None) -> Value:
        """A constant of the graph."""
        return constant(data, dtype)

    def like(self, number: float) -> Value:
        """A scalar constant of the element type of the first input."""
        return c.like(number, self[0])

    def copy(self, value: Value) -> Value:
        """The value itself, as a result of this node."""
        made = self.graph.op(Alias(), value, types=(value.type,))[0]
        return made if value.held_shapes is None else self.graph.declare(made, held_shapes=value.held_shapes)

    def retyped(self, value: Value, type: Type) -> Value:
        """A sequence or optional that is held the same way as another type."""
        return self.graph.op(Alias(), value, types=(type,))[0]

    def unsupported(self, what: str) -> NoReturn:
        """Refuses the node.

        Raises:
            UnsupportedError: always; it names the operator.
        """
        raise UnsupportedError(f"{self.operator} with {what}")

    def dtype(self, position: int = 0) -> DType:
        """The element type of an input that is a tensor."""
        found = self[position].type
        if isinstance(found, Narrow):
            return found.held
        if not isinstance(found, DType):
            raise ModelError(f"input {position}: expected a tensor, found {type_text(found)}")
        return found

    def shape(self, position: int = 0) -> Shape:
        """The dimensions of an input, -1 where not known.

        Raises:
            UnsupportedError: not even the rank is known.
        """
        self.rank(position)
        found = self[position].shape
        assert found is not None
        return found

    def rank(self, position: int = 0) -> int:
        return c.rank_of(self[position])

    def length(self, position: int) -> int:
        """How many elements an input has that has one for each of some axes; -1 where not known.

        Raises:
            ModelError: it is no vector, or has more than there can be axes.
        """
        found = self.shape(position)
        if len(found) != 1 or found[0] > MOST_DIMENSIONS:
            raise ModelError(f"input {position}: expected a vector of at most {MOST_DIMENSIONS} elements, found shape "
                             f"{found}")
        return found[0]

    def sizes(self, rank: int) -> Shape:
        """The dimensions of the first input, all of which must be known.

        Raises:
            ModelError: it has another rank.
            UnsupportedError: some are not known.
        """
        found = self.shape()
        if len(found) != rank:
            raise ModelError(f"input 0: expected rank {rank}, found shape {found}")
        if -1 in found:
            self.unsupported(f"an input of shape {found}")
        return found

    def known(self, position: int) -> Array | None:
        """The value of an input that is constant; None where it is not, or absent."""
        value = self.get(position)
        return None if value is None else value.data

    def value(self, position: int, name: str) -> Array:
        """The value of an input that must be constant.

        Raises:
            UnsupportedError: it is not.
        """
        found = self[position].data
        if found is None:
            raise UnsupportedError(f"{name} that is not constant")
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        return int(self._attribute(name, AttributeProto.INT, lambda each: each.i, default))

    def number(self, name: str, default: float | None = None) -> float:
        return float(self._attribute(name, AttributeProto.FLOAT, lambda each: np.float32(each.f), default))

    def string(self, name: str, default: str | None = None) -> str:
        return str(self._attribute(name, AttributeProto.STRING, lambda each: _decoded(name, each.s), default))

    def member(self, name: str, kind: type[MemberT], default: str) -> MemberT:
        """An attribute that names a member of an enumeration by its value."""
        found = self.string(name, default)
        values = {str(each.value): each for each in kind}
        if found not in values:
            raise ModelError(f"attribute {name!r}: expected {', '.join(values)}, found {found!r}")
        return values[found]

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        return tuple(self._attribute(name, AttributeProto.INTS, lambda each: each.ints, default))

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        return tuple(self._attribute(name, AttributeProto.FLOATS, lambda each: each.floats, default))

    def strings(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        return tuple(self._attribute(name, AttributeProto.STRINGS,
                                     lambda each: [_decoded(name, s) for s in each.strings], default))

    def tensor(self, name: str) -> tuple[DType | Narrow, Array]:
        """The element type and value of an attribute that is a tensor."""
        return self.scope.read(self._attribute(name, AttributeProto.TENSOR, lambda each: each.t, None))

    def body(self, name: str) -> Any:
        """The GraphProto that an attribute holds."""
        return self._attribute(name, AttributeProto.GRAPH, lambda each: each.g, None)

    def has(self, name: str) -> bool:
        return name in self.attributes

    def _attribute(self, name: str, kind: int, read: Callable[[Any], Any], default: Any) -> Any:
        found = self.attributes.get(name)
        if found is None:
            if default is None:
                raise ModelError(f"attribute {name!r} is required and absent")
            return default
        if found.type != kind:
            names = AttributeProto.AttributeType.Name
            raise ModelError(f"attribute {name!r}: expected type {names(kind)}, found {names(found.type)}")
        return read(found)


def _decoded(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(f"attribute {name!r}: expected UTF-8, found {data!r}") from None
