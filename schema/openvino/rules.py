"""How a layer becomes operators: one rule for each type of layer and operator set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from circlet.runtime.errors import ModelError, UnsupportedError, plural
from circlet.runtime.ir.types import MOST_DIMENSIONS, DType, Shape
from circlet.runtime.ops.loop_options import Overrun
from circlet.runtime.records import dataclass, field, replace
from circlet.schema.constants import MOST_MADE
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Program, Value
from circlet.schema.openvino.types import ELEMENT_TYPES, REFUSED_TYPES
from circlet.schema.openvino.weights import Weights
from circlet.schema.openvino.xml import Layer

LATEST = 17
"""The newest operator set that rules were written for."""
Choice = TypeVar("Choice")


@dataclass(frozen=True, eq=False)
class Unit:
    """What the layers of a file have in common."""

    weights: Weights
    overrun: Overrun = Overrun.ERROR
    """What happens where a loop asks for a slice that leaves its axis."""
    program: Program = field(default_factory=Program)
    refused: list[str] = field(default_factory=list)
    """Why circlet has no operators for layers, each once."""


@dataclass(frozen=True, eq=False)
class Node:
    """A layer, the values that feed it and the graph that its operators go to."""

    unit: Unit
    graph: Graph
    layer: Layer
    inputs: Sequence[Value | None]
    """By input port; None where no edge leads to the port."""
    read: frozenset[int] = frozenset()
    """The ids of the output ports that an edge leads from."""
    decompresses: bool = False
    """Whether it is one of those that make weights of what is stored of them."""

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Value:
        value = self.get(index)
        if value is None:
            raise self.error(f"expected input {index}, found {plural(len(self.inputs), 'input')}")
        return value

    def get(self, index: int) -> Value | None:
        """An input that may be absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def wants(self, position: int) -> bool:
        """Whether anything reads an output."""
        ports = self.layer.outputs
        return position < len(ports) and ports[position].id in self.read

    def fed(self, *inputs: Value | None) -> Node:
        """The layer with other inputs."""
        return replace(self, inputs=inputs)

    def in_float32(self) -> Node:
        """The layer with its inputs of half precision in single precision."""
        return self.fed(*(c.cast(self.graph, each, DType.FLOAT32) if each is not None and each.dtype is DType.FLOAT16
                          else each for each in self.inputs))

    @property
    def required(self) -> list[Value]:
        """The inputs of a layer that has no optional ones."""
        return [self[k] for k in range(len(self.inputs))]

    def exactly(self, count: int) -> list[Value]:
        """The inputs of a layer that has so many.

        Raises:
            ModelError: there are more or fewer.
        """
        if len(self.inputs) != count:
            raise self.error(f"expected {plural(count, 'input')}, found {len(self.inputs)}")
        return self.required

    def error(self, message: str) -> ModelError:
        """The error that the layer is malformed."""
        return ModelError(f"{self.layer}: {message}")

    def refusal(self, message: str) -> UnsupportedError:
        """The error that circlet has no rule for what the layer asks for."""
        return UnsupportedError(f"{self.layer}: {message}")

    def shape(self, index: int) -> Shape:
        """The shape of an input, of which at least the rank must be known; -1 for other dimensions."""
        shape = self[index].shape
        if shape is None:
            raise self.refusal(f"the rank of input {index} is not known before the model runs")
        return shape

    def rank(self, index: int) -> int:
        """The rank of an input."""
        return len(self.shape(index))

    def static(self, index: int) -> Shape:
        """The shape of an input, all of whose dimensions must be known."""
        shape = self.shape(index)
        if any(dim < 0 for dim in shape):
            raise self.refusal(f"the shape {shape} of input {index} is not known before the model runs")
        return shape

    def axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """An axis counted from the front."""
        if not -rank <= axis < rank:
            raise self.error(f"{name}: expected {-rank} to {rank - 1} for rank {rank}, found {axis}")
        return axis % rank

    def values(self, index: int, name: str) -> tuple[int, ...]:
        """The elements of an input that must be a constant of integers."""
        data = self[index].data
        if data is None:
            raise self.refusal(f"{name}, input {index}, is not a constant")
        if data.dtype.kind not in "iu":
            raise self.error(f"{name}, input {index}: expected integers, found {self[index].dtype.value}")
        return tuple(data.reshape(-1).tolist())

    def value(self, index: int, name: str) -> int:
        """The element of an input that must be a constant of one integer."""
        found = self.values(index, name)
        if len(found) != 1:
            raise self.error(f"{name}, input {index}: expected one element, found {len(found)}")
        return found[0]

    def bounded(self, elements: int) -> None:
        """Refuses to make a constant with so many elements that a small file could fill the memory."""
        if elements > MOST_MADE:
            raise self.refusal(f"a table of {elements} elements (at most {MOST_MADE})")

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute."""
        found = self.layer.attributes.get(name, default)
        if found is None:
            raise self.error(f"expected attribute {name}, found none")
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute that is an integer."""
        return self._number(name, None if default is None else str(default), int)

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that is a number."""
        return self._number(name, None if default is None else str(default), float)

    def _number(self, name: str, default: str | None, kind: Callable[[str], Choice]) -> Choice:
        text = self.text(name, default)
        try:
            return kind(text)
        except ValueError:
            raise self.error(f"{name}: expected a number, found {text!r}") from None

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An attribute that is a list of integers."""
        return self._list(name, default, int, "integers")

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """An attribute that is a list of numbers."""
        return self._list(name, default, float, "numbers")

    def dimensions(self, name: str, default: str | None = None) -> Shape | None:
        """An attribute that is a shape, -1 for dimensions that are not known; None for an unknown rank.

        Raises:
            ModelError: it is none, or has too many dimensions.
        """
        text = self.text(name, default).strip("[] ")
        if "..." in text:
            return None
        dims = [each.strip() for each in text.split(",") if each.strip()]
        if len(dims) > MOST_DIMENSIONS:
            raise self.error(f"{name}: expected at most {MOST_DIMENSIONS} dimensions, found {len(dims)}")
        try:
            return tuple(-1 if "?" in dim or ".." in dim else max(int(dim), -1) for dim in dims)
        except ValueError:
            raise self.error(f"{name}: expected dimensions, found {text!r}") from None

    def _list(self, name: str, default: Sequence[float] | None, kind: Callable[[str], Choice], what: str
              ) -> tuple[Choice, ...]:
        text = self.text(name, None if default is None else ",".join(map(str, default)))
        try:
            return tuple(kind(each) for each in text.split(",") if each.strip())
        except ValueError:
            raise self.error(f"{name}: expected {what}, found {text!r}") from None

    def flag(self, name: str, default: bool | None = None) -> bool:
        """An attribute that is true or false."""
        return self.choice(name, {"true": True, "1": True, "false": False, "0": False},
                           None if default is None else str(default).lower())

    def choice(self, name: str, choices: Mapping[str, Choice], default: str | None = None) -> Choice:
        """What an attribute selects.

        Raises:
            UnsupportedError: it selects something else.
        """
        text = self.text(name, default).strip().lower()
        if text not in choices:
            raise self.refusal(f"{name} is {text!r} (supported: {', '.join(choices)})")
        return choices[text]

    def dtype(self, name: str, default: str | None = None) -> DType:
        """An attribute that is an element type."""
        text = self.text(name, default).lower()
        if text in REFUSED_TYPES:
            raise self.refusal(f"{name} is {text}, which circlet does not compute with")
        if text not in ELEMENT_TYPES:
            raise self.error(f"{name}: expected an element type, found {text!r}")
        found = ELEMENT_TYPES[text]
        if found is DType.BFLOAT16 and self.layer.type != "Const":
            raise self.refusal(f"{name} is bf16, which circlet reads of constants alone")
        return found


Results: TypeAlias = "Value | tuple[Value, ...]"
Rule: TypeAlias = Callable[[Node], Results]
RuleT = TypeVar("RuleT", bound=Rule)
RULES: dict[str, dict[int, Rule | None]] = {}
"""By type, the rule of each operator set that defined the layer anew; None where circlet has no rule for it."""


def layer(*types: str, since: int = 1) -> Callable[[RuleT], RuleT]:
    """Registers the decorated function for layers of these types, from an operator set on to the next definition."""
    def register(rule: RuleT) -> RuleT:
        for each in types:
            define(each, rule, since)
        return rule

    return register


def define(kind: str, rule: Rule | None, since: int = 1) -> None:
    """Registers the rule of a type of layer."""
    versions = RULES.setdefault(kind, {})
    if since in versions:
        raise ValueError(f"layer {kind} of opset {since} has two rules")
    versions[since] = rule


def find(found: Layer) -> Rule | None:
    """The rule for a layer; None where there is none.

    OpenVINO writes some layers that came later as of opset1, so below the first definition that one counts.
    """
    opset, versions = _opset(found.version), RULES.get(found.type)
    if opset is None or not versions:
        return None
    return versions[max((since for since in versions if since <= opset), default=min(versions))]


def _opset(version: str) -> int | None:
    number = version.removeprefix("opset") if version else str(LATEST)
    return int(number) if number.isdecimal() and 1 <= int(number) <= LATEST else None
