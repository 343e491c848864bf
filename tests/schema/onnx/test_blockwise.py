"""Look-ups in tables each block of which has a scale, as ONNX Runtime's tools for decoders write them, and values that
a run quantises in blocks, as of caches, against it."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper

import circlet
from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.records import dataclass
from tests.schema.onnx.test_qlinear import Array, inference

ROWS, COLUMNS = 10, 48
RANDOM = np.random.default_rng(5)


@dataclass(frozen=True)
class Table:
    """A table of ROWS and COLUMNS in blocks of 16 or more numbers of an axis."""

    dtype: str = "uint8"
    bits: int = 4
    block: int = 16
    axis: int = 1
    zeros: bool = False
    scales: str = "float32"
    along: int = 0
    few: int | None = None
    """How many scales there are along the axis; None where a block has one."""

    def _numbers(self, rows: int, columns: int) -> Array:
        """Stored ones of a matrix of so many rows and columns."""
        if self.dtype == "uint8":
            return RANDOM.integers(0, 256, (rows, -(-columns * self.bits // 8))).astype(np.uint8)
        least = -8 if self.dtype == "int4" else 0
        return RANDOM.integers(least, least + 16, (rows, columns)).astype(getattr(ml_dtypes, self.dtype))

    def content(self) -> bytes:
        shape = [ROWS, COLUMNS]
        shape[self.axis] = self.few or -(-shape[self.axis] // self.block)
        parts = {"table": self._numbers(ROWS, COLUMNS), "scales": RANDOM.random(shape).astype(self.scales)}
        if self.zeros:
            parts["zeros"] = self._numbers(*shape)
        attributes: dict[str, Any] = {"block_size": self.block, "quantize_axis": self.axis, "gather_axis": self.along,
                      **({"bits": self.bits} if self.bits != 4 else {})}
        node = helper.make_node("GatherBlockQuantized", ["table", "i", *list(parts)[1:]], ["y"],
                                domain="com.microsoft", **attributes)
        return _model(node, parts)


def _model(node: Any, parts: dict[str, Array]) -> bytes:
    type_ = helper.np_dtype_to_tensor_dtype(parts["scales"].dtype)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("i", 7, ["b", "s"])],
        [helper.make_tensor_value_info("y", type_, None)],
        [numpy_helper.from_array(data, name) for name, data in parts.items()])
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=domains, ir_version=10).SerializeToString())


TABLES = [
    Table(), Table(zeros=True), Table(bits=8), Table(bits=8, zeros=True, block=32), Table(block=64, zeros=True),
    Table(zeros=True, scales="float16"), Table("int4"), Table("int4", zeros=True),
    Table("uint4", zeros=True, axis=0), Table("uint4", along=1), Table("int4", block=32, zeros=True),
]


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_as_onnxruntime(table: Table, backend: str) -> None:
    has_pairs = table.dtype == "uint8" and table.bits == 4 and table.zeros
    if has_pairs and metadata.version("onnxruntime").startswith("1.23."):
        pytest.skip("ONNX Runtime 1.23 takes other zero points of two in a byte than later versions")
    model = table.content()
    peer, session = inference(model), circlet.Session(circlet.load(model), backend=backend)
    for shape in (2, 3), (1, 1), (0, 4), (5, 2):
        given = {"i": RANDOM.integers(-ROWS, ROWS, shape)}
        (expected,) = peer.run(None, given)
        np.testing.assert_array_equal(session.run(given)["y"], expected, strict=True)


@pytest.mark.parametrize(("table", "reason"), [
    (Table(bits=3), "expected 4 or 8 bits"),
    (Table(block=0, few=1), "block_size 0"),
    (Table(few=2), r"a scale for each 16 numbers of axis 1 of shape \(10, 48\), found shape \(10, 2\)"),
])
def test_refused(table: Table, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        circlet.load(table.content())


def _quantised(axis: int, block: int, shape: tuple[str | int, ...], scales: tuple[str | int, ...]) -> bytes:
    """Values as bytes, by the scale and the zero point of their block, and these as values again."""
    attributes: dict[str, Any] = {"axis": axis, "block_size": block}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attributes),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attributes)]
    types = {"x": (1, shape), "s": (1, scales), "z": (3, scales)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, *each) for name, each in types.items()],
        [helper.make_tensor_value_info("q", 3, None), helper.make_tensor_value_info("y", 1, None)])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)],
                                   ir_version=10).SerializeToString())


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("axis", "block", "open_axes"), [(-1, 4, 2), (1, 4, 2), (2, 3, 2), (2, 5, 3), (0, 2, 3)])
def test_values_in_blocks_of_any_length(axis: int, block: int, open_axes: int, backend: str) -> None:
    """Of the axis in blocks or of others."""
    def named(sizes: tuple[int, ...], letter: str) -> tuple[str | int, ...]:
        return tuple(f"{letter}{k}" if k < open_axes else size for k, size in enumerate(sizes))

    def in_blocks(sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(-(-size // block) if k == axis % 3 else size for k, size in enumerate(sizes))

    whole = (3, 5, 10)
    content = _quantised(axis, block, named(whole, "a"), named(in_blocks(whole), "b"))
    peer, session = inference(content), circlet.Session(circlet.load(content), backend)
    for sizes in (whole, (1, 1, 10), (4, 8, 10), (2, 4, 10 if open_axes < 3 else 7)):
        x, scales = (RANDOM.uniform(least, 1, each).astype(np.float32) for least, each in (
            (-1, sizes), (0.002, in_blocks(sizes))))
        given = {"x": x, "s": scales, "z": RANDOM.integers(-4, 4, scales.shape).astype(np.int8)}
        for found, expected in zip(session.run(given).values(), peer.run(None, given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, strict=True)
    assert {*session.backend_of(0)} - {"none"} == {backend}


@pytest.mark.parametrize("size", [10**10, 1 << 62])
def test_axes_that_would_fill_the_memory(size: int) -> None:
    """The number of the block of each element would be a constant of as many."""
    content = _quantised(1, 4, ("n", size), ("n", "m"))
    with pytest.raises(UnsupportedError, match=f"node 0 .*a table of {size} elements"):
        circlet.load(content)
