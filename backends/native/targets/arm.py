"""32-bit ARM: Cortex-M and its kin.

Instructions are named as in Arm's manual (Armv7-M Architecture Reference Manual).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import ClassVar

from llvmlite import ir

from circlet.backends.native.targets.constants import Uniform
from circlet.backends.native.targets.target import Dot, Goal, MultiplyEach, Target, Tiles, Writer, target

_I32 = ir.IntType(32)
_COMPACT = "-loop-align,-slowfpvfmx,-slowfpvmlx"
"""What LLVM is not to do for speed alone. An LSTM of 256 inputs and 128 units takes 1494 bytes with it, 1578 without,
and 49.5 million instructions instead of 62.6."""


@target("thumbv6m", "thumbv7m", "thumbv7em", "thumbv8m.base", "thumbv8m.main", "thumbv8.1m.main")
class Arm(Target):
    """Words in thirteen registers; processors for signals multiply two pairs of 16-bit integers at a time. Vectors
    (Helium) are not used."""

    has_threads: ClassVar[bool] = False
    tiles: ClassVar[Tiles] = Tiles(most_rows=2, share=(3, 4), chains=1, line_bytes=4, turn=4, real_rows=4)
    """mnist_quantized, a convolution of real numbers and products of a row, takes 886 K instructions where these have
    the registers of integers, 8, and 2 rows; with registers of their own 810 K with 2 rows, 744 K with 3, 707 K with 4,
    and 694 K with 6, which take 376 more bytes of code."""

    @classmethod
    def tuned(cls, features: str, goal: Goal) -> str:
        """Small code has fused products, each of which takes as long as a product and a sum, and loops where they
        happen to begin."""
        return ",".join((features, _COMPACT)).lstrip(",") if goal is Goal.SIZE else features

    @property
    def vector_bytes(self) -> int:
        """A word."""
        return 4

    @property
    def vector_registers(self) -> int:
        """For sums and factors; others hold addresses and counts."""
        return 8

    @property
    def real_registers(self) -> int:
        """Those of the floating-point unit, if there is one."""
        return 32 if self.has_halves else self.vector_registers

    @property
    def has_doubles(self) -> bool:
        """As on the Cortex-M7."""
        return self.has("fp64")

    @property
    def has_halves(self) -> bool:
        """With any floating-point unit from the second on."""
        return self.has("vfp4d16sp") or self.has("fp-armv8d16") or self.has("fp-armv8d16sp")

    def has_instruction(self, name: str, bits: int) -> bool:
        """VFMA from the second floating-point unit on, VRINT of the third (Armv8); VSQRT, and comparisons,
        which are quicker than what stands for numbers' extremes, of any."""
        is_third = self.has("fp-armv8d16") or self.has("fp-armv8d16sp")
        is_second = is_third or self.has("vfp4d16sp")
        of_second = name in ("fma", "maximumnum", "minimumnum", "sqrt")
        return (bits == 32 or self.has_doubles) and (is_second if of_second else is_third and name != "maximum")

    @property
    def has_extending_sums(self) -> bool:
        """SXTAB."""
        return self.has("dsp")

    def dot_signed(self, lanes: int) -> Dot | None:
        """SXTB16, SMLAD."""
        return _dot if lanes == 1 and self.has("dsp") else None

    def multiply_each(self) -> MultiplyEach | None:
        """SXTAB16, SXTB16, SMLABB, SMLATT."""
        return _multiply_each if self.has("dsp") else None


def _call(w: Writer, name: str, *arguments: ir.Value) -> ir.Value:
    """An intrinsic on words."""
    return w.builder.call(w.declare(f"llvm.{name}", ir.FunctionType(_I32, [_I32] * len(arguments))), arguments)


def _halves(w: Writer, word: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The even bytes of a word and the odd ones, each as a 16-bit half."""
    turned = _call(w, "fshr.i32", word, word, ir.Constant(_I32, 8))
    return _call(w, "arm.sxtb16", word), _call(w, "arm.sxtb16", turned)


def _dot(w: Writer, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """Two products at a time."""
    b, only = w.builder, ir.Constant(_I32, 0)
    one, other, found = (b.extract_element(each, only) for each in (left, right, total))
    for pair in zip(_halves(w, one), _halves(w, other), strict=True):
        found = _call(w, "arm.smlad", *pair, found)
    return b.insert_element(Uniform(total.type, ir.Undefined), found, only)


def _multiply_each(w: Writer, left: ir.Value, right: ir.Value, added: ir.Value,
                   totals: Sequence[ir.Value]) -> list[ir.Value]:
    """Sums are of two bytes at a time."""
    turned = _call(w, "fshr.i32", left, left, ir.Constant(_I32, 8))
    sums = (_call(w, "arm.sxtab16", added, each) for each in (left, turned))
    pairs = list(zip(sums, _halves(w, right), strict=True))
    return [_call(w, f"arm.smla{half}", *pair, total)
            for (half, pair), total in zip(product(("bb", "tt"), pairs), totals, strict=True)]
