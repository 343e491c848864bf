"""Writes to the terminal."""

from __future__ import annotations

import sys
from typing import TextIO


def write(text: str, stream: TextIO | None = None) -> None:
    """Prints a line, by default on stdout; characters that the stream cannot hold as escapes."""
    target = sys.stdout if stream is None else stream
    encoding = target.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=target)


def note(text: str) -> None:
    """Tells on stderr what the user may not expect."""
    write(f"circlet: note: {text}", sys.stderr)
