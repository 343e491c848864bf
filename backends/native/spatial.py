"""Native rules that move elements between the spatial axes of a tensor and its batch or its channels.

The loops run over positions and places within a block apart, so that no index is divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emitter import Emitter
from circlet.backends.native.rule import Node, Sink, movable, nest
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ops.spatial import BatchToSpaceND, DepthToSpace, SpaceToBatchND, SpaceToDepth, block_of, margins_of


def _times(e: Emitter, index: ir.Value, size: int, offset: ir.Value) -> ir.Value:
    """`index * size + offset`."""
    return e.builder.add(e.builder.mul(index, e.number(size)), offset, flags=("nsw",))


def _shuffle(to_depth: bool, node: Node[Any], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Moves blocks of positions to channels, or back."""
    x, block = node.input(0), node.op.block_size
    (images, height, width, _), channels = (node.shape, x.shape[3]) if to_depth else (x.shape, node.shape[3])
    with e.nest((images, height, block, width, block, channels)) as (image, i, k, j, m, channel):
        spread = [image, _times(e, i, block, k), _times(e, j, block, m), channel]
        packed = [image, i, j, _times(e, _times(e, k, block, m), channels, channel)]
        source, target = (spread, packed) if to_depth else (packed, spread)
        sinks[0](e, target, x.element(e, source))


nest(SpaceToDepth, movable)(partial(_shuffle, True))
nest(DepthToSpace, movable)(partial(_shuffle, False))
