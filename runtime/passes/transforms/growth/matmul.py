"""Products: of what is padded along rows or columns so is the result; along both depths zeros add nothing."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.runtime.ir.builder import Value
from circlet.runtime.ops.matmul import BatchMatMul, EmbeddingLookup, FullyConnected
from circlet.runtime.passes.transforms.growth.index import looked_up
from circlet.runtime.passes.transforms.growth.masks import expect_plain, masked
from circlet.runtime.passes.transforms.growth.state import Length, Padded, Refused
from circlet.runtime.passes.transforms.growth.step import Callee, Step, pads


@pads(BatchMatMul)
def batch_matmul(step: Step) -> None:
    """Batch axes broadcast."""
    op = step.op
    assert isinstance(op, BatchMatMul)
    rank, found = len(step.output.signature), {}
    depths: list[int | None] = []
    for k, is_swapped in enumerate((op.adj_x, op.adj_y)):
        state, size = step.state(k), len(step.signature(k))
        kept, depth = (size - 2, size - 1) if (k == 0) != is_swapped else (size - 1, size - 2)
        depths.append(depth if state is not None and depth in state.axes else None)
        for axis, length in state.axes.items() if state else ():
            if axis == kept:
                found[rank - 2 + k] = length
            elif axis != depth and found.setdefault(axis + rank - size, length) != length:
                raise Refused("BATCH_MATMUL meets different lengths")
    for k in range(2):
        _expect_batch(step, k, {axis: each for axis, each in found.items() if axis < rank - 2})
    _finish(step, depths, found)


def _expect_batch(step: Step, position: int, lengths: dict[int, Length]) -> None:
    state, signature = step.state(position), step.signature(position)
    for each in lengths:
        axis = each - len(step.output.signature) + len(signature)
        if axis >= 0 and signature[axis] != 1 and (state is None or axis not in state.axes):
            raise Refused("BATCH_MATMUL meets a padded tensor and one of its own length")


@pads(FullyConnected)
def fully_connected(step: Step) -> None:
    """The weights (n, k) may be padded too."""
    op, source, weights = step.op, step.state(0), step.state(1)
    assert isinstance(op, FullyConnected)
    if step.state(2) is not None:
        raise Refused("FULLY_CONNECTED has a padded bias")
    rank, last, found = len(step.output.signature), len(step.signature(0)) - 1, {}
    if not (op.keep_num_dims or last == 1) and source is not None:
        raise Refused("FULLY_CONNECTED divides a padded input into rows")
    for axis, length in source.axes.items() if source else ():
        if axis != last:
            found[axis] = length
    if weights is not None and 0 in weights.axes:
        if step.has(2):
            raise Refused("FULLY_CONNECTED has padded weights and a bias")
        found[rank - 1] = weights.axes[0]
    _finish(step, [last if source and last in source.axes else None,
                   1 if weights and 1 in weights.axes else None], found)


def _finish(step: Step, depths: Sequence[int | None], found: dict[int, Length]) -> None:
    """The product, of factors that are zero where both are padded along their depth."""
    states = [step.state(0), step.state(1)]
    result = Padded(found) if found else None
    if depths == [None, None]:
        step.keep(result)
        return
    lengths = {each.axes[depth] for each, depth in zip(states, depths, strict=True)
               if each is not None and depth is not None}
    if None in depths or len(lengths) != 1:
        raise Refused(f"{step.operator.name} meets a padded tensor and one of its own length")
    expect_plain(*(step.tensor(k) for k in range(2)))

    def build(c: Callee) -> Value:
        factors = []
        for k, (state, depth) in enumerate(zip(states, depths, strict=True)):
            masks = [] if depth is None or (state is not None and state.is_zero) else [depth]
            factors.append(masked(c, k, masks, 0))
        return c.s.op(step.op, *factors, *c.rest(2), outputs=[step.result("product")])[0]

    step.call(build, result)


@pads(EmbeddingLookup)
def embedding_lookup(step: Step) -> None:
    """Rows looked up by padded indices."""
    looked_up(step, indices=0, table=1, axis=0)
