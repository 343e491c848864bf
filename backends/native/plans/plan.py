"""What runs of a model need of it where all that they run is compiled: names, types, and functions with their layouts.

It is kept on the disk beside the functions, under what the model's content and all that decides how it is compiled give
as a name. So who finds it need not read the model, nor verify it, run passes on it or derive its shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from circlet.runtime.errors import Place
from circlet.runtime.exec.frames.layout import Layout
from circlet.runtime.ir.model import Model, Signature, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.records import dataclass, replace

if TYPE_CHECKING:
    from circlet.backends.native.load.manifest import Manifest
    from circlet.runtime.ir.op import Op
    from circlet.runtime.ops.controlflow import CallOnVariables


Numbered: TypeAlias = "tuple[int, Tensor]"
"""The index of a tensor and what is declared of it."""


@dataclass(frozen=True)
class Graph:
    """A subgraph that runs begin with, as callers see it."""

    number: int
    name: str
    count: int
    """Of its tensors."""
    tensors: tuple[Numbered, ...]
    """Its inputs and outputs."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Handle:
    """What a variable is known by."""

    container: str
    name: str
    is_updated: bool
    """Whether operators write to parts of its value."""


@dataclass(frozen=True)
class Part:
    """Where a constant of the model lies."""

    subgraph: int
    tensor: int
    offset: int
    """In the model's file or, counted on behind that, in the one of its weights."""
    size: int
    """Bytes."""
    is_kept: bool
    """Whether it is kept with the plan, rather than found in a file of the model."""


@dataclass(frozen=True)
class State:
    """A variable tensor."""

    subgraph: int
    number: int
    tensor: Tensor


@dataclass(frozen=True)
class Hosted:
    """An operator that the host computes."""

    number: int
    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    version: int
    custom_options: bytes
    intermediates: tuple[int, ...]


@dataclass(frozen=True)
class HostedGraph:
    """What the host computes of a subgraph."""

    number: int
    name: str
    operators: tuple[Hosted, ...]
    tensors: tuple[Numbered, ...]
    """Those that they name."""
    constants: tuple[Part, ...]
    """The values of some of these."""
    origin: int | None
    added: int
    made_for: Place | None
    """What messages need to know of the subgraph; see there."""


@dataclass(frozen=True)
class Stage:
    """A function that computes a subgraph, or some operators of it."""

    key: str
    """Its name on the disk."""
    leading: Place
    """Its first operator, for errors that have no place."""
    known: tuple[Part, ...]
    """Values of tensors that follow from constants."""
    parts: tuple[Part, ...]
    """Constants of the model."""
    states: tuple[State, ...]
    hosted: tuple[HostedGraph, ...]


@dataclass(frozen=True)
class Planned:
    """Functions that compute a whole subgraph, one after another."""

    subgraph: int
    layout: Layout | None
    """Where inputs and results lie, and what one function computes for another; None where lengths are open."""
    code: bytes
    """The same as code of this version of Python where lengths are open; see `OpenLayout`."""
    known: tuple[Part, ...]
    """Values of inputs and results that are the same for all lengths, and lie nowhere."""
    stages: tuple[Stage, ...]
    keeps_inputs: bool
    """Whether they leave inputs as they are, which may lie anywhere."""


@dataclass(frozen=True)
class Known:
    """A value that is the same in every run."""

    part: Part
    dtype: DType
    shape: Shape


@dataclass(frozen=True)
class Lifted:
    """A subgraph that runs begin with whose variables, or integers for text, are inputs and results of another one."""

    subgraph: int
    op: CallOnVariables
    first: tuple[Known, ...] | None
    """What stands for variables that have no value, where nothing computes it."""


@dataclass(frozen=True)
class Enclosed:
    """A function that is kept in the plan's file as well: its code there, and its constants before the plan's."""

    key: str
    """Its name on the disk."""
    manifest: Manifest
    size: int
    """Bytes of its constants; those of the plan begin on the next cache line."""
    checksum: bytes
    """Of its constants."""


@dataclass(frozen=True)
class Plan:
    """What runs need of a model."""

    format: str
    subgraphs: int
    has_state: bool
    graphs: tuple[Graph, ...]
    signatures: tuple[Signature, ...]
    handles: tuple[Handle, ...] = ()
    """Of variables, in order."""
    planned: tuple[Planned, ...] = ()
    lifted: tuple[Lifted, ...] = ()
    enclosed: Enclosed | None = None

    def outline(self) -> Model:
        """The model as callers see it: its inputs, outputs and signatures."""
        known = {each.number: _subgraph(each) for each in self.graphs}
        blank = Subgraph("", (), (), (), ())
        return Model(tuple(known.get(each, blank) for each in range(self.subgraphs)), self.signatures,
                     format=self.format)


class Unplanned(Exception):
    """Something that plans cannot say."""


def plan_of(model: Model, entries: Iterable[int], has_state: bool) -> Plan:
    """A plan without functions.

    Raises:
        Unplanned: an input or output is of no plain type.
    """
    return Plan(model.format, len(model.subgraphs), has_state,
                tuple(_graph(each, model.subgraphs[each]) for each in entries),
                tuple(Signature(each.key, each.subgraph, dict(each.inputs), dict(each.outputs))
                      for each in model.signatures))


def declared(tensor: Tensor) -> Tensor:
    """What is declared of a tensor.

    Raises:
        Unplanned: it is of no plain type.
    """
    scaling = tensor.quantization
    is_plain = scaling is None or scaling.blockwise is None
    if tensor.is_constant or tensor.sparsity is not None or tensor.held is not None or tensor.dtype.numpy.hasobject \
            or not is_plain:
        raise Unplanned
    return tensor


def _graph(number: int, graph: Subgraph) -> Graph:
    border = tuple((each, _border(graph, each)) for each in dict.fromkeys((*graph.inputs, *graph.outputs)))
    return Graph(number, graph.name, len(graph.tensors), border, graph.inputs, graph.outputs)


def _border(graph: Subgraph, number: int) -> Tensor:
    """What is declared of an input or a result, which may be text that is looked up behind a function."""
    tensor = graph.tensors[number]
    is_text = tensor.dtype is DType.STRING and number not in graph.inputs and not tensor.is_constant
    return tensor if is_text else declared(_unvalued(tensor))


def _unvalued(tensor: Tensor) -> Tensor:
    """What is said of a result that is a constant; its value is with the layouts that it is a part of."""
    return tensor if tensor.is_variable or not tensor.is_constant else replace(tensor, data=None)


def _subgraph(found: Graph) -> Subgraph:
    known = dict(found.tensors)
    blank = Tensor("", DType.FLOAT32, ())
    return Subgraph(found.name, tuple(known.get(each, blank) for each in range(found.count)), found.inputs,
                    found.outputs, ())
