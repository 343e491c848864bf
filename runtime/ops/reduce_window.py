"""Windows that slide over all axes, whose elements are combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum, unique
from typing import ClassVar

from circlet.runtime.ir.op import Callee, Count, Interface, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Padding, Shape
from circlet.runtime.ops.operands import expect_integers, expect_one
from circlet.runtime.ops.pad import spread
from circlet.runtime.ops.registry import operator
from circlet.runtime.ops.window import Window, slide
from circlet.runtime.records import dataclass


@unique
class Combination(Enum):
    """How two elements become one."""

    ADD = "add"
    MULTIPLY = "multiply"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    AND = "and"
    OR = "or"


@dataclass(frozen=True)
class SlidingReduction(Op):
    """Base of the operators that combine the elements under a window, in order, beginning with the value in input 1,
    which is around input 0, too, and between its elements. No strides or dilations are those of 1, no padding is 0."""

    inputs: ClassVar[Count] = exactly(2)
    window_dimensions: tuple[int, ...] = ()
    window_strides: tuple[int, ...] = ()
    base_dilations: tuple[int, ...] = ()
    window_dilations: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    """Before and behind each axis, by turns."""

    def windows(self, shape: Shape) -> tuple[Window, ...]:
        """The windows along all axes of the spread input."""
        rank = len(shape)
        strides, gaps, dilations = (each or (1,) * rank for each in (
            self.window_strides, self.base_dilations, self.window_dilations))
        around = self.padding or (0,) * 2 * rank
        options = (self.window_dimensions, strides, gaps, dilations, around[::2], around[1::2])
        if any(len(each) != rank for each in options) or min((*strides, *gaps, *dilations), default=1) < 1:
            raise ShapeError(f"expected sizes, positive strides and dilations and padding for each axis of {shape}")
        if min(around, default=0) < 0:
            raise ShapeError(f"padding: expected none that is negative, found {list(around)}")
        return tuple(slide(spread(length, gap), size, stride, Padding.VALID, dilation, (before, after))
                     for length, size, stride, gap, dilation, before, after in zip(shape, *options, strict=True))

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[1], "initial value")
        return (tuple(each.count for each in self.windows(args[0].shape)),)


@operator
@dataclass(frozen=True)
class StablehloReduceWindow(SlidingReduction):
    """A sliding reduction that combines two elements as a subgraph does."""

    name: ClassVar[str] = "STABLEHLO_REDUCE_WINDOW"
    table: ClassVar[str | None] = "StablehloReduceWindowOptions"
    body_subgraph_index: int = -1

    def calls(self) -> tuple[Callee, ...]:
        return (Callee("body", self.body_subgraph_index, is_mapped=True),)

    def check_callee(self, callee: Callee, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor],
                     interface: Interface) -> None:
        found = [each.dtype for each in (*interface.inputs, *interface.outputs)]
        if found != [outputs[0].dtype] * 3:
            raise ShapeError(f"expected a body of two elements of {outputs[0].dtype.value} that gives one, found "
                             f"{[each.value for each in found]}")


@dataclass(frozen=True)
class CombineWindow(SlidingReduction):
    """A sliding reduction that combines elements in a way of its own; no format has it."""

    name: ClassVar[str] = "COMBINE_WINDOW"
    combination: Combination = Combination.ADD

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype,)


class ReduceFunction(IntEnum):
    """How REDUCE_WINDOW combines elements; numbers are the schema's."""

    UNSUPPORTED = 0
    ADD = 1
    MUL = 2
    MINIMUM = 3
    MAXIMUM = 4
    ALL = 5
    ANY = 6


COMBINATIONS: Mapping[ReduceFunction, Combination] = {
    ReduceFunction.ADD: Combination.ADD, ReduceFunction.MUL: Combination.MULTIPLY,
    ReduceFunction.MINIMUM: Combination.MINIMUM, ReduceFunction.MAXIMUM: Combination.MAXIMUM,
    ReduceFunction.ALL: Combination.AND, ReduceFunction.ANY: Combination.OR,
}


@operator
@dataclass(frozen=True)
class ReduceWindow(Op):
    """A sliding reduction without padding, of which inputs 2 to 4 are the sizes, strides and dilations of windows."""

    name: ClassVar[str] = "REDUCE_WINDOW"
    table: ClassVar[str | None] = "ReduceWindowOptions"
    inputs: ClassVar[Count] = exactly(5)
    reduce_function: ReduceFunction = ReduceFunction.UNSUPPORTED

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        for each in range(2, 5):
            expect_integers(args[each], f"input {each}")
        return self.sliding([args[each].value for each in range(2, 5)], Combination.ADD).infer(args)

    def sliding(self, windows: Sequence[Array], combination: Combination) -> CombineWindow:
        """Such a reduction for sizes, strides and dilations that are known."""
        sizes, strides, dilations = (tuple(each.reshape(-1).tolist()) for each in windows)
        return CombineWindow(sizes, strides, window_dilations=dilations, combination=combination)
