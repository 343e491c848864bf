"""Models with code out of a file give what every backend does."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlet
from tests.compiled.files import here, opened
from tests.embed.models import accepted
from tests.models.expectations import Expectation, agrees, read

pytestmark = here


def groups(calls: list[Expectation]) -> list[list[Expectation]]:
    """Calls of the same signature and shapes, in order."""
    found: dict[object, list[Expectation]] = {}
    for each in calls:
        kind = each.signature, *((name, value.shape) for name, value in each.inputs.items())
        found.setdefault(kind, []).append(each)
    return list(found.values())


@pytest.mark.parametrize("path", accepted())
def test_host(path: Path, tmp_path: Path) -> None:
    for calls in groups(read(path.with_suffix(".npz"))):
        key, shapes = calls[0].signature or None, {name: each.shape for name, each in calls[0].inputs.items()}
        model = opened(circlet.load(path), tmp_path, signature=key, shapes=shapes)
        for call in calls:
            found = model.run(call.inputs) if key is None else model.signature(key)(call.inputs)
            assert set(found) == set(call.outputs)
            for name, expected in call.outputs.items():
                assert agrees(found[name], expected), name
