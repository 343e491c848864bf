"""A model in memory: indexed subgraphs of operators over tensors. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from circlet.runtime.ir.held import OptionalOf, SequenceOf
from circlet.runtime.ir.op import Op, Opaque
from circlet.runtime.ir.types import Array, DType, Quantization, Shape, Sparsity

ABSENT = -1
"""The tensor index of an optional input that is not there."""


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
    def is_static(self) -> bool:
        """Whether rank and every dimension are declared; a file that omits ranks writes an unknown one as ()."""
        return (self.has_rank or bool(self.shape)) and all(dim >= 0 for dim in self.signature)


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
    """Where the model came from: `tflite`, `circle` or `memory`."""
