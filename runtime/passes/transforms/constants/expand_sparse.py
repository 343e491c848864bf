"""Makes whole arrays of constants of which a model stores the blocks that are not zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DimensionSparsity, Sparsity
from circlet.runtime.ops.shape import Densify
from circlet.runtime.passes.transforms.rewrite import is_same, rewrite_operators, rewrite_subgraphs
from circlet.runtime.records import replace


def expand_sparse(model: Model) -> Model:
    """Gives each DENSIFY the elements of its input. Where these are quantised they are read in the place of its output:
    rules of quantised products ask for constants.

    Raises:
        ModelError: the layout of an input does not fit its shape or its data.
    """
    return rewrite_subgraphs(model, _expanded)


def _expanded(subgraph: Subgraph) -> Subgraph:
    read = {operator.inputs[0] for operator in subgraph.operators if isinstance(operator.op, Densify)}
    tensors = [_whole(each, f"subgraph {subgraph.name!r}, tensor {k}") if k in read else each
               for k, each in enumerate(subgraph.tensors)]
    if is_same(tensors, subgraph.tensors):
        return subgraph
    found = {operator.outputs[0]: operator.inputs[0] for operator in subgraph.operators if _gives(operator, tensors)}
    return rewrite_operators(replace(subgraph, tensors=tuple(tensors)), partial(_reading, found))


def _gives(operator: Operator, tensors: Sequence[Tensor]) -> bool:
    """Whether an operator is a DENSIFY that gives a quantised constant as it is."""
    if not isinstance(operator.op, Densify):
        return False
    x, y = tensors[operator.inputs[0]], tensors[operator.outputs[0]]
    is_whole = x.sparsity is None and x.data is not None and x.quantization is not None
    return is_whole and (x.dtype, x.shape, x.quantization) == (y.dtype, y.shape, y.quantization)


def _reading(found: Mapping[int, int], operator: Operator) -> Operator:
    """An operator that reads each tensor that is one of `found` in the place of another."""
    if found.keys().isdisjoint(operator.inputs):
        return operator
    return replace(operator, inputs=tuple(found.get(each, each) for each in operator.inputs))


def _whole(tensor: Tensor, place: str) -> Tensor:
    if tensor.sparsity is None or tensor.data is None or not tensor.dtype.is_computable:
        return tensor
    size = tensor.dtype.numpy.itemsize
    if tensor.data.nbytes % size:
        raise ModelError(f"{place}: {tensor.data.nbytes} bytes are no whole elements of {tensor.dtype.value}")
    try:
        data = elements(tensor.data.tobytes(), tensor.shape, tensor.dtype.numpy, tensor.sparsity)
    except ModelError as problem:
        raise ModelError(f"{place}: {problem}") from None
    return replace(tensor, data=data, sparsity=None)


def elements(data: bytes, shape: tuple[int, ...], dtype: np.dtype[np.generic], sparsity: Sparsity) -> Array:
    """All elements of a tensor of which a part is stored: TACO's format (Chou, Kjolstad, Amarasinghe 2018), in which
    each level, dense or compressed, tells where the next one begins.

    Raises:
        ModelError: the levels do not fit the shape, or the data.
    """
    sizes = _sizes(shape, sparsity)
    if 0 in shape:
        return np.zeros(shape, dtype)
    most = max(len(data) // dtype.itemsize, *(len(level.segments) for level in sparsity.dimensions), 1)
    nodes, found = np.zeros(1, np.int64), dict[int, Array]()
    for number, level in zip(sparsity.traversal_order, sparsity.dimensions, strict=True):
        if level.is_dense and len(nodes) * sizes[number] > most:
            raise ModelError(f"expected at most {most} places, found {len(nodes)} of {sizes[number]}")
        parents, along, nodes = _level(level, nodes, sizes[number])
        found = {each: at[parents] for each, at in found.items()} | {number: along}
    values = np.frombuffer(data, dtype)
    if len(nodes) != len(values):
        raise ModelError(f"expected {len(nodes)} elements that are stored, found {len(values)}")
    for number, axis in enumerate(sparsity.block_map, len(shape)):
        found[axis] = found[axis] * sizes[number] + found[number]
    whole = np.zeros(shape, dtype)
    whole[tuple(found[axis] for axis in range(len(shape)))] = values[nodes]
    return whole


def _sizes(shape: tuple[int, ...], sparsity: Sparsity) -> list[int]:
    """How many places there are along each axis, in blocks where it is cut into these, and then within each block."""
    order, dimensions, blocks = sparsity.traversal_order, sparsity.dimensions, sparsity.block_map
    count = len(shape) + len(blocks)
    if sorted(order) != list(range(count)) or len(dimensions) != count:
        raise ModelError(f"expected an order of {count} dimensions, found {order} of {len(dimensions)}")
    if len({*blocks}) != len(blocks) or any(not 0 <= axis < len(shape) for axis in blocks):
        raise ModelError(f"expected blocks along axes of shape {shape}, found {blocks}")
    inner = [dimensions[order.index(number)].dense_size for number in range(len(shape), count)]
    cut = dict(zip(blocks, inner, strict=True))
    if any(size < 1 or shape[axis] % size for axis, size in cut.items()):
        raise ModelError(f"expected blocks that shape {shape} is made of, found sizes {cut} by axis")
    return [size // cut.get(axis, 1) for axis, size in enumerate(shape)] + inner


def _level(level: DimensionSparsity, nodes: Array, size: int) -> tuple[Array, Array, Array]:
    """For each node of the next level: the position of the one above it, its place along the dimension, its number."""
    if level.is_dense:
        if level.dense_size != size:
            raise ModelError(f"expected a dense dimension of {size}, found {level.dense_size}")
        parents, along = np.repeat(np.arange(len(nodes)), size), np.tile(np.arange(size), len(nodes))
        return parents, along, nodes[parents] * size + along
    segments, indices = np.array(level.segments, np.int64), np.array(level.indices, np.int64)
    is_sound = len(segments) > nodes.max(initial=-1) + 1 and segments[0] >= 0 and segments[-1] <= len(indices)
    if not is_sound or (np.diff(segments) < 0).any() or ((indices < 0) | (indices >= size)).any():
        raise ModelError(f"expected segments of {len(indices)} indices below {size} for {len(nodes)} places")
    counts = segments[nodes + 1] - segments[nodes]
    parents = np.repeat(np.arange(len(nodes)), counts)
    begins = np.repeat(segments[nodes] - (np.cumsum(counts) - counts), counts)
    numbers = begins + np.arange(len(parents))
    return parents, indices[numbers], numbers
