"""x86-64, from SSE2 to AVX-512.

Instructions are named as in Intel's manual (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from llvmlite import ir

from circlet.backends.native.targets.amx import Amx
from circlet.backends.native.targets.constants import Uniform
from circlet.backends.native.targets.target import (
    AddPairs,
    Arrange,
    Dot,
    Goal,
    LookUp,
    Matrices,
    Pack,
    Target,
    Writer,
    target,
)
from circlet.runtime.records import dataclass

_I8, _I16, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
"""Integers by their width."""
_PMADDWD = {16: "avx512.pmaddw.d.512", 8: "avx2.pmadd.wd", 4: "sse2.pmadd.wd"}
"""The instruction PMADDWD, by lanes of i32 of the result."""
_PACKS = {16: ("avx512.packssdw.512", "avx512.packsswb.512"), 8: ("avx2.packssdw", "avx2.packsswb"),
          4: ("sse2.packssdw.128", "sse2.packsswb.128")}
"""The instructions PACKSSDW and PACKSSWB, by lanes of i32."""
_VPERMD = {16: ("avx512f", "avx512.permvar.si.512"), 8: ("avx2", "avx2.permd")}
"""What the instruction VPERMD needs, and its name, by lanes of i32."""


@target("x86_64")
class X86(Target):
    """What is there depends on features."""

    pause: ClassVar[tuple[str, str]] = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")

    @classmethod
    def tuned(cls, features: str, goal: Goal) -> str:
        """With all of the vector registers: LLVM would use half of each where an early AVX-512 processor slows down
        from all of it."""
        return f"{features},-prefer-256-bit" if "+avx512f" in features.split(",") else features

    @property
    def vector_bytes(self) -> int:
        """ZMM, YMM or XMM."""
        if self.has("avx512f"):
            return 64
        return 32 if self.has("avx2") else 16

    @property
    def vector_registers(self) -> int:
        """AVX-512 has twice as many."""
        return 32 if self.has("avx512f") else 16

    @property
    def turn(self) -> int:
        """Fewer with AVX-512: tiles of 12 vectors take as long with one step of the depth a turn as with two, to 1 %,
        and LLVM a quarter less to make code for them; those of 24 vectors take 0.5 % less."""
        return 8 if self.has("avx512f") else self.tiles.turn

    @property
    def has_halves(self) -> bool:
        """F16C."""
        return self.has("f16c")

    def has_instruction(self, name: str, bits: int) -> bool:
        """FMA, ROUNDSS, SQRTSS; extremes are made of comparisons."""
        if name in ("maximum", "maximumnum", "maxnum", "minimumnum", "minnum", "sqrt"):
            return True
        return self.has("fma" if name == "fma" else "sse4.1")

    @property
    def has_masks(self) -> bool:
        """By AVX-512, with its instructions on bytes and words; AVX2 has none of these."""
        return self.has("avx512bw")

    def masks(self, size: int) -> bool:
        """VMASKMOVPS and VMASKMOVPD, too."""
        return self.has_masks or (self.has("avx2") and size in (4, 8))

    def dot_bytes(self, lanes: int) -> Dot | None:
        """VPDPBUSD."""
        return partial(_dot, "vpdpbusd") if self._has_vnni(lanes) else None

    def matrices(self) -> Matrices | None:
        """AMX, which a process has to ask its system for: this one did."""
        needed = self.goal is Goal.HERE and all(map(self.has, ("amx-int8", "amx-tile", "avx512bw")))
        return Amx() if needed else None

    def dot_pairs(self, lanes: int) -> Dot | None:
        """VPDPWSSD."""
        return partial(_dot, "vpdpwssd") if self._has_vnni(lanes) else None

    def _has_vnni(self, lanes: int) -> bool:
        """Whether VPDPBUSD and VPDPWSSD are there for so many lanes, by AVX-512 or by AVX-VNNI."""
        needed = ("avx512vnni",) if lanes == 16 else ("avx512vnni", "avx512vl")
        return all(map(self.has, needed)) or (lanes < 16 and self.has("avxvnni"))

    def dot_magnitudes(self, lanes: int) -> Dot | None:
        """PMADDUBSW, where PSIGNB is as wide."""
        return _dot_magnitudes if lanes == 8 and self.has("avx2") else None

    def add_pairs(self, lanes: int) -> AddPairs | None:
        """PMADDWD."""
        return _add_pairs

    def pack(self, lanes: int) -> Pack | None:
        """PACKSSDW, then PACKSSWB."""
        return _pack

    def arrange(self, lanes: int) -> Arrange | None:
        """VPERMD."""
        feature, instruction = _VPERMD.get(lanes, ("", ""))
        return partial(_arrange, instruction) if feature and self.has(feature) else None

    def look_up(self) -> LookUp | None:
        """VPERMI2B, else PSHUFB."""
        if self.has("avx512vbmi"):
            return _Permutation()
        return _Shuffle() if self.has("avx2") else None


def _dot(instruction: str, w: Writer, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """VPDPBUSD or VPDPWSSD: one instruction, without saturation."""
    kind = total.type
    function = w.declare(f"llvm.x86.avx512.{instruction}.{32 * kind.count}", ir.FunctionType(kind, [kind] * 3))
    return w.builder.call(function, [total, left, right])


def _arrange(instruction: str, w: Writer, words: ir.Value, order: ir.Value) -> ir.Value:
    """VPERMD."""
    function = w.declare(f"llvm.x86.{instruction}", ir.FunctionType(words.type, [words.type] * 2))
    return w.builder.call(function, [words, order])


def _add_pairs(w: Writer, one: ir.Value, other: ir.Value) -> ir.Value:
    """PMADDWD: of vectors of 2 n i16 the n sums of products, i32."""
    kind = ir.VectorType(_I32, one.type.count // 2)
    function = w.declare(f"llvm.x86.{_PMADDWD[kind.count]}", ir.FunctionType(kind, [one.type, other.type]))
    return w.builder.call(function, [one, other])


def _dot_magnitudes(w: Writer, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """PMADDUBSW multiplies unsigned bytes by signed ones, and adds two such products up to 2^15 - 1: so the left
    factors are made magnitudes, and their signs given to the right ones."""
    b, quads, pairs = w.builder, left.type, ir.VectorType(_I16, left.type.count // 2)
    sign = w.declare("llvm.x86.avx2.psign.b", ir.FunctionType(quads, [quads] * 2))
    multiply = w.declare("llvm.x86.avx2.pmadd.ub.sw", ir.FunctionType(pairs, [quads] * 2))
    magnitude = b.call(sign, [left, left])
    products = b.call(multiply, [magnitude, b.call(sign, [right, left])])
    return b.add(total, _add_pairs(w, products, Uniform(pairs, 1)))


def _pack(w: Writer, vectors: Sequence[ir.Value]) -> ir.Value:
    """PACKSSDW of each two vectors of i32, then PACKSSWB of the two of i16; both work within lanes of 128 bits, so that
    the bytes of each four lanes of i32 stay together."""
    lanes = vectors[0].type.count
    kinds = [ir.VectorType(each, count * lanes) for each, count in ((_I32, 1), (_I16, 2), (_I8, 4))]
    for instruction, source, result in zip(_PACKS[lanes], kinds, kinds[1:], strict=False):
        function = w.declare(f"llvm.x86.{instruction}", ir.FunctionType(result, [source, source]))
        vectors = [w.builder.call(function, vectors[k:k + 2]) for k in range(0, len(vectors), 2)]
    return vectors[0]


@dataclass(frozen=True)
class _Permutation:
    """VPERMI2B, which chooses from two registers of 64 entries by the low 7 bits of an index."""

    size: int = 64

    def load(self, w: Writer, table: ir.Value) -> list[ir.Value]:
        """Loads the 256 entries into four registers."""
        kind = ir.VectorType(_I8, self.size)
        return [w.builder.load(w.address(table, _I8, k * self.size), typ=kind, align=1) for k in range(4)]

    def choose(self, w: Writer, registers: Sequence[ir.Value], at: ir.Value) -> ir.Value:
        """Two instructions choose from either half of the table, and bit 7 of the index between them."""
        b, kind = w.builder, at.type
        shuffle = w.declare("llvm.x86.avx512.vpermi2var.qi.512", ir.FunctionType(kind, [kind] * 3))
        low, high = (b.call(shuffle, [registers[k], at, registers[k + 1]]) for k in (0, 2))
        is_high = b.icmp_signed("<", at, Uniform(kind, 0))
        return b.select(is_high, high, low)


_ROW = 16
"""Entries that PSHUFB chooses from, for each half of a vector of AVX2."""


@dataclass(frozen=True)
class _Shuffle:
    """PSHUFB on rows of 16 entries. Where bit 7 of an index is set it gives 0, else what the low 4 bits choose: so a
    byte that is 16 n or more takes its entries of the rows from 0 to n, of which each but the first is the difference
    from the row before."""

    size: int = 2 * _ROW

    def load(self, w: Writer, table: ir.Value) -> list[ir.Value]:
        """Loads the table's 16 rows, each twice, and takes from each but the first of either half the row before, by
        XOR."""
        b, half = w.builder, ir.VectorType(_I8, _ROW)
        twice = ir.Constant(ir.VectorType(_I32, self.size), [*range(_ROW)] * 2)
        loaded = [b.load(w.address(table, _I8, k * _ROW), typ=half, align=1) for k in range(256 // _ROW)]
        rows = [b.shuffle_vector(each, each, twice) for each in loaded]
        return [row if k % 8 == 0 else b.xor(row, rows[k - 1]) for k, row in enumerate(rows)]

    def choose(self, w: Writer, registers: Sequence[ir.Value], at: ir.Value) -> ir.Value:
        """16 shuffles and as many XOR: of row k the index minus 16 k, saturated, so that bit 7 is set where the byte is
        less. The upper half of the table has bit 7 of the index turned over."""
        b, kind = w.builder, at.type
        shuffle = w.declare("llvm.x86.avx2.pshuf.b", ir.FunctionType(kind, [kind] * 2))
        total = Uniform(kind, 0)
        for k, row in enumerate(registers):
            index = at if k < 8 else b.xor(at, Uniform(kind, -128))
            index = w.intrinsic("ssub.sat", index, Uniform(kind, k % 8 * _ROW))
            total = b.xor(total, b.call(shuffle, [row, index]))
        return total
