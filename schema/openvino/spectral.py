"""Fourier transforms: of complex numbers (..., 2) and of real ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import layout, spectral
from circlet.schema.importer import compose as c
from circlet.schema.importer.columns import Axis, overlapped
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.importer.spectral import MOST_WEIGHTS, are_transformed, filters, spectra, transforms
from circlet.schema.openvino.matmul import matrix_product
from circlet.schema.openvino.rules import Node, layer

Lengths = Sequence[Value | None]
"""To which axes are cut or filled up with zeros, scalars; None for those that stay as they are."""


def _axes(node: Node, rank: int, is_half: bool = False) -> tuple[list[int], Lengths]:
    """The axes of numbers of a rank, and their lengths; `is_half` where of the last one half is given."""
    axes = [node.axis(each, rank, "axes") for each in node.values(1, "axes")]
    if not axes or len(set(axes)) != len(axes):
        raise node.error(f"axes: expected some, each once, found {axes}")
    given = node.get(2)
    if given is None:
        return axes, [None] * len(axes)
    if given.data is None:
        return axes, _told(node, given, axes, is_half)
    sizes = list(node.values(2, "signal_size"))
    if len(sizes) != len(axes) or any(size < 1 and size != -1 for size in sizes):
        raise node.error(f"signal_size: expected a positive size or -1 for each of the axes {axes}, found {sizes}")
    return axes, [None if size == -1 else constant(np.array(size, np.int64)) for size in sizes]


def _told(node: Node, given: Value, axes: Sequence[int], is_half: bool) -> Lengths:
    """The lengths that only a run tells, of which -1 is that of the axis."""
    g, count = node.graph, node.shape(2)
    if count not in ((len(axes),), (-1,)):
        raise node.error(f"signal_size: expected one for each of the axes {axes}, found shape {count}")
    wide = c.cast(g, given, DType.INT64)
    dims = [c.dimension(g, node[0], axis) for axis in axes]
    if is_half:
        dims[-1] = c.shift(g, c.scale(g, dims[-1], 2), -2)
    own = c.concatenate(g, dims)
    sizes = c.select(g, c.equal(g, wide, c.like(-1, wide)), own, wide)
    return [c.reshape(g, c.part_of(g, sizes, k, k + 1), []) for k in range(len(axes))]


def _along(node: Node, x: Value, op: spectral.Dft, axes: Sequence[int], lengths: Lengths) -> Value:
    """The transform along one axis after the other."""
    for axis, length in zip(axes, lengths, strict=True):
        x = node.graph.apply(op, x, length, constant(np.array(axis, np.int64)))
    return x


@layer("DFT", "IDFT", since=7)
def dft(node: Node) -> Value:
    """Of complex numbers, or back."""
    op = spectral.Dft(inverse=node.layer.type == "IDFT")
    return c.in_float32(node.graph, lambda x: _along(node, x, op, *_axes(node, node.rank(0) - 1)), node[0])


@layer("RDFT", since=9)
def rdft(node: Node) -> Value:
    """Of real numbers: the first half along the last one of the axes."""
    axes, lengths = _axes(node, node.rank(0))

    def transformed(x: Value) -> Value:
        half = _along(node, c.trailing(node.graph, x, 1), spectral.Dft(onesided=True), axes[-1:], lengths[-1:])
        return _along(node, half, spectral.Dft(), axes[:-1], lengths[:-1])

    return c.in_float32(node.graph, transformed, node[0])


@layer("IRDFT", since=9)
def irdft(node: Node) -> Value:
    """Back from such a half."""
    rank = node.rank(0) - 1
    axes, lengths = _axes(node, rank, True)

    def transformed(x: Value) -> Value:
        whole = _along(node, x, spectral.Dft(inverse=True), axes[:-1], lengths[:-1])
        real = _along(node, whole, spectral.Dft(inverse=True, onesided=True), axes[-1:], lengths[-1:])
        return c.squeeze(node.graph, real, [rank])

    return c.in_float32(node.graph, transformed, node[0])


def _window(node: Node, what: str, ranks: tuple[int, int]) -> tuple[Array, int]:
    """The window in input 1, in the middle of a frame, and the step from frame to frame."""
    rank, window = node.rank(0), node[1].data
    size, step = node.value(2, "frame_size"), node.value(3, "frame_step")
    if window is None:
        raise node.refusal("a window that is not constant")
    if rank not in ranks or window.ndim != 1 or not 0 < len(window) <= size or step < 1:
        raise node.error(f"expected {what} of rank {ranks[0]} or {ranks[1]}, a window of at most frame_size {size} and "
                         f"a positive step, found rank {rank}, shape {window.shape} and {step}")
    if size > MOST_WEIGHTS:
        raise node.refusal(f"frames of {size}")
    before = (size - len(window)) // 2
    return np.pad(window, (before, size - len(window) - before)), step


@layer("STFT", since=15)
def stft(node: Node) -> Value:
    """The spectra (n, frames, bins, 2) of frames of real signals (n, l) or (l,), with a window that is constant, in the
    middle of a frame; `transpose_frames` has bins before frames."""
    g, rank = node.graph, node.rank(0)
    window, step = _window(node, "signals", (1, 2))
    if len(window) ** 2 > MOST_WEIGHTS:
        raise node.refusal(f"frames of {len(window)}")

    def transformed(x: Value) -> Value:
        signal = c.unsqueeze(g, x, [2]) if rank == 2 else c.reshape_to(g, x, c.integers([1, -1, 1]))
        if are_transformed(len(window)):
            found = transforms(g, signal, window, step)
        else:
            found = spectra(g, signal, filters(window.astype(np.float64), 1, True), step)
        found = c.transpose(g, found, (0, 2, 1, 3)) if node.flag("transpose_frames") else found
        return found if rank == 2 else c.squeeze(g, found, [0])

    return c.in_float32(g, transformed, node[0])


@layer("ISTFT", since=16)
def istft(node: Node) -> Value:
    """The signals (n, l), or (l,), of spectra (n, bins, frames, 2): frames are added, with a window that is constant,
    and divided by the sum of its squares; signals are as long as input 4 says, filled up with zeros."""
    g, rank = node.graph, node.rank(0)
    window, step = _window(node, "spectra", (3, 4))
    size, bins = len(window), len(window) // 2 + 1
    if node.shape(0)[-3] not in (-1, bins):
        raise node.error(f"expected {bins} bins of frames of {size}, found {node.shape(0)[-3]}")
    if 2 * bins * size > MOST_WEIGHTS:
        raise node.refusal(f"frames of {size}")
    weights = window.astype(np.float32)
    back = _from_bins(weights * np.sqrt(size) if node.flag("normalized", False) else weights)
    margin = size // 2 if node.flag("center", False) else 0

    def signal(x: Value) -> Value:
        frames = c.transpose(g, x if rank == 4 else c.unsqueeze(g, x, [0]), (0, 2, 1, 3))
        flat = c.reshape_to(g, frames, c.concatenate(g, [c.dims(g, frames, 0, 2), c.integers([2 * bins])]))
        found = _added(g, matrix_product(g, flat, constant(back)), weights, step)
        whole = _as_long(node, found, margin)
        return whole if rank == 4 else c.squeeze(g, whole, [0])

    return c.in_float32(g, signal, node[0])


def _added(g: Graph, frames: Value, window: Array, step: int) -> Value:
    """Frames (n, frames, l) that were multiplied by a window, so far apart, as signals: their sums by those of the
    squares of the window, zero where there is none."""
    count, size = c.dimension(g, frames, 1), len(window)
    axis = Axis(c.shift(g, c.scale(g, count, step), size - step), size, step, 1, 0, 0)
    squares = c.broadcast_to(g, constant((window * window).reshape(1, 1, 1, size, 1)), c.concatenate(g, [
        c.integers([1, 1]), count, c.integers([size, 1])]))
    moved = c.unsqueeze(g, c.unsqueeze(g, frames, [3]), [1])
    total, norm = (c.squeeze(g, overlapped(g, each, axis), [1, 3]) for each in (moved, squares))
    is_none = c.equal(g, norm, c.like(0, norm))
    return c.select(g, is_none, c.like(0, total), c.divide(g, total, c.select(g, is_none, c.like(1, norm), norm)))


def _from_bins(window: Array) -> Array:
    """What each part of each bin is multiplied by for each number of a frame, with a window: (2 bins, l)."""
    length = len(window)
    bins = np.arange(length // 2 + 1)
    angles = 2 * np.pi / length * (bins[:, None] * np.arange(length) % length)
    share = np.where((bins == 0) | (2 * bins == length), 1, 2)[:, None] / length
    parts = np.stack([share * np.cos(angles), -share * np.sin(angles)], 1)
    return (parts.reshape(-1, length) * window).astype(np.float32)


def _as_long(node: Node, x: Value, margin: int) -> Value:
    """Signals (n, l) without a margin on both sides, or from behind it as long as input 4 says."""
    g, wanted = node.graph, node.get(4)
    if wanted is None:
        return c.cut(g, x, 2, 1, margin, margin) if margin else x
    size = c.reshape(g, c.cast(g, wanted, DType.INT64), [1])
    cut = c.cut(g, x, 2, 1, margin, 0) if margin else x
    missing = c.maximum(g, c.subtract(g, size, c.dimension(g, cut, 1)), c.integers([0]))
    zeros = c.fill(g, c.concatenate(g, [c.dimension(g, x, 0), missing]), c.like(0, x))
    return g.apply(layout.Slice(), c.concatenate(g, [cut, zeros], 1), c.integers([0, 0]), c.concatenate(g, [
        c.integers([-1]), size]))
