"""What several nodes read is one constant of the model, in the order of axes that operators have."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import circlet

PICTURE = (1, 4, 9, 9)


@pytest.mark.parametrize(("kind", "filters", "group"), [
    ("Conv", (4, 4, 3, 3), 1), ("ConvTranspose", (4, 4, 3, 3), 1), ("Conv", (4, 1, 3, 3), 4),
], ids=["convolution", "transposed", "depthwise"])
def test_filters_of_several_nodes_are_one(kind: str, filters: tuple[int, ...], group: int) -> None:
    nodes = [helper.make_node(kind, [one, "w"], [other], pads=[1, 1, 1, 1], group=group) for one, other in ("xy", "yz")]
    graph = helper.make_graph(nodes, "main", [helper.make_tensor_value_info("x", 1, PICTURE)],
                              [helper.make_tensor_value_info("z", 1, PICTURE)],
                              [numpy_helper.from_array(np.ones(filters, np.float32), "w")])
    model = circlet.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    sizes = [each.data.size for each in model.subgraphs[0].tensors if each.data is not None]
    assert sizes.count(int(np.prod(filters))) == 1
