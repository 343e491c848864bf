"""Profiles as tables: by subgraph, by operator, by loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from statistics import median

from circlet.profiling.crossings import Crossed, crossed
from circlet.profiling.peak import Peak
from circlet.profiling.plans import Plan, plans
from circlet.profiling.timed_runs import TimedRuns
from circlet.profiling.turns import TurnTimes, turn_times
from circlet.runtime.errors import ClosedError
from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.exec.observe.regions import Kind, Node
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.passes.analyses.work import Work
from circlet.runtime.records import dataclass
from circlet.session import Survey


@dataclass(frozen=True)
class SubgraphRow:
    """A subgraph, over all call paths. Times are in nanoseconds."""

    index: int
    name: str
    invocations: int
    total: float
    """In it and in what it invokes."""
    own: float
    """Between its operators."""
    overhead: float
    """In control flow and in no operator: between operators, in operators that invoke others but in none of these, and
    in copies."""
    conditions: float
    """In the conditions of its loops."""
    copies: int
    """Made by its operators at the borders of what they invoke."""
    copied_bytes: int
    arena: int | None
    """The bytes of the memory that its operators' results share, as planned; None where that is not known."""
    peak: int | None
    """The most of them that is in use at one time."""
    elided: Crossed | None
    """The values that crossed these borders without being copied; None where the session was closed before this was
    asked for."""


@dataclass(frozen=True)
class OperatorRow:
    """An operator, over all call paths. Times are in nanoseconds."""

    subgraph: int
    index: int
    name: str
    """As it was executed; of operators that were merged theirs, `FULLY_CONNECTED+ADD`."""
    source: str
    """As the model had it before passes; empty for what these put in."""
    outputs: tuple[str, ...]
    """The names of the tensors that it computes."""
    backend: str
    """What computed it; empty where that is not known, as for operators that passes put in."""
    parts: tuple[int, ...]
    """The operators of the subgraph that were merged into this one."""
    invokes: tuple[int, ...]
    """The subgraphs that it invokes."""
    count: int
    total: float
    """In it and in what it invokes."""
    own: float
    copies: int
    copied_bytes: int
    is_native: bool
    """Whether compiled code timed it."""
    sampled: float
    """The share of its invocations that were timed."""
    work: Work | None
    """What one invocation costs, as estimated; None where there is no estimate."""
    of_peak: float | None
    """The time that the machine would take for that at its best, as a part of the time taken; None where that is not
    known, and for arithmetic on other types than float32 and int8, which the peak is measured with."""

    @property
    def place(self) -> str:
        """`@2[3] FULLY_CONNECTED`."""
        return f"@{self.subgraph}[{self.index}] {self.name}"


@dataclass(frozen=True, eq=False)
class LoopRow:
    """A loop at one call path. Times are in nanoseconds."""

    node: Node
    path: str
    """The regions from the run to it, `@0 / [32] WHILE`."""
    activations: int
    """How often it was begun."""
    turns: int
    """In all activations."""
    fewest: int
    typical: float
    """The median over activations."""
    most: int
    total: float
    condition: float
    """In its condition."""
    body: float
    """In its body."""
    times: TurnTimes | None
    """How long turns took; None where none was timed."""


class Tables:
    """The tables of runs, each made when it is asked for. Rows with the most time come first."""

    def __init__(self, runs: TimedRuns, peak: Peak | None = None) -> None:
        """
        Args:
            runs: that were timed.
            peak: the best of the machine, for operators to be compared with.
        """
        self.runs = runs
        self.peak = peak
        self._nodes = list(runs.root.walk())
        self._backends: dict[int, tuple[str, ...]] = {}

    @cached_property
    def loops(self) -> list[LoopRow]:
        """A row for each loop and call path."""
        return sorted((_loop_row(self.runs, each) for each in self._nodes if each.loop is not None),
                      key=lambda row: -row.total)

    @cached_property
    def operators(self) -> list[OperatorRow]:
        """A row for each operator that was run."""
        places: dict[tuple[int, int], list[Node]] = defaultdict(list)
        for each in self._of(Kind.OPERATOR):
            places[each.region.subgraph, each.region.operator].append(each)
        rows = [self._operator_row(*place, nodes) for place, nodes in places.items()]
        return sorted(rows, key=lambda row: -row.own)

    @cached_property
    def subgraphs(self) -> list[SubgraphRow]:
        """A row for each subgraph that was run."""
        nodes: dict[int, list[Node]] = defaultdict(list)
        for each in self._of(Kind.SUBGRAPH):
            nodes[each.region.subgraph].append(each)
        return sorted((self._subgraph_row(index, found) for index, found in nodes.items()),
                      key=lambda row: -row.total)

    @cached_property
    def edges(self) -> list[CopyEdge]:
        """What crosses the borders of subgraphs, at the shapes of the latest runs.

        Raises:
            ClosedError: the session is closed.
        """
        return self._survey.copies()

    @cached_property
    def _survey(self) -> Survey:
        return self.runs.session.survey(self.runs.shapes)

    @cached_property
    def plans(self) -> Mapping[int, Plan]:
        """What is known of subgraphs before they run, by index, at the shapes of the latest run; nothing if the session
        is closed."""
        try:
            executors = self._survey.executors
        except ClosedError:
            return {}
        return plans(executors, self.runs.session.model, self.runs.shapes)

    @cached_property
    def elided(self) -> Mapping[int, Crossed] | None:
        """What crossed borders uncopied, by the subgraph whose operators invoke; None if the session is closed."""
        try:
            return crossed(self.runs, self.edges)
        except ClosedError:
            return None

    def _of(self, kind: Kind) -> Iterable[Node]:
        return (each for each in self._nodes if each.region.kind is kind)

    def _operator_row(self, subgraph: int, index: int, nodes: Sequence[Node]) -> OperatorRow:
        graph = self.runs.model.subgraphs[subgraph]
        operator = graph.operators[index]
        source = self.runs.source(subgraph, index)
        count, own = sum(each.count for each in nodes), sum(each.own for each in nodes)
        work = self.plans[subgraph].works[index] if subgraph in self.plans else None
        copying = [child for each in nodes for child in each.children.values() if child.region.kind is Kind.COPIES]
        return OperatorRow(
            subgraph, index, self.runs.name(nodes[0].region), "" if source is None else source.name,
            tuple(graph.tensors[each].name for each in operator.outputs), self._backend(subgraph, index, nodes),
            operator.op.parts(), operator.op.callees(), count, sum(each.total for each in nodes), own,
            sum(each.copies for each in (*nodes, *copying)), sum(each.copied_bytes for each in (*nodes, *copying)),
            any(each.is_native for each in nodes),
            sum(each.sampled * each.count for each in nodes) / count if count else 1.0,
            work, self._of_peak(graph, operator, work, own / max(count, 1)))

    def _of_peak(self, graph: Subgraph, operator: Operator, work: Work | None, time: float) -> float | None:
        if self.peak is None or work is None or not work.bytes or not time:
            return None
        types = {graph.tensors[each].dtype for each in (*operator.inputs, *operator.outputs) if each != ABSENT}
        best = self.peak.seconds(work, types)
        return None if best is None else best * 1e9 / time

    def _backend(self, subgraph: int, index: int, nodes: Sequence[Node]) -> str:
        if all(each.is_native for each in nodes):
            return "native"
        if subgraph not in self._backends:
            self._backends[subgraph] = ()
            if subgraph < len(self.runs.session.model.subgraphs):
                with suppress(ClosedError):
                    self._backends[subgraph] = self.runs.session.backend_of(subgraph)
        names = self._backends[subgraph]
        return names[index] if index < len(names) else ""

    def _subgraph_row(self, index: int, nodes: Sequence[Node]) -> SubgraphRow:
        flow = [child for each in nodes for child in each.children.values() if self._is_flow(child)]
        copying = [below for each in flow for below in each.children.values() if below.region.kind is Kind.COPIES]
        own = sum(each.own for each in nodes)
        arena = self.plans[index].arena if index in self.plans else None
        return SubgraphRow(
            index, self.runs.model.subgraphs[index].name, sum(each.count for each in nodes),
            sum(each.total for each in nodes), own, own + sum(each.own for each in (*flow, *copying)),
            sum(below.total for each in flow for below in each.children.values()
                if self.runs.role(below) == "cond"),
            sum(each.copies for each in (*nodes, *flow, *copying)),
            sum(each.copied_bytes for each in (*nodes, *flow, *copying)),
            None if arena is None else arena.size, None if arena is None else max(arena.live, default=0),
            None if self.elided is None else self.elided.get(index, Crossed()))

    def _is_flow(self, node: Node) -> bool:
        return node.region.kind is Kind.OPERATOR and bool(self.runs.operator(node.region).op.callees())


def _loop_row(runs: TimedRuns, node: Node) -> LoopRow:
    loop = node.loop
    assert loop is not None, "the node of a loop"
    roles: dict[str, float] = defaultdict(float)
    for each in node.children.values():
        roles[runs.role(each)] += each.total
    condition = roles.pop("cond", 0.0)
    return LoopRow(node, runs.path(node), loop.activations, loop.turns, loop.fewest or 0,
                   median(loop.counts) if loop.counts else 0, loop.most, node.total, condition, roles.get("body", 0.0),
                   turn_times(loop))
