"""Models of one operator, made from cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.op import Op, ShapeError
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ops.controlflow import CallSubgraph
from tests.ops.cases import Case, T


def model_of(case: Case, static: bool = True, version: int = 1) -> Model:
    """A model whose inputs are those of the case that are neither constants nor variables, in order.

    Args:
        static: the inputs' shapes are declared; otherwise only their ranks are.
        version: the operator's.
    """
    tensors: list[Tensor] = []

    def add(tensor: Tensor) -> int:
        tensors.append(replace(tensor, name=f"t{len(tensors)}"))
        return len(tensors) - 1

    inputs = [ABSENT if each is None else add(each.tensor if static else _resizable(each)) for each in case.given]
    outputs = [add(each) for each in _results(case)]
    intermediates = tuple(add(each.tensor) for each in case.intermediates)
    operator = Operator(case.op, tuple(inputs), tuple(outputs), version, intermediates=intermediates)
    fed = tuple(index for index, each in zip(inputs, case.given, strict=True) if each is not None and _is_fed(each))
    return Model((Subgraph("main", tuple(tensors), fed, tuple(outputs), (operator,)),))


def called(model: Model) -> Model:
    """A model that calls the only subgraph of another one."""
    (callee,) = model.subgraphs
    borders = [replace(callee.tensors[index], name=f"t{k}")
               for k, index in enumerate((*callee.inputs, *callee.outputs))]
    places = tuple(range(len(borders)))
    inputs, outputs = places[:len(callee.inputs)], places[len(callee.inputs):]
    caller = Subgraph("main", tuple(borders), inputs, outputs, (Operator(CallSubgraph(1), inputs, outputs),))
    return Model((caller, replace(callee, name="callee")))


def fed_arrays(case: Case) -> list[npt.NDArray[Any]]:
    """What the inputs of `model_of(case)` are given."""
    return [each.array for each in case.given if each is not None and _is_fed(each)]


def _is_fed(each: T) -> bool:
    return not (each.constant or each.variable)


def _resizable(each: T) -> Tensor:
    tensor = each.tensor
    if not _is_fed(each) or (each.q is not None and each.q.per_axis):
        return tensor
    return replace(tensor, shape=(1,) * len(tensor.shape), shape_signature=(-1,) * len(tensor.shape))


def _results(case: Case) -> Sequence[Tensor]:
    """The outputs; their shapes are declared only where the shape rule does not tell."""
    declared = [each.tensor for each in case.expected]
    try:
        told = case.shapes() is not None
    except ShapeError:
        told = True
    return [replace(each, shape=(), has_rank=False)
            if told and not (each.quantization and each.quantization.per_axis) else each for each in declared]


def same_options(actual: Op, expected: Op) -> bool:
    """Whether two operators are equal as a file has them, with floats in single precision."""
    return type(actual) is type(expected) and all(
        _single(actual.__getattribute__(each.name)) == _single(expected.__getattribute__(each.name))
        for each in fields(actual)
    )


def _single(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_single, value))
    return float(np.float32(value)) if isinstance(value, float) else value
