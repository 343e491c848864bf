"""A subgraph under construction, whose values carry what is known of their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlet.runtime.ir.model import ABSENT, Operator, Subgraph, Tensor
from circlet.runtime.ir.op import Op, Operand, Operands, ShapeError, Unknown
from circlet.runtime.ir.types import MOST_DIMENSIONS, Array, DType, Shape


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph, or a constant of any."""

    dtype: DType
    shape: Shape | None
    """-1 where a dimension is not known, None where not even the rank is."""
    data: Array | None = None
    name: str = ""

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether all dimensions are known."""
        return self.shape is not None and all(dim >= 0 for dim in self.shape)


def constant(data: Array | np.generic, name: str = "", dtype: DType | None = None,
             shape: Shape | None = None) -> Value:
    """A constant; type and shape are those of the data unless it is raw bytes."""
    data = np.asarray(data)
    data.setflags(write=False)
    return Value(dtype or DType.of(data.dtype), data.shape if shape is None else shape, data, name)


class Graph:
    """Collects the tensors and operators of one subgraph."""

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        """The subgraph's index, as control flow names it."""
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._indices: dict[Value, int] = {}

    def tensor(self, dtype: DType, shape: Shape | None, name: str = "") -> Value:
        """Adds a tensor without a value."""
        value = Value(dtype, shape, None, name)
        self._indices[value] = self._add(value)
        return value

    def input(self, dtype: DType, shape: Shape | None, name: str) -> Value:
        """Adds an input."""
        value = self.tensor(dtype, shape, name)
        self.inputs.append(value)
        return value

    def apply(self, op: Op, *inputs: Value | None, dtype: DType | None = None) -> Value:
        """Applies an operator that has one output, of type `dtype` where the operator's rule leaves it open."""
        return self.op(op, *inputs, dtypes=[dtype])[0]

    def op(self, op: Op, *inputs: Value | None, dtypes: Sequence[DType | None] = (None,),
           shapes: Sequence[Shape | None] | None = None) -> tuple[Value, ...]:
        """Applies an operator. `dtypes`, one for each output, and `shapes` say what its own rules leave open.

        Raises:
            ShapeError: the operands do not fit, or a result has too many dimensions.
        """
        indices = tuple(ABSENT if each is None else self.tensor_index(each) for each in inputs)
        args = Operands(tuple(None if each is None else _operand(each) for each in inputs), len(dtypes))
        first = next((each.dtype for each in inputs if each is not None), DType.FLOAT32)
        kinds = [kind or wanted or first for kind, wanted in zip(op.types(args), dtypes, strict=True)]
        found = _shapes(op, args, inputs) if shapes is None else shapes
        outputs = tuple(self.tensor(kind, shape, f"{op.name.lower()}_{len(self._tensors) + k}")
                        for k, (kind, shape) in enumerate(zip(kinds, found, strict=True)))
        self._operators.append(Operator(op, indices, tuple(self._indices[each] for each in outputs)))
        return outputs

    def declare(self, value: Value, name: str, shape: Shape) -> Value:
        """The value under another name, with the dimensions that `shape` knows beyond its own."""
        known = value.shape
        if known is None:
            known = shape or None
        elif len(shape) == len(known):
            known = tuple(own if own >= 0 else declared for own, declared in zip(known, shape, strict=True))
        named = replace(value, name=name, shape=known)
        index = self._indices[value]
        self._indices[named] = index
        self._tensors[index] = tensor_of(named)
        return named

    def tensor_index(self, value: Value) -> int:
        """The index of the value's tensor; a constant is added when it is first used."""
        if value not in self._indices:
            assert value.data is not None, f"{value.name!r} belongs to another subgraph"
            self._indices[value] = self._add(value)
        return self._indices[value]

    def owns(self, value: Value) -> bool:
        """Whether the value is a tensor of this subgraph already."""
        return value in self._indices

    def build(self) -> Subgraph:
        inputs, outputs = (tuple(map(self.tensor_index, each)) for each in (self.inputs, self.outputs))
        return Subgraph(self.name, tuple(self._tensors), inputs, outputs, tuple(self._operators))

    def _add(self, value: Value) -> int:
        self._tensors.append(tensor_of(value))
        return len(self._tensors) - 1


def tensor_of(value: Value) -> Tensor:
    """The tensor that holds a value.

    Raises:
        ShapeError: the value has too many dimensions.
    """
    if value.shape is None:
        return Tensor(value.name, value.dtype, (), has_rank=False)
    if len(value.shape) > MOST_DIMENSIONS:
        raise ShapeError(f"expected at most {MOST_DIMENSIONS} dimensions, found {len(value.shape)}")
    signature = None if value.is_static else value.shape
    shape = tuple(1 if dim < 0 else dim for dim in value.shape)
    return Tensor(value.name, value.dtype, shape, signature, data=value.data)


def _operand(value: Value) -> Operand:
    shape = tuple(1 if dim < 0 else dim for dim in value.shape or ())
    computable = value.data is not None and value.dtype.is_computable
    return Operand(value.dtype, shape, value.data if computable else None)


def _shapes(op: Op, args: Operands, inputs: Sequence[Value | None]) -> Sequence[Shape | None]:
    """What the operator's rule says of the outputs' shapes: of unknown dimensions it is asked for the rank alone."""
    given = [each for each in inputs if each is not None]
    nothing = [None] * args.outputs
    if any(each.shape is None for each in given):
        return nothing
    if all(each.is_static for each in given):
        try:
            return op.infer(args)
        except Unknown:
            return nothing
    try:
        with np.errstate(all="ignore"):
            return [(-1,) * len(shape) for shape in op.infer(args)]
    except (Unknown, ShapeError):
        return nothing
