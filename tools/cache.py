"""Shows and empties the folder of compiled functions."""

from __future__ import annotations

from collections.abc import Callable

from circlet.backends.native.load import cache
from circlet.runtime.errors import UnsupportedError
from circlet.tools.console import Document, show
from circlet.tools.tables import plural
from circlet.tools.usage import Command, Option, Subcommands

OFF = f"nothing is kept: {cache.VARIABLE} is empty"


def _count(number: int) -> str:
    """So many functions and plans of models."""
    return "1 entry" if number == 1 else f"{number} entries"


def _info(json: bool) -> Document:
    """Show where compiled functions and the plans of models are kept, how many, and how large they are."""
    folder, entries = cache.folder(), cache.entries()
    size = sum(each.size for each in entries)
    if json:
        return {"folder": None if folder is None else str(folder), "entries": len(entries), "bytes": size,
                "largest_bytes": cache.LARGEST}
    if folder is None:
        return (OFF,)
    return (f"{folder}: {_count(len(entries))}, {plural(size, 'byte')} of at most {cache.LARGEST:,}",)


def _clear(json: bool) -> Document:
    """Delete all compiled functions; they are compiled again when they are needed."""
    folder, removed = cache.folder(), cache.clear()
    size = sum(each.size for each in removed)
    left = cache.entries()
    if left:
        raise UnsupportedError(f"{folder}: {_count(len(left))} cannot be deleted")
    if json:
        return {"folder": None if folder is None else str(folder), "entries": len(removed), "bytes": size}
    return (OFF if folder is None else
            f"{folder}: deleted {_count(len(removed))}, {plural(size, 'byte')}",)


def _command(name: str, execute: Callable[[bool], Document]) -> Command:
    return Command(name, help=execute.__doc__, callback=lambda json: show(execute(json)),
                   params=[Option("--json", group="Output", is_flag=True, help="print one line of JSON, errors too")])


COMMAND = Subcommands("cache", help=__doc__, commands=[_command("info", _info), _command("clear", _clear)])
"""`circlet cache`."""
