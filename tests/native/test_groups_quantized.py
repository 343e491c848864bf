"""Convolutions of integers in groups: all groups are one loop, however many there are."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest

from circlet.runtime.ir.types import DType, Padding, Quantization
from circlet.runtime.ops.conv import Conv2D
from tests.native.quantized_models import Network, stored
from tests.native.test_budget import compare
from tests.ops.cases import q

Kind: TypeAlias = tuple[DType, DType, DType]
"""Types of the image, the weights and the result."""
KINDS: dict[str, Kind] = {
    "bytes": (DType.INT8, DType.INT8, DType.INT8),
    "sums of bytes": (DType.INT8, DType.INT8, DType.INT32),
    "unsigned bytes": (DType.UINT8, DType.UINT8, DType.UINT8),
    "16 bits": (DType.INT16, DType.INT8, DType.INT16),
    "floats and bytes": (DType.FLOAT32, DType.INT8, DType.FLOAT32),
}
TAKEN, MADE = 3, 2
"""Channels of a group, and what they become."""


def convolution(kind: Kind, groups: int) -> Network:
    """Scales of channels, and so shifts, differ widely."""
    data, weighted, made = kind
    network, rng, filters = Network(), np.random.default_rng(groups), MADE * groups
    shape, wide = (2, 7, 9, TAKEN * groups), {DType.INT16: DType.INT64}
    is_one = weighted is DType.UINT8
    scales = (0.01,) if is_one else tuple(np.geomspace(1e-4, 0.02, filters).astype(np.float32).tolist())
    if data is DType.FLOAT32:
        x = network.input(rng.standard_normal(shape).astype(np.float32))
    else:
        x = network.input(stored(shape, data, groups), q(0.05, 0 if data is DType.INT16 else 7))
    weights = np.maximum(stored((filters, 3, 3, TAKEN), weighted, 3), 0 if is_one else -127).astype(weighted.numpy)
    w = network.constant(weights, Quantization(scales, (100 if is_one else 0,) * len(scales), 0))
    bias = rng.integers(-900, 900, filters).astype(np.float32 if data is DType.FLOAT32 else np.int32)
    b = network.constant(bias.astype(wide.get(data, DType.of(bias.dtype)).numpy))
    is_quantized = made not in (DType.INT32, DType.FLOAT32)
    network.op(Conv2D(Padding.SAME, 1, 1), x, w, b, dtype=made,
               quantization=q(0.3, 0 if made is DType.INT16 else 3) if is_quantized else None)
    return network


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_code_does_not_grow(kind: Kind) -> None:
    """More than rows of pixels of another length make it."""
    few, many = (compare(*convolution(kind, groups).finished()).listings for groups in (5, 40))
    assert 0 < sum(each.module.count("\n") for each in many) < 1.5 * sum(each.module.count("\n") for each in few)
