"""Windows over images of which a run tells the sizes slide as over images of these sizes that the model declares."""

from __future__ import annotations

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
    "mean of what is there": "y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x)",
    "mean same": "y = AveragePool<kernel_shape = [3, 2], strides = [2, 2], auto_pad = \"SAME_UPPER\">(x)",
    "mean rounded up": """y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 0, 1, 1], ceil_mode = 1,
        count_include_pad = 1>(x)""",
    "mean rounded up of what is there": """y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1],
        ceil_mode = 1>(x)""",
}


def session(node: str, height: object, width: object, backend: str) -> circlet.Session:
    return circlet.Session(load(f"g (float[1, 1, {height}, {width}] x) => (float[a, b, c, d] y) {{ {node} }}"), backend)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", NODES)
def test_open_sizes(name: str, backend: str) -> None:
    opened = session(NODES[name], "h", "w", backend)
    for height, width in ((7, 9), (8, 8), (4, 11), (9, 5), (12, 6)):
        x = np.sin(np.arange(height * width, dtype=np.float32)).reshape(1, 1, height, width)
        check(opened.invoke(0, [x])[0], session(NODES[name], height, width, "cpu").invoke(0, [x])[0], 1e-6)
