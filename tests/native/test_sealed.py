"""Files of code, constants and records: read or mapped, and whole or refused."""

from __future__ import annotations

from io import FileIO
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from circlet.backends.native.load import sealed
from circlet.backends.native.load.sealed import Sealed, seal, unseal
from circlet.runtime.errors import Place

MARK = b"circletX"
RECORD = Place(3, "main", 5, "ADD")
SIZES = (0, 64, 4096, 200_000, 1 << 20)
"""Bytes of constants: files are read below 128 kB and mapped from there on."""


def written(folder: Path, size: int) -> Path:
    constants = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    place = folder / "file"
    place.write_bytes(b"".join(bytes(each) for each in seal(MARK, b"some code", constants, RECORD)))
    return place


def opened(place: Path) -> tuple[Place, Sealed] | None:
    with FileIO(place) as file:
        return unseal(file, MARK, Place)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_refused", [False, True])
def test_what_was_sealed(tmp_path: Path, size: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, size: int) -> NoReturn:
        raise OSError("no maps here")

    if is_refused:
        monkeypatch.setattr(sealed, "Mapping", refuse)
    found = opened(written(tmp_path, size))
    assert found is not None
    (tmp_path / "file").unlink()
    record, parts = found
    assert (record, parts.content.tobytes()) == (RECORD, b"some code")
    np.testing.assert_array_equal(parts.constants, np.random.default_rng(size).integers(0, 256, size, np.uint8))
    assert parts.constants.ctypes.data % 64 == 0
    assert is_refused or size < 200_000 or not parts.constants.flags.writeable


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", [0, 20, 0.5, -140, -100, -1])
def test_what_was_damaged(tmp_path: Path, size: int, place: float) -> None:
    file = written(tmp_path, size)
    content = bytearray(file.read_bytes())
    content[int(place * len(content)) if isinstance(place, float) else place] ^= 4
    file.write_bytes(content)
    assert opened(file) is None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("left", [0, 1, 100, 0.3, 0.999])
def test_what_was_cut(tmp_path: Path, size: int, left: float) -> None:
    file = written(tmp_path, size)
    content = file.read_bytes()
    file.write_bytes(content[:int(left * len(content)) if isinstance(left, float) else left])
    assert opened(file) is None
