"""What the numpy rules of convolutions, pooling and resizing share: padding, patches, and work in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from circlet.runtime.ir.types import Array
from circlet.runtime.ops.window import Window

SCRATCH = 1 << 18
"""About how many elements of scratch memory one part of a convolution may take."""


def parts(images: int, rows: int, cost: int) -> Iterator[tuple[slice, slice]]:
    """Divides images into parts that need at most `SCRATCH` elements where a row needs `cost`: each is some whole
    images or some rows of one."""
    height = max(min(SCRATCH // max(cost, 1), rows), 1)
    count = max(SCRATCH // max(cost * rows, 1), 1) if height >= rows else 1
    for image in range(0, images, count):
        for row in range(0, rows, height):
            yield slice(image, min(image + count, images)), slice(row, min(row + height, rows))


def margins(windows: Sequence[Window]) -> tuple[tuple[int, int], ...]:
    """The padding before and after the image along each spatial axis."""
    return tuple((window.before, window.after) for window in windows)


def padded(shape: Sequence[int], edges: Sequence[tuple[int, int]], dtype: npt.DTypeLike,
           fill: float = 0) -> tuple[Array, Array]:
    """A buffer of (n, *spatial, ...) that is `shape` with edges around its spatial axes, and the part within them."""
    lengths = [before + length + after for length, (before, after) in zip(shape[1:], edges, strict=False)]
    whole: Array = np.full((shape[0], *lengths, *shape[1 + len(edges):]), fill, dtype)
    inner = (slice(None), *(slice(before, before + length)
                            for length, (before, _) in zip(shape[1:], edges, strict=False)))
    return whole, whole[inner]


def patches(image: Array, windows: Sequence[Window]) -> Array:
    """What each window sees of a padded image (n, *spatial, c): a view (n, *positions, *sizes, c)."""
    batch, *spatial, channel = image.strides
    return as_strided(
        image, (image.shape[0], *(each.count for each in windows), *(each.size for each in windows), image.shape[-1]),
        (batch, *(stride * each.stride for stride, each in zip(spatial, windows, strict=True)),
         *(stride * each.dilation for stride, each in zip(spatial, windows, strict=True)), channel), writeable=False)
