"""The names of plans, and whether there is one."""

from __future__ import annotations

import os
from functools import cached_property

import numpy as np

from circlet.backends.native.load import cache
from circlet.backends.native.load.fingerprint import installation
from circlet.backends.native.load.sealed import checksum
from circlet.runtime.digests import blake2b
from circlet.runtime.ir.model import Provenance
from circlet.runtime.records import dataclass

MARK = b"circlepC"
"""What a plan's file is known by; the last letter is that of the format."""
_MANY = 1 << 16
"""Bytes that take longer to digest than to look for what was kept of them."""
_SIZE = 32
"""Bytes of a checksum."""


@dataclass(frozen=True, eq=False)
class FileProvenance(Provenance):
    """Of files, whose digest is kept with plans: it is known again where the system says that they did not change, and
    their checksum is the same. Who maps a file can change it without changing what the system says of it."""

    statuses: tuple[os.stat_result | None, ...] = ()
    """Of each file, where it is another one after any change."""

    @cached_property
    def digest(self) -> bytes:
        return super().digest if self._kept is None else self._kept

    def keep_digest(self) -> None:
        """Keeps the digest, if there is room, and one to keep that is not there yet."""
        if self._name and self._kept is None:
            cache.write_checked(self._name, self._checksum + self.digest)

    @cached_property
    def _name(self) -> str:
        """What the digest is kept under, by what the system tells such files by; empty where it is not."""
        size, statuses = self.content.nbytes + self.weights.nbytes, [each for each in self.statuses if each is not None]
        if size < _MANY or not statuses or len(statuses) < len(self.statuses):
            return ""
        known = [(each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in statuses]
        return blake2b(b"files" + repr(known).encode()).hexdigest()

    @cached_property
    def _checksum(self) -> bytes:
        return blake2b(b"".join(checksum(np.frombuffer(each, np.uint8)) for each in self.files)).digest()

    @cached_property
    def _kept(self) -> bytes | None:
        """The digest that is kept."""
        known = cache.read_checked(self._name) if self._name else None
        return known[_SIZE:] if known is not None and known[:_SIZE] == self._checksum else None


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
