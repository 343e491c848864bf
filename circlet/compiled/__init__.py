"""Runs models by code that was made elsewhere, out of the files that `circlet compile -o NAME.circlet` writes: that
needs numpy and ctypes, but neither LLVM nor what reads and plans models."""

from __future__ import annotations

import os
import warnings
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING

from circlet.compiled.code import library
from circlet.compiled.machine import architecture, best, features, lacks
from circlet.compiled.model import CompiledModel
from circlet.runtime.errors import CircletError, UnsupportedError
from circlet.runtime.exec.limits import Limits
from circlet.runtime.late import LOADING
from circlet.schema.container import Container, read_table

if TYPE_CHECKING:
    from circlet.session import Session

__all__ = ["CompiledModel", "load"]


def load(path: str | os.PathLike[str], limits: Limits | None = None, fallback: bool = True) -> CompiledModel | Session:
    """A model with its code for this machine, the best that there is in a file.

    The code in the file is executed: load files of those alone whom you would run programs of.

    Args:
        path: of a `.circlet` file.
        limits: bounds on each run.
        fallback: where no code in the file fits this machine, give a `Session` of the model inside, which takes the
            same calls, with a RuntimeWarning. Its inputs may then have any shapes that the model allows.

    Raises:
        ModelError: the file is damaged, or none of these.
        UnsupportedError: it has another version; or no code in it fits, and there is to be no fallback.
        LimitError: there is not memory enough.
        OSError: the file cannot be opened.
    """
    with open(path, "rb", buffering=0) as file:
        try:
            found, model = _opened(file, limits)
        except CircletError as error:
            raise type(error)(f"{os.fspath(path)}: {error}") from None
    if model is not None:
        return model
    reason = f"{os.fspath(path)}: no code in it runs on this machine ({_misfits(found)})"
    if not fallback:
        raise UnsupportedError(reason)
    warnings.warn(f"{reason}; the model inside is computed instead", RuntimeWarning, stacklevel=2)
    with LOADING:
        from circlet.session import Session

    return Session(path, limits=limits)


def _opened(file: FileIO, limits: Limits | None) -> tuple[Container, CompiledModel | None]:
    """What a file says, and the model with the code for this machine, if there is some."""
    def read(offset: int, size: int) -> bytes:
        file.seek(offset)
        return file.read(size)

    found = read_table(read, os.fstat(file.fileno()).st_size)
    variant = best(found.variants)
    if variant is None:
        return found, None
    try:
        code = library(file.fileno(), variant)
    except OSError as error:
        warnings.warn(f"the system does not load code: {error}", RuntimeWarning, stacklevel=3)
        return found, None
    return found, CompiledModel(found, variant, code, limits)


def _misfits(found: Container) -> str:
    """What this machine lacks for each code in a file."""
    lacking = partial(lacks, has=features())
    return "; ".join(f"{each.target}: {lacking(each) or 'not loaded'}" for each in found.variants) or architecture()
