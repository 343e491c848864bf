"""Builds a `Model` in Python, a subgraph at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from circlet.runtime.errors import ModelError, Place
from circlet.runtime.ir.model import ABSENT, Model, Operator, Signature, Subgraph
from circlet.runtime.ir.op import Op, Unknown
from circlet.runtime.ir.probe import Outline, operands, result_shapes
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization, Shape
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Value:
    """A tensor of a subgraph under construction."""

    subgraph: int
    index: int


class SubgraphBuilder:
    """Collects the tensors and operators of one subgraph."""

    def __init__(self, owner: ModelBuilder, index: int, name: str, made_for: Place | None = None) -> None:
        self._owner = owner
        self._made_for = made_for
        self.index = index
        """The subgraph's index, as control-flow options name it."""
        self.name = name
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._inputs: list[int] = []
        self._outputs: list[int] = []

    @property
    def size(self) -> int:
        """How many tensors there are."""
        return len(self._tensors)

    def tensor(self, tensor: Tensor) -> Value:
        """Adds a tensor as it is."""
        self._tensors.append(tensor)
        return Value(self.index, len(self._tensors) - 1)

    def redeclare(self, value: Value, tensor: Tensor) -> None:
        """Puts another declaration of a tensor in the place of the one that it has."""
        self._tensors[self._own(value)] = tensor

    def input(
        self, name: str, dtype: DType | npt.DTypeLike, shape: Sequence[int] = (),
        quantization: Quantization | None = None,
    ) -> Value:
        """Adds an input; -1 in `shape` is a dimension known only when the model runs."""
        value = self.tensor(_declare(name, dtype, shape, quantization))
        self._inputs.append(value.index)
        return value

    def feed(self, *values: Value) -> None:
        """Makes tensors inputs, in order."""
        self._inputs.extend(self._own(value) for value in values)

    def constant(
        self, data: npt.ArrayLike, dtype: DType | npt.DTypeLike | None = None, name: str = "",
        quantization: Quantization | None = None,
    ) -> Value:
        """Adds a constant; Python floats become float32, Python integers int32."""
        kind = None if dtype is None else _dtype(dtype)
        array = np.array(data, None if kind is None else kind.element if kind.is_computable else kind.numpy, order="C")
        if kind is None and not isinstance(data, (np.ndarray, np.generic)):
            array = array.astype({"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype))
        kind = kind or DType.of(array.dtype)
        array = kind.stored(array)
        array.setflags(write=False)
        name = name or f"constant_{len(self._tensors)}"
        return self.tensor(Tensor(name, kind, array.shape, data=array, quantization=quantization))

    def op(self, op: Op, *inputs: Value | None, outputs: Sequence[Tensor] | None = None, count: int | None = None,
           version: int = 1) -> tuple[Value, ...]:
        """Applies an operator. Output types come from its own rules unless `outputs` declares them.

        `count` is the number of outputs of an operator that may have several.
        """
        if outputs is None:
            outputs = self._infer(op, inputs, op.results.least if count is None else count)
        results = tuple(self.tensor(each) for each in outputs)
        indices = tuple(ABSENT if each is None else self._own(each) for each in inputs)
        self._operators.append(Operator(op, indices, tuple(each.index for each in results), version))
        return results

    def apply(self, op: Op, *inputs: Value | None) -> Value:
        """Applies an operator that has one output."""
        return self.op(op, *inputs, count=1)[0]

    def output(self, *values: Value) -> None:
        """Adds outputs, in order; a tensor may be returned more than once."""
        self._outputs.extend(self._own(value) for value in values)

    def build(self) -> Subgraph:
        return Subgraph(self.name, tuple(self._tensors), tuple(self._inputs), tuple(self._outputs),
                        tuple(self._operators), made_for=self._made_for)

    def _own(self, value: Value) -> int:
        if value.subgraph != self.index:
            raise ModelError(f"tensor {value.index} belongs to subgraph {value.subgraph}; subgraph {self.index} "
                             "reaches it only as an input")
        return value.index

    def _infer(self, op: Op, inputs: Sequence[Value | None], count: int) -> list[Tensor]:
        given = [None if each is None else self._tensors[self._own(each)] for each in inputs]
        outlines = [None if each is None else Outline(each.dtype, each.declared, each.data, each.quantization)
                    for each in given]
        kinds = op.types(operands(outlines, count, call=self._owner.output_shapes))
        shapes = result_shapes(op, outlines, count, call=self._owner.output_shapes)
        first = next((each for each in given if each is not None), None)
        quantization = first.quantization if first is not None else None
        names = (f"{op.name.lower()}_{len(self._tensors) + k}" for k in range(len(kinds)))
        return [replace(declared(name, kind or (first.dtype if first else DType.FLOAT32), shape),
                        quantization=quantization)
                for name, kind, shape in zip(names, kinds, shapes, strict=True)]


class ModelBuilder:
    """Builds a model: ask for subgraphs, fill them, `build()`."""

    def __init__(self, base: Model | None = None) -> None:
        """
        Args:
            base: a model to add subgraphs to.
        """
        self._base = base or Model(())
        self._subgraphs: list[SubgraphBuilder] = []
        self._signatures: list[Signature] = []

    def subgraph(self, name: str = "main", made_for: Place | None = None) -> SubgraphBuilder:
        """Adds a subgraph; the first one is the entry. What is made for an operator has this in messages."""
        builder = SubgraphBuilder(self, len(self._base.subgraphs) + len(self._subgraphs), name, made_for)
        self._subgraphs.append(builder)
        return builder

    def discard(self, count: int) -> None:
        """Forgets all subgraphs but the first `count`; what names them by index must be gone."""
        del self._subgraphs[max(count - len(self._base.subgraphs), 0):]

    def signature(self, key: str, subgraph: SubgraphBuilder, inputs: dict[str, Value],
                  outputs: dict[str, Value]) -> None:
        """Names an entry point."""
        self._signatures.append(Signature(key, subgraph.index, {name: each.index for name, each in inputs.items()},
                                          {name: each.index for name, each in outputs.items()}))

    def output_shapes(self, subgraph: int, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The declared output shapes of a subgraph that is already filled."""
        added = subgraph - len(self._base.subgraphs)
        built = self._base.subgraphs[subgraph] if added < 0 else self._subgraphs[added].build()
        declared = tuple(built.tensors[index].shape for index in built.inputs)
        if declared != shapes or not all(built.tensors[index].is_static for index in built.outputs):
            raise Unknown
        return tuple(built.tensors[index].shape for index in built.outputs)

    def build(self) -> Model:
        subgraphs = (*self._base.subgraphs, *(each.build() for each in self._subgraphs))
        return replace(self._base, subgraphs=subgraphs, signatures=(*self._base.signatures, *self._signatures))


def _dtype(dtype: DType | npt.DTypeLike) -> DType:
    return dtype if isinstance(dtype, DType) else DType.of(dtype)


def _declare(name: str, dtype: DType | npt.DTypeLike, shape: Sequence[int],
             quantization: Quantization | None) -> Tensor:
    return replace(declared(name, _dtype(dtype), tuple(shape)), quantization=quantization)


def declared(name: str, dtype: DType, shape: Shape | None, data: Array | None = None) -> Tensor:
    """A tensor; -1 in `shape` is a dimension that is not known, None stands for an unknown rank."""
    if shape is None:
        return Tensor(name, dtype, (), has_rank=False)
    signature = shape if -1 in shape else None
    return Tensor(name, dtype, tuple(1 if dim < 0 else dim for dim in shape), signature, data=data)
