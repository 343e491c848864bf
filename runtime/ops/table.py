"""Hash tables, whose contents are state of a session, and look-up in a pair of tensors."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import expect_one
from circlet.runtime.ops.registry import operator
from circlet.runtime.ops.variable import expect_handle
from circlet.runtime.records import dataclass


@operator
@dataclass(frozen=True)
class Hashtable(Op):
    """The handle of the table that `table_id` names, of shape (1,)."""

    name: ClassVar[str] = "HASHTABLE"
    table: ClassVar[str | None] = "HashtableOptions"
    inputs: ClassVar[Count] = exactly(0)
    pure: ClassVar[bool] = False
    table_id: int = 0
    key_dtype: DType = DType.FLOAT32
    value_dtype: DType = DType.FLOAT32

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return ((1,),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.RESOURCE,)


@operator
@dataclass(frozen=True)
class HashtableImport(Op):
    """Fills the table in input 0 with keys and values; of equal keys the first counts. A filled one stays as it is."""

    name: ClassVar[str] = "HASHTABLE_IMPORT"
    table: ClassVar[str | None] = "HashtableImportOptions"
    inputs: ClassVar[Count] = exactly(3)
    results: ClassVar[Count] = exactly(0)
    pure: ClassVar[bool] = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_handle(args[0])
        if args[1].shape != args[2].shape:
            raise ShapeError(f"expected a value for each key, found keys of shape {args[1].shape} and values of shape "
                             f"{args[2].shape}")
        return ()

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return ()


@operator
@dataclass(frozen=True)
class HashtableFind(Op):
    """The values that the table in input 0 has for the keys in input 1; input 2 for keys that are not there."""

    name: ClassVar[str] = "HASHTABLE_FIND"
    table: ClassVar[str | None] = "HashtableFindOptions"
    inputs: ClassVar[Count] = exactly(3)
    pure: ClassVar[bool] = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_handle(args[0])
        expect_one(args[2], "input 2 is the default")
        return (args[1].shape,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[2].dtype,)


@operator
@dataclass(frozen=True)
class HashtableSize(Op):
    """How many keys the table in input 0 has, as int64 of shape (1,); an empty one has none."""

    name: ClassVar[str] = "HASHTABLE_SIZE"
    table: ClassVar[str | None] = "HashtableSizeOptions"
    pure: ClassVar[bool] = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_handle(args[0])
        return ((1,),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT64,)


@operator
@dataclass(frozen=True)
class HashtableLookup(Op):
    """The rows of input 2 whose keys, in input 1, are those in input 0; zeros, or empty strings, for other keys.

    The second result is 1 for each key that was found and 0 for the others.
    """

    name: ClassVar[str] = "HASHTABLE_LOOKUP"
    inputs: ClassVar[Count] = exactly(3)
    results: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        wanted, keys, values = args[0].shape, args[1].shape, args[2].shape
        if len(wanted) != 1 or len(keys) != 1 or keys != values[:1]:
            raise ShapeError("expected a vector, a vector of keys and a row for each key, "
                             f"found shapes {wanted}, {keys} and {values}")
        return (wanted + values[1:], wanted)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[2].dtype, DType.UINT8)
