"""Shows what a model holds, what computes it, and how values pass between its subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from circlet.backends.native.compilation import COLLECTOR
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.verify import verify
from circlet.tools.arguments import Content, command, read, session_of, session_parameters, subgraph_index
from circlet.tools.console import Document
from circlet.tools.copies import copies_text, json_copies
from circlet.tools.inspection.inspection import Inspection, inspection_of, session_entries
from circlet.tools.inspection.objects import json_difference, json_inspection
from circlet.tools.inspection.text import differences_document, model_document, tensors_document
from circlet.tools.native import NativeOptions, json_native, native_text
from circlet.tools.passes import PassOptions, json_passes, passes_text
from circlet.tools.tables import plural
from circlet.tools.usage import Option

SHOWN = "What is shown"


@dataclass(frozen=True)
class InspectOptions(NativeOptions, PassOptions):
    """What is to be shown of a model."""

    subgraph: str | None
    tensors: bool
    html: str | None
    diff: str | None
    copies: bool


def execute(options: InspectOptions) -> Document:
    """Show what a model holds, what computes it, what it costs, what is likely wrong with it, and what passes between
    its subgraphs.

    Models that cannot be run are shown too, and why they cannot.
    """
    with COLLECTOR.paused():
        return _shown(options)


def _shown(options: InspectOptions) -> Document:
    content = read(options)
    model = content.model
    subgraph = None if options.subgraph is None else subgraph_index(model, options.subgraph)
    if options.diff is not None:
        return _differences(model, options, options.diff)
    if options.shows_native or options.copies or options.shows_passes:
        verify(model)
        return _work(content, subgraph, options)
    shown: Sequence[int] = range(len(model.subgraphs)) if subgraph is None else (subgraph,)
    found = inspection_of(content.name, content.size, model, shown, options.backend)
    if options.html is not None:
        return _page(found, options.html, options.json)
    if options.json:
        return json_inspection(found)
    return tensors_document(found) if options.tensors else model_document(found, subgraph)


def _page(found: Inspection, path: str, json: bool) -> Document:
    """Writes the page, and says so."""
    from circlet.tools.inspection.page import page_text

    text = page_text(found)
    Path(path).write_text(text, encoding="utf-8")
    if json:
        return {"model": found.path, "html": path, "bytes": len(text.encode())}
    return [f"{path}: {plural(len(text.encode()), 'byte')}"]


def _differences(model: Model, options: InspectOptions, path: str) -> Document:
    from circlet.tools.inspection.difference import differences_of

    other = read(replace(options, model=path)).model
    for each in (model, other):
        verify(each)
    found = differences_of(model, other)
    if options.json:
        return {"model": options.model, "other": path, "differences": [json_difference(each) for each in found]}
    return differences_document(options.model, path, found)


def _work(content: Content, subgraph: int | None, options: InspectOptions) -> Document:
    """What a session makes of a model."""
    model = content.model
    if options.shows_native:
        entries = session_entries(model) if subgraph is None else (subgraph,)
        return json_native(model, entries, options) if options.json else native_text(model, entries, options)
    if options.copies:
        return _copies(model, subgraph, options)
    return json_passes(content, options, subgraph) if options.json else [passes_text(content, options, subgraph)]


def _copies(model: Model, subgraph: int | None, options: InspectOptions) -> Document:
    session = session_of(model, options)
    edges = [each for each in session.copies() if subgraph in (None, each.subgraph)]
    return {"copies": json_copies(edges)} if options.json else copies_text(session.executed, edges)


COMMAND = command("inspect", InspectOptions, execute, [
    Option("--subgraph", group=SHOWN, metavar="NAME|INDEX", help="show one subgraph alone"),
    Option("--tensors", group=SHOWN, is_flag=True,
           help="show instead tensors that nothing reads, and constants that are there more than once"),
    Option("--html", group=SHOWN, metavar="FILE",
           help="write instead a page to browse: the graph, tables, likely problems"),
    Option("--diff", group=SHOWN, metavar="OTHER", help="show instead what another model has otherwise"),
    Option("--copies", group=SHOWN, is_flag=True,
           help="show instead how each value crosses the border of a subgraph, and why"),
    Option("--native", group=SHOWN, is_flag=True,
           help="show instead what the entry points, or the subgraph, become as native code"),
    Option("--llvm", group=SHOWN, is_flag=True, help="the same as LLVM's optimised assembly language"),
    Option("--asm", group=SHOWN, is_flag=True, help="the same as assembly language of this machine"),
    Option("--passes", group=SHOWN, is_flag=True, help="show instead what each pass changes before a run"),
    Option("--after", group=SHOWN, metavar="PASS", help="show instead the model as a pass leaves it"),
    *session_parameters(),
])
"""`circlet inspect`."""
