"""The drawing of a model's subgraphs that can be stepped into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from circlet.runtime.ir.display.drawing import BOX_HEIGHT, draw
from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.text import option_texts, preview_text, type_text
from circlet.runtime.records import dataclass
from circlet.tools.page.page import FOLDER, Json, Part

SCRIPTS = tuple(FOLDER / name for name in ("graph_painter.js", "graph_details.js", "graph.js"))
GROUPS: Mapping[str, str] = {
    **dict.fromkeys(("controlflow", "loop"), "flow"),
    **dict.fromkeys(("conv", "matmul", "recurrent", "spectral"), "product"),
    **dict.fromkeys(("index", "layout", "pad", "sequence", "shape", "updates", "variable", "window"), "move"),
    **dict.fromkeys(("normalize", "pool", "reduce", "segment", "sort"), "reduce"),
}
"""By family of operators, which a colour stands for; `element` where there is none."""


@dataclass(frozen=True)
class Note:
    """What a page says of an operator beside what the model does."""

    heat: float | None = None
    """From 0 to 1, as a colour."""
    label: str = ""
    """A few characters in its box, as `12 ms`."""
    rows: Sequence[tuple[str, str]] = ()
    """What is shown with its options when it is selected."""
    warning: str = ""
    """What is wrong with it; its box is marked."""
    parts: Sequence[tuple[int, Operator]] = ()
    """The operators that were merged into it, with their places."""
    name: str = ""
    """What it is called then."""


Notes: TypeAlias = "Mapping[tuple[int, int], Note]"
"""By subgraph and operator."""


def graph_part(model: Model, notes: Notes | None = None, entries: Sequence[int] = (0,), heat: str = "") -> Part:
    """The subgraphs of a model, drawn.

    Args:
        model: it may be malformed.
        notes: what else there is to say of operators.
        entries: the subgraphs that can be gone to from everywhere.
        heat: what the colours of `Note.heat` mean, e.g. `share of the run`.
    """
    found = notes or {}
    return Part("graph", {
        "entries": [each for each in entries if each < len(model.subgraphs)],
        "heat": heat,
        "boxHeight": BOX_HEIGHT,
        "subgraphs": [_subgraph(index, each, found) for index, each in enumerate(model.subgraphs)],
    }, SCRIPTS)


def _subgraph(index: int, subgraph: Subgraph, notes: Notes) -> Json:
    own = [notes.get((index, number)) for number in range(len(subgraph.operators))]
    drawing = draw(subgraph, {number: note.label for number, note in enumerate(own) if note is not None},
                   {number: note.name for number, note in enumerate(own) if note is not None and note.name})
    return {
        "name": subgraph.name,
        "width": drawing.width,
        "height": drawing.height,
        "boxes": [[each.kind, each.index, each.title, each.subtitle, each.x, each.y, round(each.width, 1)]
                  for each in drawing.boxes],
        "lines": [[each.source, each.target, each.tensor, each.bends] for each in drawing.lines],
        "operators": [_operator(*each) for each in zip(subgraph.operators, own, strict=True)],
        "tensors": [_tensor(each) for each in subgraph.tensors],
    }


def _operator(operator: Operator, note: Note | None) -> Json:
    found: dict[str, Json] = {
        "name": operator.name, "version": operator.version, "group": group(operator.op),
        "inputs": operator.inputs, "outputs": operator.outputs,
        "options": {} if note is not None and note.parts else dict(option_texts(operator)),
        "calls": [[each.role, each.subgraph] for each in operator.op.calls()],
    }
    if note is not None:
        found.update(heat=note.heat, label=note.label, rows=list(note.rows), warning=note.warning,
                     parts=[[f"[{number}] {each.name}", dict(option_texts(each))] for number, each in note.parts])
        if note.parts:
            found.update(name=note.name, group=_leading(note.parts))
    return found


def _leading(parts: Sequence[tuple[int, Operator]]) -> str:
    """The group of merged operators: a product if there is one among them, else that of the last."""
    groups = [group(each.op) for _, each in parts]
    return "product" if "product" in groups else groups[-1]


def group(op: Op) -> str:
    """What a box's colour says of an operator: `product`, `element`, `reduce`, `move` or `flow`."""
    return GROUPS.get(type(op).__module__.rpartition(".")[2], "element")


def _tensor(tensor: Tensor) -> Json:
    """Name, type, kind, bytes, first elements."""
    kind = "constant" if tensor.is_constant else "variable" if tensor.is_variable else "value"
    size = None if tensor.data is None or tensor.data.dtype.hasobject else tensor.data.nbytes
    return [tensor.name, type_text(tensor), kind, size, preview_text(tensor)]
