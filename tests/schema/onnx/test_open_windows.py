"""Windows over images of which a run tells the sizes slide as over images of these sizes that the model declares."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import circlet
from tests.needs import NATIVE
from tests.ops.cases import check
from tests.schema.onnx.graphs import load

FILTER = "k = Constant<value = float[1, 1, 3, 2] {1.0, 2.0, 3.0, -1.0, 0.5, 4.0}>() "
NODES = {
    "conv same upper": FILTER + "y = Conv<auto_pad = \"SAME_UPPER\", strides = [2, 3]>(x, k)",
    "conv same lower": FILTER + "y = Conv<auto_pad = \"SAME_LOWER\", strides = [2, 3]>(x, k)",
    "conv same lower, steps of 1": FILTER + "y = Conv<auto_pad = \"SAME_LOWER\">(x, k)",
    "conv same, dilated": FILTER + "y = Conv<auto_pad = \"SAME_LOWER\", strides = [2, 2], dilations = [1, 2]>(x, k)",
    "transposed same": FILTER + "y = ConvTranspose<auto_pad = \"SAME_UPPER\", strides = [2, 2]>(x, k)",
    "max rounded up": "y = MaxPool<kernel_shape = [3, 2], strides = [2, 3], ceil_mode = 1>(x)",
    "max rounded up, padded": """y = MaxPool<kernel_shape = [2, 3], strides = [3, 2], pads = [0, 1, 1, 1],
        ceil_mode = 1>(x)""",
    "max same": "y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], auto_pad = \"SAME_LOWER\">(x)",
    "max with gaps": "y = MaxPool<kernel_shape = [2, 3], strides = [1, 2], dilations = [3, 2], pads = [1, 1, 0, 2]>(x)",
    "mean of what is there": "y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x)",
    "mean same": "y = AveragePool<kernel_shape = [3, 2], strides = [2, 2], auto_pad = \"SAME_UPPER\">(x)",
    "mean rounded up": """y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 0, 1, 1], ceil_mode = 1,
        count_include_pad = 1>(x)""",
    "mean rounded up of what is there": """y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1],
        ceil_mode = 1>(x)""",
}
VOLUMES = {
    "max": "y = MaxPool<kernel_shape = [2, 3, 2], strides = [2, 1, 2]>(x)",
    "max rounded up, padded": """y = MaxPool<kernel_shape = [3, 2, 3], strides = [2, 3, 2], pads = [1, 1, 1, 1, 0, 1],
        ceil_mode = 1>(x)""",
    "max with gaps": "y = MaxPool<kernel_shape = [2, 2, 2], dilations = [2, 1, 3]>(x)",
    "mean of what is there": """y = AveragePool<kernel_shape = [3, 3, 3], strides = [2, 2, 2],
        pads = [1, 1, 1, 1, 1, 1]>(x)""",
}


def session(node: str, *sizes: object, backend: str, batch: object = 1) -> circlet.Session:
    shape = f"{batch}, 1, {', '.join(map(str, sizes))}"
    results = ", ".join(f"r{k}" for k in range(2 + len(sizes)))
    return circlet.Session(load(f"g (float[{shape}] x) => (float[{results}] y) {{ {node} }}"), backend)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", NODES)
def test_open_sizes(name: str, backend: str) -> None:
    opened = session(NODES[name], "h", "w", backend=backend)
    for height, width in ((7, 9), (8, 8), (4, 11), (9, 5), (12, 6)):
        x = np.sin(np.arange(height * width, dtype=np.float32)).reshape(1, 1, height, width)
        check(opened.invoke(0, [x])[0], session(NODES[name], height, width, backend="cpu").invoke(0, [x])[0], 1e-6)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", VOLUMES)
def test_open_volumes(name: str, backend: str) -> None:
    opened = session(VOLUMES[name], "d", "h", "w", backend=backend, batch="n")
    for sizes in ((2, 7, 9, 6), (3, 8, 8, 8), (2, 4, 11, 5)):
        x = np.sin(np.arange(prod(sizes), dtype=np.float32)).reshape(sizes[0], 1, *sizes[1:])
        fixed = session(VOLUMES[name], *sizes[1:], backend="cpu", batch=sizes[0])
        check(opened.invoke(0, [x])[0], fixed.invoke(0, [x])[0], 1e-6)


@NATIVE
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_behind_a_transposed_convolution(groups: int) -> None:
    """Its number of channels is known, though a run tells the shape of what it gives."""
    filter, other = (", ".join(f"{each % 5}.5" for each in range(size)) for size in (24, 32 // groups))
    text = f"""g (float[n, 3, w] x) => (float[n, 4, v] y) {{
        k = Constant<value = float[3, 4, 2] {{{filter}}}>()
        f = Constant<value = float[4, {4 // groups}, 2] {{{other}}}>()
        t = ConvTranspose<strides = [2]>(x, k) r = Relu(t)
        y = Conv<group = {groups}, dilations = [2], pads = [1, 1]>(r, f) }}"""
    found, wanted = (circlet.Session(load(text), backend) for backend in ("native", "cpu"))
    for batch, width in ((1, 2), (3, 9), (2, 40), (1, 1), (2, 9)):
        x = np.sin(np.arange(batch * 3 * width, dtype=np.float32)).reshape(batch, 3, width)
        check(found.invoke(0, [x])[0], wanted.invoke(0, [x])[0], 1e-6)
    assert "cpu" not in found.backend_of(0)


PLACES = {
    "plain": "kernel_shape = [2, 2], strides = [2, 2]",
    "padded": "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 1, 1, 0]",
    "with gaps": "kernel_shape = [3, 3], dilations = [2, 1], pads = [2, 1, 2, 1], strides = [1, 2]",
    "rounded up": "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1",
    "same": "kernel_shape = [3, 3], auto_pad = \"SAME_LOWER\", strides = [2, 2]",
}


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=[NATIVE, pytest.mark.slow])])
@pytest.mark.parametrize("kind", ["float", "uint8"])
@pytest.mark.parametrize("name", PLACES)
def test_places_of_the_greatest(name: str, kind: str, backend: str) -> None:
    """They are the first of several that are as great, none of a margin, and those of its window."""
    text = "g (%s[n, c, h, w] x) => (%s[a, b, d, e] y, int64[a, b, d, e] i) { y, i = MaxPool<%s>(x) }"
    found = circlet.Session(load(text % (kind, kind, PLACES[name])), backend)
    windows = circlet.Session(load(text % ("float", "float", PLACES[name])), "cpu")
    chance = np.random.default_rng(0)
    for shape in ((2, 3, 7, 9), (1, 2, 8, 6), (2, 1, 5, 5)):
        x = chance.integers(0, 4, shape).astype({"float": np.float32, "uint8": np.uint8}[kind])
        greatest, places = found.invoke(0, [x])
        np.testing.assert_array_equal(x.reshape(-1)[places], greatest)
        for place in np.unique(places):  # nothing before it in its windows is as great
            others = np.where(np.arange(x.size) < place, x.reshape(-1) + 1.0, x.reshape(-1)).astype(np.float32)
            more = windows.invoke(0, [others.reshape(shape)])[0]
            assert (more[places == place] == x.reshape(-1)[place]).all()
