"""A model in memory: indexed subgraphs of operators over tensors. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from circlet.runtime.digests import content_digest
from circlet.runtime.errors import Place, plural
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass, field

if TYPE_CHECKING:
    from circlet.runtime.ir.op import Op

ABSENT = -1
"""The tensor index of an optional input that is not there."""
SHOWN = 6
"""How many inputs or outputs are shown where a subgraph is shown in short."""
SHOWN_SUBGRAPHS = 20


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator of a subgraph, applied to tensors by index."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    version: int = 1
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.op.title

    def __repr__(self) -> str:
        return f"<Operator {self.name}: {self.inputs} -> {self.outputs}>"


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A function over tensors: `outputs = operators(inputs)`."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]
    origin: int | None = None
    """The subgraph of which a pass made this one: the same operators, with others before them."""
    added: int = 0
    """How many others."""
    made_for: Place | None = None
    """The operator that a pass made it for, if there is no such subgraph."""

    def place(self, index: int, number: int, name: str | None = None) -> Place:
        """Where an operator is, for messages: in the subgraph that it comes from.

        Args:
            index: of this subgraph.
            number: of the operator.
            name: what it is called, by default its own name.
        """
        if self.made_for is not None:
            return self.made_for
        return Place(index if self.origin is None else self.origin, self.name, max(number - self.added, 0),
                     self.operators[number].name if name is None else name)

    def tensor_label(self, index: int) -> str:
        """`index (name)`, as messages name a tensor."""
        return f"{index} ({self.tensors[index].name!r})" if 0 <= index < len(self.tensors) else str(index)

    def same_before(self, number: int) -> Operator | None:
        """The first operator before another one that computes the same of the same; None where there is none."""
        own = self.operators[number]
        if not own.op.pure or own.op.callees():
            return None
        return next((each for each in self.operators[:number] if each.inputs == own.inputs and each.op == own.op), None)

    @property
    def type_text(self) -> str:
        """What goes in and comes out, e.g. `(n: int32[]) -> (steps: int32[])`."""
        return " -> ".join(self._side_text(side) for side in (self.inputs, self.outputs))

    def _side_text(self, indices: tuple[int, ...]) -> str:
        shown = [self.tensors[each] for each in indices[:SHOWN]]
        texts = [f"{each.name}: {each.type_text}" for each in shown] + ["..."] * (len(indices) > SHOWN)
        return f"({', '.join(texts)})"

    def __repr__(self) -> str:
        return f"<Subgraph {self.name!r}: {plural(len(self.operators), 'operator')}, {self.type_text}>"


@dataclass(frozen=True)
class Signature:
    """A named entry point: which tensors of a subgraph callers address by which names."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


_NOTHING = memoryview(b"")


@dataclass(frozen=True, eq=False)
class Provenance:
    """What a model was read from, all of it."""

    content: memoryview
    """Of the file; constants may be views of it. Nothing where none is, and the digest is known."""
    choices: str
    """How it was read, where that is not as by default."""
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]
    """What was read."""
    weights: memoryview = _NOTHING
    """Of the file that constants lie in, if that is another one."""
    known: bytes = b""
    """The digest, if it was made before."""

    @property
    def made(self) -> bytes:
        """The digest, if it was made."""
        found: bytes = self.__dict__.get("digest", self.known)
        return found

    @cached_property
    def digest(self) -> bytes:
        """Tells contents apart."""
        if self.known:
            return self.known
        return content_digest(self.content) + (content_digest(self.weights) if self.weights.nbytes else b"")

    @property
    def files(self) -> tuple[memoryview, memoryview]:
        """The contents, in which places are counted through."""
        return self.content, self.weights


@dataclass(frozen=True, eq=False)
class Model:
    """Subgraphs addressed by index, the first one being the primary entry."""

    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...] = ()
    description: str = ""
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    version: int = 3
    """The schema version the file names."""
    format: str = "memory"
    """Where the model came from: `tflite`, `circle`, `onnx`, `openvino` or `memory`."""
    provenance: Provenance | None = None
    """What it was read from; counts as long as `is_as_read`. Pickles and copies are without."""

    @property
    def is_as_read(self) -> bool:
        """Whether it is what its provenance says, rather than made from that, as by `dataclasses.replace`."""
        found = self.provenance
        return found is not None and found.subgraphs is self.subgraphs and found.signatures is self.signatures

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "provenance": None}

    def __repr__(self) -> str:
        count = sum(len(each.operators) for each in self.subgraphs)
        entry = f", {self.subgraphs[0].type_text}" if self.subgraphs else ""
        size = f"{plural(len(self.subgraphs), 'subgraph')}, {plural(count, 'operator')}"
        return f"<Model from {self.format}: {size}{entry}>"

    def _repr_html_(self) -> str:
        """For notebooks: a row for each of the first subgraphs, and a picture of the first one if it is small."""
        with LOADING:
            from circlet.runtime.ir.display.html import html_table
            from circlet.runtime.ir.display.picture import picture

        rows = [(f"@{index}", each.name, len(each.operators), each.type_text)
                for index, each in enumerate(self.subgraphs[:SHOWN_SUBGRAPHS])]
        table = html_table(f"Model from {self.format}, {plural(len(self.subgraphs), 'subgraph')}",
                           ("subgraph", "name", "operators", "type"), rows)
        return table + "".join(map(picture, self.subgraphs[:1]))


def entries_of(model: Model) -> Sequence[int]:
    """The subgraphs that runs begin with: 0 and those of signatures."""
    return sorted({0, *(each.subgraph for each in model.signatures)})
