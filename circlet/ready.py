"""What runs models whose code is kept on the disk, to be imported before a first run waits for it."""

from __future__ import annotations

from contextlib import suppress

from circlet.backends.platform import Feature, current
from circlet.runtime.late import LOADING, imported

_RUNS = (
    "files", "session", "unread", "runtime.exec.signature_runner", "runtime.exec.values.exact",
    "runtime.exec.values.rule", "runtime.exec.frames.whole_frame", "runtime.exec.frames.open_frame",
    "backends.native.plans.prepared", "backends.native.load.invocation", "backends.native.load.open_invocation",
)
"""Modules that with what they import are what runs of models of fixed and of open lengths use."""


def get_ready() -> None:
    """Imports what runs compiled code, where code can be compiled, and finds out where that is kept, what of it is for
    this installation, and how much memory there is; has numpy's lists of memory made. Elsewhere the package stays
    small."""
    with suppress(ValueError, OSError):  # a session tells them: a wrong variable, a package that is no folder of files
        if current().has(Feature.LLVM):
            with LOADING:
                for name in _RUNS:
                    imported(f"circlet.{name}")
            from circlet.backends.native.load.cache import folder
            from circlet.backends.native.load.fingerprint import installation
            from circlet.runtime.exec.memory import physical_memory, touch_lists

            folder()
            installation()
            physical_memory()
            touch_lists()
