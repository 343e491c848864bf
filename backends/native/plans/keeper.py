"""Keeps the plan of what a session compiles. Nothing here is imported before something is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from circlet.runtime.exec.values.entry_points import has_state
from circlet.runtime.ir.model import Model, entries_of
from circlet.runtime.late import LOADING

if TYPE_CHECKING:
    from circlet.backends.native.load.manifest import Manifest
    from circlet.backends.native.plans.planning import Planner
    from circlet.runtime.exec.kernel import Span


class Keeper:
    """Hears of the functions that a session binds."""

    def __init__(self, read: Callable[[], Model]) -> None:
        """
        Args:
            read: gives the model that the session runs.
        """
        self._read = read
        self._planner: Planner | None = None

    def add(self, executed: Model, span: Span, key: str, manifest: Manifest) -> None:
        """A function was bound; see `Planner.add`."""
        model = self._read()
        if not model.is_as_read or model.provenance is None:
            return
        if self._planner is None:
            with LOADING:
                from circlet.backends.native.plans.key import plan_key
                from circlet.backends.native.plans.planning import Planner

            key_of_plan = plan_key(model.provenance)
            self._planner = Planner(key_of_plan, model.provenance.files, model, entries_of(model), has_state(model))
        self._planner.add(executed, span, key, manifest)
