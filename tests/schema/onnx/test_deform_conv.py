"""Convolutions whose windows' elements are moved, against sums that are written out."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np
import pytest
from onnx import helper

import circlet
from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.types import Array

FILTERS, TAPS = (6, 4, 3, 2), 6


def content(channels: int | str, group: int, parts: int, options: str, **attributes: Any) -> bytes:
    """Of a model with a bias if the options have a b, and a mask if they have an m."""
    shapes: dict[str, list[str | int | None]] = {
        "x": ["n", channels, "h", "w"], "weights": [FILTERS[0], FILTERS[1] // group, *FILTERS[2:]],
        "offset": ["n", 2 * parts * TAPS, "oh", "ow"], "b": [FILTERS[0]], "m": ["n", parts * TAPS, "oh", "ow"]}
    names = ["x", "weights", "offset", *(each if each in options else "" for each in "bm")]
    node = helper.make_node("DeformConv", names, ["y"], group=group, offset_group=parts, **attributes)
    inputs = [helper.make_tensor_value_info(each, 1, shapes[each]) for each in names if each]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    return bytes(model.SerializeToString())


def sampled(image: Array, row: float, column: float) -> float:
    """An element between others; zeros are outside."""
    total = 0.0
    for i in (floor(row), floor(row) + 1):
        for j in (floor(column), floor(column) + 1):
            if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]:
                total += image[i, j] * (1 - abs(row - i)) * (1 - abs(column - j))
    return total


def expected(given: dict[str, Array], group: int, parts: int, strides: list[int], dilations: list[int], pads: list[int]
             ) -> Array:
    x, weights, offset = (given[each] for each in ("x", "weights", "offset"))
    found = np.zeros((len(x), FILTERS[0], *offset.shape[2:]))
    for n, o, row, column in np.ndindex(found.shape):
        for k, tap, in np.ndindex(weights.shape[1], TAPS):
            channel = o // (FILTERS[0] // group) * weights.shape[1] + k
            number = channel // (FILTERS[1] // parts) * TAPS + tap
            down, right = offset[n, 2 * number:2 * number + 2, row, column]
            i, j = divmod(tap, FILTERS[3])
            value = sampled(x[n, channel], row * strides[0] - pads[0] + i * dilations[0] + down,
                            column * strides[1] - pads[1] + j * dilations[1] + right)
            value *= given["m"][n, number, row, column] if "m" in given else 1
            found[n, o, row, column] += weights[o, k, i, j] * value
    return found + given["b"].reshape(1, -1, 1, 1) if "b" in given else found


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("group", "parts", "options", "strides", "dilations", "pads"), [
    (1, 1, "", [1, 1], [1, 1], [0, 0, 0, 0]),
    (2, 2, "bm", [2, 2], [1, 1], [1, 1, 1, 1]),
    (1, 2, "b", [1, 2], [2, 1], [2, 1, 0, 2]),
    (2, 4, "m", [1, 1], [1, 2], [0, 0, 1, 1]),
], ids=["plain", "all", "wide", "mask"])
def test_sums(backend: str, group: int, parts: int, options: str, strides: list[int], dilations: list[int],
              pads: list[int]) -> None:
    """Of two sizes by one function: offsets lead to places outside as well."""
    model = content(4, group, parts, options, strides=strides, dilations=dilations, pads=pads)
    session = circlet.Session(model, backend)
    for images, *size in ((1, 5, 4), (2, 4, 6)):
        chance = np.random.default_rng(images)
        sizes = [(length + before + after - step * (taps - 1) - 1) // stride + 1 for length, before, after, step, taps,
                 stride in zip(size, pads[:2], pads[2:], dilations, FILTERS[2:], strides, strict=True)]
        shapes = {"x": (images, 4, *size), "weights": (6, 4 // group, 3, 2), "b": (6,),
                  "offset": (images, 2 * parts * TAPS, *sizes), "m": (images, parts * TAPS, *sizes)}
        given = {name: chance.normal(size=shape).astype(np.float32) * 2 for name, shape in shapes.items()
                 if len(name) > 1 or name == "x" or name in options}
        np.testing.assert_allclose(session.run(given)["y"], expected(given, group, parts, strides, dilations, pads),
                                   rtol=1e-4, atol=1e-4)


def test_refused() -> None:
    with pytest.raises(UnsupportedError, match="DeformConv with other than images, as float32"):
        circlet.load(content("c", 1, 1, ""))
