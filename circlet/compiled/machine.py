"""What this machine is, as far as code must know that was made elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from circlet.schema.container import Variant

CPU_INFO = "/proc/cpuinfo"
"""Where Linux lists what the processors can do."""


def features() -> frozenset[str]:
    """The flags of the first processor; none where the system does not tell."""
    try:
        with open(CPU_INFO, encoding="ascii", errors="replace") as lines:
            found = next(each for each in lines if each.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return frozenset()
    return frozenset(found.partition(":")[2].split())


def architecture() -> str:
    """The architecture, as `platform.machine` has it; that of the process, where the system runs those of two."""
    return os.uname().machine if hasattr(os, "uname") and sys.maxsize > 1 << 32 else ""


def lacks(variant: Variant, has: frozenset[str]) -> str:
    """What this machine, of which the features are given, lacks for code; nothing if that runs here."""
    if (variant.system, variant.machine) != (sys.platform, architecture()):
        return f"{variant.machine}, {variant.system}"
    return " ".join(each for each in variant.features if each not in has)


def best(variants: Sequence[Variant]) -> Variant | None:
    """The code that uses most of what this machine has; None if none runs here."""
    has = features()
    fitting = [each for each in variants if not lacks(each, has)]
    return max(fitting, key=lambda each: len(each.features), default=None)
