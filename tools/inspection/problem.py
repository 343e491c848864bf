"""What is likely wrong with a model, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.runtime.ir.model import Model
from circlet.tools.tables import operator_text, subgraph_text


@dataclass(frozen=True)
class Problem:
    """Something of a model that is slow, useless or computed wrongly elsewhere."""

    kind: str
    """A word for programs: `copies`, `unread`, `shapes`, `litert`, `onert`."""
    subgraph: int
    operator: int | None
    tensor: int | None
    """Of the same subgraph."""
    text: str
    remedy: str

    def place(self, model: Model) -> str:
        """Where it is, e.g. `@0[3] WHILE, %7 state`."""
        where = (subgraph_text(model, self.subgraph) if self.operator is None
                 else operator_text(model, self.subgraph, self.operator))
        if self.tensor is None:
            return where
        name = model.subgraphs[self.subgraph].tensors[self.tensor].name
        return f"{where}, %{self.tensor} {name if name.isprintable() else repr(name)}".rstrip()
