"""Writes to the terminal, and to what stands in its place: coloured only for people, and else as stable lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import Protocol, TextIO, TypeAlias

import click

SCHEMA_VERSION = 1
"""Of the JSON that the program prints: the keys of a version keep their meaning, and others may be added."""


class Rendered(Protocol):
    """What looks otherwise on a terminal."""

    def render(self, width: int | None, colour: bool) -> str:
        """Its lines, no wider than `width` if there is one."""
        ...


Document: TypeAlias = "Mapping[str, object] | Sequence[str | Rendered]"
"""What a command prints: an object, as one line of JSON; or parts, with blank lines between them."""


def show(document: Document) -> None:
    """Prints what a command has found."""
    if isinstance(document, Mapping):
        write(json.dumps({"schema_version": SCHEMA_VERSION, **document}, allow_nan=False))
        return
    width, colour = _width(sys.stdout), has_colours(sys.stdout)
    write("\n\n".join(each if isinstance(each, str) else each.render(width, colour) for each in document))


def write(text: str, stream: TextIO | None = None) -> None:
    """Prints a line, by default on stdout; characters that the stream cannot hold as escapes."""
    target = sys.stdout if stream is None else stream
    encoding = target.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=target)


def note(text: str) -> None:
    """Tells on stderr what the user may not expect."""
    _tell("note", "yellow", text)


def complain(text: str) -> None:
    """Tells on stderr what went wrong."""
    _tell("error", "red", text)


def _tell(kind: str, colour: str, text: str) -> None:
    label = f"{kind}:"
    if has_colours(sys.stderr):
        label = click.style(label, fg=colour, bold=True)
    write(f"circlet: {label} {text}", sys.stderr)


def has_colours(stream: TextIO) -> bool:
    """Whether text is to be coloured: where `NO_COLOR` is not set, on terminals, and elsewhere where `FORCE_COLOR`
    is (no-color.org, force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def _width(stream: TextIO) -> int | None:
    return get_terminal_size().columns if stream.isatty() else None
