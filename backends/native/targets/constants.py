"""Constant vectors whose lanes are one."""

from __future__ import annotations

from llvmlite import ir


class Uniform(ir.Constant):  # type: ignore[misc]  # llvmlite is untyped
    """A constant in every lane of a vector, or nothing in particular for `ir.Undefined`. LLVM's language has a word for
    it; llvmlite would write each lane, which takes most of the time of writing a register tile."""

    def __init__(self, kind: ir.VectorType, value: object) -> None:
        super().__init__(kind, value)

    def _get_reference(self) -> str:
        """In LLVM's language."""
        lane = self.constant[0]
        return "undef" if lane.constant is ir.Undefined else f"splat ({lane})"
