"""Models with code out of a file give what every backend does."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlet
from tests.compiled.files import here, opened
from tests.embed.models import accepted, wanted
from tests.models.expectations import agrees

pytestmark = here


@pytest.mark.parametrize("path", accepted())
def test_host(path: Path, tmp_path: Path) -> None:
    for key, shapes, calls in wanted(path):
        model = opened(circlet.load(path), tmp_path, signature=key, shapes=shapes)
        for call in calls:
            found = model.signature(call.signature)(call.inputs) if call.signature else model.run(call.inputs)
            assert set(found) == set(call.outputs)
            for name, expected in call.outputs.items():
                assert agrees(found[name], expected), name
