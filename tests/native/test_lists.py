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


OPTIONAL = """g (float[b, n] x, int64 k) => (float[b, n] y, bool has) {
    t = Identity(x) o = Optional(t) yes = Constant<value = bool {1}>()
    last = Loop(k, yes, o)<body = body (int64 i, bool c, optional(float[b, n]) p)
        => (bool d, optional(float[b, n]) q) {
        d = Identity(c) g = OptionalGetElement(p) u = Add(g, x) q = Optional(u) }>
    has = OptionalHasElement(last) y = OptionalGetElement(last) }"""
EMPTIED = OPTIONAL.replace("q = Optional(u)", "q = Optional<type = float[b, n]>()")


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_an_optional_that_a_loop_carries(backend: str, folder: object, compiled: list[str]) -> None:
    """It is the tensor in it where it always has one; where a turn leaves it empty, reading it is an error."""
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import load

    kept, emptied = (circlet.Session(load(text, 18), backend=backend) for text in (OPTIONAL, EMPTIED))
    for rows, columns, turns in ((3, 4, 5), (1, 2, 0), (7, 1, 2)):
        x = np.arange(1, 1 + rows * columns, dtype=np.float32).reshape(rows, columns)
        found, has = kept.run({"x": x, "k": np.int64(turns)}).values()
        np.testing.assert_array_equal(found, x * (turns + 1))
        assert has
    assert len(compiled) == (backend == "native")
    for turns in (1, 2):
        with pytest.raises(circlet.CircletError, match="expected an optional that has a value, found an empty one"):
            emptied.run({"x": x, "k": np.int64(turns)})
    np.testing.assert_array_equal(emptied.run({"x": x, "k": np.int64(0)})["y"], x)
