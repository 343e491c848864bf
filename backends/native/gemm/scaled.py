"""Right factors that are kept as integers of few bits, of which scales and zero points make numbers: those of each
column, or of groups of its steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I32, Emitter
from circlet.backends.native.emit.lanes import SINGLE
from circlet.backends.native.gemm.storage import Units
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.targets.constants import Uniform
from circlet.backends.native.targets.target import Arrange
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass

_NUMBERS = np.array([*range(8), *range(-8, 0)], np.float32)
"""By their four bits."""


@dataclass(frozen=True)
class Scaled:
    """float32, kept as what a scale makes of integers.

    Attributes:
        bits: of an integer, 4 or 8.
        is_signed: whether they have a sign.
        shifts: whether there are zero points.
        lanes: of a vector.
        group: steps of the depth that have one scale and one zero point; 0 if all of a column have.
    """

    bits: int
    is_signed: bool
    shifts: bool
    lanes: int
    group: int = 0

    @property
    def name(self) -> str:
        return f"{'i' if self.is_signed else 'u'}{self.bits}{'_shifted' * self.shifts}_scaled{self.group or ''}"

    def step_bytes(self, columns: int) -> int:
        return columns if self.bits == 8 else -(-columns // (2 * self.lanes)) * self.lanes

    def unit_bytes(self, columns: int) -> int:
        return columns * WORD * (1 + self.shifts)

    def kept(self, packed: Array) -> Array:
        """Panels (panels, depth, columns) as they are kept. The halves of bytes are of neighbouring vectors."""
        if self.bits == 8:
            return packed
        vectors = packed.reshape(*packed.shape[:2], -1, self.lanes).astype(np.uint8) & 15
        if vectors.shape[2] % 2:
            vectors = np.pad(vectors, ((0, 0), (0, 0), (0, 1), (0, 0)))
        return np.ascontiguousarray(vectors[:, :, ::2] | vectors[:, :, 1::2] << 4)

    def units(self, e: Emitter, memory: ir.Value, vectors: int, lanes: int) -> Units:
        whole = ir.VectorType(SINGLE, lanes)
        return [[e.builder.load(e.address(memory, SINGLE, (kind * vectors + k) * lanes), typ=whole, align=WORD)
                 for kind in range(1 + self.shifts)] for k in range(vectors)]

    def words(self, e: Emitter, panel: ir.Value, vectors: int, lanes: int, units: Units) -> list[ir.Value]:
        b, found = e.builder, []
        for value, (scale, *zeros) in zip(self._numbers(e, panel, vectors), units, strict=True):
            for zero in zeros:
                value = b.fsub(value, zero)
            found.append(b.fmul(value, scale))
        return found

    def _numbers(self, e: Emitter, panel: ir.Value, vectors: int) -> list[ir.Value]:
        """The integers of a step as float32."""
        b, bytes_, whole = e.builder, ir.VectorType(I8, self.lanes), ir.VectorType(I32, self.lanes)
        widen = b.sext if self.is_signed else b.zext
        loaded = [widen(b.load(e.address(panel, I8, k * self.lanes), typ=bytes_, align=1), whole)
                  for k in range(self.step_bytes(vectors * self.lanes) // self.lanes)]
        halves = loaded if self.bits == 8 else [half for each in loaded for half in self._halves(e, each)][:vectors]
        return [self._real(e, each) for each in halves]

    def _halves(self, e: Emitter, loaded: ir.Value) -> Sequence[ir.Value]:
        """Those of bytes, the lower ones first; with anything above their bits where these are looked up."""
        b, whole = e.builder, loaded.type
        four, above = Uniform(whole, 4), Uniform(whole, I32.width - 4)
        if self._arrange(e) is not None:
            return loaded, b.lshr(loaded, four)
        if self.is_signed:
            return b.ashr(b.shl(loaded, above), above), b.ashr(loaded, four)
        return b.and_(loaded, Uniform(whole, 15)), b.lshr(loaded, four)

    def _real(self, e: Emitter, integers: ir.Value) -> ir.Value:
        """Integers as float32."""
        kind, arrange = ir.VectorType(SINGLE, self.lanes), self._arrange(e)
        if arrange is None:
            return e.builder.sitofp(integers, kind)
        table = ir.Constant(integers.type, _NUMBERS.view(np.int32).tolist())
        return e.builder.bitcast(arrange(e, table, integers), kind)

    def _arrange(self, e: Emitter) -> Arrange | None:
        """What looks up numbers of four bits in a register. One row of 2.8 million weights in groups of 32 takes 0.149
        ms so on AVX-512, else 0.169; without a sign, less zero points, 0.178 and 0.169."""
        is_one = self.bits == 4 and self.is_signed and self.lanes == len(_NUMBERS)
        return e.target.arrange(self.lanes) if is_one else None
