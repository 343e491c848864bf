"""What a session tells of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from circlet.runtime.ir.held import value_text
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Quantization, Shape, shape_text
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class TensorInfo:
    """An input or output as the model declares it."""

    name: str
    type: str
    """The element type, e.g. `float32` or `string`; of ONNX's other values e.g. `sequence of float32`."""
    dtype: np.dtype[Any]
    """Of arrays; `object` for strings, sequences and optionals. `ml_dtypes` has bfloat16, float8 and int4."""
    shape: Shape | None
    """-1 is a length of the caller's choice, or that only a run can tell; None where the rank is open too."""
    quantization: Quantization | None
    """What real values stand behind the stored ones; None where they are real themselves."""

    @classmethod
    def of(cls, name: str, tensor: Tensor) -> TensorInfo:
        """What the model declares of a tensor that is called by some name."""
        dtype = tensor.dtype.element or tensor.dtype.numpy
        quantization = tensor.quantization if tensor.quantization is not None and tensor.quantization.scales else None
        return cls(name, value_text(tensor.held or tensor.dtype), dtype, tensor.declared, quantization)

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if ' ' in self.type else shape_text(self.shape)}"


def signature_text(inputs: Mapping[str, TensorInfo], outputs: Mapping[str, TensorInfo]) -> str:
    """What goes in and comes out, e.g. `(n: int32[]) -> (steps: int32[])`."""
    return " -> ".join(f"({', '.join(map(str, side.values()))})" for side in (inputs, outputs))
