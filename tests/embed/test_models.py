"""Models that are compiled ahead of time for this machine give what every backend does."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import circlet
from circlet.backends.native.targets.catalogue import PROCESSORS
from circlet.backends.native.targets.features import flags
from circlet.compiled.machine import features
from circlet.embed import compile_model
from circlet.embed.names import identifier
from tests.embed.library import Library
from tests.embed.models import CAPACITY, REFUSED, accepted, compiled, models
from tests.models.expectations import agrees, read

HERE = sys.platform == "linux" and platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(not HERE, reason="shared objects are made for x86-64 Linux")


def check(path: Path, target: str, is_small: bool, folder: Path) -> None:
    for found, calls in compiled(path, target, is_small):
        library = Library(found, folder)
        for call in calls:
            status, outputs = library.run(call.inputs, call.signature or None)
            assert status == 0
            for name, expected in call.outputs.items():
                assert agrees(outputs[identifier(name)], expected), name


def third() -> Iterator[ParameterSet]:
    """The models that are compiled, two of three slow."""
    for number, each in enumerate(accepted()):
        yield pytest.param(*each.values, id=each.id, marks=[*each.marks, *[pytest.mark.slow] * (number % 3 > 0)])


@pytest.mark.parametrize("path", list(third()))
def test_host(path: Path, tmp_path: Path) -> None:
    check(path, "host", False, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("path", accepted())
def test_small(path: Path, target: str, tmp_path: Path) -> None:
    missing = {*flags(PROCESSORS[target].features)} - features()
    if missing:
        pytest.skip(f"this processor has no {', '.join(sorted(missing))}")
    check(path, target, True, tmp_path)


@pytest.mark.parametrize("path", [pytest.param(each, id=each.stem) for each in models() if each.stem in REFUSED])
def test_refused(path: Path) -> None:
    call = read(path.with_suffix(".npz"))[0]
    shapes = {name: value.shape for name, value in call.inputs.items()}
    with pytest.raises(circlet.UnsupportedError, match=REFUSED[path.stem]):
        compile_model(circlet.load(path), "host", signature=call.signature or None, shapes=shapes,
                      capacity=CAPACITY)
