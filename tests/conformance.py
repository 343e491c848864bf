"""Prints how many of the node cases of the package `onnx` circlet passes, and which operators it refuses.

    python -m tests.conformance
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import onnx

from tests.schema.onnx.node_cases import Outcome, Result, all_cases, has_control_flow, run_case

CATEGORIES: Mapping[str, Callable[[Any], bool]] = {
    "control flow": has_control_flow,
    "other domains": lambda case: any(each.domain for each in case.model.graph.node),
    "functions, expanded": lambda case: "_expanded" in case.name,
    "casts": lambda case: case.name.startswith(("test_cast", "test_bitcast")),
    "attention and losses": lambda case: case.name.startswith(("test_attention", "test_nllloss", "test_sce")),
    "reductions": lambda case: case.name.startswith(("test_reduce", "test_arg")),
    "other operators": lambda case: True,
}
"""The first one that a case is of counts."""


def category(case: Any) -> str:
    """The name of the category of a case."""
    return next(name for name, belongs in CATEGORIES.items() if belongs(case))


def main() -> int:
    """Runs all cases; 1 if any gives a wrong result."""
    cases = all_cases()
    results = {case.name: run_case(case) for case in cases}
    kinds = {name: Counter(results[case.name].outcome for case in cases if category(case) == name)
             for name in CATEGORIES}
    print(f"node cases of onnx {onnx.__version__}")
    print(f"{'':24}{'cases':>8}" + "".join(f"{outcome.value:>9}" for outcome in Outcome))
    for name, counts in {**kinds, "all": sum(kinds.values(), Counter())}.items():
        print(f"{name:24}{sum(counts.values()):8}" + "".join(f"{counts[outcome]:9}" for outcome in Outcome))
    refused = Counter(reason(each) for each in results.values() if each.outcome is Outcome.REFUSED)
    print("\nrefused, with the number of cases:")
    for what, count in sorted(refused.items()):
        print(f"{count:6} {what}")
    failed = [each for each in results.values() if each.outcome is Outcome.FAILED]
    for each in failed:
        print(f"failed: {each.name}: {each.message[:200]}")
    return 1 if failed else 0


def reason(result: Result) -> str:
    """Why a case was refused, without what is particular to it."""
    text = re.sub(r"^(graph '[^']*', node \d+[^(]*\([\w.]+\): )+", "", result.message).replace("\n", " ")
    text = re.sub(r"\d+ kinds? of operators cannot be (read|run):", "", text)
    return re.sub(r", first in .*| \(version \d+\)|: not implemented", "", text).strip()[:100]


if __name__ == "__main__":
    sys.exit(main())
