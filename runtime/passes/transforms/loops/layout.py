"""The values that go round a lowered loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import TypeAlias

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.records import dataclass


class Role(Enum):
    """What a value is to the loop; they go round in this order."""

    ITERATION = auto()
    LIMIT = auto()
    COND = auto()
    CARRIED = auto()
    COLLECTED = auto()
    LAST = auto()
    INVARIANT = auto()
    SLICED = auto()


@dataclass(frozen=True)
class Key:
    """One value: a role and, of carried values and the like, which one."""

    role: Role
    number: int = 0


ITERATION, LIMIT, COND = Key(Role.ITERATION), Key(Role.LIMIT), Key(Role.COND)
Values: TypeAlias = dict[Key, Value]
"""The values of a loop as tensors of one of its subgraphs."""


@dataclass(frozen=True)
class Layout:
    """The operands of the WHILE, in order, and the constants that its subgraphs have instead of operands."""

    slots: Mapping[Key, Tensor]
    constants: Mapping[Key, Tensor]

    @property
    def tensors(self) -> list[Tensor]:
        """What the values that go round are declared to be."""
        return list(self.slots.values())

    def enter(self, s: SubgraphBuilder) -> Values:
        """Makes the values the inputs of a subgraph."""
        found = {key: s.tensor(each) for key, each in self.slots.items()}
        s.feed(*found.values())
        return found | {key: s.tensor(each) for key, each in self.constants.items()}

    def arrange(self, values: Mapping[Key, Value]) -> list[Value]:
        """The values that go round, in order."""
        return [values[key] for key in self.slots]


def scalar(name: str, dtype: DType) -> Tensor:
    """A declared tensor of one number."""
    return Tensor(name, dtype, ())


def like(tensor: Tensor, name: str) -> Tensor:
    """What holds the same kind of value as another tensor."""
    return replace(tensor, name=name, data=None, is_variable=False)


def fallback_shape(tensor: Tensor) -> Shape | None:
    """The declared shape with 0 for what is not known; None where not even the rank is."""
    if not (tensor.has_rank or tensor.shape):
        return None
    return tuple(max(size, 0) for size in tensor.signature)
