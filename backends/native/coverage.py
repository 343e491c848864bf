"""What native functions compute of a model, and what passes between subgraphs in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from circlet.runtime.exec.crossing import CopyEdge, Position
from circlet.runtime.exec.kernel import Span
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Skip


class Coverage:
    """Keeps a record of spans as they are bound."""

    def __init__(self, model: Model, native: str, host: str) -> None:
        """
        Args:
            model: as it is executed.
            native: the name of what computes in functions.
            host: the name of what computes operators one by one.
        """
        self._model = model
        self._native, self._host = native, host
        self._functions: dict[tuple[int, range, frozenset[Position]], None] = {}
        self._others: dict[tuple[int, range], None] = {}
        self._crossings: dict[CopyEdge, None] = {}
        self.reasons: dict[Position, str] = {}
        """Why the host computes operators."""
        self._computed: dict[Position, set[str]] | None = None

    def add_function(self, span: Span, hosted: Iterable[Position]) -> None:
        """A span is computed by a function, which calls the host for some operators."""
        self._functions[span.spec.index, span.operators, frozenset(hosted)] = None
        self._computed = None

    def add_other(self, span: Span) -> None:
        """The operators of a span are computed one by one."""
        self._others[span.spec.index, span.operators] = None
        self._computed = None

    def add_reasons(self, reasons: Mapping[Position, str]) -> None:
        """The host computes operators, each for a reason."""
        for position, reason in reasons.items():
            self.reasons.setdefault(position, reason)

    def add_crossings(self, edges: Iterable[CopyEdge]) -> None:
        """Values cross the borders of subgraphs within a function."""
        self._crossings.update(dict.fromkeys(edges))

    @property
    def computed(self) -> Mapping[Position, AbstractSet[str]]:
        """The names of what computes each operator; without those that invoke subgraphs one by one."""
        if self._computed is None:
            found: dict[Position, set[str]] = defaultdict(set)
            for index, operators, hosted in tuple(self._functions):
                self._walk(index, operators, hosted, found, set())
            for index, operators in tuple(self._others):
                for number in operators:
                    self._add(index, number, self._host, found)
            self._computed = found
        return self._computed

    def _walk(self, index: int, operators: Iterable[int], hosted: AbstractSet[Position],
              found: Mapping[Position, set[str]], entered: set[int]) -> None:
        """Adds what computes operators of a subgraph, and those of what they invoke, each subgraph once."""
        for number in operators:
            if (index, number) in hosted:
                self._add(index, number, self._host, found)
                continue
            op = self._model.subgraphs[index].operators[number].op
            if isinstance(op, Skip):
                continue
            found[index, number].add(self._native)
            for callee in set(op.callees()) - entered:
                entered.add(callee)
                self._walk(callee, range(len(self._model.subgraphs[callee].operators)), hosted, found, entered)

    def _add(self, index: int, number: int, name: str, found: Mapping[Position, set[str]]) -> None:
        """Adds what computes an operator, unless it invokes subgraphs."""
        op = self._model.subgraphs[index].operators[number].op
        if not op.callees() and not isinstance(op, Skip):
            found[index, number].add(name)

    @property
    def crossings(self) -> Mapping[Position, Sequence[CopyEdge]]:
        """What crosses the borders of subgraphs within functions, by the operator that invokes."""
        found: dict[Position, list[CopyEdge]] = defaultdict(list)
        for each in self._crossings:
            found[each.position].append(each)
        return found
