"""Records the layers of a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from circlet.network.indexing import select
from circlet.network.layer import Constant, Construct, Input, Layer, Operation, Region, type_text
from circlet.network.shapes import infer
from circlet.network.tensor import Index, Like, Tensor, as_dtype
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import Op, Operand, Operands, ShapeError
from circlet.runtime.ir.types import Array, DType, Shape

T = TypeVar("T", bound=Tensor)
WEAK = {"b": DType.BOOL, "i": DType.INT32, "f": DType.FLOAT32, "c": DType.COMPLEX64}
"""What Python values become where nothing else tells."""


class Graph:
    """Layers in the order they were made, the constructs they delimit, and the region under trace."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.constructs: list[Construct] = []
        self.region: Region | None = None

    def add(self, layer: Layer, *types: tuple[DType, Shape | None], data: Array | None = None) -> tuple[Tensor, ...]:
        """Appends a layer, and gives its outputs."""
        return self.place(layer, tuple(Tensor(layer, k, *each, data, self) for k, each in enumerate(types)))

    def place(self, layer: Layer, results: tuple[T, ...]) -> tuple[T, ...]:
        """Appends a layer that computes `results`."""
        self.layers.append(layer)
        layer.results.extend(results)
        return results

    def name(self, given: str, kind: str) -> str:
        """`given`, or else a name for the next layer or construct of a kind."""
        return given or f"{kind.lower()}_{len(self.layers)}"

    def input(self, name: str, dtype: DType, shape: Shape) -> Tensor:
        return self.add(Input(len(self.layers), name, (), None), (dtype, shape))[0]

    def constant(self, array: Array | np.generic, name: str = "") -> Tensor:
        """A constant of the element type and shape of an array, of which it keeps a copy."""
        copy = np.array(array, order="C")
        kind = _numpy_dtype(copy)
        data = kind.stored(copy)
        data.setflags(write=False)
        layer = Constant(len(self.layers), self.name(name, "constant"), (), self.region)
        return self.add(layer, (kind, data.shape), data=data)[0]

    def apply(self, op: Op, *operands: Tensor, dtype: DType | None = None, name: str = "") -> Tensor:
        """Applies an operator that has one output; `dtype` is its element type where the operator leaves it open."""
        return self.apply_all(op, *operands, count=1, dtype=dtype, name=name)[0]

    def apply_all(self, op: Op, *operands: Tensor, count: int, dtype: DType | None = None,
                  name: str = "") -> tuple[Tensor, ...]:
        """Applies an operator that has `count` outputs.

        Raises:
            ModelError: the operands do not fit; the message names them.
        """
        for each in operands:
            self.check(each)
        kinds = [each.dtype for each in operands]
        known = [each.data for each in operands]
        try:
            types = op.types(Operands(tuple(Operand(kind, ()) for kind in kinds), count))
            shapes = infer(op, kinds, [each.shape for each in operands], known, count)
        except ShapeError as error:
            raise ModelError(f"{op.name} of {', '.join(map(str, operands))}: {error}") from None
        layer = Operation(len(self.layers), self.name(name, op.name), operands, self.region, op)
        return self.add(layer, *((kind or dtype or kinds[0], shape)
                                 for kind, shape in zip(types, shapes, strict=True)))

    def select(self, x: Tensor, index: tuple[Index, ...]) -> Tensor:
        """`x[index]`; see `Tensor.__getitem__`."""
        return select(x, index)

    def tensor(self, value: Like, dtype: DType | None = None, name: str = "") -> Tensor:
        """A tensor as it is; anything else as a constant, of `dtype` where it holds Python values.

        Raises:
            ModelError: the value does not fit `dtype`.
        """
        if isinstance(value, Tensor):
            self.check(value)
            return value
        if isinstance(value, (np.ndarray, np.generic)):
            return self.constant(value, name)
        array = np.asarray(value)
        kind = dtype or WEAK.get(array.dtype.kind) or _numpy_dtype(array)
        if not _fits(array, kind):
            raise ModelError(f"expected a value that {kind.value} holds, found {value!r}")
        return self.constant(array.astype(kind.element), name)

    def aligned(self, *values: Like) -> tuple[Tensor, ...]:
        """Tensors of one element type; Python values take that of the others.

        Raises:
            ModelError: the types differ.
        """
        dtype = next((found for found in map(_strong, values) if found is not None), None)
        tensors = tuple(self.tensor(each, dtype) for each in values)
        if len({each.dtype for each in tensors}) > 1:
            raise ModelError(f"expected operands of one element type, found {' and '.join(map(str, tensors))}: "
                             "cast one with .astype(...)")
        return tensors

    def check(self, tensor: Tensor) -> None:
        """Checks that a tensor belongs here."""
        if tensor.graph is not self:
            raise ModelError(f"{tensor}: expected a tensor of this network, found one of another")
        number = tensor.layer.number
        if number >= len(self.layers) or self.layers[number] is not tensor.layer:
            raise ModelError(f"{tensor}: expected a tensor of the network, found one of a trace that was abandoned")

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """What is recorded meanwhile is traced in a region."""
        outside, self.region = self.region, region
        try:
            yield
        finally:
            self.region = outside

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What is recorded meanwhile goes if it ends with an exception."""
        layers, constructs = len(self.layers), len(self.constructs)
        try:
            yield
        except BaseException:
            del self.layers[layers:], self.constructs[constructs:]
            raise


def check_dtype(tensor: Tensor, allowed: Sequence[DType], what: str) -> None:
    """Raises ModelError unless a tensor has one of the element types."""
    if tensor.dtype not in allowed:
        raise ModelError(f"{what}: expected {' or '.join(each.value for each in allowed)}, found {tensor}")


def check_one(tensor: Tensor, what: str, strict: bool) -> None:
    """Raises ModelError if a tensor cannot have exactly one element, or, if `strict`, has axes."""
    if tensor.shape is None:
        return
    if any(dim not in (1, -1) for dim in tensor.shape) or (strict and tensor.shape):
        expected = "a scalar" if strict else "exactly one element"
        raise ModelError(f"{what}: expected {expected}, found {tensor}")


def declared_shape(shape: Sequence[int]) -> Shape:
    """A shape that a user gives, in which -1 is a dimension that only a run can tell."""
    result = tuple(int(dim) for dim in shape)
    if any(dim < -1 for dim in result):
        raise ModelError(f"shape: expected sizes of at least 0, or -1 where only a run can tell, found {result}")
    return result


def input_type(dtype: DType | npt.DTypeLike, shape: Sequence[int]) -> tuple[DType, Shape]:
    kind = as_dtype(dtype)
    if not kind.is_computable:
        raise ModelError(f"expected an element type that numpy holds, found {type_text(kind, tuple(shape))}")
    return kind, declared_shape(shape)


def _strong(value: Like) -> DType | None:
    """The element type of a value that has one of its own."""
    if isinstance(value, Tensor):
        return value.dtype
    return _numpy_dtype(value) if isinstance(value, (np.ndarray, np.generic)) else None


def _numpy_dtype(array: Array | np.generic) -> DType:
    try:
        return DType.of(array.dtype)
    except ValueError as error:
        raise ModelError(str(error)) from None


def _fits(array: Array, dtype: DType) -> bool:
    """Whether Python values mean in `dtype` what they say."""
    kind = array.dtype.kind
    target = (DType.FLOAT32 if dtype is DType.BFLOAT16 else dtype).numpy
    if kind in "SUO" or target.kind in "SUO" or kind == "b":
        return target.kind == "O" if kind in "SU" else target.kind == kind
    if kind == "i" and target.kind in "iu":
        bounds = np.iinfo(target)
        return array.size == 0 or bool(array.min() >= bounds.min and array.max() <= bounds.max)
    return target.kind in {"i": "fc", "u": "uf", "f": "fc", "c": "c"}[kind]
