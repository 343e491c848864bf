"""Right factors that memory has in fewer bits than are multiplied: tiles widen them as they load them.

Words of integers are loaded as smaller integers and taken apart by shifts and masks, all lanes at once. Real numbers
are loaded as the integers, or the halves, that the model has, and computed as DEQUANTIZE does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I32, Emitter
from circlet.backends.native.emit.lanes import SINGLE, Lanes
from circlet.backends.native.gemm.storage import Units
from circlet.backends.native.gemm.vectors import WORD, broadcast
from circlet.backends.native.targets.constants import Uniform
from circlet.backends.native.targets.target import Goal
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.records import dataclass

_BITS = {DType.INT4: 4, DType.INT8: 8, DType.UINT8: 8, DType.INT16: 16, DType.FLOAT16: 16}
"""Of an element, as memory has it."""
_FLOAT_BITS, _FLOAT = 0x4B000001, (1 << 23) + 1
"""The bits of a float32, and the number: the bits plus n are those of the number plus n, for n below 2^23 - 1. One that
were even LLVM would join by OR, of which no instruction does two steps at once."""
_SIGNS, _LOWEST = 0x80808080, 1 << 7
"""The signs of the bytes of a word; changed, bytes count from -128."""
@dataclass(frozen=True)
class Integers:
    """Words of signed integers.

    Attributes:
        parts: of a word: four bytes, or two 16-bit integers.
        bits: of a part in memory: 4 or 8.
        low: what parts in memory are counted from, which have no sign then; None if they have one.
    """

    parts: int
    bits: int
    low: int | None = None

    @property
    def name(self) -> str:
        return f"{self.parts}i{self.bits}" if self.low is None else f"{self.parts}u{self.bits}_from_m{-self.low}"

    @classmethod
    def of(cls, parts: int, bits: int, weights: Array) -> Integers:
        """For weights of so many bits, around zero or not."""
        low = int(weights.min(initial=0))
        has_sign = -(1 << bits - 1) <= low and int(weights.max(initial=0)) < 1 << bits - 1
        return cls(parts, bits, None if has_sign else low)

    @property
    def _size(self) -> int:
        """Bytes of a word in memory."""
        return self.parts * self.bits // 8

    @property
    def group(self) -> int:
        return 0

    def unit_bytes(self, columns: int) -> int:
        return 0

    def kept(self, words: Array) -> Array:
        """Words, int32, as they are kept: (columns, depth), unsigned. The parts of a half of two lie side by side, so
        that one shift and a mask bring all where they belong."""
        width = 32 // self.parts
        parts = words.view(f"i{width // 8}").reshape(*words.shape, self.parts).astype(np.int64) - (self.low or 0)
        order = (0, 2, 1, 3) if self.parts == WORD else (0, 1)
        found = sum((parts[..., part] & (1 << self.bits) - 1) << self.bits * place for place, part in enumerate(order))
        return np.asarray(found).astype(f"u{self._size}")

    def elements(self, weights: Array) -> Array:
        """Weights (n,), as they are kept one by one, those of 4 bits two a byte."""
        found = weights.astype(np.int64) - (self.low or 0) & (1 << self.bits) - 1
        if self.bits == 4:
            found = np.pad(found, (0, len(found) % 2))
            found = found[::2] | found[1::2] << 4
        return found.astype(np.uint8)

    def element(self, e: Emitter, memory: ir.Value, place: ir.Value) -> ir.Value:
        """Loads one of these, as an i32."""
        b = e.builder
        if self.bits == 4:
            byte = b.load(e.address(memory, I8, b.lshr(place, e.number(1))), typ=I8)
            half = b.trunc(b.shl(b.and_(place, e.number(1)), e.number(2)), I8)
            value = b.lshr(b.shl(b.lshr(byte, half), I8(4)), I8(4)) if self.low is not None else b.ashr(
                b.shl(b.lshr(byte, half), I8(4)), I8(4))
        else:
            value = b.load(e.address(memory, I8, place), typ=I8)
        return b.sext(value, I32) if self.low is None else b.add(b.zext(value, I32), I32(self.low))

    def step_bytes(self, columns: int) -> int:
        return columns * self._size

    def units(self, e: Emitter, memory: ir.Value, vectors: int, lanes: int) -> Units:
        return ()

    def words(self, e: Emitter, panel: ir.Value, vectors: int, lanes: int, units: Units) -> list[ir.Value]:
        return [self._word(e, e.address(panel, I8, k * lanes * self._size), lanes) for k in range(vectors)]

    def _word(self, e: Emitter, place: ir.Value, lanes: int) -> ir.Value:
        """A vector of words: the bits of each part, then its sign above them; of bytes one instruction makes pairs on
        processors that have circlet itself."""
        b, width, whole = e.builder, 32 // self.parts, ir.VectorType(I32, lanes)
        if self.parts == 2 and self.bits == 8 and self.low is None and e.target.goal is Goal.HERE:
            parts = b.load(place, typ=ir.VectorType(I8, 2 * lanes), align=self._size)
            return b.bitcast(b.sext(parts, ir.VectorType(ir.IntType(width), 2 * lanes)), whole)
        narrow = ir.VectorType(ir.IntType(8 * self._size), lanes)

        def each(part: int) -> ir.Value:
            return Uniform(whole, sum(part << width * k for k in range(self.parts)))

        found = b.zext(b.load(place, typ=narrow, align=self._size), whole)
        found = b.and_(b.or_(found, b.shl(found, Uniform(whole, 16 - self.bits))), each((1 << self.bits) - 1))
        if self.low is not None:
            pairs = ir.VectorType(ir.IntType(width), lanes * self.parts)
            return b.bitcast(b.add(b.bitcast(found, pairs), Uniform(pairs, self.low)), whole)
        signs = b.and_(found, each(1 << self.bits - 1))
        above = b.sub(b.shl(signs, Uniform(whole, width - self.bits + 1)), b.shl(signs, Uniform(whole, 1)))
        return b.or_(found, above)


@dataclass(frozen=True)
class Reals:
    """float32, kept as what is dequantised.

    Attributes:
        dtype: of what is kept.
        is_each: whether each column has a scale.
        shifts: whether there are zero points.
    """

    dtype: DType
    is_each: bool = False
    shifts: bool = False

    @property
    def name(self) -> str:
        return f"{self.dtype.value}{'_each' * self.is_each}{'_shifted' * self.shifts}"

    @property
    def group(self) -> int:
        return 0

    def step_bytes(self, columns: int) -> int:
        return -(-columns * _BITS[self.dtype] // 8)

    def kept(self, packed: Array) -> Array:
        """Panels (panels, depth, columns) as they are kept: the halves of bytes are neighbouring columns."""
        if self.dtype is not DType.INT4:
            return packed
        odd = packed.shape[-1] % 2
        halves = np.pad(packed, ((0, 0), (0, 0), (0, odd))).astype(np.uint8) & 15
        return np.ascontiguousarray(halves[..., ::2] | halves[..., 1::2] << 4)

    def units(self, e: Emitter, memory: ir.Value, vectors: int, lanes: int) -> Units:
        """Scales, then zero points, of all columns or of each, as `words` takes them."""
        if self.dtype is DType.FLOAT16:
            return ()
        kinds = range(1 + self.shifts)
        if not self.is_each:
            found = [broadcast(e, e.load(memory, DType.FLOAT32, k), lanes) for k in kinds]
            return [found] * vectors
        whole = ir.VectorType(SINGLE, lanes)
        found = [[e.builder.load(e.address(memory, SINGLE, (kind * vectors + k) * lanes), typ=whole, align=WORD)
                 for kind in kinds] for k in range(vectors)]
        if not self._takes_words(e, vectors, lanes):
            return found
        above = Uniform(whole, float(_FLOAT + _LOWEST * (self.dtype is DType.INT8)))
        return [[scale, e.builder.fadd(zero, above)] for scale, zero in found]

    def _takes_words(self, e: Emitter, vectors: int, lanes: int) -> bool:
        """Whether bytes are loaded four at a time, and made floats by a sum of integers and a difference, which takes
        the zero point, too."""
        return (self.shifts and self.is_each and _BITS[self.dtype] == 8 and lanes == 1 and vectors % WORD == 0
                and e.target.has_extending_sums)

    def _floats(self, e: Emitter, panel: ir.Value, vectors: int) -> Iterator[ir.Value]:
        """Bytes, as what is added to `_FLOAT`."""
        b = e.builder
        for k in range(vectors):
            if k % WORD == 0:
                word = b.load(e.address(panel, I8, k), typ=I32, align=WORD)
                word = b.xor(word, I32(_SIGNS)) if self.dtype is DType.INT8 else word
            byte = b.and_(b.lshr(word, I32(8 * (k % WORD))), I32(0xff))
            yield broadcast(e, b.bitcast(b.add(byte, I32(_FLOAT_BITS)), SINGLE), 1)

    def unit_bytes(self, columns: int) -> int:
        """Of the scales and zero points of a panel, if each column has some."""
        return columns * WORD * (1 + self.shifts) * self.is_each

    def words(self, e: Emitter, panel: ir.Value, vectors: int, lanes: int, units: Units) -> list[ir.Value]:
        kind = ir.VectorType(SINGLE, lanes)
        if self.dtype is DType.FLOAT16:
            return [e.widened(each, kind) for each in self._loaded(e, panel, vectors, lanes, ir.HalfType())]
        whole = ir.VectorType(I32, lanes)
        if self._takes_words(e, vectors, lanes):
            floats = self._floats(e, panel, vectors)
            return [self._real(e, each, mine) for each, mine in zip(floats, units, strict=True)]
        if self.dtype is DType.INT4:
            stored = _quarters(e, panel, vectors, lanes)
        else:
            widen = e.builder.zext if self.dtype is DType.UINT8 else e.builder.sext
            stored = [widen(each, whole) for each in self._loaded(
                e, panel, vectors, lanes, ir.IntType(_BITS[self.dtype]))]
        return [self._real(e, e.builder.sitofp(each, kind), mine) for each, mine in zip(stored, units, strict=True)]

    def _real(self, e: Emitter, value: ir.Value, units: Sequence[ir.Value]) -> ir.Value:
        """Stored values, less the zero point, times the scale."""
        found = Lanes(e, value)
        if self.shifts:
            found = found - Lanes(e, units[1])
        return (found * Lanes(e, units[0])).value

    def _loaded(self, e: Emitter, panel: ir.Value, vectors: int, lanes: int, element: ir.Type) -> list[ir.Value]:
        size = _BITS[self.dtype] // 8
        return [e.builder.load(e.address(panel, I8, k * lanes * size), typ=ir.VectorType(element, lanes), align=size)
                for k in range(vectors)]


def _quarters(e: Emitter, panel: ir.Value, vectors: int, lanes: int) -> list[ir.Value]:
    """Integers of 4 bits, two a byte, as vectors of i32."""
    b, whole = e.builder, ir.VectorType(I32, lanes)
    found = []
    for k in range(vectors):
        first, last = k * lanes // 2, ((k + 1) * lanes + 1) // 2
        half = ir.VectorType(I8, last - first)
        stored = b.load(e.address(panel, I8, first), typ=half, align=1)
        four = Uniform(half, 4)
        low, high = b.ashr(b.shl(stored, four), four), b.ashr(stored, four)
        begin = k * lanes % 2
        order = [(at // 2) + (last - first) * (at % 2) for at in range(begin, begin + lanes)]
        found.append(b.sext(b.shuffle_vector(low, high, ir.Constant(ir.VectorType(I32, lanes), order)), whole))
    return found
