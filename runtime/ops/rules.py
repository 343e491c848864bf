"""Tables of what a layer knows of operators, for layers with a module for each family of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from circlet.runtime.ir.op import Op
from circlet.runtime.late import imported

RuleT = TypeVar("RuleT")


class Rules(dict[type[Op], RuleT]):
    """Rules by operators. Those of a family are imported when one of its operators is asked for."""

    def __init__(self, *modules: Callable[[str], Sequence[str]]) -> None:
        """
        Args:
            modules: the full names of the modules with rules for a family, which add them as they are imported; then of
                those with further rules, which not all calls need.
        """
        super().__init__()
        self._modules = modules
        self._loaded: set[tuple[int, str]] = set()

    def of(self, op: type[Op], parts: int = 1) -> RuleT | None:
        """What there is for an operator in the first parts of the modules."""
        package, _, family = op.__module__.rpartition(".")
        for part in range(parts) if package == __package__ else ():
            if (part, family) not in self._loaded:
                for each in self._modules[part](family):
                    imported(each)
                self._loaded.add((part, family))
        return self.get(op)
