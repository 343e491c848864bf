"""A model with an operator that native code leaves to numpy."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.spectral import ComplexAbs, Rfft2D


def spectrum() -> Model:
    """The magnitudes of a Fourier transform whose length, 7, has no native rule."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.FLOAT32, (1, 7))
    (found,) = main.op(Rfft2D(), main.apply(Mul(), x, x), main.constant(np.array([1, 7], np.int32)))
    main.output(main.apply(ComplexAbs(), found))
    return builder.build()
