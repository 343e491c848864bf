"""Constants and tensors of a model: how much there is of them, which are shared, equal, or used by nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.model import Model, Subgraph
from circlet.runtime.ir.tensor import Tensor

LEAST = 64
"""Bytes of a constant that is worth naming where it equals another."""
Position: TypeAlias = "tuple[int, int]"
"""A subgraph and a tensor of it."""


@dataclass(frozen=True)
class Same:
    """Constants with the same bytes."""

    bytes: int
    """Of one of them."""
    tensors: Sequence[Position]
    is_shared: bool
    """Whether the file has them once."""


@dataclass(frozen=True)
class Constants:
    """The constants of a model."""

    bytes: int
    """Of all of them, those that share a buffer once."""
    same: Sequence[Same]
    """Those that share a buffer, then those that are equal and do not."""


def tensor_bytes(tensor: Tensor) -> int:
    """The bytes of a constant; 0 of other tensors."""
    if tensor.data is None:
        return 0
    return sum(map(len, tensor.data.reshape(-1))) if tensor.data.dtype.hasobject else tensor.data.nbytes


def constants_of(model: Model) -> Constants:
    """What constants a model has."""
    buffers: dict[tuple[int, int], list[Position]] = {}
    sizes: dict[tuple[int, int], int] = {}
    for index, subgraph in enumerate(model.subgraphs):
        for number, tensor in enumerate(subgraph.tensors):
            if tensor.data is not None:
                size = tensor_bytes(tensor)
                key = _address(tensor), size
                buffers.setdefault(key, []).append((index, number))
                sizes[key] = size
    shared = [Same(sizes[key], found, True) for key, found in buffers.items()
              if len(found) > 1 and sizes[key] >= LEAST]
    return Constants(sum(sizes.values()), [*shared, *_equal(model, [found[0] for found in buffers.values()])])


def _address(tensor: Tensor) -> int:
    assert tensor.data is not None
    return id(tensor.data) if tensor.data.dtype.hasobject else tensor.data.ctypes.data


def _equal(model: Model, positions: Sequence[Position]) -> Iterator[Same]:
    """Constants with equal bytes in different places; only those of equal size are looked at."""
    by_size: dict[int, list[Position]] = {}
    for index, number in positions:
        tensor = model.subgraphs[index].tensors[number]
        size = tensor_bytes(tensor)
        if size >= LEAST and tensor.data is not None and not tensor.data.dtype.hasobject:
            by_size.setdefault(size, []).append((index, number))
    for size, found in by_size.items():
        if len(found) > 1:
            groups: dict[bytes, list[Position]] = {}
            for index, number in found:
                groups.setdefault(_digest(model.subgraphs[index].tensors[number]), []).append((index, number))
            yield from (Same(size, each, False) for each in groups.values() if len(each) > 1)


def _digest(tensor: Tensor) -> bytes:
    assert tensor.data is not None
    return blake2b(np.ascontiguousarray(tensor.data).data, digest_size=16).digest()


@dataclass(frozen=True)
class Unused:
    """A tensor that nothing reads."""

    tensor: int
    writer: int | None
    """The operator of which it is a result."""
    is_input: bool
    """Whether it is an input of the subgraph."""

    @property
    def reason(self) -> str:
        """In words."""
        if self.is_input:
            return "an input that nothing reads"
        return "no operator names it" if self.writer is None else f"a result of [{self.writer}] that nothing reads"


def unused_of(subgraph: Subgraph) -> Sequence[Unused]:
    """The tensors of a subgraph that no operator reads and that are no outputs."""
    used = {*subgraph.outputs}
    writers: dict[int, int] = {}
    for number, operator in enumerate(subgraph.operators):
        used.update(operator.inputs, operator.intermediates)
        writers.update(dict.fromkeys(operator.outputs, number))
    for number in [*used]:
        if 0 <= number < len(subgraph.tensors):
            used.update(_scales(subgraph.tensors[number]))
    inputs = {*subgraph.inputs}
    return [Unused(number, writers.get(number), number in inputs)
            for number in range(len(subgraph.tensors)) if number not in used]


def _scales(tensor: Tensor) -> tuple[int, ...]:
    blockwise = None if tensor.quantization is None else tensor.quantization.blockwise
    return () if blockwise is None else (blockwise.scales, blockwise.zero_points)
