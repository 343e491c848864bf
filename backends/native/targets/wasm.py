"""WebAssembly.

Instructions are named as in the WebAssembly Core Specification, release 2.0.
"""

from __future__ import annotations

from typing import ClassVar

from llvmlite import ir

from circlet.backends.native.targets.target import AddPairs, Target, Tiles, Writer, target

_I16, _I32 = ir.IntType(16), ir.IntType(32)


@target("wasm32", "wasm64")
class WebAssembly(Target):
    """A machine that engines make code of for the processor that they run on; vectors only where the proposal SIMD
    is."""

    has_threads: ClassVar[bool] = False
    tiles: ClassVar[Tiles] = Tiles(most_rows=4, chains=4, turn=8)

    @property
    def vector_bytes(self) -> int:
        """Of SIMD 128 bits; else a word."""
        return 16 if self.has("simd128") else 4

    @property
    def vector_registers(self) -> int:
        """As many as any processor has."""
        return 16 if self.has("simd128") else 10

    def has_instruction(self, name: str, bits: int) -> bool:
        """Everything that is rounded once but sums of products; its extremes are NaN if one number is, so that LLVM
        calls the C library for the greatest number of many."""
        return name not in ("fma", "maximumnum", "maxnum", "minimumnum", "minnum")

    def add_pairs(self, lanes: int) -> AddPairs | None:
        """I32X4.DOT_I16X8_S."""
        return _add_pairs if lanes == 4 and self.has("simd128") else None


def _add_pairs(w: Writer, one: ir.Value, other: ir.Value) -> ir.Value:
    """One instruction."""
    kind = ir.VectorType(_I32, 4)
    function = w.declare("llvm.wasm.dot", ir.FunctionType(kind, [ir.VectorType(_I16, 8)] * 2))
    return w.builder.call(function, [one, other])
