"""What runs models whose code is kept on the disk, to be imported before a first run waits for it.

Where Python may write no bytecode it compiles each module in every process, three quarters of the time of importing so
many; where it may, to find their files takes a thirtieth. So their bytecode is kept in one file, where compiled
functions are.
"""

from __future__ import annotations

import marshal
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, spec_from_file_location
from types import CodeType, ModuleType

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
            with LOADING, _kept_modules():
                for name in _RUNS:
                    imported(f"circlet.{name}")
            from circlet.backends.native.load.cache import folder
            from circlet.backends.native.load.fingerprint import installation
            from circlet.runtime.exec.memory import physical_memory, touch_lists

            folder()
            installation()
            physical_memory()
            touch_lists()


@contextmanager
def _kept_modules() -> Iterator[None]:
    """Has circlet's modules be imported from what is kept of them, and keeps what was not, or has changed since. What
    the program put before Python's own way to find modules, to change them, stays before this one."""
    from circlet.backends.native.load import cache
    from circlet.runtime.digests import blake2b

    if cache.folder() is None or PathFinder not in sys.meta_path:
        yield
        return
    told = MAGIC_NUMBER, sys.flags.optimize, __file__, _stamp(__file__)
    key = blake2b(marshal.dumps(told)).hexdigest() + cache.MODULES
    with _unheard():
        content = cache.read_checked(key)
    finder = _Modules({} if content is None else marshal.loads(content))
    sys.meta_path.insert(sys.meta_path.index(PathFinder), finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
    if finder.has_changed:
        with _unheard():
            cache.write_checked(key, marshal.dumps(finder.kept))
    finder.kept.clear()


@contextmanager
def _unheard() -> Iterator[None]:
    """Has nothing be said of a folder that is not to be trusted: a session says it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _stamp(file: str) -> tuple[int, int, int]:
    """What tells versions of a file apart."""
    found = os.stat(file)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


class _Modules:
    """Finds circlet's modules, those first whose bytecode is kept."""

    def __init__(self, kept: dict[str, tuple[str, tuple[int, int, int], bytes]]) -> None:
        """
        Args:
            kept: by the names of modules their files, what tells the version of these, and their bytecode.
        """
        self.kept = kept
        self.has_changed = False
        """Whether there is something to be kept."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """How a module is to be loaded; see `importlib.abc.MetaPathFinder`."""
        if not name.startswith("circlet."):
            return None
        if name in self.kept:
            file, stamp, _ = self.kept[name]
            with suppress(OSError):
                if stamp == _stamp(file):
                    return spec_from_file_location(name, file, loader=_Loader(name, file, self))
            del self.kept[name]
        found = PathFinder.find_spec(name, path, target)
        if found is not None and type(found.loader) is SourceFileLoader:
            found.loader = _Loader(name, found.loader.path, self)
        return found


class _Loader(SourceFileLoader):
    """Loads a module from the bytecode that is kept of it, or lets that be kept."""

    def __init__(self, name: str, path: str, modules: _Modules) -> None:
        super().__init__(name, path)
        self._modules = modules

    def get_code(self, name: str) -> CodeType | None:
        """The code of the module."""
        kept = self._modules.kept
        if name in kept:
            code: CodeType = marshal.loads(kept[name][2])
            return code
        stamp = _stamp(self.path)
        found = super().get_code(name)
        if found is not None:
            kept[name] = self.path, stamp, marshal.dumps(found)
            self._modules.has_changed = True
        return found
