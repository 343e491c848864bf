"""Rules for convolutions whose windows are not where a grid has them."""

from __future__ import annotations

from circlet.runtime.ir.types import DType
from circlet.schema.importer import compose as c
from circlet.schema.importer.deform import Windows, deformed
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.windows import windows


@rule("DeformConv", since=19)
def deform_conv(node: Node) -> Value:
    """Of x (n, c, h, w), weights, offsets, and maybe a bias (o,) and a mask: zeros are outside."""
    g, x, weights, bias, mask = node.graph, node[0], node[1], node.get(3), node.get(4)
    channels, size = (x.shape or (0, -1))[1], node.integers("kernel_shape", (weights.shape or ())[2:])
    outputs, depth = (weights.shape or (-1, -1))[:2]
    if node.rank() != 4 or node.dtype() is not DType.FLOAT32 or -1 in (channels, outputs, depth, *size):
        node.unsupported("other than images, as float32, of a number of channels and with filters that are declared")
    found = windows(node, size)
    made = deformed(g, x, weights, node[2], mask, Windows(
        found.size, found.stride, found.dilation, found.before, node.integer("group", 1),
        node.integer("offset_group", 1)))
    return c.channels_first(g, made if bias is None else c.add(g, made, bias), 4)
