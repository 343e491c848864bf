"""Keeps compiled functions on disk, so that a model is compiled once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from platformdirs import user_cache_path

VARIABLE = "CIRCLET_CACHE_DIR"
"""The environment variable that names another folder, or, empty, turns the cache off."""
LARGEST = 1 << 30
"""Bytes that the folder may hold; the entries used longest ago go first."""
LOOKS = 16
"""The folder is measured at one in so many additions."""


def folder() -> Path | None:
    """Where compiled functions are kept; None where they are not."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return user_cache_path("circlet", appauthor=False) / "functions"
    return Path(named) if named else None


def find(key: str) -> Path | None:
    """The file of an entry; None where there is none."""
    place = folder()
    if place is None:
        return None
    try:
        os.utime(place / key)
    except OSError:
        return None
    return place / key


def write(key: str, parts: Iterable[bytes | memoryview]) -> Path | None:
    """Adds an entry, whole or not at all; gives its file. A folder that cannot be written to is no error."""
    place = folder()
    if place is None:
        return None
    try:
        place.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=place, prefix=".", delete=False) as file:
            file.writelines(parts)
        os.replace(file.name, place / key)
        if int(key[:4], 16) % LOOKS == 0:
            _trim(place)
    except OSError:
        return None
    return place / key


def _trim(place: Path) -> None:
    entries = [(each.stat(), each) for each in place.iterdir() if each.is_file()]
    excess = sum(stat.st_size for stat, _ in entries) - LARGEST
    for stat, each in sorted(entries, key=lambda found: found[0].st_mtime):
        if excess <= 0:
            return
        each.unlink(missing_ok=True)
        excess -= stat.st_size
