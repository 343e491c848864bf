"""Windows that are put back together."""

from __future__ import annotations

from circlet.runtime.ir.types import DType
from circlet.schema.importer import compose as c
from circlet.schema.importer.columns import Axis, images_of
from circlet.schema.importer.graph import Value
from circlet.schema.openvino.rules import Node, layer


@layer("Col2Im", since=15)
def col2im(node: Node) -> Value:
    """Of windows (n, c size, count) or (c size, count) images of the height and width in input 1, with sums where they
    overlap; input 2 is the size of a window."""
    g, rank, sizes = node.graph, node.rank(0), node.values(2, "kernel_size")
    steps, dilations = (node.integers(name, (1, 1)) for name in ("strides", "dilations"))
    before, after = (node.integers(f"pads_{side}", (0, 0)) for side in ("begin", "end"))
    if rank not in (2, 3) or any(len(each) != 2 for each in (sizes, steps, dilations, before, after)) or min(
            *sizes, *steps, *dilations) < 1 or min(*before, *after) < 0:
        raise node.error(f"expected windows of rank 2 or 3 and two positive sizes, strides and dilations, found rank "
                         f"{rank}, {sizes}, {steps}, {dilations}, {before} and {after}")
    lengths = c.cast(g, node[1], DType.INT64)
    axes = [Axis(c.part_of(g, lengths, k, k + 1), *each)
            for k, each in enumerate(zip(sizes, steps, dilations, before, after, strict=True))]

    def folded(x: Value) -> Value:
        found = images_of(g, x if rank == 3 else c.unsqueeze(g, x, [0]), axes)
        return found if rank == 3 else c.squeeze(g, found, [0])

    return c.in_float32(g, folded, node[0])
