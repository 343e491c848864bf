"""Allocates and retypes the buffers that frames are bound to, within what there is room for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from ctypes import addressof, c_char
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from weakref import ref

import numpy as np

from circlet.runtime.errors import LimitError
from circlet.runtime.ir.types import ALIGNMENT, Array, Shape

LITTLE = 1 << 26
"""Bytes that are allocated without a look at what memory is free."""
HUGE_PAGE = 1 << 21
"""Bytes of a huge page, which is there after one fault instead of 512. Systems give them to who asks for them; numpy
does so for arrays of 4 MiB and more, where a whole one fits."""
_LARGE, _MORE = 1 << 20, 3
"""Bytes from which on buffers are whole huge pages, if that is at most a third more. Otherwise the first touch of 14 MB
takes 4 ms."""
_LEAST, _MOST_MORE = 1 << 15, 1 << 20
"""Bytes of memory that grows, at least, and beyond what is needed at the most, so that lengths that grow by one do not
allocate each time: choices. Little memory begins with twice what is needed, as other lengths are likely to follow."""
_SPARE, _SPARED = 3, 16
"""How much more a large buffer that grows may come to need, in times of what is needed, and one part of the room of so
many that it may take for that: choices. Pages are there once they are touched, and to touch those of 20 MB anew takes 3
to 20 ms."""
LARGE = 1 << 17
"""Bytes from which on results are given away, or copied to memory that was there before, which takes less than to copy
them to new memory: a choice. A step of a decoder with four caches that it is given and gives back takes as long either
way with 80 to 150 kB each, a quarter less so with 240 kB."""
WASTE = 4
"""How many times as much memory a large result may lie in: a choice."""
_SLACK = 8
"""One part of so many that there is more memory than a large result needs, as the next one may be a little longer, and
half as much more if that is little and runs have no limit: choices. What is never touched takes no memory."""
_SHARE = 2
"""One part of the free memory of so many is for buffers; the rest is for results and for what numpy takes."""


@lru_cache(1)
def physical_memory() -> int:
    """The bytes of memory that this machine has; unbounded where it does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def touch_lists() -> None:
    """Has the system make the pages in which numpy keeps lists of the memory of small arrays, one for each number of
    bytes below 1024, 64 of them in a page. Each is read before it is written to, and so made twice: up to 17 us for who
    first drops an array of such a size."""
    for size in range(32, 1024, 64):
        np.empty(size, np.uint8)


def free_memory() -> int:
    """The bytes of memory that can still be had without swapping, by this process's control group too; as many as the
    machine has where it does not tell."""
    return min(physical_memory(), _available(), *(_left_of_group(*each) for each in _GROUP_FILES))


_GROUP_FILES = (("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"))
"""Where Linux tells the limit of a control group and what it uses, versions 2 and 1."""


def _available() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 1 << 62


def _left_of_group(limit: str, usage: str) -> int:
    try:
        return max(int(Path(limit).read_text()) - int(Path(usage).read_text()), 0)
    except (OSError, ValueError):
        return 1 << 62


def expect_room(shape: Shape, dtype: np.dtype[np.generic]) -> int:
    """The bytes that an array takes.

    Raises:
        LimitError: there is not memory enough.
    """
    size = _expect_machine(shape, dtype)
    if size > LITTLE:
        free = free_memory()
        if size > free // _SHARE:
            raise LimitError(f"a buffer of shape {shape} needs {size} bytes, "
                             f"more than half of the {free} bytes that are free")
    return size


def _expect_machine(shape: Shape, dtype: np.dtype[np.generic]) -> int:
    size = prod(shape) * dtype.itemsize
    if size > physical_memory():
        raise LimitError(f"a buffer of shape {shape} needs {size} bytes, more than this machine has")
    return size


class Room:
    """What the buffers of one run take, and may take. Buffers that are given up make room again."""

    def __init__(self) -> None:
        self.taken = 0
        """Bytes."""
        self.most: int | None = None
        """Bytes that they may take, as far as that was asked."""
        self._limit: int | None = None
        self._buffers: dict[int, ref[Array]] = {}

    @property
    def is_limited(self) -> bool:
        """Whether the run may take no more than its caller says."""
        return self._limit is not None

    def limit(self, most: int | None) -> None:
        """Begins a run that may take so many bytes, by default a share of what is free."""
        self._limit = self.most = most

    def allocate(self, shape: Shape, dtype: np.dtype[np.generic], is_sparse: bool = False) -> Array:
        """As the function `allocate`, within the limit.

        Args:
            shape: of the array.
            dtype: of its elements.
            is_sparse: whether most of it may never be touched, as of buffers with room for lengths that a run computes.

        Raises:
            LimitError: there is not room enough.
        """
        size = _expect_machine(shape, dtype)
        self._expect(size, shape)
        array = _made(shape, dtype, size, is_sparse)
        self._count(array, size)
        return array

    def grown(self, had: int, size: int, is_sparse: bool = False) -> Array:
        """So many bytes where some were too few: more if there is room, as others may follow, so that the memory which
        was touched already stays in use; see `allocate`.

        Raises:
            LimitError: there is not room enough.
        """
        begun = had or (size if size < LARGE else 0)
        more = max(size, min(2 * begun, size + _MOST_MORE), _LEAST)
        if size >= _LARGE and not is_sparse:
            spare = _SPARE * size
            is_little = self.most is None and self.taken + size + spare <= LITTLE
            more = max(more, size + (spare if is_little else min(spare, self._room() // _SPARED)))
        bytes_of = np.dtype(np.uint8)
        try:
            return self.allocate((more,), bytes_of, is_sparse)
        except LimitError:
            return self.allocate((size,), bytes_of, is_sparse)

    def release(self, array: Array) -> None:
        """Counts an array no more that was allocated here, as it is a caller's."""
        owner = array if array.base is None else array.base
        if self._buffers.pop(id(owner), None) is not None:
            self.taken -= array.nbytes

    def take_back(self, array: Array) -> None:
        """Counts an array again that a caller gave up.

        Raises:
            LimitError: there is not room enough.
        """
        self._expect(array.nbytes, array.shape)
        self._count(array, array.nbytes)

    def _count(self, array: Array, size: int) -> None:
        self.taken += size
        owner = array if array.base is None else array.base
        self._buffers[id(owner)] = ref(owner, partial(self._gone, id(owner), size))

    def _gone(self, key: int, size: int, _: ref[Array]) -> None:
        self.taken -= size
        del self._buffers[key]

    def _room(self) -> int:
        """The bytes that buffers may still take."""
        if self.most is None:
            self.most = self.taken + free_memory() // _SHARE
        return max(self.most - self.taken, 0)

    def _expect(self, size: int, shape: Shape) -> None:
        wanted = self.taken + size
        if self.most is None and wanted > LITTLE:
            self._room()
        if self.most is not None and wanted > self.most:
            why = f"memory={self._limit}" if self._limit is not None else f"the {self.most} that there is room for"
            raise LimitError(f"a buffer of shape {shape} needs {size} bytes; with what the run has that is {wanted}, "
                             f"more than {why}")


def allocate(shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """An array that begins on a cache line; strings start empty.

    Raises:
        LimitError: there is not memory enough.
    """
    return _made(shape, dtype, expect_room(shape, dtype))


def _made(shape: Shape, dtype: np.dtype[np.generic], size: int, is_sparse: bool = False) -> Array:
    if dtype.hasobject:
        return np.full(shape, b"", dtype)
    if is_sparse and size >= _LARGE:
        return retype(_pages(size), shape, dtype)
    rest = -size % HUGE_PAGE
    alignment, whole = (HUGE_PAGE, size + rest) if size >= _LARGE and rest * _MORE <= size else (ALIGNMENT, size)
    raw = np.empty(whole + alignment, np.uint8)
    start = -addressof(c_char.from_buffer(raw.data)) % alignment
    found: Array = np.ndarray(shape, dtype, raw, start)
    return found


def _pages(size: int) -> Array:
    """Bytes of which each small page is there once it is touched: a touch of a huge one clears 2 MB."""
    if sys.platform != "linux":
        return np.empty(size, np.uint8)
    import mmap  # seldom needed

    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # of a system without huge pages
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def is_readable(array: Array) -> bool:
    """Whether code can read a caller's array where it is, which takes less than to copy it."""
    return array.nbytes >= LARGE and array.flags.c_contiguous and array.flags.aligned


def address(array: Array) -> int:
    """Where the elements of an array begin: as `ctypes.data`, in a third of its time where the array can be written
    to."""
    try:
        return addressof(c_char.from_buffer(array.data))
    except (TypeError, ValueError, BufferError):  # it cannot, has no elements, or some that buffers cannot have
        found: int = array.ctypes.data
        return found


class _Owner:
    """What all arrays in a piece of memory, bytes, lead to, and none past it, as it is no array."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "data": (address(memory), False), "shape": memory.shape, "typestr": "|u1", "version": 3}


class ResultMemory:
    """Memory for large results: callers have some, who runs has some, and some waits for the next run. What was touched
    already is worth keeping: the system clears each page before it gives it out."""

    def __init__(self, most: int, room: Room | None = None) -> None:
        """
        Args:
            most: how many results there are. Twice as many pieces of memory that are about as large may wait, those of
                a run and of the one before, and as many of more than `LITTLE`; lengths that change ask for some of each
                size.
            room: in which it counts while no caller has it.
        """
        self._most, self._room = most, room
        self._waiting: list[Array] = []
        self._held: dict[int, ref[_Owner]] = {}
        """What callers have."""

    def take(self, size: int) -> Array:
        """So many bytes at least.

        Raises:
            LimitError: there is not memory enough.
        """
        waiting = self._waiting  # to which other threads may add at its end
        sizes = [each.nbytes for each in waiting]
        fitting = [each for each in sizes if size <= each <= WASTE * size]
        if fitting:
            found = waiting.pop(sizes.index(min(fitting)))
            if self._room is not None:
                self._room.take_back(found)
            return found
        smaller = [each for each in sizes if each < size]
        if smaller:
            del waiting[sizes.index(max(smaller))]
        make = allocate if self._room is None else self._room.allocate
        is_limited = self._room is not None and self._room.is_limited
        try:
            return make((size + max(size // _SLACK, 0 if is_limited else min(size // 2, _MOST_MORE)),),
                        np.dtype(np.uint8))
        except LimitError:
            return make((size,), np.dtype(np.uint8))

    def give(self, memory: Array, result: Array) -> Array:
        """A result at the begin of memory that was taken, which is a caller's from here on."""
        if self._room is not None:
            self._room.release(memory)
        owner = _Owner(memory)
        self._held[id(owner)] = ref(owner, partial(self._returned, id(owner), memory))
        array: Array = np.ndarray(result.shape, result.dtype, np.asarray(owner))
        return array

    def copy(self, array: Array) -> Array:
        """A copy, which is a caller's.

        Raises:
            LimitError: there is not memory enough.
        """
        memory = self.take(array.nbytes)
        target: Array = np.ndarray(array.shape, array.dtype, memory)
        target[...] = array
        return self.give(memory, target)

    def _returned(self, key: int, memory: Array, _: ref[_Owner]) -> None:
        del self._held[key]
        most = self._most * (1 if memory.nbytes > LITTLE else 2)
        if sum([_about(each) == _about(memory) for each in self._waiting]) < most:
            self._waiting.append(memory)


def _about(memory: Array) -> int:
    """How large a piece of memory is, to a factor of 2."""
    return memory.nbytes.bit_length()


def result_copiers(arrays: Iterable[Array]) -> tuple[Callable[[], Array], ...]:
    """What gives copies of arrays, again and again; large ones are in memory that was there before."""
    return tuple([each.copy if each.nbytes < LARGE or each.dtype.hasobject else partial(ResultMemory(1).copy, each)
                  for each in arrays])


def copies(arrays: Iterable[Array]) -> list[Array]:
    """Copies of arrays.

    Raises:
        LimitError: there is no room for a large one.
    """
    return [each.copy() if each.nbytes <= LITTLE else copied(each) for each in arrays]


def copied(array: Array) -> Array:
    """A copy.

    Raises:
        LimitError: there is no room for it.
    """
    if array.nbytes > LITTLE:
        expect_room(array.shape, array.dtype)
    copy: Array = array.copy()
    return copy


def retype(array: Array, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """The same memory seen with another shape and element type."""
    flat = array.reshape(-1)
    return (flat if flat.dtype == dtype else flat.view(dtype)).reshape(shape)
