"""Lengths that code which is made ahead of time leaves open, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Between:
    """A length that each run gives, or tells: at least and at most so long."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least}..{self.most}"


Dims: TypeAlias = "tuple[int | Between, ...]"
"""A shape of which lengths may be open."""


def longest(shape: Dims) -> Shape:
    """The shape with each axis as long as it may be."""
    return tuple(each.most if isinstance(each, Between) else each for each in shape)


def opened(shape: Dims) -> Sequence[int]:
    """The axes that are open."""
    return [axis for axis, each in enumerate(shape) if isinstance(each, Between)]


def most_elements(shape: Dims) -> int:
    """Of a tensor of that shape."""
    return prod(longest(shape))
