"""Keeps object code on disk, so that a program compiles a model once."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

from platformdirs import user_cache_path

VARIABLE = "CIRCLET_CACHE_DIR"
"""The environment variable that names another folder, or, empty, turns the cache off."""
LARGEST = 256 << 20
"""Bytes that the folder may hold; the entries used longest ago go first."""
_DIGEST = 32


def folder() -> Path | None:
    """Where object code is kept; None where it is not."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return user_cache_path("circlet", appauthor=False) / "objects"
    return Path(named) if named else None


def cached(text: str, options: str, make: Callable[[], bytes]) -> bytes:
    """The object code of a module.

    Args:
        text: the module as LLVM's assembly language.
        options: what else decides the code: processor, versions.
        make: compiles it; called unless the folder holds a sound entry.
    """
    place = folder()
    if place is None:
        return make()
    entry = place / sha256(f"{options}\0{text}".encode()).hexdigest()
    code = _read(entry)
    if code is None:
        code = make()
        _write(entry, code)
    return code


def _read(entry: Path) -> bytes | None:
    """The code of an entry; None where it is missing or damaged."""
    try:
        content = entry.read_bytes()
        os.utime(entry)
    except OSError:
        return None
    digest, code = content[:_DIGEST], content[_DIGEST:]
    return code if sha256(code).digest() == digest else None


def _write(entry: Path, code: bytes) -> None:
    """Adds an entry, whole or not at all; a folder that cannot be written to is no error."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=entry.parent, prefix=".", delete=False) as file:
            file.write(sha256(code).digest() + code)
        os.replace(file.name, entry)
        _trim(entry.parent)
    except OSError:
        return


def _trim(place: Path) -> None:
    entries = [(each.stat(), each) for each in place.iterdir() if each.is_file()]
    excess = sum(stat.st_size for stat, _ in entries) - LARGEST
    for stat, each in sorted(entries, key=lambda found: found[0].st_mtime):
        if excess <= 0:
            return
        each.unlink(missing_ok=True)
        excess -= stat.st_size
