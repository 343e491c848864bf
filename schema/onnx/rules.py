"""The table of rules: how each ONNX operator is said in circlet's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node

Results: TypeAlias = "Value | Sequence[Value | None]"
Rule: TypeAlias = Callable[[Node], Results]
"""Emits the operators of a node; returns its outputs, None for those that nothing asks for."""

RULES: dict[str, list[tuple[int, Rule]]] = {}
"""For each ONNX operator the rules by the version from which on they hold, ascending.

Operators of other domains than ONNX's own are named `domain.operator`.
"""


def rule(*names: str, since: int = 1) -> Callable[[Rule], Rule]:
    """Registers the decorated function for operators, from a version of their operator set on."""
    def register(function: Rule) -> Rule:
        for name in names:
            versions = RULES.setdefault(name, [])
            versions.append((since, function))
            versions.sort(key=lambda each: each[0])
        return function

    return register


def find_rule(name: str, version: int) -> Rule | None:
    """The rule for an operator as a version of its operator set defines it."""
    found = [function for since, function in RULES.get(name, ()) if since <= version]
    return found[-1] if found else None
