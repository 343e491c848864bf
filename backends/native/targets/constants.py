"""Constant vectors that code is full of."""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

_I32 = ir.IntType(32)
_REGISTER = 128
"""Bits of the smallest vector register."""
_KEPT = 1 << 8
"""Constants that are kept: more than the code of a model has."""


class Uniform(ir.Constant):  # type: ignore[misc]  # llvmlite is untyped
    """A constant in every lane of a vector, or nothing in particular for `ir.Undefined`. LLVM's language has a word for
    it; llvmlite would write each lane, which takes most of the time of writing a register tile."""

    def __init__(self, kind: ir.VectorType, value: object) -> None:
        super().__init__(kind, value)

    def _get_reference(self) -> str:
        """In LLVM's language."""
        lane = self.constant[0]
        return "undef" if lane.constant is ir.Undefined else f"splat ({lane})"


@lru_cache(_KEPT)
def splat(value: int, kind: ir.IntType, count: int) -> Uniform:
    """An integer in every lane, the same object for the same: its text is made once."""
    return Uniform(ir.VectorType(kind, count), value)


@lru_cache(_KEPT)
def undefined(kind: ir.Type, count: int) -> Uniform:
    """Nothing in particular in every lane, as `splat`."""
    return Uniform(ir.VectorType(kind, count), ir.Undefined)


@lru_cache(_KEPT)
def shuffle_mask(*lanes: int) -> ir.Constant:
    """The lanes that a vector takes of two others, as `splat`."""
    return ir.Constant(ir.VectorType(_I32, len(lanes)), list(lanes))


@lru_cache(_KEPT)
def lane_numbers(count: int) -> ir.Constant:
    """The number of each lane, in bytes, or in as many bits as fill a register: a comparison makes masks of it. LLVM 22
    may widen less than a register by lanes of any content, and take their bits for part of the mask: a masked store of
    8 bytes wrote 16, in code with bounds assertions, where masks outlive a call."""
    kind = ir.IntType(max(8, _REGISTER // count))
    return ir.Constant(ir.VectorType(kind, count), list(range(count)))
