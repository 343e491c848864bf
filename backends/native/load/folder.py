"""A folder whose files are code: trusted only if nobody but this user and the system's can write to it.

All work goes by the opened folder, never by its path again, and no link in it is followed. Who can change the folders
above can put another one in its place; that one must pass the same check.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

_HAS_OWNERS = os.name == "posix"
"""Whether files have an owner and a mode; elsewhere the user's profile as such is protected."""
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
"""The bits of a mode by which others may write."""
_FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOCTTY"))
"""No link is followed, and a pipe does not wait for its other end."""
_RANDOM = 8
"""Bytes of the name of an unfinished file: 64 bits, so that no two processes choose one."""
_UNFINISHED = rf"\.(.+)\.[0-9a-f]{{{2 * _RANDOM}}}"
"""The pattern of unfinished files' names: a dot, the name it is to get, and random digits."""


class Folder:
    """An opened folder that is trusted. Names are those of files in it."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    def open(self, name: str, most: int) -> FileIO | None:
        """A file of at most so many bytes, for reading; None where there is none that can be trusted.

        Raises:
            OSError: it cannot be opened.
        """
        try:
            descriptor = os.open(self._at(name), os.O_RDONLY | _FLAGS, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError:
            if not self._is_link(name):
                raise
            _warn(self.path / name, "is a link")
            return None
        reason = _refuse(os.fstat(descriptor), most)
        if reason is None:
            return FileIO(descriptor)
        os.close(descriptor)
        _warn(self.path / name, reason)
        return None

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        """Makes a file, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        unfinished = f".{name}.{os.urandom(_RANDOM).hex()}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
            with os.fdopen(os.open(self._at(unfinished), flags, 0o600, dir_fd=self._descriptor), "wb") as file:
                file.writelines(parts)
            os.replace(self._at(unfinished), self._at(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError):
                self.remove(unfinished)
            raise

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """The name and status of each regular file of this user's.

        Raises:
            OSError: the folder cannot be read.
        """
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as found:
            for each in found:
                with suppress(FileNotFoundError):
                    status = each.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and (not _HAS_OWNERS or status.st_uid == os.geteuid()):
                        yield each.name, status

    def remove(self, name: str) -> None:
        """
        Raises:
            OSError: the file cannot be removed.
        """
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def _at(self, name: str) -> str:
        """What the system is given for a name: relative to the opened folder, where there are such calls."""
        return name if self._descriptor is not None else str(self.path / name)

    def _is_link(self, name: str) -> bool:
        """Whether a name is a symbolic link."""
        try:
            return stat.S_ISLNK(os.lstat(self._at(name), dir_fd=self._descriptor).st_mode)
        except OSError:
            return False


def finished(name: str) -> str | None:
    """The name that an unfinished file is to get; None for other files."""
    found = re.fullmatch(_UNFINISHED, name)
    return None if found is None else found[1]


@contextmanager
def opened(path: Path, make: bool = False) -> Iterator[Folder | None]:
    """A folder; None if it is not to be trusted, which is said once.

    Args:
        path: of the folder. Those above it may be links.
        make: where there is none, make it, and those above it, for this user alone.

    Raises:
        OSError: it is not there, or cannot be opened or made.
    """
    if make and not path.exists():
        _make(path)
    if not _HAS_OWNERS:
        yield Folder(path, None)
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    except OSError:
        if not path.is_symlink():
            raise
        _warn(path, "is a link")
        yield None
        return
    try:
        reason = _distrust(os.fstat(descriptor))
        if reason is not None:
            _warn(path, reason)
        yield Folder(path, descriptor) if reason is None else None
    finally:
        os.close(descriptor)


def _make(path: Path) -> None:
    """Makes a folder and those above it, for this user alone."""
    for each in (*reversed(path.parents), path):
        if not each.exists():
            with suppress(FileExistsError):
                each.mkdir(0o700)


def _refuse(status: os.stat_result, most: int) -> str | None:
    """Why a file with this status is not to be read."""
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    return f"is larger than {most} bytes" if status.st_size > most else _distrust(status)


def _distrust(status: os.stat_result) -> str | None:
    """Why others than this user and the system's may have made or changed what has this status."""
    if not _HAS_OWNERS:
        return None
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to user {status.st_uid}"
    return "can be written to by others" if status.st_mode & _OTHERS else None


def _warn(path: Path, reason: str) -> None:
    """Says that something is not used, and why."""
    warnings.warn(f"{path} {reason}: compiled functions are not taken from there", RuntimeWarning, stacklevel=2)
