"""How numbers, names and sections are written in WebAssembly (Core Specification 2.0, chapter 5)."""

from __future__ import annotations

from collections.abc import Iterable

from circlet.runtime.records import dataclass

PADDED = 5
"""Bytes of a number of 32 bits that is filled up, so that another one can take its place."""


def unsigned(value: int) -> bytes:
    """LEB128."""
    found = bytearray()
    while True:
        value, part = value >> 7, value & 0x7F
        found.append(part | (0x80 if value else 0))
        if not value:
            return bytes(found)


def signed(value: int) -> bytes:
    """LEB128 of a signed number."""
    found = bytearray()
    while True:
        part = value & 0x7F
        value >>= 7
        is_last = value == (-1 if part & 0x40 else 0)
        found.append(part | (0 if is_last else 0x80))
        if is_last:
            return bytes(found)


def padded(value: int) -> bytes:
    """LEB128 of 32 bits, in five bytes; of a signed number with its sign in the last."""
    parts = [(value >> 7 * k) & 0x7F | 0x80 for k in range(PADDED)]
    parts[-1] &= 0x7F
    return bytes(parts)


def text(value: str) -> bytes:
    """A name."""
    data = value.encode()
    return unsigned(len(data)) + data


def vector(parts: Iterable[bytes]) -> bytes:
    """How many there are, and each."""
    found = list(parts)
    return unsigned(len(found)) + b"".join(found)


def section(number: int, content: bytes) -> bytes:
    """A section of a module."""
    return bytes((number,)) + unsigned(len(content)) + content


@dataclass
class Reader:
    """Reads one thing after another."""

    content: bytes
    at: int = 0

    @property
    def is_done(self) -> bool:
        """Whether all is read."""
        return self.at >= len(self.content)

    def byte(self) -> int:
        """A byte."""
        self.at += 1
        return self.content[self.at - 1]

    def unsigned(self) -> int:
        """A number."""
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << shift
            shift += 7
            if part < 0x80:
                return value

    def signed(self) -> int:
        """A signed number."""
        begin, value = self.at, self.unsigned()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value

    def take(self, size: int) -> bytes:
        """So many bytes."""
        self.at += size
        return self.content[self.at - size:self.at]

    def text(self) -> str:
        """A name."""
        return self.take(self.unsigned()).decode()
