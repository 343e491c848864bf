"""Models with code out of a file give what every backend does."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlet
from tests.compiled.files import here, opened
from tests.embed.models import CAPACITY, accepted, wanted
from tests.models.expectations import agrees

pytestmark = here

FIRST = {"bool_carries", "cached_attention_update", "cnn_int8", "collatz", "cond_nested", "counter", "dense_hybrid",
         "factorial_int64", "float16_carry", "list_update", "loop_int8", "lstm_stacked", "nested_while", "scan_rows",
         "signatures", "switch", "transformer_loop", "variable_cond", "variable_loop"}
"""The others are for the slow tests, as tests/embed runs them all."""


@pytest.mark.parametrize("path", [
    pytest.param(*each.values, id=each.id, marks=() if str(each.id).partition("-")[2] in FIRST else pytest.mark.slow)
    for each in accepted()])
def test_host(path: Path, tmp_path: Path) -> None:
    for key, shapes, calls in wanted(path):
        model = opened(circlet.load(path), tmp_path, signature=key, shapes=shapes, capacity=CAPACITY)
        for call in calls:
            found = model.signature(call.signature)(call.inputs) if call.signature else model.run(call.inputs)
            assert set(found) == set(call.outputs)
            for name, expected in call.outputs.items():
                assert agrees(found[name], expected), name
