"""Rules for windows that are put back to where they were taken from."""

from __future__ import annotations

from circlet.runtime.errors import ModelError
from circlet.runtime.ops import elements
from circlet.schema.importer import compose as c
from circlet.schema.importer.columns import Axis, images_of, product_of
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.pad import constant_padded
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.windows import windows


@rule("Col2Im")
def col2im(node: Node) -> Value:
    """Of windows (n, c size, count) the images (n, c, ...) that these are columns of."""
    return images_of(node.graph, node[0], _axes(node))


@rule("MaxUnpool")
def max_unpool(node: Node) -> Value:
    """The elements of input 0 where input 1 says that they come from, among zeros; input 2 may ask for a larger result,
    of which that is the beginning."""
    g, x, sizes = node.graph, node[0], node.integers("kernel_shape")
    found, count = windows(node, sizes), len(sizes)
    lengths = [c.dimension(g, x, axis) for axis in range(2)]
    for axis, size in enumerate(sizes):
        rest = size - found.stride[axis] - found.before[axis] - found.after[axis]
        steps = c.multiply(g, c.dimension(g, x, axis + 2), c.integers([found.stride[axis]]))
        lengths.append(c.add(g, steps, c.integers([rest])))
    shape = c.concatenate(g, lengths)
    blank = c.fill(g, product_of(g, lengths), c.like(0, x))
    flat = g.apply(elements.ScatterElements(0, elements.Combine.REPLACE), blank, c.reshape(g, node[1], [-1]),
                   c.reshape(g, x, [-1]))
    images, wanted = c.reshape_to(g, flat, shape), node.get(2)
    if wanted is None:
        return images
    return constant_padded(g, images, [(c.integers([0]), c.subtract(g, c.part_of(g, wanted, axis, axis + 1), length))
                                       for axis, length in enumerate(lengths[:count + 2])], c.like(0, x))


def _axes(node: Node) -> list[Axis]:
    sizes = node[2].data
    if sizes is None or node.rank() != 3 or sizes.ndim != 1 or node.shape(1) != sizes.shape:
        node.unsupported(f"windows whose shape is not constant, or an input of rank {node.rank()}")
    assert sizes is not None
    count = len(sizes)
    steps, dilations = (node.integers(name, (1,) * count) for name in ("strides", "dilations"))
    pads = node.integers("pads", (0,) * 2 * count)
    if not len(steps) == len(dilations) == count == len(pads) / 2 or min([*steps, *dilations, *sizes.tolist()]) < 1:
        raise ModelError(f"expected positive sizes, strides and dilations of {count} axes and {2 * count} pads, found "
                         f"{sizes.tolist()}, {steps}, {dilations} and {pads}")
    return [Axis(c.part_of(node.graph, node[1], k, k + 1), int(sizes[k]), steps[k], dilations[k], pads[k],
                  pads[k + count]) for k in range(count)]
