"""64-bit ARM."""

from __future__ import annotations

from typing import ClassVar

from llvmlite import ir

from circlet.backends.native.targets.target import Dot, Target, Writer, target


@target("aarch64", "arm64")
class AArch64(Target):
    """Registers alone; products are made of LLVM's own instructions."""

    pause: ClassVar[tuple[str, str]] = ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)")

    def read_counter(self, w: Writer) -> ir.Value:
        # The counter of cycles, which LLVM would read, is the system's alone.
        kind = ir.FunctionType(ir.IntType(64), [])
        return w.builder.asm(kind, "mrs $0, cntvct_el0", "=r", [], side_effect=True)

    @property
    def has_halves(self) -> bool:
        """All have."""
        return True

    def has_instruction(self, name: str, bits: int) -> bool:
        return True

    def dot_signed(self, lanes: int) -> Dot | None:
        """SDOT."""
        return _dot if lanes == 4 and self.has("dotprod") else None

    @property
    def vector_registers(self) -> int:
        """V0 to V31, of 128 bits."""
        return 32


def _dot(w: Writer, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """One instruction."""
    quads = ir.VectorType(ir.IntType(8), 16)
    function = w.declare("llvm.aarch64.neon.sdot.v4i32.v16i8", ir.FunctionType(total.type, [total.type, quads, quads]))
    return w.builder.call(function, [total, w.builder.bitcast(left, quads), w.builder.bitcast(right, quads)])
