"""Models as object files for programs in C, on devices that have neither Python nor LLVM."""

from __future__ import annotations

from circlet.backends.platform import Feature, current
from circlet.runtime.errors import UnsupportedError

if Feature.LLVM in current().lacks:
    raise UnsupportedError(f"compiling ahead of time needs LLVM: {current().lacks[Feature.LLVM]}")

from circlet.embed.compiler import chosen_processor, compile_model

__all__ = ["chosen_processor", "compile_model"]
