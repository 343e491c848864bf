"""A subgraph under construction: emits circlet's operators, infers what is known of their results, and takes values
of the surrounding graphs in as inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.held import value_text
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph, Tensor
from circlet.runtime.ir.op import Op, Operand, Operands, ShapeError, Unknown
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.schema.constants import MOST_MADE, expect_rank
from circlet.schema.onnx.fold import folded
from circlet.schema.onnx.ranks import Given, open_shape
from circlet.schema.onnx.types import Narrow, Type, proto_of

CHARGED_BYTES = 256
"""So many bytes of data cost as much as a node."""
LENGTHS = (1, 64, 96)
"""What stands for a dimension that is not known when a shape rule is tried: results that agree are known."""


@dataclass(eq=False)
class Program:
    """The graphs of a model, by subgraph index.

    Where functions call the next one twice, ten of them become a thousand operators. Honest files repeat little: what
    is translated is counted, and reading ends when it is far more than the file holds.
    """

    budget: int
    """How much may be translated: one for each node, as often as it is, and one for each `CHARGED_BYTES` of data."""
    graphs: list[Graph] = field(default_factory=list)
    _spent: int = 0
    _finished: dict[int, Subgraph] = field(default_factory=dict)

    def graph(self, name: str, parent: Graph | None = None) -> Graph:
        """Adds a graph inside of another one."""
        graph = Graph(self, len(self.graphs), name, parent)
        self.graphs.append(graph)
        return graph

    def charge(self, units: int = 1) -> None:
        """Counts what is translated.

        Raises:
            UnsupportedError: the budget is spent.
        """
        self._spent += units
        if self._spent > self.budget:
            raise UnsupportedError(f"functions, loops and groups repeat nodes and their data too often: they come to "
                                   f"more than the {self.budget} that a file of this size may need")

    def discard(self, count: int) -> None:
        """Forgets all graphs but the first `count`."""
        del self.graphs[count:]

    def finish(self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Fixes what goes into a graph and what comes out of it."""
        self._finished[graph.index] = graph.build(inputs, outputs)

    def subgraphs(self) -> tuple[Subgraph, ...]:
        """The subgraphs of the model, when all graphs are finished."""
        return tuple(self._finished[each.index] for each in self.graphs)


class Graph:
    """A subgraph. A value of a surrounding graph becomes an input when something asks for it; constants are shared."""

    def __init__(self, program: Program, index: int, name: str, parent: Graph | None) -> None:
        self.program = program
        self.index = index
        self.name = name
        self.captures: dict[Value, Value] = {}
        """What stands here for values of the surrounding graph, which must be passed in this order."""
        self._parent = parent
        self._constants: dict[Value, Value] = {}
        self._tensors: list[Tensor] = []
        self._narrow: dict[int, Narrow] = {}
        self._operators: list[Operator] = []

    @property
    def parent(self) -> Graph:
        """The graph around this one.

        Raises:
            ModelError: there is none.
        """
        if self._parent is None:
            raise ModelError(f"{self.name!r} is not inside of another graph")
        return self._parent

    def __getitem__(self, value: Value) -> Tensor:
        """The tensor of a value of this graph."""
        return self._tensors[value.index]

    def type(self, value: Value) -> Type:
        """What a value of this graph is."""
        tensor = self[value]
        return self._narrow.get(value.index) or tensor.held or tensor.dtype

    def shape(self, value: Value) -> Shape | None:
        """The dimensions of a tensor, -1 where not known; None where the rank is not known."""
        tensor = self[value]
        return tensor.signature if tensor.has_rank else None

    def proto(self, value: Value) -> Any:
        """The TypeProto of a value."""
        return proto_of(self.type(value), self.shape(value))

    def known(self, value: Value) -> Array | None:
        """The value of a constant."""
        return self[value].data

    def rank(self, value: Value) -> int:
        """The rank of a tensor.

        Raises:
            UnsupportedError: only a run can tell it.
        """
        shape = self.shape(value)
        if shape is None:
            raise UnsupportedError(f"a value whose rank only a run tells: {self[value].name!r}")
        return len(shape)

    def declare(self, name: str, type: Type, shape: Shape | None) -> Value:
        """Adds a tensor without a value: an input, or a result to be."""
        if not isinstance(type, DType):
            if isinstance(type, Narrow):
                raise UnsupportedError(f"element type {type_text(type)} of {name!r}, which is not constant")
            return self._add(Tensor(name, DType.VARIANT, (), held=type))
        return self._add(declared(name, type, shape))

    def constant(self, data: npt.ArrayLike, dtype: DType | Narrow | None = None, name: str = "") -> Value:
        """Adds a constant: Python's whole numbers become int64, its other numbers float32."""
        if isinstance(dtype, Narrow):
            value = self.constant(data, dtype.held, name)
            self._narrow[value.index] = dtype
            return value
        array = np.asarray(data)
        if dtype is None and not isinstance(data, (np.ndarray, np.generic)):
            array = array.astype(np.float32 if array.dtype.kind == "f" and array.size else array.dtype)
            array = array if array.size else array.astype(np.int64)
        kind = DType.of(array.dtype) if dtype is None else dtype
        if array.dtype != kind.numpy:
            array = array.astype(kind.numpy)
        if array.flags.writeable:
            array = array.copy()
            array.setflags(write=False)
        return self._add(Tensor(name or f"constant_{len(self._tensors)}", kind, array.shape, data=array))

    def like(self, number: float, value: Value, shape: Shape = ()) -> Value:
        """A constant of the element type of another value.

        Raises:
            UnsupportedError: it has so many elements that a small file could fill the memory.
        """
        expect_few(prod(shape))
        return self.constant(np.full(shape, number, self[value].dtype.numpy), self[value].dtype)

    def capture(self, value: Value) -> Value:
        """What stands in this graph for a value of this or a surrounding graph."""
        if value.subgraph == self.index:
            return value
        outer = self.parent.capture(value)
        tensor = self.parent[outer]
        kept = self._constants if tensor.is_constant else self.captures
        if outer not in kept:
            kept[outer] = self._add(tensor)
            if outer.index in self.parent._narrow:
                self._narrow[kept[outer].index] = self.parent._narrow[outer.index]
        return kept[outer]

    def op(self, op: Op, *inputs: Value | None, count: int | None = None,
           types: Sequence[Type] | None = None, shapes: Sequence[Shape | None] | None = None) -> tuple[Value, ...]:
        """Applies an operator.

        Args:
            op: what to apply.
            inputs: None where an optional one is absent.
            count: the number of results of an operator that may have several.
            types: those of the results, where the operator's own rule leaves them open.
            shapes: those of the results, where the caller knows better than the operator's own rule.

        Raises:
            ModelError: the element types of the operands do not fit the operator.
        """
        indices = [ABSENT if each is None else self.capture(each).index for each in inputs]
        count = op.results.least if count is None else count
        found: Sequence[Type] = self._kinds(op, indices, count) if types is None else types
        places = self._shapes(op, indices, count) if shapes is None else shapes
        results = tuple(self.declare(f"{op.name.lower()}_{len(self._tensors)}", type, shape)
                        for type, shape in zip(found, places, strict=True))
        self._operators.append(Operator(op, tuple(indices), tuple(each.index for each in results)))
        return results

    def apply(self, op: Op, *inputs: Value | None, type: Type | None = None) -> Value:
        """Applies an operator that has one result; to small constants it is applied now."""
        data = None if None in inputs else folded(op, [self.known(self.capture(each)) for each in inputs if each])
        if data is not None:
            return self.constant(data)
        return self.op(op, *inputs, count=1, types=None if type is None else (type,))[0]

    def rename(self, value: Value, name: str) -> None:
        """Gives a tensor that has no name of the model's yet one."""
        self._tensors[value.index] = replace(self._tensors[value.index], name=name)

    def assume(self, value: Value, shape: Shape) -> None:
        """Notes what is known of a result's shape beyond what the operator's rule told."""
        if not self[value].is_constant and self[value].dtype is not DType.VARIANT:
            name, dtype = self[value].name, self[value].dtype
            self._tensors[value.index] = declared(name, dtype, shape)

    def build(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Subgraph:
        """The finished subgraph."""
        return Subgraph(self.name, tuple(self._tensors), tuple(each.index for each in inputs),
                        tuple(each.index for each in outputs), tuple(self._operators))

    def _add(self, tensor: Tensor) -> Value:
        expect_rank(tensor.shape)
        self._tensors.append(tensor)
        return Value(self.index, len(self._tensors) - 1)

    def _kinds(self, op: Op, inputs: Sequence[int], count: int) -> list[Type]:
        args = Operands(tuple(self._operands(inputs, 1)), count)
        try:
            kinds = op.types(args)
        except ShapeError as problem:
            raise ModelError(str(problem)) from None
        first = next((self._tensors[each].dtype for each in inputs if each != ABSENT), DType.FLOAT32)
        return [first if each is None else each for each in kinds]

    def _operands(self, inputs: Sequence[int], length: int) -> Iterator[Operand | None]:
        for each in inputs:
            if each == ABSENT:
                yield None
                continue
            tensor = self._tensors[each]
            yield Operand(tensor.dtype, tuple(length if dim < 0 else dim for dim in tensor.signature), tensor.data)

    def _shapes(self, op: Op, inputs: Sequence[int], count: int) -> Sequence[Shape | None]:
        """The shapes of the results as far as they are the same whatever the dimensions that are not known."""
        tensors = [self._tensors[each] for each in inputs if each != ABSENT]
        given = [Given() if each == ABSENT else Given(self.shape(Value(self.index, each)), self._tensors[each].data)
                 for each in inputs]
        unknown = (open_shape(op, given),)
        if not all(each.has_rank for each in tensors):
            return unknown * count
        sizes = {dim for each in tensors for dim in each.signature}
        lengths = sorted({*LENGTHS, *sizes} - {-1}) if -1 in sizes else [1]
        found: list[Sequence[Shape]] = []
        for length in lengths:
            try:
                found.append(op.infer(Operands(tuple(self._operands(inputs, length)), count)))
            except Unknown:
                return unknown * count
            except ShapeError:
                # A branch that is not taken may hold what cannot be computed.
                continue
        if not found:
            return unknown * count
        sure = len(lengths) == 1 or len(found) > 1
        return [merged([each[k] for each in found], sure) for k in range(count)]


def expect_few(elements: int) -> None:
    """Refuses to make a constant with so many elements that a small file could fill the memory.

    Raises:
        UnsupportedError: it has.
    """
    if elements > MOST_MADE:
        raise UnsupportedError(f"a table of {elements} elements (at most {MOST_MADE})")


def declared(name: str, dtype: DType, shape: Shape | None) -> Tensor:
    """A tensor without a value; -1 in `shape` is a dimension that is not known, None stands for an unknown rank."""
    if shape is None:
        return Tensor(name, dtype, (), has_rank=False)
    signature = shape if -1 in shape else None
    return Tensor(name, dtype, tuple(1 if dim < 0 else dim for dim in shape), signature)


def merged(shapes: Sequence[Shape | None], sure: bool = True) -> Shape | None:
    """What several shapes have in common; only the rank where they are not `sure`."""
    first = shapes[0]
    if first is None or any(each is None or len(each) != len(first) for each in shapes):
        return None
    return tuple(dim if sure and all(each is not None and each[k] == dim for each in shapes) else -1
                 for k, dim in enumerate(first))


def type_text(type: Type) -> str:
    """A type in words, e.g. `sequence of float32`."""
    return type.name.lower() if isinstance(type, Narrow) else value_text(type)
