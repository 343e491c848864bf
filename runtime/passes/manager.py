"""Passes, pipelines of them, and what runs these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from circlet.runtime.errors import InputError, ModelError, suggestion
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ir.verify import verify
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Pass:
    """Gives a model that computes the same; the model itself where there is nothing to do."""

    name: str
    run: Callable[[Model], Model]
    renumbers: bool = False
    """Whether subgraphs, tensors or operators may get other indices. Where they keep them an operator that is no longer
    needed becomes a `Skip`, and what is new follows what there was."""
    needs: tuple[frozenset[str], ...] = ()
    """Names of operators; a model that lacks all of one of these sets is not changed, and the pass not run on it."""
    reads: frozenset[DType] = frozenset()
    """Element types; nor is a model that has no tensor of any of these."""

    def concerns(self, model: Model) -> bool:
        """Whether a model has what the pass needs."""
        if self.reads and not any(
                tensor.dtype in self.reads for subgraph in model.subgraphs for tensor in subgraph.tensors):
            return False
        if not self.needs:
            return True
        names = {operator.op.name for subgraph in model.subgraphs for operator in subgraph.operators}
        return not any(map(names.isdisjoint, self.needs))


Selection: TypeAlias = "str | Sequence[str] | None"
"""Passes of a pipeline: up to and with one of a name, those of some names, or all."""
Heard: TypeAlias = Callable[[Pass, Model, Model], None]
"""Is told of a pass that ran, and of the model before and after it."""


def unheard(ran: Pass, before: Model, after: Model) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Pipeline:
    """Passes in the order in which they run."""

    name: str
    passes: tuple[Pass, ...]

    def selected(self, selection: Selection) -> Pipeline:
        """The pipeline with some of its passes, in its order.

        Raises:
            InputError: it has no pass of a name.
        """
        if selection is None:
            return self
        names = [each.name for each in self.passes]
        for wanted in (selection,) if isinstance(selection, str) else selection:
            if wanted not in names:
                raise InputError(f"no pass {wanted!r} in pipeline {self.name!r}; it has {', '.join(names) or 'none'}"
                                 + suggestion(wanted, names))
        if isinstance(selection, str):
            return Pipeline(self.name, self.passes[:names.index(selection) + 1])
        return Pipeline(self.name, tuple(each for each in self.passes if each.name in selection))

    def run(self, model: Model, hear: Heard = unheard) -> Model:
        """Runs the passes on a verified model, and verifies what each of them gives.

        Raises:
            ModelError: a pass gave a malformed model, or other indices than it may, which is an error in the pass.
        """
        for each in self.passes:
            changed = each.run(model) if each.concerns(model) else model
            if changed is not model:
                _verify(each, model, changed)
            hear(each, model, changed)
            model = changed
        return model


def select(pipelines: Sequence[Pipeline], selection: Selection) -> list[Pipeline]:
    """Pipelines that run one after another, with some of their passes.

    Raises:
        InputError: none has a pass of a name.
    """
    whole = Pipeline(" and ".join(each.name for each in pipelines),
                     tuple(ran for each in pipelines for ran in each.passes)).selected(selection)
    return [Pipeline(each.name, tuple(ran for ran in each.passes if ran in whole.passes)) for each in pipelines]


def _verify(ran: Pass, before: Model, after: Model) -> None:
    try:
        verify(after, before)
    except ModelError as error:
        raise ModelError(f"after pass {ran.name!r}: {error}") from error
    if not ran.renumbers and not _keeps_places(before, after):
        raise ModelError(f"after pass {ran.name!r}: expected subgraphs, tensors and operators at the indices that they "
                         "had, found fewer of them")


def _keeps_places(before: Model, after: Model) -> bool:
    """Whether everything that there was can still be where it was."""
    return len(before.subgraphs) <= len(after.subgraphs) and all(
        len(one.tensors) <= len(other.tensors) and len(one.operators) <= len(other.operators)
        for one, other in zip(before.subgraphs, after.subgraphs, strict=False))
