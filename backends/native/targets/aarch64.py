"""64-bit ARM."""

from __future__ import annotations

from typing import ClassVar

from circlet.backends.native.targets.target import Target, target


@target("aarch64", "arm64")
class AArch64(Target):
    """Registers alone; products are made of LLVM's own instructions."""

    pause: ClassVar[tuple[str, str]] = ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)")

    @property
    def vector_registers(self) -> int:
        """V0 to V31, of 128 bits."""
        return 32
