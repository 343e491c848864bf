"""SHA-256, which little is digested by before OpenSSL is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import Protocol

LITTLE = 1 << 20
"""Bytes of which the interpreter's own code makes a digest sooner than OpenSSL is loaded: it takes 3.1 ms for as many,
and loading takes 2.6 ms; once it is, instructions for SHA-256 do as many in 0.6 ms."""
_OWN = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
"""The module that the interpreter may have its own code in."""


class Hash(Protocol):
    """A digest in the making."""

    def update(self, content: bytes | memoryview, /) -> None: ...

    def digest(self) -> bytes: ...

    def hexdigest(self) -> str: ...


def sha256(content: bytes | memoryview = b"") -> Hash:
    """As `hashlib.sha256`."""
    if "hashlib" not in sys.modules and memoryview(content).nbytes < LITTLE:
        with suppress(ImportError):
            found: Hash = import_module(_OWN).sha256(content)
            return found
    import hashlib

    return hashlib.sha256(content)


def begun(content: bytes | memoryview) -> Callable[[], bytes]:
    """Begins to make a digest, of much content in a thread: 14 MB take 8 ms, as long as some dozens of modules take to
    be loaded meanwhile. What is given waits for it, and gives it."""
    if memoryview(content).nbytes < LITTLE:
        return sha256(content).digest
    import hashlib  # before there is a thread, as a fork could find it in the midst

    found = hashlib.sha256()
    work = Thread(target=found.update, args=(content,), daemon=True)
    try:
        work.start()
    except RuntimeError:
        return hashlib.sha256(content).digest

    def result() -> bytes:
        work.join()
        return found.digest()

    return result
