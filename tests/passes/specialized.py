"""Subgraphs at concrete shapes, for tests of what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.passes.analyses.specialize import Specialization, Specializer

Write = Callable[[SubgraphBuilder, Sequence[Value]], Sequence[Value]]
"""Adds operators on inputs; gives the outputs."""


def model_of(write: Write, *signatures: Shape, dtype: DType = DType.FLOAT32) -> Model:
    """A model of one subgraph with inputs of the given signatures."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    main.output(*write(main, [main.input(f"x{k}", dtype, each) for k, each in enumerate(signatures)]))
    return builder.build()


def specializer_of(model: Model) -> Specializer:
    """Specialises as sessions do."""
    return ExecutorMap(model, lambda owner: (ControlflowBackend(owner), CpuBackend()), elide=True).specializer


def specialized(write: Write, *shapes: Shape) -> Specialization:
    """A subgraph at its declared shapes."""
    return specializer_of(model_of(write, *shapes)).at(0, shapes)
