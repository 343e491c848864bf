"""Boxes that detectors start from: around each element of a map of features, relative to the image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Grid:
    """A map of features and the image that it is of; each (1,), float32."""

    rows: Value
    columns: Value
    height: Value
    width: Value

    @classmethod
    def of(cls, node: Node) -> Grid:
        """That of the sizes in inputs 0 and 1."""
        g = node.graph
        sizes = [c.cast(g, each, DType.FLOAT32) for each in node.exactly(2)]
        return cls(*(c.part_of(g, each, axis, axis + 1) for each in sizes for axis in (0, 1)))


@dataclass(frozen=True, eq=False)
class Box:
    """One of the boxes around each element."""

    width: float
    height: float
    shift: tuple[float, float] = (0.0, 0.0)
    """How far from the centre it lies, along x and y."""
    is_cut: bool = False
    """It ends at the borders of the image: its left and upper ones at the first, the others at the last."""

    def corners(self) -> list[float]:
        (x, y), wide, high = self.shift, self.width / 2, self.height / 2
        return [x - wide, y - high, x + wide, y + high]


def _boxes(node: Node) -> list[Box]:
    """The boxes of a PriorBox."""
    sizes, most = node.numbers("min_size", ()), node.numbers("max_size", ())
    ratios = _ratios(node)
    found = _fixed(node, ratios)
    for k, size in enumerate(sizes):
        large = [Box(side, side) for side in [np.sqrt(size * each) for each in most[k:k + 1]]]
        shaped = [Box(size * np.sqrt(ratio), size / np.sqrt(ratio)) for ratio in ratios if ratio != 1]
        is_first = node.flag("min_max_aspect_ratios_order", True)
        found += [Box(size, size), *(large + shaped if is_first else shaped + large)]
    if not found:
        raise node.refusal("neither min_size nor fixed_size")
    return found


def _ratios(node: Node) -> list[float]:
    """Widths by heights, each once, 1 first."""
    found = [1.0]
    for ratio in node.numbers("aspect_ratio", ()):
        if ratio <= 0:
            raise node.error(f"aspect_ratio: expected positive numbers, found {ratio}")
        if all(abs(ratio - each) >= 1e-6 for each in found):
            found += [ratio, 1 / ratio] if node.flag("flip", False) else [ratio]
    return found


def _fixed(node: Node, ratios: Sequence[float]) -> list[Box]:
    """The boxes of `fixed_size`, which lie in a square of `density` by as many.

    How the peers round other sizes, and which boxes they leave out beside others or of other ratios, differs.
    """
    found, sizes, densities = [], node.numbers("fixed_size", ()), node.numbers("density", ())
    if sizes and (node.numbers("fixed_ratio", ()) or node.numbers("min_size", ()) or len(densities) != len(sizes)):
        raise node.refusal("fixed_size with fixed_ratio, with min_size, or without a density for each")
    for size, density in zip(sizes, densities, strict=False):
        if density < 1 or size % 2 or size % density:
            raise node.refusal(f"fixed_size {size:g}, which is odd or no multiple of density {density:g}")
        node.bounded(4 * int(density) ** 2 * len(ratios))
        step = size / density
        places = [each * step + step / 2 - size / 2 for each in range(int(density))]
        found += [Box(size * np.sqrt(ratio), size / np.sqrt(ratio), (x, y), True)
                  for ratio in ratios for y in places for x in places]
    return found


@layer("PriorBox")
def prior_box(node: Node) -> Value:
    """Boxes of the sizes and ratios that attributes give, as (2, 4 rows columns boxes): corners and variances."""
    g, grid, step = node.graph, Grid.of(node), node.number("step", 0.0)
    if not node.flag("scale_all_sizes", True):
        raise node.refusal("scale_all_sizes is false")
    offset = node.number("offset", 0.0)
    if step == 0:
        steps = [c.divide(g, grid.width, grid.columns), c.divide(g, grid.height, grid.rows)]
        offset = 0.5
    else:
        steps = [constant(np.array([step], np.float32))] * 2
    boxes = _boxes(node)
    placed = _placed(g, grid, steps, offset, np.array([each.corners() for each in boxes], np.float32))
    if any(each.is_cut for each in boxes):
        cut = np.array([[each.is_cut] for each in boxes])
        low = np.where(cut & np.array([True, True, False, False]), 0, -np.inf).astype(np.float32)
        high = np.where(cut & np.array([False, False, True, True]), 1, np.inf).astype(np.float32)
        placed = c.minimum(g, c.maximum(g, placed, constant(low)), constant(high))
    return _with_variances(node, placed)


@layer("PriorBoxClustered")
def prior_box_clustered(node: Node) -> Value:
    """Boxes of the widths and heights that attributes give."""
    g, grid, step = node.graph, Grid.of(node), node.number("step", 0.0)
    wide, high = (node.numbers(name, ()) for name in ("width", "height"))
    if len(wide) != len(high) or not wide:
        raise node.error(f"expected as many heights as widths, and some, found {len(high)} and {len(wide)}")
    given = [node.number(name, 0.0) or step for name in ("step_widths", "step_heights")]
    if given == [0, 0]:
        steps = [c.divide(g, grid.width, grid.columns), c.divide(g, grid.height, grid.rows)]
    else:
        steps = [constant(np.array([each], np.float32)) for each in given]
    corners = [Box(*each).corners() for each in zip(wide, high, strict=True)]
    placed = _placed(g, grid, steps, node.number("offset", 0.0), np.array(corners, np.float32))
    return _with_variances(node, placed)


def _placed(g: Graph, grid: Grid, steps: Sequence[Value], offset: float, corners: Floats) -> Value:
    """Boxes around each element, (rows, columns, boxes, 4), as parts of the image."""
    columns, rows = (c.multiply(g, c.shift(g, _numbers(g, count), offset), step)
                     for count, step in zip((grid.columns, grid.rows), steps, strict=True))
    across = c.multiply(g, c.reshape(g, columns, [1, -1, 1, 1]), constant(np.array([1, 0, 1, 0], np.float32)))
    down = c.multiply(g, c.reshape(g, rows, [-1, 1, 1, 1]), constant(np.array([0, 1, 0, 1], np.float32)))
    placed = c.add(g, c.add(g, across, down), constant(corners))
    one = c.like(1, grid.width)
    parts = [c.divide(g, one, each) for each in (grid.width, grid.height)]
    return c.multiply(g, placed, c.concatenate(g, [*parts, *parts]))


def _numbers(g: Graph, count: Value) -> Value:
    return c.cast(g, c.counted(g, c.reshape(g, c.cast(g, count, DType.INT32), [])), DType.FLOAT32)


def _with_variances(node: Node, placed: Value) -> Value:
    """Boxes and, for each, the variances, as two rows."""
    g, variances = node.graph, node.numbers("variance", ()) or (0.1,)
    if len(variances) not in (1, 4):
        raise node.error(f"variance: expected 1 or 4 numbers, found {len(variances)}")
    if node.flag("clip", False):
        placed = c.clip(g, placed, 0, 1)
    each = np.broadcast_to(np.array(variances, np.float32), 4).copy()
    spread = c.broadcast_to(g, constant(each), c.shape_of(g, placed))
    return c.concatenate(g, [c.reshape(g, x, [1, -1]) for x in (placed, spread)], 0)
