"""Spectra of the frames of signals, as filters that slide over these, or transforms of each."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import Array, DType, Padding
from circlet.runtime.ops import conv, spectral
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant

MOST_WEIGHTS = 1 << 24
"""Of the filters that are the bins of spectra, as many as frames of 4096 numbers have; a choice."""
_TRANSFORMED = range(200, (1 << 13) + 1)
"""How long frames are that are transformed, if their length is a product of 2, 3 and 5; others are multiplied by
filters. Frames of 128 take as long either way, of 256 0.6 of the time, of 512 0.4, of 2048 a seventh."""


def are_transformed(length: int) -> bool:
    """Whether frames so long are transformed rather than multiplied by filters."""
    rest = length
    for each in (2, 3, 5):
        while rest and rest % each == 0:
            rest //= each
    return length in _TRANSFORMED and rest == 1


def filters(window: Array, parts: int, onesided: bool) -> Array:
    """The real and the imaginary part of each bin, of the parts of a number: (2 * bins, 1, l, parts)."""
    length = len(window)
    bins = length // 2 + 1 if onesided else length
    angles = 2 * np.pi / length * (np.arange(bins)[:, None] * np.arange(length) % length)
    real, imaginary = np.cos(angles) * window, -np.sin(angles) * window
    of_real, of_imaginary = np.stack([real, imaginary], 1), np.stack([-imaginary, real], 1)
    return np.stack([of_real, of_imaginary][:parts], -1).reshape(2 * bins, 1, length, parts)


def spectra(g: Graph, signal: Value, weights: Array, step: int) -> Value:
    """Of signals (n, l, 1 or 2), float32, the spectra (n, frames, bins, 2) that filters make of them."""
    found = g.apply(conv.Conv2D(Padding.VALID, step, 1), c.unsqueeze(g, signal, [1]),
                    constant(weights.astype(np.float32), DType.FLOAT32), None)
    shape = [c.dimension(g, found, 0), c.dimension(g, found, 2), c.integers([len(weights) // 2, 2])]
    return c.reshape_to(g, found, c.concatenate(g, shape))


def transforms(g: Graph, signal: Value, window: Array, step: int, onesided: bool = True) -> Value:
    """Of signals (n, l, 1 or 2), float32, the spectra (n, frames, bins, 2) that transforms of their frames are."""
    size, total = len(window), c.reshape(g, c.dimension(g, signal, 1), [])
    count = c.shift(g, c.floor_divided(g, c.shift(g, total, -size), step), 1)
    begins = c.unsqueeze(g, c.scale(g, c.counted(g, count), step), [-1])
    frames = c.gather(g, signal, c.add(g, begins, constant(np.arange(size, dtype=np.int64))), 1)
    frames = c.multiply(g, frames, constant(window.astype(np.float32)[:, None]))
    return g.apply(spectral.Dft(onesided=onesided), frames, None, constant(np.int64(2)))
