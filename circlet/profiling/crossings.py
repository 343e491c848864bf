"""What crossed the borders of subgraphs in runs without being copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from circlet.profiling.timed_runs import TimedRuns
from circlet.runtime.exec.crossing import CopyEdge, Position
from circlet.runtime.exec.observe.regions import Kind, LoopTimes, Node
from circlet.runtime.passes.analyses.transfer import Action, Stage
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Crossed:
    """Values that crossed a border uncopied."""

    values: int = 0
    size: int = 0
    """In bytes, of those whose size is known before a run."""


def crossed(runs: TimedRuns, edges: Iterable[CopyEdge]) -> Mapping[int, Crossed]:
    """What crossed uncopied, by the subgraph whose operators invoke.

    An edge that is copied on one of several ways to it counts as copied on all.
    """
    nodes: dict[Position, list[Node]] = defaultdict(list)
    for node in runs.root.walk():
        if node.region.kind is Kind.OPERATOR:
            nodes[node.region.subgraph, node.region.operator].append(node)
    ways: dict[tuple[Position, str], list[CopyEdge]] = defaultdict(list)
    for each in edges:
        ways[each.position, each.edge].append(each)
    found: dict[int, Crossed] = {}
    for (position, label), same in ways.items():
        if any(each.action is Action.COPY for each in same):
            continue
        times = sum(_times(runs, node, label) for node in nodes[position])
        before = found.get(position[0], Crossed())
        size = min(each.bytes or 0 for each in same)
        found[position[0]] = Crossed(before.values + times, before.size + times * size)
    return found


def _times(runs: TimedRuns, node: Node, label: str) -> int:
    """How often the operator of a node crossed one of its edges."""
    name = label.rpartition(" ")[0]
    if node.loop is not None:
        return _turns(node, node.loop, Stage(name))
    return next((each.count for each in node.children.values()
                 if each.region.kind is Kind.SUBGRAPH and name.startswith(f"{runs.role(each)} ")),
                0 if any(name.startswith(f"{each.role} ") for each in runs.operator(node.region).op.calls())
                else node.count)


def _turns(node: Node, loop: LoopTimes, stage: Stage) -> int:
    """How often a loop does what belongs to a stage."""
    if not stage.repeats:
        return node.count
    return loop.turns + (loop.activations if stage is Stage.CONDITION else 0)
