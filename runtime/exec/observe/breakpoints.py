"""Where a run is to stop, as people write it: `body:3@iteration=100`."""

from __future__ import annotations

import re

from circlet.runtime.errors import InputError, suggestion
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.ir.model import Model
from circlet.runtime.records import dataclass

_ITERATION = re.compile(r"(?:(.*)@)?iteration=(\d+)")
_KINDS = ("subgraph", "op", "tensor")


@dataclass(frozen=True)
class Breakpoint:
    """A set of operators after which a run stops; what is None does not restrict it."""

    subgraph: int | None = None
    operator: int | None = None
    name: str | None = None
    """Of the operator, e.g. `ADD`."""
    tensor: str | None = None
    """That the operator computes."""
    iteration: int | None = None
    """Of the innermost loop, from 0."""

    def matches(self, moment: Moment, is_first: bool) -> bool:
        """Whether a run stops here; `is_first` says that the operator is the first one of an invocation, at which
        breakpoints on subgraphs and iterations alone do."""
        place = moment.place
        wanted = ((self.subgraph, place.subgraph), (self.operator, place.operator), (self.name, place.operator_name),
                  (self.iteration, moment.iteration))
        if any(own is not None and own != found for own, found in wanted):
            return False
        if self.tensor is not None:
            return any(moment.graph.tensors[each].name == self.tensor for each in moment.operator.outputs)
        if self.operator is not None or self.name is not None:
            return True
        return is_first and (self.subgraph is not None or moment.calls[-1].role == "body")

    def __str__(self) -> str:
        parts = [f"@{self.subgraph}" if self.subgraph is not None else "",
                 f"[{self.operator}]" if self.operator is not None else "",
                 f" {self.name}" if self.name is not None else "",
                 f" tensor {self.tensor!r}" if self.tensor is not None else "",
                 f" iteration {self.iteration}" if self.iteration is not None else ""]
        return "".join(parts).strip()


def breakpoint_at(model: Model, text: str) -> Breakpoint:
    """The breakpoint that a text describes: `WHERE`, `WHERE@iteration=N` or `iteration=N`.

    WHERE is `SUBGRAPH:OPERATOR`, with the name or the index of a subgraph, `@` before it or not, or the role that only
    one has (`body`, `cond`, `then`), and the index or the name of operators in it; a subgraph; a tensor that is
    computed; or the name of operators, such as `ADD`. Where a word is several of these it is the first; `subgraph=`,
    `tensor=` or `op=` before it says which it is.

    Raises:
        InputError: the model has nothing of this name.
    """
    found = _ITERATION.fullmatch(text)
    where, iteration = (found[1], int(found[2])) if found else (text, None)
    if where is None:
        return Breakpoint(iteration=iteration)
    kind, equals, word = where.partition("=")
    if equals and kind in _KINDS:
        return _of_kind(model, kind, word, iteration)
    head, colon, operator = where.rpartition(":")
    if colon and _subgraph(model, head) is not None:
        return _operator(model, head, operator, iteration)
    kinds = [each for each in _KINDS if word_is(model, each, where)]
    if not kinds:
        raise InputError(f"no subgraph, tensor or operator {where!r}{suggestion(where, _words(model))}")
    return _of_kind(model, kinds[0], where, iteration)


def word_is(model: Model, kind: str, word: str) -> bool:
    """Whether a word names a subgraph, a computed tensor or operators."""
    if kind == "subgraph":
        return _subgraph(model, word) is not None
    return word in (computed_tensors(model) if kind == "tensor" else _operator_names(model))


def _of_kind(model: Model, kind: str, word: str, iteration: int | None) -> Breakpoint:
    if not word_is(model, kind, word):
        raise InputError(f"no {'operator' if kind == 'op' else kind} {word!r}{suggestion(word, _words(model))}")
    if kind == "subgraph":
        return Breakpoint(subgraph=_subgraph(model, word), iteration=iteration)
    return Breakpoint(tensor=word, iteration=iteration) if kind == "tensor" else Breakpoint(
        name=word, iteration=iteration)


def _operator(model: Model, head: str, word: str, iteration: int | None) -> Breakpoint:
    subgraph = _subgraph(model, head)
    assert subgraph is not None, "the caller has found it"
    operators = model.subgraphs[subgraph].operators
    if word.isdecimal() and word.isascii():
        if int(word) >= len(operators):
            raise InputError(f"no operator {word} in subgraph {head}, which has {len(operators)}, from 0")
        return Breakpoint(subgraph, int(word), iteration=iteration)
    names = {each.name for each in operators}
    if word not in names:
        raise InputError(f"no operator {word!r} in subgraph {head}{suggestion(word, names)}")
    return Breakpoint(subgraph, name=word, iteration=iteration)


def _subgraph(model: Model, word: str) -> int | None:
    """The subgraph of a name, of a role such as `body`, or of an index; None where there is none, or several of the
    name."""
    names = [each.name for each in model.subgraphs]
    if word in names:
        return names.index(word) if names.count(word) == 1 else None
    players = _players(model, word)
    if len(players) > 1:
        raise InputError(f"several subgraphs are a {word}: {', '.join(f'@{each}' for each in players)}")
    if players:
        return players[0]
    number = word.removeprefix("@")
    return int(number) if number.isascii() and number.isdecimal() and int(number) < len(names) else None


def _players(model: Model, role: str) -> list[int]:
    """The subgraphs that operators invoke in a role."""
    return sorted({call.subgraph for subgraph in model.subgraphs for operator in subgraph.operators
                   for call in operator.op.calls() if call.role == role})


def computed_tensors(model: Model) -> set[str]:
    """The names of the tensors that operators compute."""
    return {subgraph.tensors[each].name for subgraph in model.subgraphs for operator in subgraph.operators
            for each in operator.outputs}


def _operator_names(model: Model) -> set[str]:
    return {operator.name for subgraph in model.subgraphs for operator in subgraph.operators}


def _words(model: Model) -> set[str]:
    return {*(each.name for each in model.subgraphs), *computed_tensors(model), *_operator_names(model)}
