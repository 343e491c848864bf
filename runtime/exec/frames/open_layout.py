"""Where the inputs and results of a subgraph lie at lengths that change, by functions of Python's that are made for it:
a change to other lengths takes a few statements then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from circlet.runtime.ir.types import DType, Shape

Elements: TypeAlias = "tuple[tuple[int, ...], ...]"
"""For each tensor that lies nowhere, the integers that it holds."""
Sizes: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], tuple[Shape, ...], Elements, tuple[int, ...]]"
"""All lengths that a layout is for, bytes of its buffers, shapes of the tensors in them, elements of those that lie
nowhere, and the numbers that the step needs. Tensors of which only the run tells them are left out."""
Told: TypeAlias = "tuple[tuple[Shape, ...], Elements]"
"""Shapes and elements of the tensors of which only the run tells them."""
Placed: TypeAlias = "tuple[tuple[int, np.dtype[np.generic], int], ...]"
"""Tensors in memory: of each the number, the element type, and the place of its buffer."""
Valued: TypeAlias = "tuple[tuple[int, np.dtype[np.generic], Shape], ...]"
"""Tensors that lie nowhere: of each the number, the element type and the shape."""


class OpenLayout:
    """A layout, and what the step needs, for any lengths."""

    def __init__(self, code: CodeType) -> None:
        """
        Args:
            code: as `layout_code` gives it, compiled by this version of Python.
        """
        names: dict[str, Any] = {"dtype": _dtype}
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
        self.early: tuple[Placed, Valued] = names["early"]
        """Tensors of which the open lengths tell the shape and the elements."""
        self.late: tuple[Placed, Valued] = names["late"]
        """Those of which only the run tells them."""
        self.known: Valued = names["known"]
        """Those that are the same for all lengths."""
        self.fit: Callable[[tuple[Shape, ...], tuple[int, ...], bool], Sizes | None] = names["fit"]
        """What is decided for inputs of some shapes, with some lengths behind the open ones. None where inputs have
        other axes than the layout is for; if that is asked, also where it or the step assumes something else."""
        self.told: Callable[[Sequence[int]], Told] = names["told"]
        """What the run tells, by all lengths, with those that it has computed."""


def _dtype(name: str) -> np.dtype[np.generic]:
    """The numpy type of a stored element."""
    return DType(name).numpy
