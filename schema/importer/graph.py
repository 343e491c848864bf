"""Subgraphs under construction, whose values say what is known of them; formats' rules add operators to these."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir import builder
from circlet.runtime.ir.held import OptionalOf, SequenceOf, ValueType, value_text
from circlet.runtime.ir.model import Subgraph
from circlet.runtime.ir.op import Op, ShapeError
from circlet.runtime.ir.probe import Outline, operands, result_shapes
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.ranks import open_shape
from circlet.runtime.ops.shape import Alias, BroadcastTo, Fill, Reshape, ShapeOf
from circlet.runtime.records import dataclass
from circlet.schema.constants import expect_rank
from circlet.schema.importer.fold import LARGEST, folded, picked


@dataclass(frozen=True)
class Narrow:
    """An element type that circlet does not compute with; constants of it are held in a wider one."""

    name: str
    """The format's."""
    held: DType


Type: TypeAlias = "ValueType | Narrow"
"""What a value of a graph is."""


@dataclass(frozen=True, eq=False)
class Value(Outline):
    """A tensor of a graph, or a constant of any."""

    name: str = ""
    held: SequenceOf | OptionalOf | None = None
    """What it is, where it is no tensor of elements; its element type is VARIANT then."""
    narrow: Narrow | None = None
    """The element type of a constant that is held in a wider one."""
    axes: tuple[str, ...] = ()
    """The names of an input's dimensions, or nothing."""
    sizes: Shape | None = None
    """The elements of what is the shape of a value of known rank, or made of some, or of whole factors between some, -1
    for those that are not known."""
    held_shapes: tuple[Shape, ...] | None = None
    """Of a sequence the shape of all tensors in it, -1 for dimensions in which they may differ, or nothing where there
    are none; None where that is not known."""

    @property
    def type(self) -> Type:
        """What it is."""
        return self.narrow or self.held or self.dtype

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)


def constant(data: npt.ArrayLike, dtype: DType | Narrow | None = None, name: str = "") -> Value:
    """A constant, which becomes a tensor of each graph that uses it.

    Args:
        data: an array, which becomes read-only, and is copied only where its elements do not lie one behind the other;
            of Python's numbers whole ones become int64, others float32.
        dtype: by default the type of the data.
        name: by default one that the graph makes up.
    """
    narrow = dtype if isinstance(dtype, Narrow) else None
    kind = dtype.held if isinstance(dtype, Narrow) else dtype
    array = np.asarray(data, order="C")
    if kind is None and not isinstance(data, (np.ndarray, np.generic)):
        array = array.astype((np.float32 if array.dtype.kind == "f" else array.dtype) if array.size else np.int64)
    kind = kind or DType.of(array.dtype)
    if array.dtype != kind.numpy:
        array = array.astype(kind.numpy)
    array.setflags(write=False)
    return Value(kind, array.shape, array, name=name, narrow=narrow)


class Graph:
    """A subgraph. A value of a surrounding graph becomes an input when something asks for it."""

    def __init__(self, program: Program, target: builder.SubgraphBuilder, parent: Graph | None) -> None:
        self.program = program
        self.captures: dict[Value, Value] = {}
        """What stands here for values of the surrounding graph, which must be passed in this order."""
        self._target = target
        self._parent = parent
        self._slots: dict[Value, builder.Value] = {}
        self._once: dict[tuple[Op, Value], Value] = {}
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []

    @property
    def index(self) -> int:
        """The subgraph's index, as control flow names it."""
        return self._target.index

    @property
    def name(self) -> str:
        return self._target.name

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that were given to `feed`."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that were given to `output`."""
        return tuple(self._outputs)

    @property
    def parent(self) -> Graph:
        """The graph around this one.

        Raises:
            ModelError: there is none.
        """
        if self._parent is None:
            raise ModelError(f"{self.name!r} is not inside of another graph")
        return self._parent

    def tensor(self, type: Type, shape: Shape | None, name: str = "", axes: tuple[str, ...] = ()) -> Value:
        """Adds a tensor without a value; -1 in `shape` is a dimension that is not known, None is an unknown rank.

        Raises:
            UnsupportedError: circlet does not compute with the type.
        """
        if isinstance(type, Narrow):
            raise UnsupportedError(f"element type {type_text(type)} of {name!r}, which is not constant")
        if isinstance(type, DType):
            return self._added(Value(type, shape, name=name, axes=axes))
        return self._added(Value(DType.VARIANT, (), name=name, held=type))

    def input(self, type: Type, shape: Shape | None, name: str, axes: tuple[str, ...] = (),
              held_shapes: tuple[Shape, ...] | None = None) -> Value:
        """Adds an input, whose dimensions may have names."""
        value = self.tensor(type, shape, name, axes)
        self.feed(value)
        return value if held_shapes is None else self.declare(value, held_shapes=held_shapes)

    def feed(self, *values: Value) -> None:
        """Makes tensors inputs, in order."""
        self._inputs += values
        self._target.feed(*map(self._slot, values))

    def output(self, *values: Value) -> None:
        """Adds outputs, in order; a value may be returned more than once."""
        self._outputs += values
        self._target.output(*map(self._slot, values))

    def tensor_index(self, value: Value) -> int:
        """The index of a value's tensor; a constant becomes one when it is first used."""
        return self._slot(value).index

    def owns(self, value: Value) -> bool:
        """Whether a value is a tensor of this graph already."""
        return value in self._slots

    def capture(self, value: Value) -> Value:
        """What stands in this graph for a value of this or a surrounding graph; constants stand for themselves."""
        if value in self._slots or value.is_constant:
            return value
        outer = self.parent.capture(value)
        if outer not in self.captures:
            self.captures[outer] = self._added(replace(outer))
        return self.captures[outer]

    def apply(self, op: Op, *inputs: Value | None, type: Type | None = None) -> Value:
        """Applies an operator that has one result, of `type` where the operator's rule leaves it open; to small
        constants it is applied now."""
        data = folded(op, inputs)
        if data is not None:
            return constant(data)
        source = inputs[0] if inputs else None
        if source is not None and source.sizes is not None:
            data = picked(op, source.sizes, inputs[1:])
            if data is not None:
                return constant(data, source.dtype)
        return self.op(op, *inputs, count=1, types=None if type is None else (type,))[0]

    def once(self, op: Op, x: Value) -> Value:
        """The one result of an operator on a value; the operator is applied the first time it is asked for."""
        key = op, self.capture(x)
        if key not in self._once:
            self._once[key] = self.apply(op, x)
        return self._once[key]

    def op(self, op: Op, *inputs: Value | None, count: int | None = None, types: Sequence[Type | None] | None = None,
           shapes: Sequence[Shape | None] | None = None) -> tuple[Value, ...]:
        """Applies an operator.

        Args:
            op: what to apply.
            inputs: None where an optional one is absent.
            count: the number of results of an operator that may have several; by default that of `types`.
            types: those of the results; None where they follow from the operands.
            shapes: those of the results, where the caller knows better than the operator's own rule.

        Raises:
            ShapeError: the operands do not fit the operator; in a graph inside of another one, which may never be
                run, only if it is their element types that do not.
        """
        given = [None if each is None else self.capture(each) for each in inputs]
        if count is None:
            count = op.results.least if types is None else len(types)
        kinds = _kinds(op, given, count, types)
        found = self._shapes(op, given, count) if shapes is None else shapes
        place = _SHAPED.get(type(op))
        if place is not None and shapes is None and place < len(given):
            found = (_filled_in(found[0], given[place]),)
        slots = [None if each is None else self._slot(each) for each in given]
        stem, first = op.name.lower(), self._target.size
        results = tuple([_result(f"{stem}_{first + k}", kind, shape)
                         for k, (kind, shape) in enumerate(zip(kinds, found, strict=True))])
        made = self._target.op(op, *slots, outputs=[tensor_of(each) for each in results])
        sizes = _sizes(op, given)
        if sizes is not None:
            results = (replace(results[0], sizes=sizes),)
        self._slots.update(zip(results, made, strict=True))
        return results

    def declare(self, value: Value, name: str | None = None, shape: Shape | None = None,
                held_shapes: tuple[Shape, ...] | None = None) -> Value:
        """A value of this graph under another name, with the dimensions that `shape` knows beyond its own, or with what
        is known of the tensors that it holds."""
        known = value.shape
        if known is None:
            known = shape
        elif shape is not None and len(shape) == len(known):
            known = tuple(own if own >= 0 else each for own, each in zip(known, shape, strict=True))
        named = replace(value, shape=known, name=value.name if name is None else name,
                        held_shapes=value.held_shapes if held_shapes is None else held_shapes)
        slot = self._slots[named] = self._slots[value]
        self._target.redeclare(slot, tensor_of(named))
        return named

    def build(self) -> Subgraph:
        return self._target.build()

    def _added(self, value: Value) -> Value:
        self._slots[value] = self._target.tensor(tensor_of(value))
        return value

    def _slot(self, value: Value) -> builder.Value:
        found = self._slots.get(value)
        if found is None:
            if not value.is_constant:
                raise ModelError(f"{value.name!r} is a value of another graph than {self.name!r}")
            found = self._slots[value] = self._target.tensor(
                tensor_of(value, value.name or f"constant_{self._target.size}"))
        return found

    def _shapes(self, op: Op, given: Sequence[Value | None], count: int) -> Sequence[Shape | None]:
        key = _question(op, given, count)
        known = None if key is None else self.program.shapes.get(key)
        if known is not None:
            return known
        try:
            found = result_shapes(op, given, count, open_shape)
        except ShapeError:
            if self._parent is None:
                raise
            return (open_shape(op, given),) * count
        if key is not None:
            self.program.shapes[key] = found
        return found


class Program:
    """The graphs of a model, by subgraph index.

    Where functions call the next one twice, ten of them become a thousand operators. Honest files repeat little: what
    is translated may be counted, and reading ends when it is far more than the file holds.
    """

    def __init__(self, budget: int | None = None) -> None:
        """
        Args:
            budget: how much may be translated, in units that the reader of the format counts; None: anything.
        """
        self.graphs: list[Graph] = []
        self.shapes: dict[Hashable, Sequence[Shape | None]] = {}
        """Those of results, by operator and operands: most layers of a network repeat others."""
        self.transposed: dict[tuple[Value, tuple[int, ...]], Value] = {}
        """Constants with their axes in another order: several operators may have one, such as those that are done for
        each of some images."""
        self._target = builder.ModelBuilder()
        self._budget = budget
        self._spent = 0

    def graph(self, name: str, parent: Graph | None = None) -> Graph:
        """Adds a graph, which may read values of the one around it.

        Raises:
            ModelError: the name is no text.
        """
        expect_text(name)
        graph = Graph(self, self._target.subgraph(name), parent)
        self.graphs.append(graph)
        return graph

    def charge(self, units: int = 1) -> None:
        """Counts what is translated.

        Raises:
            UnsupportedError: the budget is spent.
        """
        self._spent += units
        if self._budget is not None and self._spent > self._budget:
            raise UnsupportedError(f"functions, loops and groups repeat nodes and their data too often: they come to "
                                   f"more than the {self._budget} that a file of this size may need")

    def discard(self, count: int) -> None:
        """Forgets all graphs but the first `count`."""
        del self.graphs[count:]
        self._target.discard(count)

    def subgraphs(self) -> tuple[Subgraph, ...]:
        """The subgraphs of the model, when all graphs are filled."""
        return self._target.build().subgraphs


def expect_text(name: object) -> None:
    """Refuses names that are not UTF-8, which come as bytes.

    Raises:
        ModelError: it is none.
    """
    if not isinstance(name, str):
        raise ModelError(f"expected a name in UTF-8, found {name!r}")


def tensor_of(value: Value, name: str = "") -> Tensor:
    """The tensor that holds a value, under a name that is not its own where one is given.

    Raises:
        ModelError: it has too many dimensions.
    """
    expect_rank(value.shape or ())
    if value.held is not None:
        return Tensor(name or value.name, value.dtype, (), held=value.held)
    found = builder.declared(name or value.name, value.dtype, value.shape, value.data)
    return replace(found, axes=value.axes) if value.axes else found


def type_text(type: Type) -> str:
    """A type in words, e.g. `sequence of float32`."""
    return type.name.lower() if isinstance(type, Narrow) else value_text(type)


def _kinds(op: Op, given: Sequence[Value | None], count: int, types: Sequence[Type | None] | None) -> Sequence[Type]:
    """The types of results: as asked for, or by the operator's rule, or that of the first operand."""
    if types is not None and None not in types:
        return [each for each in types if each is not None]
    wanted = (None,) * count if types is None else types
    first = next((each.dtype for each in given if each is not None), DType.FLOAT32)
    return [asked or found or first for asked, found in zip(wanted, op.types(operands(given, count)), strict=True)]


def _question(op: Op, given: Sequence[Value | None], count: int) -> Hashable | None:
    """What the shapes of results depend on; None where that is too large to be compared."""
    parts: list[Hashable] = [op, count]
    for each in given:
        if each is None:
            parts.append(None)
        elif each.data is None:
            parts.append((each.dtype, each.shape))
        elif each.data.size <= LARGEST and not each.data.dtype.hasobject:
            parts.append((each.dtype, each.shape, each.data.tobytes()))
        else:
            return None
    return tuple(parts)


_SHAPED: Mapping[type[Op], int] = {Fill: 0, Reshape: 1, BroadcastTo: 1}
"""Operators whose result has the shape that an operand gives, and which one that is."""


def _filled_in(shape: Shape | None, target: Value | None) -> Shape | None:
    """The shape of a result, with what is known of the operand that gives it."""
    sizes = None if target is None else target.sizes
    if sizes is None or (shape is not None and len(shape) != len(sizes)):
        return shape
    known = shape or (-1,) * len(sizes)
    return tuple(size if own < 0 and size > 0 else own for own, size in zip(known, sizes, strict=True))


def _sizes(op: Op, given: Sequence[Value | None]) -> Shape | None:
    """The elements of a result that is a shape, or made of some, -1 for those that are not known; None where nothing
    is."""
    first = given[0] if given else None
    if first is None:
        return None
    if isinstance(op, ShapeOf):
        return first.shape
    if isinstance(op, Alias):
        return first.sizes
    if not isinstance(op, Concatenation) or op.axis or first.dtype not in (DType.INT32, DType.INT64, DType.FLOAT32):
        return None
    found: list[int] = []
    for each in given:
        if each is None or each.shape is None or len(each.shape) != 1 or not 0 <= each.shape[0] <= LARGEST:
            return None
        found += _whole(each.data) if each.data is not None else each.sizes or (-1,) * each.shape[0]
    return tuple(found) if any(each >= 0 for each in found) else None


def _whole(numbers: Array) -> list[int]:
    """Numbers, -1 for those that are no integers."""
    return [int(each) if abs(each) < np.inf and each == int(each) else -1 for each in numbers.tolist()]


def _result(name: str, type: Type, shape: Shape | None) -> Value:
    if isinstance(type, DType):
        return Value(type, shape, name=name)
    if isinstance(type, Narrow):
        raise UnsupportedError(f"element type {type_text(type)} of {name!r}, which is not constant")
    return Value(DType.VARIANT, (), name=name, held=type)
