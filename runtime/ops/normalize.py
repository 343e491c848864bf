"""Operators that relate each element to others of the same slice: softmax and normalisations."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.types import Activation, DType, Shape
from circlet.runtime.ops.operands import expect_axes
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Normalization(Op):
    """Base: one result of the shape of the first input, which has at least one dimension."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if not args[0].shape:
            raise ShapeError(f"{self.name} works on the last dimension, found a scalar")
        return (args[0].shape,)


@operator
@dataclass(frozen=True)
class Softmax(Normalization):
    """`exp(beta * x)` divided by its sum over the last dimension. 8-bit inputs may give int16 results."""

    name: ClassVar[str] = "SOFTMAX"
    table: ClassVar[str | None] = "SoftmaxOptions"
    beta: float = 0.0

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None if args[0].dtype in (DType.INT8, DType.UINT8) else args[0].dtype,)


@operator
@dataclass(frozen=True)
class LogSoftmax(Normalization):
    """`x - log(sum(exp(x)))` over the last dimension."""

    name: ClassVar[str] = "LOG_SOFTMAX"
    table: ClassVar[str | None] = "LogSoftmaxOptions"


@operator
@dataclass(frozen=True)
class L2Normalization(Normalization):
    """`x / max(sqrt(sum(x ** 2)), 1e-6)` over the last dimension."""

    name: ClassVar[str] = "L2_NORMALIZATION"
    table: ClassVar[str | None] = "L2NormOptions"
    fused_activation_function: Activation = Activation.NONE


@operator
@dataclass(frozen=True)
class LocalResponseNormalization(Normalization):
    """`x * (bias + alpha * s) ** -beta`; s sums `x ** 2` over the `radius` elements of the last dimension to each side
    and the element itself."""

    name: ClassVar[str] = "LOCAL_RESPONSE_NORMALIZATION"
    table: ClassVar[str | None] = "LocalResponseNormalizationOptions"
    radius: int = 0
    bias: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class Scaled(Normalization):
    """Base of the normalisations whose result is scaled by a parameter for each channel, or one for all."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        (shape,) = super().infer(args)
        for k in range(1, len(args)):
            if prod(args[k].shape) not in (1, shape[-1]):
                raise ShapeError(f"input {k} must have 1 or {shape[-1]} elements, as the last dimension of the input "
                                 f"has, found shape {args[k].shape}")
        return (shape,)


@operator
@dataclass(frozen=True)
class InstanceNorm(Scaled):
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` of an image (n, h, w, c); mean and variance are those of
    each image and channel. A Circle operator."""

    name: ClassVar[str] = "INSTANCE_NORM"
    table: ClassVar[str | None] = "InstanceNormOptions"
    inputs: ClassVar[Count] = exactly(3)
    epsilon: float = 0.0
    fused_activation_function: Activation = Activation.NONE

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_axes(args[0], "the input", "n, h, w, c")
        return super().infer(args)


@operator
@dataclass(frozen=True)
class RmsNorm(Scaled):
    """`x / sqrt(mean(x ** 2) + epsilon) * gamma` over the last dimension. A Circle operator."""

    name: ClassVar[str] = "RMS_NORM"
    table: ClassVar[str | None] = "RmsNormOptions"
    inputs: ClassVar[Count] = exactly(2)
    epsilon: float = 0.0
