"""What terminals show, and what pipes get."""

from __future__ import annotations

import io

import pytest

from circlet.tools.console import has_colours, note, show
from circlet.tools.tables import Cell, Marked, table

ROWS: list[tuple[Cell, ...]] = [("a", 1, "x" * 30), ("[red]b[/red]", 1234, Marked("copy", "yellow"))]
TABLE = table(("name", "count", "value"), ROWS)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_without_a_width_no_line_is_cut() -> None:
    assert TABLE.render(None, colour=False) == (
        "name          count  value\n"
        f"a                 1  {'x' * 30}\n"
        "[red]b[/red]  1,234  copy")
    wide = table(("name",), [("y" * 5000,)])
    assert wide.render(None, colour=False) == f"name\n{'y' * 5000}"


def test_cells_are_continued_where_a_terminal_is_narrow() -> None:
    lines = TABLE.render(40, colour=False).splitlines()
    assert max(map(len, lines)) <= 40
    assert "".join(line[21:].strip() for line in lines[1:-1]) == "x" * 30


def test_colours() -> None:
    found = TABLE.render(None, colour=True)
    assert "\x1b[1mname" in found
    assert "\x1b[33mcopy" in found


@pytest.mark.parametrize(("environment", "terminal", "pipe"), [
    ({}, True, False),
    ({"NO_COLOR": "1"}, False, False),
    ({"NO_COLOR": ""}, True, False),
    ({"FORCE_COLOR": "1"}, True, True),
    ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ({"TERM": "dumb"}, False, False),
], ids=str)
def test_when_there_are_colours(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], terminal: bool,
                                pipe: bool) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (has_colours(Terminal()), has_colours(io.StringIO())) == (terminal, pipe)


def test_a_terminal_and_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("COLUMNS", "30")
        show([TABLE, "end"])
        note("hear")
        found.append(stream.getvalue())
    terminal, pipe = found
    assert pipe == f"{TABLE.render(None, colour=False)}\n\nend\ncirclet: note: hear\n"
    assert terminal.startswith("\x1b[1mname")
    assert "circlet: \x1b[33m\x1b[1mnote:\x1b[0m hear" in terminal
