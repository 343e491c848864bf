"""The parts of pages that show profiles: a call tree as a flame chart, and arenas over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.profiling.plans import Plan
from circlet.profiling.sheets import described
from circlet.profiling.tables import LoopRow
from circlet.profiling.timed_runs import TimedRuns
from circlet.runtime.exec.observe.regions import Kind, Node, Region
from circlet.runtime.ir.model import Operator
from circlet.tools.page.graph import group
from circlet.tools.page.page import FOLDER, Json, Part

NANO = 1e-9
DRAWN = FOLDER / "drawn.js"
MOST_LOOPS = 12
"""Those with the most time have pictures. A choice."""
MOST_OPERATORS = 4000
"""Subgraphs with more operators have no picture of their arena: it would be millions of lines. A choice."""


def flame_part(runs: TimedRuns, title: str) -> Part:
    """The call tree, widths being times; those of the mean run."""
    return Part("flame", {"title": title, "root": _node(runs, runs.root)}, (FOLDER / "flame.js",))


def _node(runs: TimedRuns, node: Node) -> Json:
    region = node.region
    operator = runs.operator(region) if region.kind is Kind.OPERATOR else None
    return {
        "label": described(runs, node), "path": runs.path(node), "kind": region.kind.value,
        "group": _group(runs, region), "names": _names(runs, node, operator),
        "total": runs.per_run(node.total) * NANO, "own": runs.per_run(node.own) * NANO,
        "facts": _facts(runs, node, operator),
        "to": None if region.subgraph < 0 else [region.subgraph, region.operator if region.operator >= 0 else None],
        "children": [_node(runs, each) for each in sorted(node.children.values(), key=lambda each: -each.total)],
    }


def _group(runs: TimedRuns, region: Region) -> str:
    """What the colour of an operator says; of merged ones that of the first that is more than elementwise."""
    if region.kind is not Kind.OPERATOR:
        return "flow"
    operator = runs.operator(region)
    parts = [runs.source(region.subgraph, each) for each in operator.op.parts()]
    groups = [group(each.op) for each in parts if each is not None] or [group(operator.op)]
    return next((each for each in groups if each != "element"), "element")


def _names(runs: TimedRuns, node: Node, operator: Operator | None) -> str:
    """What a search looks in beside the label: names of tensors or of the subgraph."""
    if node.region.kind is Kind.SUBGRAPH:
        return runs.model.subgraphs[node.region.subgraph].name
    if operator is None:
        return ""
    tensors = runs.model.subgraphs[node.region.subgraph].tensors
    return ", ".join(tensors[each].name for each in operator.outputs)


def _facts(runs: TimedRuns, node: Node, operator: Operator | None) -> list[tuple[str, str]]:
    found = [("count", f"{runs.per_run(node.count):,g} in a run")]
    names = _names(runs, node, operator)
    if names:
        found.append(("name" if operator is None else "results", names))
    if node.loop is not None and node.loop.activations:
        found.append(("turns", f"{node.loop.turns / node.loop.activations:,g} each time"))
    if operator is not None and operator.op.parts():
        found.append(("made of", ", ".join(f"[{each}]" for each in operator.op.parts())))
    if node.copies:
        found.append(("copies", f"{runs.per_run(node.copies):,g}, {runs.per_run(node.copied_bytes):,g} bytes"))
    if node.sampled < 1:
        found.append(("timed", f"{100 * node.sampled:.3g} % of its invocations"))
    return found


def turns_part(loops: Sequence[LoopRow], title: str) -> Part | None:
    """How long turns took, of the first loops of which that is known; None where there is none."""
    found: list[Json] = [{"label": each.path, "classes": [[begin * NANO, end * NANO, count]
                                                          for begin, end, count in each.times.histogram]}
                         for each in loops if each.times is not None and each.times.histogram]
    return Part("histograms", {"title": title, "loops": found[:MOST_LOOPS]},
                (DRAWN, FOLDER / "histogram.js")) if found else None


def memory_part(runs: TimedRuns, plans: Mapping[int, Plan], title: str) -> Part:
    """The arenas of subgraphs, largest first: where each buffer lies, over the operators that it lives through."""
    found = sorted(((index, plan) for index, plan in plans.items()
                    if len(plan.arena.live) <= MOST_OPERATORS and plan.arena.buffers),
                   key=lambda each: -each[1].arena.size)
    return Part("memory", {"title": title, "subgraphs": [_arena(runs, *each) for each in found]},
                (DRAWN, FOLDER / "memory.js"))


def _arena(runs: TimedRuns, index: int, plan: Plan) -> Json:
    graph, arena = plan.spec.subgraph, plan.arena
    places = [Region(Kind.OPERATOR, index, number) for number in range(len(arena.live))]
    return {
        "label": f"@{index} {graph.name}", "arena": arena.size, "peak": arena.peak,
        "operators": [f"{each.text} {runs.name(each)}" for each in places],
        "live": list(arena.live),
        "buffers": [[", ".join(each.names), each.offset, each.size, each.first, min(each.last, len(arena.live) - 1)]
                    for each in arena.buffers],
    }
