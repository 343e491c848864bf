"""What the program says of errors: a line for people, an object for programs."""

from __future__ import annotations

import click

from circlet.runtime.errors import Place, RunError
from circlet.tools.usage import usage_message


def message(error: Exception) -> str:
    """What an error says, on one line."""
    first, *rest = (line.strip() for line in _text(error).split("\n"))
    return _printable(f"{first} {'; '.join(rest)}".rstrip())


def _text(error: Exception) -> str:
    if isinstance(error, click.UsageError):
        return usage_message(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory"
    return str(error) or type(error).__name__


def _printable(text: str) -> str:
    """The text, with characters of names in files that would confuse a terminal as escapes."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def json_error(error: Exception) -> dict[str, object]:
    """An error as `--json` prints it; `type` is the class in Python, `place` where in the model it was."""
    place = error.place if isinstance(error, RunError) else None
    return {"error": {"type": "UsageError" if isinstance(error, click.UsageError) else type(error).__name__,
                      "message": message(error), "place": None if place is None else _json_place(place)}}


def _json_place(place: Place) -> dict[str, object]:
    return {"subgraph": place.subgraph, "subgraph_name": place.subgraph_name, "operator": place.operator,
            "operator_name": place.operator_name, "tensor": place.tensor}
