"""Digests, made soon: OpenSSL takes its time to load, and the interpreter has code of its own.

BLAKE2b tells contents apart where circlet alone has to know; SHA-256 where a file format says so, and of much, as
processors have instructions for it, which OpenSSL uses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from threading import Thread
from typing import Protocol

MUCH = 2 << 20
"""Bytes of which the interpreter makes a BLAKE2b in 2.2 ms, while OpenSSL is loaded in 2.6 ms: of more a thread then
makes a SHA-256 in 0.6 ms for each MB, where the interpreter takes 1.1 ms. Its own SHA-256 takes 3.4 ms."""
_LITTLE = 1 << 20
"""Bytes of which the interpreter makes a SHA-256 sooner than OpenSSL is loaded."""
_SIZE = 32
_OWN = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
"""The module that the interpreter may have its own SHA-256 in."""


class Hash(Protocol):
    """A digest in the making."""

    def update(self, content: bytes | memoryview, /) -> None: ...

    def digest(self) -> bytes: ...

    def hexdigest(self) -> str: ...


def blake2b(content: bytes | memoryview = b"") -> Hash:
    """A BLAKE2b of 32 bytes; a SHA-256 where the interpreter was built without."""
    try:
        found: Hash = import_module("_blake2").blake2b(content, digest_size=_SIZE)
    except ImportError:
        return sha256(content)
    return found


def sha256(content: bytes | memoryview = b"") -> Hash:
    """As `hashlib.sha256`."""
    if "hashlib" not in sys.modules and memoryview(content).nbytes < _LITTLE:
        try:
            found: Hash = import_module(_OWN).sha256(content)
        except ImportError:
            pass
        else:
            return found
    import hashlib

    return hashlib.sha256(content)


def begun(content: bytes | memoryview) -> Callable[[], bytes]:
    """Begins to make the digest of a file's content: BLAKE2b, or SHA-256 of `MUCH`, in a thread: 14 MB take 8 ms, as
    long as some dozens of modules take to be loaded meanwhile. What is given waits for it, and gives it."""
    if memoryview(content).nbytes < MUCH:
        return blake2b(content).digest
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
