"""What native code can count on from the system that this process runs on. Nothing here loads LLVM.

`docs/platforms.md` says what of this was run, and where.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from importlib.util import find_spec

from circlet.runtime.records import dataclass

VARIABLE = "CIRCLET_WITHOUT"
"""The environment variable that turns features off: their names, with commas between them."""
INSTALL = "pip install 'llvmlite>=0.48,<0.51'"
"""What brings LLVM."""


class Feature(Enum):
    """Something that circlet runs without, in a way that costs time."""

    LLVM = "llvm"
    """Compiles code. Without it numpy computes."""
    SHARED_OBJECTS = "shared-objects"
    """The system's loader takes the code that is kept on the disk. Without it LLVM links it, once in each process."""
    THREADS = "threads"
    """A run of native code may have several threads. Without it the caller does all the work."""


@dataclass(frozen=True)
class Platform:
    """What there is and, of each feature that there is not, why."""

    lacks: Mapping[Feature, str]

    def has(self, feature: Feature) -> bool:
        return feature not in self.lacks


@lru_cache(1)
def found() -> Platform:
    """What the system, the processor and the installed packages give."""
    is_linux, is_wide = sys.platform == "linux", sys.maxsize > 1 << 32
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    reasons = {
        Feature.LLVM: _no_llvm(is_wide),
        Feature.SHARED_OBJECTS: "" if is_linux and is_wide and is_x86 else "they are made for 64-bit Linux on x86-64",
        Feature.THREADS: "" if is_linux and is_wide else "their layouts are those of 64-bit Linux",
    }
    return Platform({feature: reason for feature, reason in reasons.items() if reason})


def _no_llvm(is_wide: bool) -> str:
    if not is_wide or sys.byteorder != "little":
        return "native code is made for 64-bit little-endian processors"
    if sys.platform == "win32":
        return "native code is not made for Windows"
    if find_spec("llvmlite"):
        return ""
    import sysconfig  # takes a while to import

    is_musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
    return f"llvmlite is not installed ({'it has no wheels for musl' if is_musl else INSTALL})"


def current() -> Platform:
    """What there is, less what the environment variable turns off.

    Raises:
        ValueError: it names something else.
    """
    text = os.environ.get(VARIABLE)
    names = [each.strip() for each in text.split(",") if each.strip()] if text else []
    if not names:
        return found()
    known = {each.value: each for each in Feature}
    unknown = [each for each in names if each not in known]
    if unknown:
        raise ValueError(f"{VARIABLE} may name {', '.join(known)}, found {unknown[0]!r}")
    return Platform({**{known[each]: f"{VARIABLE} turns it off" for each in names}, **found().lacks})
