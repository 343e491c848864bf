"""Interpolation between the elements along axes, each axis by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.types import DType
from circlet.runtime.ops.resample import Coordinates, Interpolation, Nearest, Resample
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.importer.resize import resampled
from circlet.schema.openvino.rules import Node, layer

Floats = npt.NDArray[np.floating[Any]]
_NEAREST: dict[str, Callable[[Floats, float], Floats]] = {
    "round_prefer_floor": lambda x, scale: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x, scale: np.floor(x + 0.5),
    "floor": lambda x, scale: np.floor(x),
    "ceil": lambda x, scale: np.ceil(x),
    "simple": lambda x, scale: np.ceil(x) if scale < 1 else np.floor(x),
}
_PILLOW = {"bilinear_pillow": Interpolation.LINEAR, "bicubic_pillow": Interpolation.CUBIC}
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners")


@dataclass(frozen=True)
class Axis:
    """How the elements of one axis are found."""

    axis: int
    length: int
    wanted: int
    scale: float
    coordinates: str

    def positions(self, kind: type[np.floating[Any]]) -> Floats:
        """Where the elements of the result lie among those of the input, as OpenVINO computes it in float32 where the
        nearest element hangs on the last bit."""
        x: Floats = np.arange(self.wanted, dtype=kind)
        scale = kind(self.scale)
        if self.coordinates == "align_corners":
            return np.asarray(x * (self.length - 1) / (self.wanted - 1) if self.wanted > 1 else x * 0)
        if self.coordinates == "asymmetric":
            return np.asarray(x / scale)
        if self.coordinates == "tf_half_pixel_for_nn":
            return np.asarray((x + 0.5) / scale)
        if self.coordinates == "pytorch_half_pixel" and self.wanted == 1:
            return x * 0
        return np.asarray((x + 0.5) / scale - 0.5)

    def taps(self, mode: str, nearest: str, coefficient: float) -> list[tuple[Floats, Floats | None]]:
        """The elements that are mixed, as positions and weights; no weights where there is one alone."""
        x = self.positions(np.float32 if mode == "nearest" else np.float64)
        if mode == "nearest":
            return [(_NEAREST[nearest](x, self.scale), None)]
        if mode == "cubic":
            low = np.floor(x)
            return [(low + k, _cubic(np.abs(x - low - k), coefficient)) for k in (-1, 0, 1, 2)]
        x = x.clip(0, self.length - 1)
        low = np.floor(x)
        return [(low, 1 - (x - low)), (low + 1, x - low)]


def _cubic(distance: Floats, a: float) -> Floats:
    near = ((a + 2) * distance - (a + 3)) * distance ** 2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


@layer("Interpolate")
def interpolate(node: Node) -> Value:
    """Resized to the sizes in input 1."""
    axes = tuple(node.axis(each, node.rank(0), "axes") for each in node.integers("axes"))
    if node.flag("align_corners", True):
        coordinates = "align_corners"
    else:
        coordinates = "asymmetric" if node.text("mode") == "nearest" else "half_pixel"
    if node.text("mode") == "nearest" and node.flag("align_corners", True):
        raise node.refusal("nearest with align_corners")
    sizes = node.values(1, "output_shape")
    return _resized(node, _axes(node, axes, sizes, None, coordinates), "floor", -0.75)


@layer("Interpolate", since=4)
def interpolate_4(node: Node) -> Value:
    """Resized to sizes (input 1) or by scales (input 2) along axes (input 3)."""
    return _by_mode(node, 1, 2, 3)


@layer("Interpolate", since=11)
def interpolate_11(node: Node) -> Value:
    """Resized to sizes or by scales (input 1) along axes (input 2)."""
    return _by_mode(node, 1, 1, 2)


def _by_mode(node: Node, sizes: int, scales: int, axes: int) -> Value:
    rank = node.rank(0)
    along = tuple(range(rank)) if node.get(axes) is None else tuple(
        node.axis(each, rank, "axes") for each in node.values(axes, "axes"))
    coordinates = node.choice("coordinate_transformation_mode", {each: each for each in _COORDINATES}, "half_pixel")
    nearest = node.choice("nearest_mode", {each: each for each in _NEAREST}, "round_prefer_floor")
    found_by_run = _by_run(node, along, node[sizes], node[scales], coordinates, nearest)
    if found_by_run is not None:
        return found_by_run
    if node.choice("shape_calculation_mode", {"sizes": True, "scales": False}):
        found = _axes(node, along, node.values(sizes, "sizes"), None, coordinates)
    else:
        data = node[scales].data
        if data is None:
            raise node.refusal(f"scales, input {scales}, is not a constant")
        found = _axes(node, along, None, data.astype(np.float64).reshape(-1).tolist(), coordinates)
    return _resized(node, found, nearest, node.number("cube_coeff", -0.75))


def _by_run(node: Node, axes: Sequence[int], sizes: Value, scales: Value, coordinates: str, nearest: str
            ) -> Value | None:
    """Resized where a run tells lengths or sizes; None where no operator does it, or they are known."""
    is_sized = node.choice("shape_calculation_mode", {"sizes": True, "scales": False})
    given = sizes if is_sized else scales
    mode = node.choice("mode", {each: each for each in ("nearest", "linear", "linear_onnx", "cubic", *_PILLOW)})
    is_known = given.data is not None and all(node.shape(0)[axis] > 0 for axis in axes)
    if not is_known and mode == "linear" and node.flag("antialias", False):
        raise node.refusal("linear with antialias")
    rounding = _rounding(mode, nearest, None if is_sized else given)
    if (is_known and mode not in _PILLOW) or rounding is None or given.shape != (len(axes),) or (
            any(node.integers("pads_begin", ())) or any(node.integers("pads_end", ()))):
        return None
    if mode in _PILLOW:
        return _as_pillow(node, axes, sizes if is_sized else None, given)
    op = Resample(tuple(axes), Interpolation(mode.removesuffix("_onnx")), Coordinates(coordinates), rounding,
                  cubic_coefficient=node.number("cube_coeff", -0.75), keeps=True)
    if not is_sized and coordinates == "align_corners" and not _are_whole(given):
        given, is_sized = _scaled(node.graph, node[0], axes, given), True
    if is_sized:
        return _sized(node.graph, op, node[0], c.cast(node.graph, given, DType.INT64))
    return resampled(node.graph, op, node[0], c.cast(node.graph, given, DType.FLOAT32))


def _rounding(mode: str, nearest: str, scales: Value | None) -> Nearest | None:
    """How the nearest element is found, where that is asked for; None where it hangs on what a run tells."""
    if mode != "nearest":
        return Nearest.FLOOR
    if nearest != "simple":
        return Nearest(nearest)
    known = None if scales is None else scales.data
    if known is None or (np.any(known < 1) and np.any(known > 1)):
        return None
    return Nearest.CEIL if np.any(known < 1) else Nearest.FLOOR


def _are_whole(scales: Value) -> bool:
    """Whether scales are known, and make whole numbers of elements of any."""
    return scales.data is not None and bool(np.all(scales.data == np.floor(scales.data)))


def _scaled(g: Graph, x: Value, axes: Sequence[int], scales: Value) -> Value:
    """The lengths of axes by scales, rounded down: float32, (k,)."""
    lengths = c.cast(g, c.gather(g, c.shape_of(g, x), c.integers(axes), 0), DType.FLOAT32)
    return c.floor(g, c.multiply(g, lengths, c.cast(g, scales, DType.FLOAT32)))


def _as_pillow(node: Node, axes: Sequence[int], sizes: Value | None, given: Value) -> Value:
    """Resized by windows that grow where axes shrink, of which what is outside of an image does not count. Neither
    `cube_coeff` nor where coordinates lie matters, and factors only give sizes."""
    g = node.graph
    if sizes is None:
        sizes = _scaled(g, node[0], axes, given)
    op = Resample(tuple(axes), _PILLOW[node.text("mode")], cubic_coefficient=-0.5, exclude_outside=True,
                  antialias=True, keeps=True)
    return c.in_float32(g, lambda x: g.apply(op, x, c.cast(g, sizes, DType.INT64)), node[0])


def _sized(g: Graph, op: Resample, x: Value, sizes: Value) -> Value:
    """Resized to sizes; which elements are the nearest ones follows from factors in float32, if not from lengths."""
    if op.interpolation is not Interpolation.NEAREST or op.coordinates is Coordinates.ALIGN_CORNERS:
        return g.apply(op, x, sizes)
    lengths = c.gather(g, c.shape_of(g, x), c.integers(op.axes), 0)
    factors = c.divide(g, c.cast(g, sizes, DType.FLOAT32), c.cast(g, lengths, DType.FLOAT32))
    return g.apply(op, x, sizes, None, factors)


def _axes(node: Node, axes: Sequence[int], sizes: Sequence[int] | None, scales: Sequence[float] | None,
          coordinates: str) -> list[Axis]:
    count = len(sizes if sizes is not None else scales or ())
    if count != len(axes):
        raise node.error(f"expected a size or scale for each of the axes {axes}, found {count}")
    if any(node.integers("pads_begin", ())) or any(node.integers("pads_end", ())):
        raise node.refusal("padding")
    found = []
    for k, axis in enumerate(axes):
        length = node.shape(0)[axis]
        if (scales or ())[k] == 1 if sizes is None else sizes[k] == length:
            continue
        if length < 1:
            raise node.refusal(f"axis {axis}, whose length is not known before the model runs")
        scale = sizes[k] / length if sizes is not None else (scales or ())[k]
        wanted = sizes[k] if sizes is not None else int(np.floor(np.float32(length) * np.float32(scale)))
        if wanted < 1:
            raise node.error(f"expected positive sizes, found {wanted} for axis {axis}")
        node.bounded(wanted)
        found.append(Axis(axis, length, wanted, scale, coordinates))
    return found


def _resized(node: Node, axes: Sequence[Axis], nearest: str, coefficient: float) -> Value:
    mode = node.choice("mode", {each: each for each in ("nearest", "linear", "linear_onnx", "cubic")})
    if mode == "linear" and node.flag("antialias", False) and any(axis.scale < 1 for axis in axes):
        raise node.refusal("linear with antialias")

    def resize(x: Value) -> Value:
        for axis in axes:
            x = _mixed(node.graph, x, axis, node.rank(0), axis.taps(mode, nearest, coefficient))
        return x

    return resize(node[0]) if mode == "nearest" else c.in_float32(node.graph, resize, node[0])


def _mixed(g: Graph, x: Value, axis: Axis, rank: int, taps: Sequence[tuple[Floats, Floats | None]]) -> Value:
    """The weighted sum of elements along an axis."""
    total: Value | None = None
    for positions, weights in taps:
        indices = positions.clip(0, axis.length - 1).astype(np.int32)
        value = c.gather(g, x, constant(indices), axis.axis)
        if weights is not None:
            shape = (-1, *(1,) * (rank - 1 - axis.axis))
            value = c.multiply(g, value, constant(weights.astype(x.dtype.numpy).reshape(shape)))
        total = value if total is None else c.add(g, total, value)
    return x if total is None else total
