"""Lists that loops fill, and tensors that grow in them, are part of the code for any lengths."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from tests.needs import NATIVE

pytestmark = NATIVE


def test_lists_are_code_for_any_lengths(folder: object, compiled: list[str]) -> None:
    pytest.importorskip("onnx")
    from tests.passes.test_collect_lists import APPEND, LOOP, STACK
    from tests.schema.onnx.graphs import load

    session = circlet.Session(load(LOOP.format(append=APPEND, join=STACK)), backend="native")
    for size, count in ((3, 4), (7, 2), (2, 90)):
        x = np.ones((size, 2), np.float32)
        assert session.run({"x": x, "n": np.int64(count)})["y"].shape == (count, size, 2)
    assert len(compiled) == 1


def test_what_grows_from_nothing_is_code_for_any_lengths(folder: object, compiled: list[str]) -> None:
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import load
    from tests.schema.onnx.test_open import GROWN

    session = circlet.Session(load(GROWN), backend="native")
    for size, count in ((3, 4), (7, 2), (2, 90)):
        found = session.run({"x": np.ones((size, 2), np.float32), "n": np.int64(count)})["y"]
        assert found.shape == (size, count, 3)
    assert len(compiled) == 1
