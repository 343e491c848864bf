"""Operators that draw random numbers."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, Unknown, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import count, sizes
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Random(Op):
    """Base: numbers from a generator of the operator's own, which goes on from run to run.

    The low 32 bits of the two seeds count. If both are zero, every session draws other numbers; otherwise every
    session draws the same ones, those that LiteRT draws.
    """

    table: ClassVar[str | None] = "RandomOptions"
    pure: ClassVar[bool] = False
    has_state: ClassVar[bool] = True
    is_taken_back: ClassVar[bool] = True
    seed: int = 0
    seed2: int = 0


@dataclass(frozen=True)
class RandomFloats(Random):
    """Base: a tensor of the shape that input 0, a vector, gives."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (sizes(args[0], "shape"),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.FLOAT32,)


@operator
@dataclass(frozen=True)
class RandomUniform(RandomFloats):
    """Evenly distributed multiples of 2 ** -23 in [0, 1)."""

    name: ClassVar[str] = "RANDOM_UNIFORM"


@operator
@dataclass(frozen=True)
class RandomStandardNormal(RandomFloats):
    """Normally distributed numbers of mean 0 and variance 1."""

    name: ClassVar[str] = "RANDOM_STANDARD_NORMAL"


@operator
@dataclass(frozen=True)
class Multinomial(Random):
    """Classes drawn independently, as many for each row of input 0 as input 1 says: shape (rows, samples).

    A class has the probability softmax(row)[class]; logits that are not finite have probability 0. Results are int32
    or int64, as the output declares.
    """

    name: ClassVar[str] = "MULTINOMIAL"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if args[0].rank != 2 or args[0].shape[1] == 0:
            raise ShapeError(f"input 0: expected logits of shape (rows, classes), found {args[0].shape}")
        return ((args[0].shape[0], count(args[1], "input 1 is a count")),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


class Algorithm(IntEnum):
    """How STABLEHLO_RNG_BIT_GENERATOR makes bits; numbers are the schema's."""

    DEFAULT = 0
    """PHILOX, as in LiteRT."""
    PHILOX = 1
    THREEFRY = 2


@operator
@dataclass(frozen=True)
class StablehloRngBitGenerator(Op):
    """The state behind the one in input 0, and random bits, of which shape and type are what the model declares.

    A state is a key and how many blocks were made, of uint64 each, and for Philox perhaps the other half of its
    counter, which else is the key. A block has 4 words of 32 bits, of Threefry 2; what a result does not need of its
    last one is dropped.
    """

    name: ClassVar[str] = "STABLEHLO_RNG_BIT_GENERATOR"
    table: ClassVar[str | None] = "StablehloRngBitGeneratorOptions"
    results: ClassVar[Count] = exactly(2)
    algorithm: Algorithm = Algorithm.DEFAULT

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if args[0].shape != (2,) and (args[0].shape != (3,) or self.words == 2):
            allowed = "(2,)" if self.words == 2 else "(2,) or (3,)"
            raise ShapeError(f"initial state: expected shape {allowed}, found {args[0].shape}")
        raise Unknown

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype, None)

    @property
    def words(self) -> int:
        """Of 32 bits, in a block."""
        return 2 if self.algorithm is Algorithm.THREEFRY else 4
