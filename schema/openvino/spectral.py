"""Fourier transforms: of complex numbers (..., 2) and of real ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ops import spectral
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value, constant
from circlet.schema.importer.spectral import MOST_WEIGHTS, filters, spectra
from circlet.schema.openvino.rules import Node, layer

Lengths = Sequence["int | None"]
"""To which axes are cut or filled up with zeros; None for those that stay as they are."""


def _axes(node: Node, rank: int) -> tuple[list[int], Lengths]:
    """The axes of numbers of a rank, and their lengths."""
    axes = [node.axis(each, rank, "axes") for each in node.values(1, "axes")]
    if not axes or len(set(axes)) != len(axes):
        raise node.error(f"axes: expected some, each once, found {axes}")
    sizes = [-1] * len(axes) if node.get(2) is None else list(node.values(2, "signal_size"))
    if len(sizes) != len(axes) or any(size < 1 and size != -1 for size in sizes):
        raise node.error(f"signal_size: expected a positive size or -1 for each of the axes {axes}, found {sizes}")
    return axes, [None if size == -1 else size for size in sizes]


def _along(node: Node, x: Value, op: spectral.Dft, axes: Sequence[int], lengths: Lengths) -> Value:
    """The transform along one axis after the other."""
    for axis, length in zip(axes, lengths, strict=True):
        size = None if length is None else constant(np.array(length, np.int64))
        x = node.graph.apply(op, x, size, constant(np.array(axis, np.int64)))
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
    axes, lengths = _axes(node, rank)

    def transformed(x: Value) -> Value:
        whole = _along(node, x, spectral.Dft(inverse=True), axes[:-1], lengths[:-1])
        real = _along(node, whole, spectral.Dft(inverse=True, onesided=True), axes[-1:], lengths[-1:])
        return c.squeeze(node.graph, real, [rank])

    return c.in_float32(node.graph, transformed, node[0])


@layer("STFT", since=15)
def stft(node: Node) -> Value:
    """The spectra (n, frames, bins, 2) of frames of real signals (n, l) or (l,), with a window that is constant, in the
    middle of a frame; `transpose_frames` has bins before frames."""
    g, rank, window = node.graph, node.rank(0), node[1].data
    size, step = node.value(2, "frame_size"), node.value(3, "frame_step")
    if window is None:
        raise node.refusal("a window that is not constant")
    if rank not in (1, 2) or window.ndim != 1 or not 0 < len(window) <= size or step < 1:
        raise node.error(f"expected signals of rank 1 or 2, a window of at most frame_size {size} and a positive step, "
                         f"found rank {rank}, shape {window.shape} and {step}")
    if size * size > MOST_WEIGHTS:
        raise node.refusal(f"frames of {size}")
    before = (size - len(window)) // 2
    weights = filters(np.pad(window.astype(np.float64), (before, size - len(window) - before)), 1, True)

    def transformed(x: Value) -> Value:
        signal = c.unsqueeze(g, x, [2]) if rank == 2 else c.reshape_to(g, x, c.integers([1, -1, 1]))
        found = spectra(g, signal, weights, step)
        found = c.transpose(g, found, (0, 2, 1, 3)) if node.flag("transpose_frames") else found
        return found if rank == 2 else c.squeeze(g, found, [0])

    return c.in_float32(g, transformed, node[0])
