"""What code has to know of a processor: its registers, and the instructions that it has for more than LLVM's own.

Each processor is a class in a file of this folder, registered for LLVM's names of its architecture; of all others
`Target` itself says what can be relied on. An operation that a processor has no instructions for is None, and the code
is made of LLVM's general ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from llvmlite import ir
from llvmlite.ir import instructions as ins

from circlet.backends.native import targets
from circlet.runtime.late import imported
from circlet.runtime.records import dataclass


class Writer(Protocol):
    """What writes the code of an operation; an `Emitter`."""

    builder: ir.IRBuilder

    def declare(self, name: str, kind: ir.FunctionType) -> ir.Function:
        """A function that is defined elsewhere, LLVM's intrinsics among them."""
        ...

    def address(self, base: ir.Value, kind: ir.Type, offset: ir.Value | int) -> ir.Value:
        """`base + offset`, in elements of `kind`."""
        ...

    def intrinsic(self, name: str, *arguments: ir.Value, flags: Sequence[str] = ()) -> ir.Value:
        """Calls an intrinsic whose arguments and result have one type."""
        ...


Dot: TypeAlias = Callable[[Writer, ir.Value, ir.Value, ir.Value], ir.Value]
"""Emits `total`, a vector of i32, plus in each lane the products of the parts of `left` and `right`; given those, then
`total`."""
AddPairs: TypeAlias = Callable[[Writer, ir.Value, ir.Value], ir.Value]
"""Emits the sums of two neighbouring products of vectors of i16, as a vector of half as many i32."""
Pack: TypeAlias = Callable[[Writer, Sequence[ir.Value]], ir.Value]
"""Emits one vector of bytes from four of i32, saturated as signed: the first four lanes of each, then the next four,
and so on."""
Arrange: TypeAlias = Callable[[Writer, ir.Value, ir.Value], ir.Value]
"""Emits a vector of i32 in another order: in each lane that of the number which a second vector has there."""


MultiplyEach: TypeAlias = Callable[[Writer, ir.Value, ir.Value, ir.Value, Sequence[ir.Value]], list[ir.Value]]
"""Emits four i32 `totals`, each plus the product of a byte of `left`, plus `added`, with one of `right`; given those
two, words of signed bytes, then `added` in both halves of a word, then the totals."""


class LookUp(Protocol):
    """Replaces bytes by those of a table of 256 that registers hold."""

    @property
    def size(self) -> int:
        """How many bytes at a time."""
        ...

    def load(self, w: Writer, table: ir.Value) -> Sequence[ir.Value]:
        """Emits the loads of the table at an address."""
        ...

    def choose(self, w: Writer, registers: Sequence[ir.Value], at: ir.Value) -> ir.Value:
        """Emits the entries at `at`, a vector of `size` bytes."""
        ...


MATRIX_ROWS, MATRIX_BYTES = 16, 64
"""Rows of a register of a matrix, and bytes of each."""
LEFT, RIGHT, LAST_LEFT, LAST_RIGHT = 4, 5, 6, 7
"""The numbers of registers for factors; those before hold sums."""


class MatrixAccess(ins.CallInstr):  # type: ignore[misc]  # llvmlite is untyped
    """A call that touches rows in memory: its last operands are an address and, if rows are apart, their distance."""

    def __init__(self, block: ir.Block, function: ir.Function, operands: Sequence[ir.Value], rows: ir.Value,
                 width: ir.Value, is_apart: bool = True) -> None:
        super().__init__(block, function, operands)
        self.rows, self.width = rows, width
        """How many rows are touched, and how many bytes of each, i64."""
        last = len(self.operands) - 1
        self.place: int = last - is_apart
        self.distance: int | None = last if is_apart else None
        """The positions of the address, and of the distance, among the operands."""


class Matrices(Protocol):
    """Registers of matrices: four of sums, 16 x 16 i32; for what is multiplied and added to these `LEFT`, 16 rows of 64
    unsigned bytes, and `RIGHT`, of as many signed ones, a row of which is a word of each of 16 columns; and two of
    less, `LAST_LEFT` and `LAST_RIGHT`, for the words that are left at the end of a depth."""

    def shape(self, w: Writer, words: int) -> None:
        """Makes registers ready, the last of which have so many words of a depth. That takes as long as some 200
        products of vectors."""
        ...

    def load(self, w: Writer, register: int, place: ir.Value, distance: ir.Value,
             words: ir.Value | None = None) -> None:
        """Loads rows that are so many bytes apart; `words` is told of `LAST_LEFT` and `LAST_RIGHT`."""
        ...

    def store(self, w: Writer, register: int, place: ir.Value, distance: ir.Value) -> None:
        """Stores rows of sums so many bytes apart."""
        ...

    def multiply(self, w: Writer, total: int, left: int, right: int) -> None:
        """Adds a product to sums."""
        ...

    def release(self, w: Writer) -> None:
        """Lets go of the registers."""
        ...


class Goal(Enum):
    """What code is made for."""

    HERE = "to be fast in this process: constants are kept in whatever form is fastest"
    SPEED = "to be fast elsewhere: constants take no more memory than in the model"
    SIZE = "to be small elsewhere"


@dataclass(frozen=True)
class Tiles:
    """What register tiles of products are best made of (`gemm/microkernel.py`).

    Measured on products of 256 x 256 x 256 and 196 x 96 x 576, on AVX2 and AVX-512 of one processor.

    Attributes:
        most_rows: rows of a tile, each of which needs a register for its address. 6 to 16 are within 1 %; 4 is up to
            28 % slower.
        share: the share of the vector registers that sums take; the others hold the panel's vectors and a word of a
            row. From 3/4 on all are within 3 %; 5/8 is up to 6 % slower, 1/2 up to 29 %.
        chains: sums that must be under way at a time, since each takes some cycles: an addition's latency, 4, times
            how many begin in a cycle, 2. 1 to 12 are within 3 %, as tiles have more sums by themselves; 16 is up to
            45 % slower on AVX2, where it takes more registers than there are.
        line_bytes: of a cache line.
        turn: see `Target.turn`.
        real_rows: as `most_rows`, of real numbers, if these have registers of their own.
    """

    most_rows: int = 12
    share: tuple[int, int] = (3, 4)
    chains: int = 8
    line_bytes: int = 64
    turn: int = 8
    real_rows: int | None = None


@dataclass(frozen=True)
class Target:
    """A processor, and what its system has.

    Attributes:
        triple: LLVM's name of architecture and system.
        cpu: LLVM's name of the processor.
        features: LLVM's feature string, `+avx2,-avx512f,...`.
        data_layout: LLVM's description of how values lie in memory. Code made without it can be wrong, or none.
        goal: what code is made for.
    """

    triple: str
    cpu: str
    features: str
    data_layout: str
    goal: Goal = Goal.HERE

    tiles: ClassVar[Tiles] = Tiles()
    has_threads: ClassVar[bool] = True
    """Whether a run may have several threads, so that code shares out loops."""
    has_libm: ClassVar[bool] = True
    """Whether code may call the C library's functions of real numbers, as LLVM does where there is no instruction;
    operators that may need one are else left to numpy."""
    pause: ClassVar[tuple[str, str]] = ("", "")
    """In LLVM's language a declaration and an instruction that lets the processor rest for a moment, if it has one."""

    @classmethod
    def tuned(cls, features: str, goal: Goal) -> str:
        """The features that code is made with for a goal, on a processor that has some."""
        return features

    def has(self, feature: str) -> bool:
        """Whether the processor has a feature, by LLVM's name of it."""
        return f"+{feature}" in self._features

    @cached_property
    def _features(self) -> frozenset[str]:
        return frozenset(self.features.split(","))

    @property
    def vector_bytes(self) -> int:
        """The width of the widest vector register; 4 where there is none."""
        return 16

    @property
    def has_doubles(self) -> bool:
        """Whether there are instructions for double precision; integers and single precision do its work elsewhere."""
        return True

    @property
    def has_halves(self) -> bool:
        """Whether there are instructions that convert half precision; integers do that elsewhere."""
        return False

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        return 16

    @property
    def turn(self) -> int:
        """Products of vectors in a turn of a tile's innermost loop, at the least. With 16, two steps of the depth for
        tiles of 12 vectors, LLVM keeps more words of rows at a time than AVX2 has registers for: on Zen products
        with up to 8 columns took 1.6 times as long, with 9 to 24 words a run 1.1 times, and others neither more nor
        less, of 46. On another processor two steps took up to 2.5 % less, the mean of 22 products."""
        return self.tiles.turn

    @property
    def real_registers(self) -> int:
        """How many there are for real numbers."""
        return self.vector_registers

    @property
    def has_extending_sums(self) -> bool:
        """Whether one instruction adds any byte of a word to a word."""
        return False

    def read_counter(self, w: Writer) -> ir.Value:
        """Emits the value, an i64, of a counter that grows at a steady rate; reading it takes some 10 ns."""
        kind = ir.FunctionType(ir.IntType(64), [])
        return w.builder.call(w.declare("llvm.readcyclecounter", kind), [])

    @property
    def pointer_bytes(self) -> int:
        """The width of an address."""
        found = re.search(r"(?:^|-)p:(\d+)", self.data_layout)
        return 8 if found is None else int(found[1]) // 8

    @property
    def index_bits(self) -> int:
        """The width of an index, which counts the elements and bytes of tensors: 64, or 32 where addresses are not
        wider."""
        return min(64, 8 * max(self.pointer_bytes, 4))

    @property
    def alignment(self) -> int:
        """Of buffers, in bytes: a cache line, or less where there are no vectors."""
        return 64 if self.vector_bytes >= 16 else 8

    @property
    def is_freestanding(self) -> bool:
        """Whether there is no C library to call for real numbers."""
        return self.goal is not Goal.HERE

    def has_instruction(self, name: str, bits: int) -> bool:
        """Whether one of LLVM's intrinsics on real numbers of so many bits becomes instructions, and no call of the C
        library: `ceil`, `floor`, `fma`, `maximum`, `maximumnum`, `maxnum`, `minimumnum`, `minnum`, `rint`,
        `sqrt`, `trunc`."""
        return False

    @property
    def has_masks(self) -> bool:
        """Whether vectors are loaded and stored with a mask of lanes, of elements of any type."""
        return False

    def masks(self, size: int) -> bool:
        """The same of elements of so many bytes."""
        return self.has_masks

    def dot_bytes(self, lanes: int) -> Dot | None:
        """By four unsigned bytes of `left` and four signed ones of `right`, in vectors of so many i32."""
        return None

    def dot_pairs(self, lanes: int) -> Dot | None:
        """By two signed 16-bit integers."""
        return None

    def dot_magnitudes(self, lanes: int) -> Dot | None:
        """By four signed bytes, of which those of `right` are at least -127."""
        return None

    def dot_signed(self, lanes: int) -> Dot | None:
        """By four signed bytes."""
        return None

    def matrices(self) -> Matrices | None:
        """Whole matrices of bytes at a time."""
        return None

    def multiply_each(self) -> MultiplyEach | None:
        """Four bytes of a word at a time."""
        return None

    def add_pairs(self, lanes: int) -> AddPairs | None:
        """For results of so many lanes."""
        return None

    def pack(self, lanes: int) -> Pack | None:
        """For vectors of so many lanes."""
        return None

    def arrange(self, lanes: int) -> Arrange | None:
        """For vectors of so many lanes, in an order that is read from memory: LLVM takes a fifth of its time for a tile
        to look into what it does with a known one."""
        return None

    def look_up(self) -> LookUp | None:
        """How bytes are looked up faster than by a load for each."""
        return None


TARGETS: dict[str, type[Target]] = {}
"""The processors, by LLVM's names of their architectures."""
TargetT = TypeVar("TargetT", bound=type[Target])
"""The class of a processor."""


def target(*architectures: str) -> Callable[[TargetT], TargetT]:
    """Registers the decorated class for architectures, by the first part of LLVM's triple."""
    def register(kind: TargetT) -> TargetT:
        TARGETS.update(dict.fromkeys(architectures, kind))
        return kind

    return register


def kind_of(triple: str) -> type[Target]:
    """The class of the processor that a triple names: in the file of that name, else in whichever registers it."""
    from pkgutil import iter_modules  # takes a while to import

    name = triple.partition("-")[0]
    names = {each.name for each in iter_modules(targets.__path__)}
    for each in [name] if name in names else sorted(names):
        imported(f"{targets.__name__}.{each}")
    return TARGETS.get(name, Target)
