"""Conditionals: two branches, one of which runs. The rules are those of TensorRT's IIfConditional."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.network.graph import Graph, check_dtype, check_one
from circlet.network.layer import Construct, Entry, Exit, Region, Result
from circlet.network.shapes import union
from circlet.network.tensor import Like, Tensor
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType


@dataclass(frozen=True, eq=False)
class ConditionalInput(Entry):
    """Passes its operand on to both branches."""


@dataclass(frozen=True, eq=False)
class ConditionalOutput(Exit):
    """Its first operand where the predicate holds, otherwise its second."""


class Conditional(Construct):
    """Chooses between values by a predicate.

    Layers that depend on an `input` of the conditional and on which an `output` depends are evaluated lazily: only
    those of the chosen branch run. All other layers run whatever the predicate says.
    """

    def __init__(self, graph: Graph, predicate: Like, name: str, strict: bool, traced: bool = False) -> None:
        """
        Raises:
            ModelError: the predicate is not one boolean, or, if `strict`, not a scalar.
        """
        super().__init__(graph.name(name, "conditional"), graph.region, traced)
        self._graph = graph
        self._strict = strict
        self.predicate = graph.tensor(predicate)
        check_dtype(self.predicate, [DType.BOOL], f"{self.name}: the predicate")
        check_one(self.predicate, f"{self.name}: the predicate", strict)
        self.then = Region(self, "then branch")
        self.otherwise = Region(self, "else branch")
        self._inputs: list[ConditionalInput] = []
        self._outputs: list[ConditionalOutput] = []
        graph.constructs.append(self)

    def input(self, x: Like) -> Tensor:
        """The value of `x` inside of the branches: what depends on it is evaluated lazily."""
        graph, tensor = self._graph, self._graph.tensor(x)
        self.check_place(graph.region)
        layer = ConditionalInput(len(graph.layers), graph.name("", "conditional_input"), (tensor,), graph.region, self)
        self._inputs.append(layer)
        return graph.add(layer, (tensor.dtype, tensor.shape))[0]

    def output(self, then: Like, otherwise: Like, name: str = "") -> Tensor:
        """`then` where the predicate holds, else `otherwise`.

        Raises:
            ModelError: their element types differ, or, in a strict network, their shapes.
        """
        graph = self._graph
        self.check_place(graph.region)
        name = graph.name(name, "conditional_output")
        try:
            a, b = graph.aligned(then, otherwise)
        except ModelError as error:
            raise ModelError(f"{self.name}, output {name}: {error}") from None
        if self._strict and a.shape != b.shape:
            raise ModelError(f"{self.name}, output {name}: expected branches of one shape, found {a} and {b}")
        layer = ConditionalOutput(len(graph.layers), name, (a, b), graph.region, self)
        self._outputs.append(layer)
        return graph.add(layer, (a.dtype, union(a.shape, b.shape)))[0]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._inputs)

    @property
    def exits(self) -> tuple[Exit, ...]:
        return tuple(self._outputs)

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.then, self.otherwise)

    def gates(self) -> tuple[Result, ...]:
        return (self.predicate,)

    def outer(self) -> tuple[Result, ...]:
        return (self.predicate,)

    def tails(self, region: Region) -> tuple[Result, ...]:
        place = self.regions.index(region)
        return tuple(tensor for layer in self._outputs if (tensor := layer.operands[place]) is not None)

    def check(self) -> None:
        if not self._outputs:
            raise ModelError(f"{self.name}: expected at least one output, found none")
