"""Names what a function is compiled from, so that one compiled before can be told."""

from __future__ import annotations

import marshal
import os
import pickle
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.native.load import cache
from circlet.backends.native.targets import machine
from circlet.runtime.digests import blake2b, content_digest
from circlet.runtime.ir.types import Array

if TYPE_CHECKING:
    from circlet.runtime.exec.kernel import Span

_WITHOUT_REFERENCES = 2
"""The version of `marshal`'s format in which equal values give equal bytes."""
_PACKAGE = Path(__file__).resolve().parents[3]
"""The folder that holds `runtime` and `backends`."""


def digest(*parts: object) -> bytes:
    """32 bytes that differ where the parts do: data classes, arrays and what Python is built of."""
    buffers: list[pickle.PickleBuffer] = []
    found = blake2b(pickle.dumps(parts, protocol=5, buffer_callback=buffers.append))
    for each in buffers:
        found.update(content_digest(each.raw()))
    return found.digest()


@lru_cache(1)
def toolchain() -> str:
    """What code depends on beside what is compiled: the processor, circlet itself and its libraries."""
    import llvmlite  # takes a while to import

    return "\n".join((machine.identity(), llvmlite.__version__, np.__version__, _kept_content().hex()))


def _kept_content() -> bytes:
    """The digest of the files that code depends on: to read them all takes as long as a tenth of what the first result
    of a small model does, so what it was for this installation is on the disk."""
    key = installation().hex() + cache.SOURCES
    found = cache.read_checked(key)
    if found is None:
        found = content(_PACKAGE, ("runtime", "backends"))
        cache.write_checked(key, found)
    return found


@lru_cache(1)
def installation() -> bytes:
    """What tells installations of circlet and its libraries apart, versions of Python whose code differs, and machines
    that need different code: which files there are, of what size, and when they were written and put there, which no
    later content shares."""
    llvm = find_spec("llvmlite")
    library = None if llvm is None or llvm.origin is None else _told("", os.stat(llvm.origin))
    found = sorted([_told(name, each.stat()) for name, each in _sources(_PACKAGE, ("runtime", "backends", "schema"))])
    told = machine.identity(), MAGIC_NUMBER, np.__version__, library, found
    return blake2b(marshal.dumps(told, _WITHOUT_REFERENCES)).digest()


def _told(name: str, status: os.stat_result) -> tuple[str, int, int, int, int, int]:
    return name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev


def content(package: Path, parts: Sequence[str]) -> bytes:
    """A digest of every Python file below some folders of a package: of names and bytes, as builds that are to be
    reproducible give all files one time, and copies new ones."""
    found = blake2b()
    for name, each in sorted(_sources(package, parts)):
        with open(each.path, "rb", buffering=0) as file:
            source = file.read()
        found.update(f"{name} {len(source)}\n".encode())
        found.update(source)
    return found.digest()


def _sources(package: Path, parts: Sequence[str]) -> list[tuple[str, os.DirEntry[str]]]:
    """Every Python file below some folders of a package, and its name, which no other has."""
    found, folders = [], [(f"{package}/{part}", part) for part in parts]
    while folders:
        folder, name = folders.pop()
        with os.scandir(folder) as entries:
            for each in entries:
                if each.name.endswith(".py"):
                    found.append((f"{name}/{each.name}", each))
                elif "." not in each.name and each.name != "__pycache__" and each.is_dir():
                    folders.append((each.path, f"{name}/{each.name}"))
    return found


def span_key(model: bytes, span: Span, elide: bool, options: object) -> str:
    """The name of the function for a span.

    Args:
        model: the digest of the model.
        span: what is to be compiled.
        elide: whether copies are elided.
        options: what else decides the code.
    """
    spec, used = span.spec, _used(span)
    computed = {tensor: spec.known[tensor] for tensor in used
                if tensor in spec.known and spec.subgraph.tensors[tensor].data is None}
    shapes, roots = (tuple(map(of, used)) for of in (spec.shapes.__getitem__, span.aliases.root))
    return digest(toolchain(), model, elide, options, spec.index, spec.promised, shapes, spec.stop, computed,
                  span.operators, roots, sorted(span.exported), _shared([span.arrays[each] for each in used])).hex()


def general_key(model: bytes, span: Span, elide: bool, options: object) -> Callable[[int], str]:
    """The names, by number, of the functions for a span at any lengths, each of which is for some; see `span_key`."""
    assert span.spec.general is not None, "the shapes of the span are fixed"
    spec = span.spec.general.spec
    computed = {tensor: str(array.tolist()) if array.dtype.hasobject else array
                for tensor, array in spec.known.items() if spec.subgraph.tensors[tensor].data is None}
    roots = tuple(span.aliases.root(tensor) for tensor in range(len(spec.shapes)))
    held = tuple(each is not None for each in span.arrays)
    empty = sorted(span.spec.general.scope.premises.empty)
    base = digest(toolchain(), model, elide, options, spec.index, spec.promised, str(spec.shapes), spec.stop, computed,
                  span.operators, roots, sorted(span.exported), held, empty)
    return lambda number: digest(base, number).hex()


def _used(span: Span) -> list[int]:
    """The tensors of a span's operators: a subgraph may be many spans, and no function hangs on the others."""
    from circlet.runtime.ir.model import ABSENT  # where there are spans, it is there

    operators = span.spec.subgraph.operators[span.operators.start:span.operators.stop]
    return sorted({tensor for each in operators for tensor in (*each.inputs, *each.outputs)} - {ABSENT})


def _shared(arrays: Sequence[Array | None]) -> tuple[int, ...]:
    """For each array the first one that has the same buffer; -1 where there is none."""
    first: dict[tuple[int, int], int] = {}
    return tuple(-1 if each is None else first.setdefault((each.ctypes.data, each.nbytes), number)
                 for number, each in enumerate(arrays))
