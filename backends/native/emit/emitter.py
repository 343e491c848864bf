"""Writes LLVM instructions: element types, arithmetic on them, loops that nest like Python's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast
from weakref import proxy

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.halves import HalfBuilder, is_half
from circlet.backends.native.emit.lengths import Around, Entry, Lengths
from circlet.backends.native.emit.polling import Meter
from circlet.backends.native.emit.positions import Positions
from circlet.backends.native.emit.sharing import Sharing
from circlet.backends.native.emit.soft import SOFT, extended, soft, truncated
from circlet.backends.native.targets.target import Target
from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.length import computed_number, is_length, may_differ, terms_of
from circlet.runtime.ir.terms import Terms, computed_numbers
from circlet.runtime.ir.types import Array, DType, Shape

I1, I8, I32, I64, POINTER = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.PointerType()
"""Types of registers: a truth value, integers by their width, an address."""
_REAL: dict[DType, ir.Type] = {DType.FLOAT16: ir.HalfType(), DType.FLOAT32: ir.FloatType(),
                               DType.FLOAT64: ir.DoubleType()}
"""What real numbers are in registers and in memory."""
_BITS = {DType.INT8: 8, DType.UINT8: 8, DType.INT16: 16, DType.UINT16: 16, DType.INT32: 32, DType.UINT32: 32,
         DType.INT64: 64, DType.UINT64: 64, DType.RESOURCE: 32, DType.COMPLEX64: 64, DType.BFLOAT16: 16}
"""The width of integers; a RESOURCE is the number of a handle, a BFLOAT16 its bits, a COMPLEX64 those of its parts, of
which the real one is below the imaginary one."""
UNSIGNED = frozenset({DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64})
"""The integers that are filled up with zeros when they are widened."""
NATIVE_TYPES = frozenset({*_REAL, *_BITS, DType.BOOL})
"""The element types that fit into a register."""


def register_type(dtype: DType) -> ir.Type:
    """What an element is in a register: BOOL is an i1."""
    if dtype is DType.BOOL:
        return I1
    return _REAL[dtype] if dtype in _REAL else ir.IntType(_BITS[dtype])


def memory_type(dtype: DType) -> ir.Type:
    """What an element is in memory: BOOL is a byte, 0 or 1."""
    return I8 if dtype is DType.BOOL else register_type(dtype)


def stored(array: Array, dtype: DType) -> Array:
    """Elements as numbers of their type in memory."""
    if dtype is DType.BOOL:
        return array.astype(np.uint8)
    return array.astype(np.complex64).view(np.int64) if dtype is DType.COMPLEX64 else array


def is_real(dtype: DType) -> bool:
    """Whether registers hold an element as a floating-point number."""
    return dtype in _REAL


def in_register_alone(size: int, dtype: DType) -> bool:
    """Whether a tensor of so many elements needs no memory: one number of a type that registers hold. Where the number
    of elements is open it has memory."""
    return not may_differ(size, 1) and dtype in NATIVE_TYPES


def _bits(kind: ir.Type) -> int:
    """Of a real number, or of each lane of a vector."""
    return {"half": 16, "float": 32, "double": 64}[str(kind.element if isinstance(kind, ir.VectorType) else kind)]


def _suffix(kind: ir.Type) -> str:
    """What names of intrinsics end with for a type."""
    count, each = (f"v{kind.count}", kind.element) if isinstance(kind, ir.VectorType) else ("", kind)
    return count + {"float": "f32", "double": "f64", "half": "f16"}.get(str(each), str(each))


_ALWAYS_OF_LIBM = frozenset({"cos", "exp", "log", "pow", "sin"})
"""The intrinsics for which no processor has an instruction."""
_OF_LIBM = frozenset({"ceil", "floor", "fma", "rint", "sqrt", "trunc", *_ALWAYS_OF_LIBM})
"""The intrinsics that LLVM makes calls of where the processor has no instruction."""


class _Builder(HalfBuilder):
    """Writes instructions; tells the emitter of calls of functions that the module has."""

    def __init__(self, emitter: Emitter, block: ir.Block) -> None:
        super().__init__(block)
        self._emitter: Emitter = proxy(emitter)
        self.has_soft_halves = emitter.target.is_freestanding and not emitter.target.has_halves
        self._lengths: dict[str, int] = {}
        """What functions take, found when they are first called: later their instructions may be gone."""

    def call(self, fn: ir.Value, *arguments: Any, **options: Any) -> ir.Value:
        """Writes a call; what a function of the module takes counts as if it stood here."""
        if isinstance(fn, ir.Function) and fn.blocks:
            if fn.name not in self._lengths:
                self._lengths[fn.name] = _length(fn)
            self._emitter.called += self._lengths[fn.name]
            self._emitter.callers.setdefault(fn.name, {})[self._emitter.label] = None
        return super().call(fn, *arguments, **options)

    def add(self, lhs: ir.Value, rhs: ir.Value, *options: Any, **more: Any) -> ir.Value:
        """Writes a sum, unless one of the numbers is known to be 0, or both are known."""
        if _is(rhs, 0):
            return lhs
        if _is(lhs, 0):
            return rhs
        return _folded(lhs, rhs, operator.add) or super().add(lhs, rhs, *options, **more)

    def sub(self, lhs: ir.Value, rhs: ir.Value, *options: Any, **more: Any) -> ir.Value:
        """Writes a difference, unless nothing is taken away, or both numbers are known."""
        return lhs if _is(rhs, 0) else _folded(lhs, rhs, operator.sub) or super().sub(lhs, rhs, *options, **more)

    def mul(self, lhs: ir.Value, rhs: ir.Value, *options: Any, **more: Any) -> ir.Value:
        """Writes a product, unless one of the numbers is known to be 0 or 1, or both are known."""
        folded = _folded(lhs, rhs, operator.mul)
        if folded is not None:
            return folded
        for one, other in ((lhs, rhs), (rhs, lhs)):
            if _is(one, 0):
                return one
            if _is(one, 1):
                return other
        return super().mul(lhs, rhs, *options, **more)


def _is(value: ir.Value, number: int) -> bool:
    """Whether an integer is known to be a number."""
    return type(value) is ir.Constant and isinstance(value.type, ir.IntType) and value.constant == number


def _folded(one: ir.Value, other: ir.Value, compute: Callable[[int, int], int]) -> ir.Constant | None:
    """What is computed of two integers that are known, if it is in the range of their type."""
    if not (type(one) is ir.Constant and type(other) is ir.Constant and isinstance(one.type, ir.IntType)):
        return None
    found, half = compute(one.constant, other.constant), 1 << one.type.width - 1
    return ir.Constant(one.type, found) if -half <= found < half else None


def _length(function: ir.Function) -> int:
    """How many instructions a function executes, roughly, as only calls tell how often its loops turn."""
    return sum(len(each.instructions) for each in function.blocks) * (_TURNS if len(function.blocks) > 1 else 1)


_TURNS = 64
"""Turns that are expected of loops in a function that is called, where nothing tells: a choice. It decides how often
the caller looks whether it must stop, not what is computed."""
LONG_LOOP, RUN = 1 << 22, 1 << 20
"""Turns from which on a loop is written as one of runs of so many, so that between them one can look whether it must
stop. A run of 8 instructions a turn is what is granted between two looks (`polling.GRANTED`); four runs are the fewest
that are worth a second loop."""


class Emitter(Positions):
    """Appends instructions to one function."""

    def __init__(self, module: ir.Module, function: ir.Function, target: Target) -> None:
        super().__init__()
        self.module = module
        self.function = function
        self.target = target
        self.index = ir.IntType(target.index_bits)
        """What counts elements and bytes."""
        self.index_dtype = DType.INT64 if target.index_bits == 64 else DType.INT32
        """What an index is in memory."""
        self.sharing: Sharing | None = None
        """How loops are shared out among threads, if they are."""
        self.meter: Meter | None = None
        """What the function executes, if it looks whether it must stop."""
        self._most: dict[ir.Value, int] = {}
        """What some registers are at the most, so that a loop may be known to be short that turns as often."""
        self.roomy: set[ir.Value] = set()
        """The addresses of arrays behind whose last element there is room for a vector, which nobody else uses."""
        self.called = 0
        """Instructions that the functions execute which were called."""
        self.latch: ir.Block | None = None
        """The block that ends a turn of the loop that was written last; None if that was none."""
        self.entry = Entry(function)
        self.builder = _Builder(self, self.entry.body)
        self._around: list[Around] = []
        """The functions that are left for the one that is being written, the entry first."""
        self.lengths: Lengths | None = None
        """What open lengths are, where there are any."""
        self.label = ""
        """What the operator that is being written is called by tools."""
        self.callers: dict[str, dict[str, None]] = {}
        """The labels of what calls each function of the module."""

    @contextmanager
    def inside(self, function: ir.Function, entry: Entry) -> Iterator[None]:
        """Appends to another function, which has an entry only, what is written inside."""
        before = self.function, self.entry, self.builder.block
        self._around.append(Around(self.function, ir.IRBuilder(self.builder.block)))
        self.function, self.entry = function, entry
        self.builder.position_at_end(entry.body)
        with self.apart():
            yield
        self._around.pop()
        self.function, self.entry, block = before
        self.builder.position_at_end(block)

    def number(self, value: int) -> ir.Value:
        """An index: a constant, or what an open length is in this run."""
        if is_length(value):
            assert self.lengths is not None, f"{value} is open, in a function for fixed shapes"
            return self.lengths.register(terms_of(value), self.builder, self._around)
        return ir.Constant(self.index, value)

    def wide(self, value: int) -> ir.Constant:
        """An i64 constant."""
        return ir.Constant(I64, value)

    def register(self, value: ir.Value | int) -> ir.Value:
        """A number that may be in a register already."""
        return value if isinstance(value, ir.Value) else self.number(value)

    def define(self, length: int, value: ir.Value) -> None:
        """Says what a length is that the function computes."""
        number = computed_number(length)
        assert self.lengths is not None, "no length is open"
        assert number is not None, f"{length} is not what the function computes"
        self.lengths.define(self.builder, number, value)

    def define_once(self, length: int, value: ir.Value) -> None:
        """The same, unless it is said already: by an operator that computes the same of the same."""
        if self.is_undefined(length):
            self.define(length, value)

    @contextmanager
    def turning(self, lengths: Iterable[int]) -> Iterator[None]:
        """A loop is written inside, the turns of which change lengths that the function computes."""
        if self.lengths is None:
            yield
            return
        with self.lengths.turning(each for each in map(computed_number, lengths) if each is not None):
            yield

    def forgetting(self) -> AbstractContextManager[None]:
        """Of two versions of the same code the first is written inside: the lengths that it computes are computed again
        by the second."""
        return nullcontext() if self.lengths is None else self.lengths.forgetting()

    def recall(self, length: int) -> None:
        """Takes a length that a function computed which was called from memory, where it left it."""
        number = computed_number(length)
        assert number is not None, f"{length} is not what functions compute"
        assert self.lengths is not None, "no length is open"
        self.lengths.recall(self.builder, number)

    def is_undefined(self, length: int) -> bool:
        """Whether it is still to be said what a length is."""
        number = computed_number(length)
        return number is not None and self.lengths is not None and not self.lengths.is_defined(number)

    def is_told(self, terms: Terms) -> bool:
        """Whether all that terms hang on is known here, and stays as it is."""
        assert self.lengths is not None, "no length is open"
        return all(map(self.lengths.is_final, computed_numbers(terms)))

    def constant(self, value: float | int | bool | np.generic, dtype: DType) -> ir.Value:
        """An element as a constant; an open length, which is not negative, as the nearest element."""
        kind = register_type(dtype)
        if is_length(value):
            return self._converted(self.number(cast(int, value)), dtype)
        if is_real(dtype):
            return ir.Constant(kind, float(value))
        return ir.Constant(kind, int(stored(np.array(value), dtype) if dtype is DType.COMPLEX64 else value))

    def _converted(self, length: ir.Value, dtype: DType) -> ir.Value:
        """An index as an element."""
        kind = register_type(dtype)
        if is_real(dtype):
            return self.builder.sitofp(length, kind)
        resize = self.builder.sext if kind.width > length.type.width else self.builder.trunc
        return resize(length, kind)

    def slot(self, kind: ir.Type, count: int = 1) -> ir.Value:
        """Memory on the stack, for the whole call of the function."""
        return self.entry.builder().alloca(kind, count)

    def address(self, base: ir.Value, kind: ir.Type, offset: ir.Value | int) -> ir.Value:
        """`base + offset`, in elements of `kind`."""
        index = self.register(offset)
        return base if self.lengths is None and _is(index, 0) else self.builder.gep(base, [index], source_etype=kind)

    def load(self, base: ir.Value, dtype: DType, offset: ir.Value | int = 0) -> ir.Value:
        """An element of an array in memory."""
        kind = memory_type(dtype)
        value = self.builder.load(self.address(base, kind, offset), typ=kind)
        return self.builder.icmp_unsigned("!=", value, ir.Constant(I8, 0)) if dtype is DType.BOOL else value

    def store(self, value: ir.Value, base: ir.Value, dtype: DType, offset: ir.Value | int = 0) -> None:
        """Writes an element of an array in memory."""
        if dtype is DType.BOOL:
            value = self.builder.zext(value, I8)
        self.builder.store(value, self.address(base, memory_type(dtype), offset))

    def load_masked(self, place: ir.Value, mask: ir.Value, other: ir.Value, alignment: int) -> ir.Value:
        """A vector from memory: the lanes where a mask holds, `other` elsewhere."""
        kind = other.type
        name = f"llvm.masked.load.{_suffix(kind)}.p0"
        function = self.declare(name, ir.FunctionType(kind, [POINTER, I32, mask.type, kind]))
        return self.builder.call(function, [place, ir.Constant(I32, alignment), mask, other])

    def store_masked(self, value: ir.Value, place: ir.Value, mask: ir.Value, alignment: int) -> None:
        """A vector to memory: the lanes where a mask holds."""
        kind = value.type
        name = f"llvm.masked.store.{_suffix(kind)}.p0"
        function = self.declare(name, ir.FunctionType(ir.VoidType(), [kind, POINTER, I32, mask.type]))
        self.builder.call(function, [value, place, ir.Constant(I32, alignment), mask])

    def copy(self, target: ir.Value, source: ir.Value, size: ir.Value | int) -> None:
        """Copies bytes between two places, which may overlap."""
        count = self.register(size)
        if isinstance(size, ir.Value) or may_differ(size, 0):
            name = f"llvm.memmove.p0.p0.{self.index}"
            kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, self.index, I1])
            self.builder.call(self.declare(name, kind), [target, source, count, ir.Constant(I1, 0)])
            self.moved(None if isinstance(size, ir.Value) else size)

    def fill(self, target: ir.Value, byte: int, size: ir.Value | int) -> None:
        """Makes all bytes of a place one, from 0 to 255."""
        if isinstance(size, ir.Value) or may_differ(size, 0):
            kind = ir.FunctionType(ir.VoidType(), [POINTER, I8, self.index, I1])
            self.builder.call(self.declare(f"llvm.memset.p0.{self.index}", kind),
                              [target, ir.Constant(I8, byte), self.register(size), ir.Constant(I1, 0)])
            self.moved(None if isinstance(size, ir.Value) else size)

    def moved(self, size: int | None) -> None:
        """What was written moves so many bytes; None if only the run can tell."""
        if self.meter is not None:
            self.meter.move(size)

    def declare(self, name: str, kind: ir.FunctionType) -> ir.Function:
        """A function that is defined elsewhere, LLVM's intrinsics among them."""
        found = self.module.globals.get(name)
        return found if isinstance(found, ir.Function) else ir.Function(self.module, kind, name)

    def intrinsic(self, name: str, *arguments: ir.Value, flags: Sequence[str] = ()) -> ir.Value:
        """Calls an intrinsic whose arguments and result have one type, e.g. `floor`; `flags` are fast-math flags.

        Raises:
            UnsupportedError: it may become a call of the C library, and the target has none.
        """
        target = self.target
        if target.is_freestanding and name in SOFT and not target.has_instruction(name, _bits(arguments[0].type)):
            return soft(self, name, arguments)
        if name in _OF_LIBM and not (target.has_libm and not (target.is_freestanding and name in _ALWAYS_OF_LIBM)):
            raise UnsupportedError(f"no C library to call for {name}")
        kind = arguments[0].type
        if self._is_soft(kind):
            single = ir.VectorType(ir.FloatType(), kind.count) if isinstance(kind, ir.VectorType) else ir.FloatType()
            return self.narrowed(self.intrinsic(name, *(self.widened(each, single) for each in arguments)), kind)
        function = self.declare(f"llvm.{name}.{_suffix(kind)}", ir.FunctionType(kind, [kind] * len(arguments)))
        found = self.builder.call(function, list(arguments), fastmath=flags)
        if name == "smin" and type(arguments[-1]) is ir.Constant and kind is self.index:
            self.bounded(found, arguments[-1].constant)
        return found

    def widened(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A real number, or a vector of them, as a wider type."""
        if not self._is_soft(value.type):
            return self.builder.fpext(value, kind)
        found = extended(self.builder, value)
        return found if found.type == kind else self.builder.fpext(found, kind)

    def narrowed(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A real number, or a vector of them, as a narrower type, rounded once: a half from float32."""
        return truncated(self.builder, value) if self._is_soft(kind) else self.builder.fptrunc(value, kind)

    def _is_soft(self, kind: ir.Type) -> bool:
        """Whether a type is half precision, for which there are no instructions."""
        return is_half(kind) and self.target.is_freestanding and not self.target.has_halves

    @contextmanager
    def loop(self, count: ir.Value | int) -> Iterator[ir.Value]:
        """`for index in range(count)`; the body is what is written inside. One turn is no loop; very many are one of
        `runs`."""
        count = int(count.constant) if isinstance(count, ir.Constant) else count
        if isinstance(count, int) and count == 1:
            yield self.number(0)
            self.latch = None
        elif isinstance(count, int) and count >= LONG_LOOP:
            with self.runs(count) as (begin, length):
                with self.loop(length) as index:
                    yield self.builder.add(begin, index, flags=("nuw", "nsw"))
                inner = self.latch
            self.latch = inner
        else:
            with self._turns(count, count if isinstance(count, int) else self._most.get(count)) as index:
                yield index

    @contextmanager
    def runs(self, count: ir.Value | int) -> Iterator[tuple[ir.Value, ir.Value]]:
        """A loop that cuts `count` turns of another one in runs; gives the first of a run and how many there are."""
        total = self.register(count)
        b = self.builder
        runs = b.sdiv(b.add(total, self.number(RUN - 1)), self.number(RUN))
        with self._turns(runs, -(-count // RUN) if isinstance(count, int) else None) as number:
            begin = b.mul(number, self.number(RUN), flags=("nuw", "nsw"))
            yield begin, self.intrinsic("smin", b.sub(total, begin), self.number(RUN))

    def bounded(self, count: ir.Value | int, most: int) -> ir.Value | int:
        """A number that is at most another one, which loops that turn so often can rely on."""
        if isinstance(count, ir.Instruction) and not is_length(most):
            self._most[count] = most
        return count

    @contextmanager
    def _turns(self, count: ir.Value | int, known: int | None) -> Iterator[ir.Value]:
        """A loop of three blocks, `head` with a phi for the index, `loop` and `after`; `known` says how many turns it
        has at the most, if that is known."""
        total = self.register(count)
        before = self.builder.block
        size = count if is_length(count) else None
        with nullcontext() if self.meter is None else self.meter.turn(known, size=size) as span:
            head, body, after = (self.function.append_basic_block(name) for name in ("head", "loop", "after"))
            self.builder.branch(head)
            self.builder.position_at_end(head)
            index = self.builder.phi(self.index)
            index.add_incoming(self.number(0), before)
            self.builder.cbranch(self.builder.icmp_signed("<", index, total), body, after)
            self.builder.position_at_end(body)
            yield index
        self.latch = self.builder.block
        index.add_incoming(self.builder.add(index, self.number(1), flags=("nuw", "nsw")), self.latch)
        self.builder.branch(head)
        self.builder.position_at_end(after)
        if self.meter is not None and span is not None and self.lengths is not None:
            self.meter.spend_loop(span, total)

    @contextmanager
    def nest(self, shape: Shape) -> Iterator[tuple[ir.Value, ...]]:
        """A loop for each axis; gives the index of the element."""
        if not shape:
            yield ()
            return
        with self.loop(shape[0]) as first, self.nest(shape[1:]) as rest:
            yield (first, *rest)

    def select(self, condition: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
        """`one` where the i1 holds, else `other`; both are computed."""
        return self.builder.select(condition, one, other)
