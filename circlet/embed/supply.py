"""Functions that LLVM calls where a processor has no instruction, for object files to bring along."""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.aot.builtins.library import functions, library
from circlet.backends.native.targets.target import Goal, Target
from circlet.embed import elf


class Supply:
    """What an object file calls and others are not to bring. These functions may call further ones."""

    def __init__(self, module: ir.Module, target: Target) -> None:
        self._module = module
        self._word, self._is_small = target.index_bits, target.goal is Goal.SIZE
        self._known = frozenset(() if target.triple.startswith("wasm") else functions(self._word))
        self._names: frozenset[str] = frozenset()

    def __call__(self, content: bytes) -> str:
        """A module with all that were called so far, given an object file; nothing where it calls no more."""
        called = self._known.intersection(elf.read(content).needed) if self._known else frozenset()
        if not called - self._names:
            return ""
        self._names |= called
        return library(self._names, self._module, self._word, self._is_small)
