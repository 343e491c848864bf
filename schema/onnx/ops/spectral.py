"""Rules for Fourier transforms."""

from __future__ import annotations

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import elementwise, spectral
from circlet.schema.constants import MOST_MADE
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.importer.spectral import MOST_WEIGHTS, are_transformed, filters, spectra, transforms
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.shape import counted
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.types import dtype_of


@rule("DFT", since=20)
def dft(node: Node) -> Value:
    return _dft(node, node.constant(np.int64(-2)) if node.get(2) is None else c.reshape(node.graph, node[2], []))


@rule("DFT", since=17)
def dft_17(node: Node) -> Value:
    return _dft(node, node.constant(np.int64(node.integer("axis", 1))))


def _dft(node: Node, axis: Value) -> Value:
    op = spectral.Dft(bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0)))
    return node.apply(op, node[0], node.get(1), axis)


@rule("STFT")
def stft(node: Node) -> Value:
    """The spectra (n, frames, bins, 2) of the frames of signals (n, l, 1 or 2), or (n, l), which torch writes.

    Bins are filters that slide over the signal, where step, window and length are constant, and frames no better
    transformed.
    """
    if node.rank() not in (2, 3):
        raise ModelError(f"input 0: expected signals (n, l, 1 or 2), found shape {node.shape()}")
    signal = node[0] if node.rank() == 3 else c.unsqueeze(node.graph, node[0], [2])
    parts, step, window = (signal.shape or ())[-1], node.known(1), _window(node)
    if step is None or window is None or node.dtype() is not DType.FLOAT32 or parts not in (1, 2):
        return _framed(node, signal)
    if step.size != 1 or step.item() < 1 or window.ndim != 1 or not window.size:
        raise ModelError(f"expected a positive step and a vector as window, found {step.tolist()} and shape "
                         f"{window.shape}")
    onesided = bool(node.integer("onesided", 1))
    if are_transformed(window.size):
        return transforms(node.graph, signal, window, step.item(), onesided)
    weights = filters(window, parts, onesided)
    return _framed(node, signal) if weights.size > MOST_WEIGHTS else spectra(node.graph, signal, weights, step.item())


def _window(node: Node) -> Array | None:
    """The window, ones where there is none; None where only a run tells it, or its length."""
    length = node.known(3)
    if node.get(2) is not None:
        return node.known(2)
    return None if length is None or not 0 < length.item() <= MOST_WEIGHTS else np.ones(length.item())


def _framed(node: Node, signal: Value) -> Value:
    """Frames gathered from the signal, and a transform of each."""
    graph, one = node.graph, node.constant(np.int64(1))
    total = c.reshape(graph, c.dimension(graph, signal, 1), [])
    window, step = node.get(2), c.cast(graph, c.reshape(graph, node[1], []), DType.INT64)
    if node.get(3) is not None:
        length = c.cast(graph, c.reshape(graph, node[3], []), DType.INT64)
    else:
        length = total if window is None else c.reshape(graph, c.dimension(graph, window, 0), [])
    steps = node.apply(elementwise.FloorDiv(), c.subtract(graph, total, length), step)
    begins = c.multiply(graph, counted(graph, c.add(graph, steps, one)), step)
    places = c.add(graph, c.unsqueeze(graph, begins, [-1]), counted(graph, length))
    frames = c.gather(graph, signal, places, 1)
    if window is not None:
        frames = c.multiply(graph, frames, c.unsqueeze(graph, window, [-1]))
    op = spectral.Dft(onesided=bool(node.integer("onesided", 1)))
    return node.apply(op, frames, None, node.constant(np.int64(2)))


@rule("MelWeightMatrix", since=17)
def mel_weight_matrix(node: Node) -> Value:
    """What each of so many triangles along the mel scale makes of each bin of a spectrum: (bins, triangles)."""
    numbers = [node.known(k) for k in range(5)]
    if any(each is None or each.size != 1 for each in numbers):
        node.unsupported("numbers that are not constant")
    count, length, rate, least, most = (each.item() for each in numbers if each is not None)
    if count < 1 or length < 1 or rate < 1 or not 0 <= least < most or (length // 2 + 1) * count > MOST_MADE:
        raise ModelError(f"expected positive numbers of bins, and edges in order, found {count}, {length}, {rate}, "
                         f"{least} and {most}")
    low, high = (2595 * np.log1p(each / 700) / np.log(10) for each in (least, most))
    edges = 700 * np.expm1((np.arange(count + 2) * ((high - low) / (count + 2)) + low) / 2595 * np.log(10))
    bins = ((length + 1) * edges // rate).astype(np.int64)
    if bins[-2] > length // 2 or bins[-1] > length // 2 + 1:
        raise ModelError(f"expected an upper edge within the spectrum, found {most}")
    found = np.zeros((length // 2 + 1, count))
    for k, (left, centre, right) in enumerate(zip(bins, bins[1:], bins[2:], strict=False)):
        found[left:centre + 1, k] = (np.arange(left, centre + 1) - left) / (centre - left) if centre > left else 1
        found[centre:right, k] = (right - np.arange(centre, right)) / max(right - centre, 1)
    kind = dtype_of(node.integer("output_datatype")) if node.has("output_datatype") else DType.FLOAT32
    return c.cast(node.graph, node.constant(found), kind)
