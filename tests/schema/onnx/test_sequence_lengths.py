"""Recurrent networks on sequences of several lengths."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from tests.needs import NATIVE
from tests.schema.onnx.graphs import load, parse

onnxruntime = pytest.importorskip("onnxruntime")

SIZES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Gates by operator."""
LENGTHS = ((5, [5, 2, 0]), (5, [1, 2, 3]), (8, [0, 0, 0]), (40, [3, 7, 1]), (40, [40, 39, 8]), (1, [1, 0, 1]))


def network(operator: str, direction: str) -> str:
    ways, rows = (2 if direction == "bidirectional" else 1), 2 * SIZES[operator]
    numbers = ", ".join(str(round(0.1 + (k * 7 % 11) / 10, 1)) for k in range(2 * ways * rows))
    states = "y, h, cell" if operator == "LSTM" else "y, h"
    results = ", ".join(f"float[{'t, ' if each == 'y' else ''}{ways}, b, 2] {each}" for each in states.split(", "))
    return f"""g (float[t, b, 2] x, int32[b] lens) => ({results}) {{
        w = Constant<value = float[{ways}, {rows}, 2] {{{numbers}}}>()
        {states} = {operator}<hidden_size = 2, direction = "{direction}">(x, w, w, "", lens) }}"""


def inputs(steps: int, lengths: list[int]) -> dict[str, np.ndarray]:
    x = np.random.default_rng(steps).normal(size=(steps, len(lengths), 2)).astype(np.float32)
    return {"x": x, "lens": np.array(lengths, np.int32)}


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", SIZES)
def test_each_has_its_length(operator: str, direction: str, backend: str) -> None:
    text = network(operator, direction)
    reference = onnxruntime.InferenceSession(parse(text), providers=["CPUExecutionProvider"])
    session = circlet.Session(load(text), backend)
    for steps, lengths in LENGTHS:
        given = inputs(steps, lengths)
        for found, wanted in zip(session.invoke(0, list(given.values())), reference.run(None, given), strict=True):
            # Axis -2 is the batch; ONNX Runtime 1.23's RNN leaves what belongs to sequences without steps unset.
            wanted[..., given["lens"] == 0, :] = 0
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_no_step_is_beyond_the_longest(direction: str, backend: str) -> None:
    session = circlet.Session(load(network("GRU", direction)), backend)
    for steps, lengths in LENGTHS:
        with circlet.profile(session) as profile:
            session.run(list(inputs(steps, lengths).values()))
        turns = [each.loop.turns for each in profile.root.walk() if each.loop is not None]
        assert turns == [max(lengths)]
