"""The names of plans, and whether there is one."""

from __future__ import annotations

from circlet.backends.native.load import cache
from circlet.backends.native.load.fingerprint import installation
from circlet.runtime.digests import blake2b
from circlet.runtime.ir.model import Provenance

MARK = b"circlepC"
"""What a plan's file is known by; the last letter is that of the format."""


def plan_key(provenance: Provenance) -> str:
    """The name of the plan of a model that is read from somewhere, compiled as by default."""
    return blake2b(b"\n".join((MARK, provenance.digest, provenance.choices.encode(), installation()))).hexdigest()


def is_planned(provenance: Provenance) -> bool:
    """Whether a plan of a model is kept, and so this installation has read it from the same content, verified and run
    it. Where nothing is kept at all, the content is not looked at."""
    place = cache.folder()
    if place is None or not place.is_dir():
        return False
    file = cache.find(plan_key(provenance))
    if file is None:
        return False
    file.close()
    return True
