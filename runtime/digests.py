"""Digests, made soon: OpenSSL takes its time to load, and the interpreter has code of its own.

BLAKE2b and BLAKE3 tell contents apart where circlet alone has to know; SHA-256 where a file format says so.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Protocol

from circlet.runtime.late import imported

MUCH = 1 << 20
"""Bytes of which the interpreter makes a BLAKE2b in 1.2 ms, while the package `blake3` is loaded in 0.9 ms and takes
0.2 ms for each MB."""
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
        from _blake2 import blake2b as own
    except ImportError:
        return sha256(content)
    return own(content, digest_size=_SIZE)


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


def content_digest(content: bytes | memoryview) -> bytes:
    """32 bytes that tell contents apart: of `MUCH` those of BLAKE3, where there is the package, else of BLAKE2b."""
    if memoryview(content).nbytes < MUCH:
        return blake2b(content).digest()
    try:
        package = imported("blake3")
    except ImportError:
        return blake2b(content).digest()
    found: bytes = package.blake3(content).digest()
    return found
