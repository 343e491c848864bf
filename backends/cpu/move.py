"""What the rules that move elements share: copies between views, made when binding wherever that can be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from circlet.backends.cpu.rule import Node
from circlet.backends.cpu.steps import chain, promised
from circlet.backends.refusal import Refusal, names
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import INTEGERS, Array, DType

Copies: TypeAlias = "Iterable[tuple[Array, Array]]"
"""Destinations and sources, each a view or something that broadcasts to its destination."""

ELEMENTS = frozenset(dtype for dtype in DType if dtype.is_computable)
"""The types whose elements numpy can move."""
INDICES = INTEGERS - {DType.UINT64}
"""The types of integers that index an array."""
_BLOCK = 1 << 16


def moving(parameters: Collection[int] = (), types: Collection[DType] = ELEMENTS,
           integers: Collection[DType] = INTEGERS) -> Refusal:
    """Refuses all calls but those whose `parameters` are integers and whose other operands have one of the `types`."""
    def refuses(call: Call) -> str | None:
        found = {tensor.dtype for tensor in call.outputs}
        for k, tensor in enumerate(call.inputs):
            if tensor is None:
                continue
            if k not in parameters:
                found.add(tensor.dtype)
            elif tensor.dtype not in integers:
                return f"element type {tensor.dtype.value} of input {k} (supported: {names(integers)})"
        if len(found) > 1:
            return f"operands of different element types {names(found)}"
        return None if found <= frozenset(types) else f"element type {names(found)} (supported: {names(types)})"

    return refuses


def copy(out: Array, source: Array) -> Step:
    """A step that copies a tensor, or a view of one that broadcasts to `out`, into `out`, which may be a view too."""
    blocks = out.flags.c_contiguous and source.flags.c_contiguous and not out.dtype.hasobject
    if out.__array_interface__ == source.__array_interface__:
        return lambda: None
    if blocks and out.shape == source.shape and out.dtype == source.dtype and 0 < out.nbytes <= _BLOCK:
        return partial(_bytes(out).__setitem__, slice(None), _bytes(source))
    return partial(out.__setitem__, ..., source)


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def copies(node: Node[Any], plan: Callable[..., Copies], *parameters: int) -> Step:
    """A step that makes the copies of a plan in order; `plan` is given the values of the inputs `parameters`.

    The plan is made once if these are constants, otherwise in each step, after a check of the results' shapes.
    """
    values = [node.input(k) for k in parameters]
    if node.is_constant(parameters):
        return chain(*(copy(destination, source) for destination, source in plan(*values)))

    def step() -> None:
        for destination, source in plan(*values):
            destination[...] = source

    return chain(promised(node), step)
