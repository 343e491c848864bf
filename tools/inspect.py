"""Shows what a model holds, what computes it, and how values pass between its subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circlet.runtime.ir.model import Model
from circlet.runtime.ir.verify import verify
from circlet.tools.arguments import Content, command, read, session_of, session_parameters, subgraph_index
from circlet.tools.console import Document
from circlet.tools.copies import copies_text, json_copies
from circlet.tools.inspection.inspection import inspection_of, session_entries
from circlet.tools.inspection.objects import json_inspection
from circlet.tools.inspection.text import model_document, tensors_document
from circlet.tools.native import NativeOptions, json_native, native_text
from circlet.tools.passes import PassOptions, json_passes, passes_text
from circlet.tools.usage import Option

SHOWN = "What is shown"


@dataclass(frozen=True)
class InspectOptions(NativeOptions, PassOptions):
    """What is to be shown of a model."""

    subgraph: str | None
    tensors: bool
    copies: bool


def execute(options: InspectOptions) -> Document:
    """Show what a model holds, what computes it, what it costs, what is likely wrong with it, and what passes between
    its subgraphs.

    Models that cannot be run are shown too, and why they cannot.
    """
    content = read(options)
    model = content.model
    subgraph = None if options.subgraph is None else subgraph_index(model, options.subgraph)
    if options.shows_native or options.copies or options.shows_passes:
        verify(model)
        return _work(content, subgraph, options)
    shown: Sequence[int] = range(len(model.subgraphs)) if subgraph is None else (subgraph,)
    found = inspection_of(content.name, content.size, model, shown, options.backend)
    if options.json:
        return json_inspection(found)
    return tensors_document(found) if options.tensors else model_document(found, subgraph)


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
