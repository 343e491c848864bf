"""What the passes of a session's pipeline make of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from circlet.runtime.ir.model import Model
from circlet.runtime.ir.text import to_text
from circlet.runtime.passes.manager import Pass, select
from circlet.runtime.passes.pipelines import IMPORTED
from circlet.session import engine
from circlet.tools.arguments import Content, SessionOptions
from circlet.tools.tables import Table, plain, table


@dataclass(frozen=True)
class PassOptions(SessionOptions):
    """What is to be shown of passes."""

    passes: bool
    after: str | None

    @property
    def shows_passes(self) -> bool:
        """Whether anything is."""
        return self.passes or self.after is not None


@dataclass(frozen=True, eq=False)
class Ran:
    """A pass that ran."""

    made: Pass
    before: Model
    after: Model

    @property
    def is_idle(self) -> bool:
        return self.after is self.before

    @property
    def operators(self) -> dict[str, tuple[int, int]]:
        """How many operators there are of each kind of which the number changed: before, after."""
        before, after = _kinds(self.before), _kinds(self.after)
        return {each: (before[each], after[each]) for each in sorted({*before, *after}) if before[each] != after[each]}

    @property
    def subgraphs(self) -> tuple[int, int]:
        """How many there are before, after."""
        return len(self.before.subgraphs), len(self.after.subgraphs)


def passes_text(content: Content, options: PassOptions, subgraph: int | None) -> Table | str:
    """What each pass changed, or the model after one.

    Raises:
        InputError: there is no such pass.
    """
    ran = _run(content, options)
    if options.after is not None:
        return to_text(_last(content, ran), subgraph).rstrip("\n")
    return table(("pass", "indices", "changed"),
                 [(each.made.name, "new" if each.made.renumbers else "kept", _change(each)) for each in ran])


def json_passes(content: Content, options: PassOptions, subgraph: int | None) -> dict[str, Any]:
    """The same as objects."""
    ran = _run(content, options)
    if options.after is not None:
        return {"after": options.after, "model": to_text(_last(content, ran), subgraph)}
    return {"passes": [{"name": each.made.name, "renumbers": each.made.renumbers, "changes": not each.is_idle,
                        "subgraphs": list(each.subgraphs),
                        "operators": {name: list(counts) for name, counts in each.operators.items()}}
                       for each in ran]}


def _run(content: Content, options: PassOptions) -> Sequence[Ran]:
    """The passes up to the one that is asked for, those of loading first."""
    imported, pipeline = select((IMPORTED, engine(options.backend).pipeline()), options.after)
    ran = [Ran(*each) for each in content.heard[:len(imported.passes)]]
    pipeline.run(content.model, lambda made, before, after: ran.append(Ran(made, before, after)))
    return ran


def _last(content: Content, ran: Sequence[Ran]) -> Model:
    return ran[-1].after if ran else content.model


def _change(ran: Ran) -> str:
    """What is different, in words."""
    if ran.is_idle:
        return "nothing"
    before, after = ran.subgraphs
    counts = {**({"subgraphs": ran.subgraphs} if before != after else {}),
              **{plain(name): found for name, found in ran.operators.items()}}
    return ", ".join(f"{name} {one} -> {other}" for name, (one, other) in counts.items()) or "operands"


def _kinds(model: Model) -> Counter[str]:
    return Counter(operator.name for subgraph in model.subgraphs for operator in subgraph.operators)
