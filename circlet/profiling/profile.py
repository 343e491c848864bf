"""What was found out of where the time of runs went."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from circlet.profiling.document import Json, document
from circlet.profiling.picture import picture
from circlet.profiling.sheets import Sheet, sheets, summary
from circlet.profiling.tables import Tables
from circlet.profiling.timed_runs import TimedRuns
from circlet.profiling.trace import trace
from circlet.runtime.ir.display.html import html_table


class Profile(TimedRuns):
    """Where the time of runs went: a tree (`root`), tables made of it (`tables`), and these as text, as JSON and in
    notebooks. Times are in nanoseconds."""

    @cached_property
    def tables(self) -> Tables:
        """What each subgraph, each operator and each loop took. To be asked for when the runs are done."""
        return Tables(self)

    def to_json(self) -> dict[str, Json]:
        """An object for `json.dumps`; `docs/profiling.md` tells of its keys."""
        return document(self.tables)

    def to_trace(self) -> dict[str, Any]:
        """An object for `json.dumps` that Perfetto and chrome://tracing show; see `events` of `circlet.profile`."""
        return trace(self)

    def __repr__(self) -> str:
        return f"<Profile: {summary(self)}>"

    def __str__(self) -> str:
        return "\n\n".join([summary(self), *(each.text for each in self._sheets)])

    def _repr_html_(self) -> str:
        """For notebooks: the call tree as a picture, and tables."""
        if not self.walls:
            return ""
        return picture(self) + "".join(html_table(each.title, each.headings, each.rows) for each in self._sheets)

    @property
    def _sheets(self) -> list[Sheet]:
        return sheets(self.tables) if self.walls else []
