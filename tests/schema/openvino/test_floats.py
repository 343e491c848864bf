"""Constants of floats of 4 and 8 bits, as models are compressed to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import UnsupportedError
from tests.schema.openvino.models import Array, const, draw, f32, op, ov, run, run_openvino, same, save

WIDTHS = {"nf4": 4, "f4e2m1": 4, "f8e4m3": 8, "f8e5m2": 8, "f8e8m0": 8}
KINDS = pytest.mark.parametrize("kind", WIDTHS)
RANDOM = np.random.default_rng(3)


def stored(kind: str, codes: Array, shape: list[int]) -> ov.Output:
    """A constant by its bytes."""
    return op.constant(ov.Tensor(codes, ov.Shape(shape), getattr(ov.Type, kind))).output(0)


@KINDS
@pytest.mark.parametrize("wide", ["f32", "f16"])
def test_every_code(tmp_path: Path, kind: str, wide: str) -> None:
    """But for powers of two that float16 does not have."""
    codes = np.arange(113, 143) if kind == "f8e8m0" else np.arange(256)
    values = op.convert(op.convert(stored(kind, codes.astype(np.uint8), [codes.size * 8 // WIDTHS[kind]]), wide), "f32")
    x = op.parameter([1], f32)
    path = save(tmp_path, [op.multiply(x, values).output(0)], [x])
    given = [np.ones(1, f32)]
    same(run(path, given)[0], run_openvino(path, given)[0], kind, 5e-4 if (kind, wide) == ("nf4", "f16") else 0)


@KINDS
def test_weights_in_groups(tmp_path: Path, kind: str) -> None:
    """Of an odd number of rows, with scales of float16, or those of a power of two. Sums of products with small
    integers are exact, or nearly so, in whatever order they are added."""
    codes = RANDOM.integers(64, 128, (5, 2, 16 * WIDTHS[kind] // 8)).astype(np.uint8) & 0xEE
    weights = op.convert(stored(kind, codes, [5, 2, 16]), "f16")
    scales = RANDOM.integers(124, 130, (5, 2, 1)).astype(np.uint8)
    scaled = op.multiply(weights, op.convert(stored("f8e8m0", scales, [5, 2, 1]), "f16"))
    x = op.parameter([-1, 32], f32)
    made = op.convert(op.reshape(scaled, const([5, 32]), False), "f32")
    path = save(tmp_path, [op.matmul(x, made, False, True).output(0)], [x])
    given = [RANDOM.integers(-4, 5, (3, 32)).astype(f32)]
    same(run(path, given)[0], run_openvino(path, given)[0], kind, 1e-6)


def test_codebook(tmp_path: Path) -> None:
    """Numbers that 4 bits number, with a scale for each row, are not rounded to float16 as they are made."""
    book = op.convert(stored("f8e4m3", np.arange(40, 56, dtype=np.uint8), [16]), "f16")
    places = op.convert(stored("u4", RANDOM.integers(0, 256, (8, 8)).astype(np.uint8), [8, 16]), "i32")
    scaled = op.multiply(op.gather(book, places, const(0)), const(draw(8, 1).astype(np.float16)))
    x = op.parameter([-1, 16], f32)
    path = save(tmp_path, [op.matmul(x, op.convert(scaled, "f32"), False, True).output(0)], [x])
    given = [draw(3, 16)]
    same(run(path, given)[0], run_openvino(path, given)[0], "product", 1e-6)


@pytest.mark.parametrize("layer", ["Result", "Reshape"])
def test_refused_but_to_be_converted(tmp_path: Path, layer: str) -> None:
    found = stored("f8e4m3", np.arange(4, dtype=np.uint8), [4])
    found = op.reshape(found, const([2, 2]), False).output(0) if layer == "Reshape" else found
    x = op.parameter([1], f32)
    path = save(tmp_path, [op.relu(x).output(0), found], [x])
    with pytest.raises(UnsupportedError, match=f"{layer}.*input 0 is f8e4m3"):
        circlet.load(path)
