"""A model in memory: indexed subgraphs of operators over tensors. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from circlet.runtime.ir.held import OptionalOf, SequenceOf
from circlet.runtime.ir.html import html_table
from circlet.runtime.ir.op import Op, Opaque
from circlet.runtime.ir.types import Array, DType, Quantization, Shape, Sparsity, shape_text

ABSENT = -1
"""The tensor index of an optional input that is not there."""
SHOWN = 6
"""How many inputs or outputs are shown where a subgraph is shown in short."""
SHOWN_SUBGRAPHS = 20


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value in a subgraph: its declared type and, for a constant, its data."""

    name: str
    dtype: DType
    shape: Shape
    """The declared shape; a dimension that is not known is 1 here and -1 in `shape_signature`."""
    shape_signature: Shape | None = None
    has_rank: bool = True
    data: Array | None = None
    """Read-only, of `shape` and `dtype.numpy`; raw bytes where `dtype.is_computable` is false or `sparsity` is set."""
    quantization: Quantization | None = None
    is_variable: bool = False
    """State of the graph that starts at zero and outlives a run."""
    sparsity: Sparsity | None = None
    held: SequenceOf | OptionalOf | None = None
    """What a tensor of type VARIANT is that ONNX has; None where that is not known."""

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def signature(self) -> Shape:
        """The declared shape with -1 for each dimension that is not known."""
        return self.shape if self.shape_signature is None else self.shape_signature

    @property
    def declared(self) -> Shape | None:
        """`signature`, or None where the rank is not known; a file that omits ranks writes an unknown one as ()."""
        return self.signature if self.has_rank or self.shape else None

    @property
    def is_static(self) -> bool:
        """Whether rank and every dimension are declared."""
        return self.declared is not None and all(dim >= 0 for dim in self.signature)

    @property
    def type_text(self) -> str:
        """The type and the declared shape, e.g. `int8[1,?]`; `sequence of int8` for what ONNX has besides tensors."""
        return self.dtype.value + shape_text(self.declared) if self.held is None else str(self.held)

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r}: {'constant ' if self.is_constant else ''}{self.type_text}>"

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes constants read-only again, which pickles do not keep."""
        self.__dict__.update(state)
        if self.data is not None:
            self.data.setflags(write=False)


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
        return self.op.code if isinstance(self.op, Opaque) else self.op.name

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

    def tensor_label(self, index: int) -> str:
        """`index (name)`, as messages name a tensor."""
        return f"{index} ({self.tensors[index].name!r})" if 0 <= index < len(self.tensors) else str(index)

    @property
    def type_text(self) -> str:
        """What goes in and comes out, e.g. `(n: int32[]) -> (steps: int32[])`."""
        return " -> ".join(self._side_text(side) for side in (self.inputs, self.outputs))

    def _side_text(self, indices: tuple[int, ...]) -> str:
        shown = [self.tensors[each] for each in indices[:SHOWN]]
        texts = [f"{each.name}: {each.type_text}" for each in shown] + ["..."] * (len(indices) > SHOWN)
        return f"({', '.join(texts)})"

    def __repr__(self) -> str:
        return f"<Subgraph {self.name!r}: {len(self.operators)} operators, {self.type_text}>"


@dataclass(frozen=True)
class Signature:
    """A named entry point: which tensors of a subgraph callers address by which names."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


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

    def __repr__(self) -> str:
        count = sum(len(each.operators) for each in self.subgraphs)
        entry = f", {self.subgraphs[0].type_text}" if self.subgraphs else ""
        return f"<Model from {self.format}: {len(self.subgraphs)} subgraphs, {count} operators{entry}>"

    def _repr_html_(self) -> str:
        """For notebooks: a row for each of the first subgraphs."""
        rows = [(f"@{index}", each.name, len(each.operators), each.type_text)
                for index, each in enumerate(self.subgraphs[:SHOWN_SUBGRAPHS])]
        return html_table(f"Model from {self.format}, {len(self.subgraphs)} subgraphs",
                          ("subgraph", "name", "operators", "type"), rows)
