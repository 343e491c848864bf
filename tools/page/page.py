"""Builds one HTML document that needs nothing beside itself: no network, no fonts, no other file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TypeAlias

from circlet.runtime.records import dataclass

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
FOLDER = Path(__file__).parent
BASE = FOLDER / "page.js"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What a browser lets the document load: nothing."""


@dataclass(frozen=True)
class Part:
    """A piece of a page."""

    kind: str
    """What draws it: the name that its script passed to `page.draws(kind, draw)`."""
    data: Json
    scripts: Sequence[Path] = ()
    """Classic scripts, each put into the document once, in their order."""


@dataclass(frozen=True)
class Tab:
    """A sheet of a page, of which one is seen at a time."""

    title: str
    parts: Sequence[Part]


def document(title: str, tabs: Sequence[Tab], subtitle: str = "") -> str:
    """The text of a document: its head, then its tabs.

    Raises:
        ValueError: a number is NaN or infinite, which JSON has not.
    """
    scripts = dict.fromkeys([BASE, *(script for tab in tabs for part in tab.parts for script in part.scripts)])
    data: Json = {"tabs": [{"title": tab.title, "parts": [{"kind": part.kind, "data": part.data} for part in tab.parts]}
                     for tab in tabs]}
    style = _text(FOLDER / "page.css")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p><nav role="tablist"></nav></header>
<main></main>
<script type="application/json" id="data">{_embedded(data)}</script>
{_scripts(scripts)}
<script>page.start();</script>
</body>
</html>
"""


def _embedded(data: Json) -> str:
    """JSON that can stand within a script: nothing in it ends the script, or begins a comment."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _scripts(files: Iterable[Path]) -> str:
    return "\n".join(f"<script>\n{_text(each)}</script>" for each in files)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")
