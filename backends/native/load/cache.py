"""Keeps compiled functions on disk, so that a model is compiled once.

An entry is code that this process runs: the folder and each file are used only if no other user can have written them;
see `folder.py`.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from io import FileIO
from pathlib import Path

from circlet.backends.native.load.folder import Folder, finished, opened
from circlet.runtime.digests import blake2b
from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass

VARIABLE = "CIRCLET_CACHE_DIR"
"""The environment variable that names another folder, or, empty, turns the cache off."""
LARGEST = 1 << 30
"""Bytes that the folder may hold, 1 GiB; the entries used longest ago go first. No entry is larger. A choice."""
LOOK = LARGEST >> 6
"""The folder is measured once in so many bytes that are added, on the average, as that reads the status of every file:
at some of the entries, each as likely as it is large. A choice: it may hold some 2 % too much."""
ABANDONED = 3600
"""Seconds after which nobody works on an unfinished entry any more: a choice, far beyond what writing takes."""
LATELY = 60
"""Seconds within which an entry counts as used at one time, as noting it takes longer than finding it: a choice."""
UNIT = ".o"
"""What the name of an entry ends by that is a part of functions; see `units.py`."""
SOURCES = ".sources"
"""The same of one that is the digest of what circlet's own files hold; see `fingerprint.py`."""
MODULES = ".modules"
"""The same of one that is the bytecode of circlet's modules; see `circlet/ready.py`."""
_DIGEST = 32
"""Bytes of the digest that checked entries end by; it tells of damage, not of forgery."""
_KEY = rf"[0-9a-f]{{64}}(\{UNIT}|\{SOURCES}|\{MODULES})?"
"""The pattern of entries' names: a digest in hexadecimal digits."""


@dataclass(frozen=True)
class Entry:
    """A function that is kept, an object file that functions are made of, a digest of circlet's files, or their
    bytecode.

    Attributes:
        key: the name of the file, 64 hexadecimal digits; then `UNIT`, `SOURCES` or `MODULES`, if it is no
            function.
        size: bytes of the file.
        used: when it was read last, or written, within `LATELY`, in seconds since the epoch.
    """

    key: str
    size: int
    used: float


def folder() -> Path | None:
    """Where compiled functions are kept; None where they are not."""
    named = os.environ.get(VARIABLE)
    if named is None:
        named = os.path.join(_user_folder(), "functions")
    return _path(named) if named else None


@lru_cache(1)
def _path(named: str) -> Path:
    return Path(named)


def _user_folder() -> str:
    """Where circlet may keep what it can make again, for this user: what `platformdirs` says, which takes as long to
    import as all else that a run of kept code needs; so what it says of Linux is said here."""
    system: str = sys.platform
    if system == "linux":
        named = os.environ.get("XDG_CACHE_HOME", "").strip()
        return os.path.join(named if os.path.isabs(named) else os.path.expanduser("~/.cache"), "circlet")
    with LOADING:
        from platformdirs import user_cache_dir

    return user_cache_dir("circlet", appauthor=False)


def find(key: str) -> FileIO | None:
    """The opened file of an entry; None where there is none."""
    place = folder()
    if place is None:
        return None
    try:
        with opened(place) as found:
            file = None if found is None else found.open(key, LARGEST)
    except OSError:
        return None
    if file is not None:
        _note_use(file.fileno())
    return file


def _note_use(descriptor: int) -> None:
    """Has an opened entry be one that was used just now, if that was not known of late."""
    if os.utime in os.supports_fd and abs(time.time() - os.fstat(descriptor).st_mtime) > LATELY:
        with suppress(OSError):  # the folder may be read-only
            os.utime(descriptor)


def write(key: str, parts: Sequence[bytes | memoryview]) -> bool:
    """Adds an entry, whole or not at all; tells whether. A folder that cannot be written to is no error."""
    place = folder()
    if place is None:
        return False
    try:
        with opened(place, make=True) as found:
            if found is None:
                return False
            found.write(key, parts)
            if int(key[:8], 16) % LOOK < sum(memoryview(each).nbytes for each in parts):
                _trim(found)
    except OSError:
        return False
    return True


def write_checked(key: str, content: bytes) -> bool:
    """As `write`, with a digest behind the content."""
    return write(key, (content, blake2b(content).digest()))


def read_checked(key: str) -> bytes | None:
    """The content of an entry of `write_checked`; None if there is none, or it is damaged."""
    file = find(key)
    if file is None:
        return None
    try:
        with file:
            whole = file.read()
    except OSError:
        return None
    content = whole[:-_DIGEST]
    return content if blake2b(content).digest() == whole[-_DIGEST:] else None


def entries() -> list[Entry]:
    """What is kept, the entries used longest ago first; nothing where the folder is not used."""
    place = folder()
    if place is None:
        return []
    try:
        with opened(place) as found:
            return [] if found is None else _entries(found)
    except OSError:
        return []


def clear() -> list[Entry]:
    """Deletes every entry, and nothing else; gives them.

    Raises:
        OSError: an entry cannot be deleted.
    """
    place = folder()
    if place is None or not place.exists():
        return []
    with opened(place) as found:
        kept = [] if found is None else _entries(found)
        if found is not None:
            _delete(found, kept)
        return kept


def _entries(place: Folder) -> list[Entry]:
    """What a folder keeps, the entries used longest ago first."""
    found = (Entry(name, status.st_size, status.st_mtime) for name, status in place.files() if re.fullmatch(_KEY, name))
    return sorted(found, key=lambda each: each.used)


def _trim(place: Folder) -> None:
    """Deletes the entries used longest ago where there are too many bytes, and what was begun and abandoned."""
    kept = _entries(place)
    excess, too_many = sum(each.size for each in kept) - LARGEST, []
    for each in kept:
        if excess <= 0:
            break
        too_many.append(each)
        excess -= each.size
    _delete(place, too_many)


def _delete(place: Folder, some: Sequence[Entry]) -> None:
    """Deletes some entries, and what was begun and abandoned."""
    old = time.time() - ABANDONED
    abandoned = [name for name, status in place.files()
                 if status.st_mtime < old and re.fullmatch(_KEY, finished(name) or "")]
    for name in (*(each.key for each in some), *abandoned):
        with suppress(FileNotFoundError):
            place.remove(name)
