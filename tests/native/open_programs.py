"""Programs with open lengths as they are put together: values, and the lengths that they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from tests.native.test_lengths import Graph

Array: TypeAlias = npt.NDArray[np.generic]
PROBES = ((7, 5), (12, 9), (6, 17))
"""Lengths of the two symbols at which shapes are computed, to know which fit each other."""
Dim: TypeAlias = "tuple[int, ...]"
"""A length at each probe; of what only a run tells, a number of its own below zero."""
N, M = (tuple(each) for each in zip(*PROBES, strict=True))
_told = count(1)


def fixed(size: int) -> Dim:
    return (size,) * len(PROBES)


def told() -> Dim:
    return (-next(_told),) * len(PROBES)


def computed(function: Callable[..., int], *dims: Dim) -> Dim:
    """A length that follows from others."""
    if any(each[0] < 0 for each in dims):
        return told()
    return tuple(function(*each) for each in zip(*dims, strict=True))


def is_fixed(dim: Dim) -> bool:
    return dim[0] >= 0 and len(set(dim)) == 1


@dataclass(frozen=True)
class Made:
    """A value of a program, and its lengths."""

    value: Value
    dims: tuple[Dim, ...]
    dtype: DType = DType.FLOAT32

    @property
    def is_float(self) -> bool:
        return self.dtype is DType.FLOAT32


Step: TypeAlias = "Callable[[Program, Made], Made | None]"
"""Applies operators to a value; None where they do not fit it."""


class Program:
    """A subgraph as it grows: values that later steps choose from."""

    def __init__(self, builder: ModelBuilder, r: Random, name: str) -> None:
        self.model, self.r = builder, r
        self.g = Graph(builder.subgraph(name))
        self.made: list[Made] = []

    def input(self, dims: Sequence[Dim], dtype: DType = DType.FLOAT32) -> Made:
        shape = tuple(each[0] if is_fixed(each) else -1 for each in dims)
        value = self.g.builder.input(f"x{len(self.made)}", dtype, shape)
        self.made.append(Made(value, tuple(dims), dtype))
        return self.made[-1]

    def constant(self, *shape: int) -> Value:
        made = np.random.default_rng(self.r.randrange(1 << 30)).standard_normal(shape)
        return self.g.builder.constant((made / shape[-1] ** 0.5).astype(np.float32))

    def axis(self, x: Made) -> int:
        return self.r.randrange(len(x.dims))

    def other(self, fits: Callable[[Made], bool]) -> Made | None:
        found = [each for each in self.made if fits(each)]
        return self.r.choice(found) if found else None

    def grow(self, steps: int, kinds: Sequence[Step]) -> None:
        """Applies some of these steps, as many as are asked for where enough of them fit."""
        for _ in range(40 * steps):
            made = self.r.choice(kinds)(self, self.r.choice(self.made[-4:] + self.made[:1]))
            if made is not None and all(max(each) < 4000 for each in made.dims):
                self.made.append(made)
                steps -= 1
            if not steps:
                return


@dataclass(frozen=True)
class Open:
    """A model, and the lengths of its inputs by the symbols."""

    model: Model
    inputs: tuple[tuple[tuple[Dim, ...], DType], ...]

    def given(self, n: int, m: int, seed: int = 0) -> list[Array]:
        """Inputs for lengths."""
        random = np.random.default_rng((n, m, seed))
        found: list[Array] = []
        for dims, dtype in self.inputs:
            shape = [n if each == N else m if each == M else each[0] for each in dims]
            found.append(random.standard_normal(shape).astype(np.float32) if dtype is DType.FLOAT32
                         else random.integers(-9, 9, shape).astype(np.int32))
        return found
