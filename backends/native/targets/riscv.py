"""RISC-V, of 32 and 64 bits."""

from __future__ import annotations

from typing import ClassVar

from circlet.backends.native.targets.target import Target, Tiles, target


@target("riscv32", "riscv64")
class RiscV(Target):
    """Words in 32 registers, real numbers in 32 others; vectors only where the extension V is."""

    tiles: ClassVar[Tiles] = Tiles(most_rows=4, share=(3, 4), chains=1, line_bytes=4, turn=4)

    @property
    def vector_bytes(self) -> int:
        """Of V at least 128 bits; else a word."""
        return 16 if self.has("v") else 4

    @property
    def vector_registers(self) -> int:
        """Of V all; else those that hold no addresses and counts."""
        return 32 if self.has("v") else 16

    @property
    def has_doubles(self) -> bool:
        """By the extension D."""
        return self.has("d")

    @property
    def has_halves(self) -> bool:
        """By the extension Zfhmin."""
        return self.has("zfhmin") or self.has("zfh")

    def has_instruction(self, name: str, bits: int) -> bool:
        """By the extensions F and D."""
        return name in ("fma", "maximumnum", "minimumnum", "sqrt") and self.has("d" if bits == 64 else "f")
