"""Where the inputs and results of a subgraph lie at lengths that change, by functions of Python's that are made for it:
a change to other lengths takes a few statements then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from circlet.runtime.ir.types import Array, DType, Shape

Elements: TypeAlias = "tuple[tuple[int, ...], ...]"
"""For each tensor that lies nowhere, the integers that it holds."""
Sizes: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], tuple[Shape, ...], Elements, tuple[int, ...]]"
"""All lengths that a layout is for, bytes of its buffers, shapes of the tensors in them, elements of those that lie
nowhere, and the numbers that the step needs. Tensors of which only the run tells them are left out."""
Shown: TypeAlias = "tuple[dict[int, Array], tuple[Array, ...], tuple[Array, ...]]"
"""Tensors by number, of what only the run tells the shape all the memory; inputs; results, without those that only the
run tells."""


class OpenLayout:
    """A layout, and what the step needs, for any lengths."""

    def __init__(self, code: CodeType) -> None:
        """
        Args:
            code: as `layout_code` gives it, compiled by this version of Python.
        """
        names: dict[str, Any] = {"dtype": _dtype, "array": np.ndarray, "value": _value}
        exec(code, names)
        self.is_open: bool = names["is_open"]
        """Whether inputs may have several shapes."""
        self.inputs: tuple[int, ...] = names["inputs"]
        self.outputs: tuple[int, ...] = names["outputs"]
        """Tensors."""
        self.room: tuple[int, ...] = names["room"]
        """The lengths behind the open ones, to begin with; see `Layout`."""
        self.buffers: int = names["buffers"]
        """How many there are."""
        self.late: tuple[int, ...] = names["late"]
        """The tensors of which only the run tells the shape or, of integers that lie nowhere, the elements."""
        self.alone: tuple[tuple[int, int], ...] = names["alone"]
        """The results that are no inputs and that nothing else lies with: of each the position among all, and the place
        of its buffer."""
        self.known: tuple[tuple[int, np.dtype[np.generic], Shape], ...] = names["known"]
        """Tensors that are the same for all lengths: of each the number, the element type and the shape."""
        self.fit: Callable[[tuple[Shape, ...], tuple[int, ...], bool], Sizes | None] = names["fit"]
        """What is decided for inputs of some shapes, with some lengths behind the open ones. None where inputs have
        other axes than the layout is for; if that is asked, also where it or the step assumes something else."""
        self.show: Callable[[Sequence[Shape], Elements, Sequence[Array], Mapping[int, Array]], Shown] = names["show"]
        """Arrays of shapes and elements as `fit` gives them, in the memory of the buffers, or among those known."""
        self.tell: Callable[[Sequence[int], Mapping[int, Array], Sequence[Array]], tuple[Array, ...]] = names["tell"]
        """All results, by all lengths, with those that the run has computed, the tensors that were shown before, and
        the memory of the buffers."""


def _dtype(name: str) -> np.dtype[np.generic]:
    """The numpy type of a stored element."""
    return DType(name).numpy


def _value(elements: tuple[int, ...], dtype: np.dtype[np.generic], shape: Shape) -> Array:
    """A tensor of integers."""
    return np.array(elements, np.int64).astype(dtype).reshape(shape)
