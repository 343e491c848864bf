"""A value in a subgraph as the model declares it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from circlet.runtime.ir.types import Array, DType, Quantization, Shape, Sparsity, shape_text
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.ir.held import OptionalOf, SequenceOf


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
    """Read-only, of `shape` and `dtype.numpy`, elements one behind the other; raw bytes where `dtype.is_computable` is
    false or `sparsity` is set."""
    quantization: Quantization | None = None
    is_variable: bool = False
    """State of the graph that starts at zero and outlives a run."""
    sparsity: Sparsity | None = None
    held: SequenceOf | OptionalOf | None = None
    """What a tensor of type VARIANT is that ONNX has; None where that is not known."""
    axes: tuple[str, ...] = ()
    """What the model calls the dimensions of an input, "" those without a name; or nothing. Lengths of one name are
    expected to be equal, but need not be."""

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

    def misfit(self, shape: Shape) -> str | None:
        """What is wrong with a shape: an axis that is not as long as there are scales for it."""
        quantization = self.quantization
        if quantization is None or not quantization.per_axis or quantization.blockwise is not None:
            return None
        scales, axis = len(quantization.scales), quantization.axis
        if axis < len(shape) and shape[axis] == scales:
            return None
        return f"expected length {scales} of axis {axis}, which has {scales} scales, found shape {shape}"

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r}: {'constant ' if self.is_constant else ''}{self.type_text}>"

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes constants read-only again, which pickles do not keep."""
        self.__dict__.update(state)
        if self.data is not None:
            self.data.setflags(write=False)


def types_of(tensors: Sequence[Tensor], indices: Iterable[int]) -> tuple[DType, ...]:
    """The declared element types of some tensors."""
    return tuple([tensors[each].dtype for each in indices])
