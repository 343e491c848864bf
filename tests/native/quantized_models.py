"""Models of quantised tensors, run on the native and on the numpy backend."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op, Operand, Operands
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Quantization, Shape
from tests.ops.cases import check

Array: TypeAlias = npt.NDArray[Any]


def stored(shape: Shape, dtype: DType, seed: int) -> Array:
    """Values from all that a type of integers holds."""
    limits = np.iinfo(dtype.numpy)
    values = np.random.default_rng(seed).integers(limits.min, limits.max, shape, np.int64, endpoint=True)
    return np.asarray(values, dtype.numpy)


class Network:
    """A model of one subgraph, which results in what its last operator gives."""

    def __init__(self) -> None:
        self._builder = ModelBuilder()
        self._main = self._builder.subgraph("main")
        self._tensors: dict[Value, Tensor] = {}
        self._given: list[Array] = []
        self._last: Value | None = None

    def _add(self, tensor: Tensor) -> Value:
        value = self._main.tensor(tensor)
        self._tensors[value] = tensor
        return value

    def input(self, value: Array, quantization: Quantization | None = None) -> Value:
        """An input, and what it is given."""
        found = self._add(Tensor("", DType.of(value.dtype), value.shape, quantization=quantization))
        self._main.feed(found)
        self._given.append(value)
        return found

    def constant(self, value: Array, quantization: Quantization | None = None) -> Value:
        return self._add(Tensor("", DType.of(value.dtype), value.shape, data=value, quantization=quantization))

    def op(self, op: Op, *inputs: Value | None, dtype: DType | None = None,
           quantization: Quantization | None = None) -> Value:
        """An operator with one result, by default of the element type that it says, or of the first input's."""
        given = [None if each is None else self._tensors[each] for each in inputs]
        operands = Operands(tuple(None if each is None else Operand(each.dtype, each.shape, each.data)
                                  for each in given), 1)
        assert given[0] is not None
        kind = dtype or op.types(operands)[0] or given[0].dtype
        tensor = Tensor("", kind, op.infer(operands)[0], quantization=quantization)
        (self._last,) = self._main.op(op, *inputs, outputs=[tensor])
        self._tensors[self._last] = tensor
        return self._last

    def finished(self) -> tuple[Model, list[Array]]:
        """The model, and what it is given."""
        assert self._last is not None
        self._main.output(self._last)
        return self._builder.build(), self._given

    def agree(self, is_native: bool = False) -> None:
        """Compares the results of both backends, to the bit; `is_native`: numpy must not compute any of them."""
        model, given = self.finished()
        (wanted,) = circlet.Session(model, backend="cpu").invoke(0, given)
        session = circlet.Session(model, backend="native")
        assert not is_native or set(session.backend_of(0)) == {"native"}
        for _ in range(2):
            (found,) = session.invoke(0, given)
            check(found, wanted, None)
