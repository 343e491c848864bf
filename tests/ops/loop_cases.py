"""Loops as data: a body as a formula, options, operands. Each is a model with one `Loop`, and its expected outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import ABSENT, Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_builder import add_loop
from tests.ops.loop_reference import run_loop

Array: TypeAlias = npt.NDArray[Any]
Formula: TypeAlias = Callable[[SubgraphBuilder, Sequence[Value]], Sequence[Value]]
Kind: TypeAlias = "tuple[DType, tuple[int, ...]]"
Operands: TypeAlias = "tuple[Array | None, ...]"


@dataclass(frozen=True)
class LoopCase:
    """A loop and runs of it."""

    name: str
    op: Loop
    """Without the indices of subgraphs."""
    body: Formula
    kinds: tuple[Kind, ...]
    """Of the body's inputs; -1 is an open length."""
    runs: tuple[Operands, ...]
    """The operands of each run."""
    cond: Formula | None = None
    """The loop's own condition, on the carried values and the invariants."""
    open: bool = False
    """Whether the model declares its inputs with open lengths."""


def loop_model(case: LoopCase, operands: Operands, constants: Sequence[int] = ()) -> Model:
    """The model; the operands at the positions `constants` are part of it, the others its inputs."""
    b = ModelBuilder()
    main, body = b.subgraph("main"), b.subgraph("body")
    body.output(*case.body(body, [body.input(f"in_{k}", *kind) for k, kind in enumerate(case.kinds)]))
    op = replace(case.op, body_subgraph_index=body.index)
    if case.cond is not None:
        cond = b.subgraph("cond")
        own = [case.kinds[each.body_input] for each in op.carried] + [case.kinds[each] for each in op.invariants]
        cond.output(*case.cond(cond, [cond.input(f"own_{k}", *kind) for k, kind in enumerate(own)]))
        op = replace(op, cond_subgraph_index=cond.index)
    values = [None if each is None else _operand(main, k, each, k in constants, case.open)
              for k, each in enumerate(operands)]
    trip_count, cond_value, *rest = values
    given = [each for each in rest if each is not None]
    parts = np.cumsum([len(op.carried), len(op.invariants), len(op.scan_inputs)]).tolist()
    results = add_loop(main, op, body, trip_count=trip_count, cond=cond_value, carried=given[:parts[0]],
                       invariants=given[parts[0]:parts[1]], scan_inputs=given[parts[1]:parts[2]],
                       lengths=given[parts[2]:])
    main.output(*results.carried, *results.scans, *results.last)
    return b.build()


def _operand(main: SubgraphBuilder, number: int, array: Array, is_constant: bool, is_open: bool) -> Value:
    if is_constant:
        return main.constant(array, DType.of(array.dtype), f"operand_{number}")
    return main.input(f"operand_{number}", DType.of(array.dtype), (-1,) * array.ndim if is_open else array.shape)


def expected(model: Model, operands: Operands) -> list[Array]:
    """What the loop in subgraph 0 gives by its definition."""
    session = circlet.Session(model, backend="cpu", copy_elision=False)
    (operator,) = (each for each in model.subgraphs[0].operators if isinstance(each.op, Loop))
    op = operator.op
    assert isinstance(op, Loop)
    body = model.subgraphs[op.body_subgraph_index]
    empty = [_empty(body.tensors[each]) for each in body.outputs]
    aligned = [None if each == ABSENT else array for each, array in zip(operator.inputs, operands, strict=True)]
    return run_loop(op, aligned, lambda index, arrays: session.invoke(index, _typed(model, index, arrays)), empty)


def _empty(tensor: Tensor) -> Array | None:
    if not (tensor.has_rank or tensor.shape):
        return None
    return np.zeros([max(size, 0) for size in tensor.signature], tensor.dtype.numpy)


def _typed(model: Model, index: int, arrays: Sequence[Array]) -> list[Array]:
    graph = model.subgraphs[index]
    return [np.asarray(each, graph.tensors[tensor].dtype.numpy)
            for each, tensor in zip(arrays, graph.inputs, strict=True)]


def arguments(operands: Operands, constants: Sequence[int] = ()) -> list[Array]:
    """The operands that the model has as inputs."""
    return [each for k, each in enumerate(operands) if each is not None and k not in constants]
