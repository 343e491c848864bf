"""Convolutions: images (n, h, w, c) and volumes (n, d, h, w, c), channels last."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, between, exactly
from circlet.runtime.ir.types import Activation, DType, Padding, Shape
from circlet.runtime.ops.operands import expect_axes, expect_integers, integer
from circlet.runtime.ops.registry import operator
from circlet.runtime.ops.window import Window, Windowed, expect_bias, slide
from circlet.runtime.records import dataclass


@operator
@dataclass(frozen=True)
class Conv2D(Windowed):
    """Convolution of an image (n, h, w, groups * c) with a filter (groups * o, kh, kw, c) plus a bias (groups * o,).

    The result has the element type of the image, or int32 where both are int8: the sums of products of stored integers.
    """

    name: ClassVar[str] = "CONV_2D"
    table: ClassVar[str | None] = "Conv2DOptions"
    inputs: ClassVar[Count] = between(2, 3)
    optional: ClassVar[frozenset[int]] = frozenset({2})
    dilation_w_factor: int = 1
    dilation_h_factor: int = 1
    quantized_bias_type: DType = DType.FLOAT32
    """INT32 where an int16 convolution without a bias sums as if it had an int32 one; a bias speaks for itself."""

    def windows(self, image: Shape, filter: Shape) -> tuple[Window, ...]:
        """The windows along height and width."""
        return self.image_windows(image, filter[1:3], (self.dilation_h_factor, self.dilation_w_factor))

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        image, filter = args[0], args[1]
        expect_axes(image, "the input", "n, h, w, c")
        expect_axes(filter, "the filter", "o, kh, kw, c")
        channels, taken = image.shape[3], filter.shape[3]
        if min(channels, taken) < 1 or channels % taken or filter.shape[0] % (channels // taken):
            raise ShapeError(f"a filter of shape {filter.shape} does not divide {channels} channels into groups")
        expect_bias(args.get(2), filter.shape[0])
        counts = (window.count for window in self.windows(image.shape, filter.shape))
        return ((image.shape[0], *counts, filter.shape[0]),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None if args[0].dtype is args[1].dtype is DType.INT8 else args[0].dtype,)


@operator
@dataclass(frozen=True)
class DepthwiseConv2D(Windowed):
    """Convolution of each channel of an image (n, h, w, c) with `m` filters of its own: (1, kh, kw, c * m)."""

    name: ClassVar[str] = "DEPTHWISE_CONV_2D"
    table: ClassVar[str | None] = "DepthwiseConv2DOptions"
    inputs: ClassVar[Count] = between(2, 3)
    optional: ClassVar[frozenset[int]] = frozenset({2})
    depth_multiplier: int = 0
    """What converters say `m` is; the shapes are what counts."""
    dilation_w_factor: int = 1
    dilation_h_factor: int = 1
    explicit_paddings: tuple[int, ...] = ()
    """Rows of padding above and below the image, and columns before and behind it, where `padding` is VALID. No file
    holds them; see `transforms/absorb_padding.py`."""

    def windows(self, image: Shape, filter: Shape) -> tuple[Window, ...]:
        """The windows along height and width."""
        dilations = (self.dilation_h_factor, self.dilation_w_factor)
        return self.image_windows(image, filter[1:3], dilations, self.explicit_paddings)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        image, filter = args[0], args[1]
        expect_axes(image, "the input", "n, h, w, c")
        expect_axes(filter, "the filter", "1, kh, kw, c * m")
        channels, made = image.shape[3], filter.shape[3]
        if filter.shape[0] != 1 or (made % channels if channels else made):
            raise ShapeError(f"the filter must have shape (1, kh, kw, {image.shape[3]} * m), found {filter.shape}")
        expect_bias(args.get(2), filter.shape[3])
        counts = (window.count for window in self.windows(image.shape, filter.shape))
        return ((image.shape[0], *counts, filter.shape[3]),)


@dataclass(frozen=True)
class Volumetric(Op):
    """Options of the convolutions of volumes."""

    table: ClassVar[str | None] = "Conv3DOptions"
    padding: Padding = Padding.SAME
    stride_d: int = 0
    stride_w: int = 0
    stride_h: int = 0
    fused_activation_function: Activation = Activation.NONE
    dilation_d_factor: int = 1
    dilation_w_factor: int = 1
    dilation_h_factor: int = 1

    def windows(self, volume: Shape, filter: Shape) -> tuple[Window, ...]:
        """The windows along depth, height and width."""
        strides = (self.stride_d, self.stride_h, self.stride_w)
        dilations = (self.dilation_d_factor, self.dilation_h_factor, self.dilation_w_factor)
        return tuple(slide(length, size, stride, self.padding, dilation) for length, size, stride, dilation
                     in zip(volume[1:4], filter[:3], strides, dilations, strict=True))


@operator
@dataclass(frozen=True)
class Conv3D(Volumetric):
    """Convolution of a volume (n, d, h, w, c) with a filter (kd, kh, kw, c, o) plus a bias (o,)."""

    name: ClassVar[str] = "CONV_3D"
    inputs: ClassVar[Count] = between(2, 3)
    optional: ClassVar[frozenset[int]] = frozenset({2})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        volume, filter = args[0], args[1]
        expect_axes(volume, "the input", "n, d, h, w, c")
        expect_axes(filter, "the filter", "kd, kh, kw, c, o")
        if filter.shape[3] != volume.shape[4]:
            raise ShapeError(f"a filter of shape {filter.shape} does not fit {volume.shape[4]} channels")
        expect_bias(args.get(2), filter.shape[4])
        counts = (window.count for window in self.windows(volume.shape, filter.shape))
        return ((volume.shape[0], *counts, filter.shape[4]),)


@dataclass(frozen=True)
class Transposed(Op):
    """Base of the gradients of convolutions with respect to their inputs: operand 0 is the shape of the result,
    operand 1 the filter, operand 2 what the convolution would give from the result."""

    inputs: ClassVar[Count] = between(3, 4)
    optional: ClassVar[frozenset[int]] = frozenset({3})

    @abstractmethod
    def windows(self, image: Shape, filter: Shape) -> tuple[Window, ...]:
        """The windows over the result."""

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[2].dtype,)

    def fit(self, args: Operands, filter: tuple[int, int]) -> tuple[Shape, ...]:
        """The result's shape, checked; `filter` is how many channels of result and input the filter has. Its images
        are as many as the input has: converters write 0 where their number is open, or how many they had."""
        data, bias = args[2], args.get(3)
        expect_integers(args[0], "input 0")
        shape = tuple(integer(dim) for dim in args[0].value.reshape(-1))
        if len(shape) != data.rank or any(each < 0 for each in shape):
            raise ShapeError(f"input 0 must hold a shape of {data.rank} dimensions, found {shape}")
        shape = (data.shape[0], *shape[1:])
        counts = tuple(window.count for window in self.windows(shape, args[1].shape))
        expected = (shape[0], *counts, filter[1])
        if data.shape != expected or shape[-1] != filter[0]:
            raise ShapeError(f"a result of shape {shape} and a filter of shape {args[1].shape} need an input of shape "
                             f"{expected}, found {data.shape}")
        expect_bias(bias, filter[0])
        return (shape,)


@operator
@dataclass(frozen=True)
class TransposeConv(Windowed, Transposed):
    """Transposed convolution of an image (n, h, w, c) with a filter (o, kh, kw, c) plus a bias (o,)."""

    name: ClassVar[str] = "TRANSPOSE_CONV"
    table: ClassVar[str | None] = "TransposeConvOptions"
    quantized_bias_type: DType = DType.FLOAT32
    """INT32 where an int16 convolution without a bias sums as if it had an int32 one; a bias speaks for itself."""

    def windows(self, image: Shape, filter: Shape) -> tuple[Window, ...]:
        return self.image_windows(image, filter[1:3])

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_axes(args[1], "the filter", "o, kh, kw, c")
        expect_axes(args[2], "input 2", "n, h, w, c")
        return self.fit(args, (args[1].shape[0], args[1].shape[3]))


@operator
@dataclass(frozen=True)
class BiasedTransposeConv(Windowed):
    """MediaPipe's transposed convolution of an image (n, h, w, c) with a filter (o, kh, kw, c) plus a bias (o,). The
    result is `stride` times as large as the image, or, where nothing is padded, has room for each window."""

    name: ClassVar[str] = "CUSTOM:Convolution2DTransposeBias"
    struct: ClassVar[tuple[str, ...]] = ("padding", "stride_w", "stride_h")
    inputs: ClassVar[Count] = exactly(3)

    def windows(self, image: Shape, filter: Shape) -> tuple[Window, ...]:
        """The windows over the result."""
        return self.image_windows(image, filter[1:3])

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        image, filter = args[0], args[1]
        expect_axes(image, "the input", "n, h, w, c")
        expect_axes(filter, "the filter", "o, kh, kw, c")
        if filter.shape[3] != image.shape[3]:
            raise ShapeError(f"a filter of shape {filter.shape} does not fit {image.shape[3]} channels")
        expect_bias(args.get(2), filter.shape[0])
        strides, sizes = (self.stride_h, self.stride_w), filter.shape[1:3]
        lengths = [each * stride if self.padding is Padding.SAME else (each - 1) * stride + size
                   for each, stride, size in zip(image.shape[1:3], strides, sizes, strict=True)]
        made = (image.shape[0], *lengths, filter.shape[0])
        self.windows(made, filter.shape)
        return (made,)


@operator
@dataclass(frozen=True)
class Conv3DTranspose(Volumetric, Transposed):
    """Transposed convolution of a volume (n, d, h, w, c) with a filter (kd, kh, kw, o, c) plus a bias (o,)."""

    name: ClassVar[str] = "CONV_3D_TRANSPOSE"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_axes(args[1], "the filter", "kd, kh, kw, o, c")
        expect_axes(args[2], "input 2", "n, d, h, w, c")
        return self.fit(args, (args[1].shape[3], args[1].shape[4]))
