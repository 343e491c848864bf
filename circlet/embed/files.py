"""The files of a compiled model."""

from __future__ import annotations

import json

from circlet.backends.native.load.elf.shared_object import UnknownObject, shared_object
from circlet.embed.archive import archive
from circlet.embed.compiled import Compiled
from circlet.embed.header import header
from circlet.embed.report import report
from circlet.embed.wasm.linker import link
from circlet.runtime.errors import InputError, UnsupportedError

KINDS = {"object": "o", "archive": "a", "shared": "so", "wasm": "wasm"}
"""The kinds of files, and how their names end."""


def files(found: Compiled, kind: str | None = None) -> dict[str, bytes]:
    """The files of a compiled model, by name: code, header, report.

    Args:
        found: the model.
        kind: of `KINDS`; by default the one that its target is best used by.

    Raises:
        InputError: the target has no files of that kind.
        UnsupportedError: they cannot be made here.
    """
    is_wasm = found.is_wasm
    kind = kind or ("wasm" if is_wasm else "object")
    if kind not in KINDS:
        raise InputError(f"no kind of file {kind!r}; expected one of {', '.join(KINDS)}")
    if (kind == "wasm") != is_wasm and not (is_wasm and kind == "object"):
        raise InputError(f"target {found.processor.name!r} has no files of kind {kind!r}")
    text = json.dumps(report(found), indent=1) + "\n"
    return {f"{found.name}.{KINDS[kind]}": _code(found, kind), f"{found.name}.h": header(found).encode(),
            f"{found.name}.json": text.encode()}


def _code(found: Compiled, kind: str) -> bytes:
    if kind == "archive":
        member = f"{found.name}.o"
        return archive({member: found.object}, dict.fromkeys(found.contents.exported, member))
    if kind == "shared":
        try:
            return shared_object([found.object], found.exports)
        except UnknownObject as error:
            raise UnsupportedError(f"no shared object for {found.processor.name}: {error}; link the object") from error
    return link(found.object, found.exports) if kind == "wasm" else found.object
