"""The arena of code that is made ahead of time: what an operator needs for itself lies where no tensor is just then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from circlet.runtime.passes.analyses.plan_memory import Interval, lowest_gap, plan_by_size, plan_memory
from circlet.runtime.records import dataclass, field


@dataclass(frozen=True)
class _Part:
    """A part of the arena, and the operators of a subgraph during which it is in use, both ends included."""

    begin: int
    end: int
    first: int
    last: int


@dataclass
class _Scope:
    """Parts that are in use until something ends: all of them, or those of the operator at hand."""

    parts: list[_Part] = field(default_factory=list)
    now: int = 0


class Arena:
    """An arena on its way: what lies where while code is written in the order in which it runs."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._scopes = [_Scope()]
        self.nbytes = 0
        """Of all that was ever in use."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is reserved inside is free afterwards."""
        self._scopes.append(_Scope())
        yield
        self._scopes.pop()

    @contextmanager
    def operator(self, number: int) -> Iterator[None]:
        """What is written inside is an operator of the subgraph that was arranged last."""
        self._scopes[-1].now = number
        with self.scope():
            yield

    def reserve(self, size: int) -> int:
        """Where `size` bytes are free until the scope ends."""
        return self._put([Interval(size, 0, 0)], is_timed=False)[0]

    def arrange(self, wanted: Sequence[Interval]) -> Sequence[int]:
        """Where parts lie that are in use during some operators of a subgraph each."""
        return self._put(wanted, is_timed=True)

    def _put(self, wanted: Sequence[Interval], is_timed: bool) -> Sequence[int]:
        plan = min((made(wanted, self._alignment) for made in (plan_by_size, plan_memory)), key=lambda each: each.size)
        base = lowest_gap(sorted(self._used()), plan.size)
        for each, offset in zip(wanted, plan.offsets, strict=True):
            first, last = (each.first, each.last) if is_timed else (0, 1 << 62)
            begin = base + offset
            self._scopes[-1].parts.append(_Part(begin, begin + each.size, first, last))
        self.nbytes = max(self.nbytes, base + plan.size)
        return [base + each for each in plan.offsets]

    def _used(self) -> Iterator[tuple[int, int]]:
        """The parts that are in use before the innermost scope ends, filled up to where others may begin."""
        for scope in self._scopes:
            for each in scope.parts:
                if scope is self._scopes[-1] or each.first <= scope.now <= each.last:
                    yield each.begin, -(-each.end // self._alignment) * self._alignment
