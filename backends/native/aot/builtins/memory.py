"""Copies between places that may overlap, Arm's names of what copies and fills, and reading what others write."""

from __future__ import annotations

from collections.abc import Iterator

from circlet.backends.native.aot.builtins.body import Body, Function, Word


def _moved(f: Body, target: Word, source: Word, count: Word) -> None:
    """As C's `memmove`; by `memcpy`, unless the places overlap."""
    with f.when(target.equals(source)):
        f.leave(target)
    with f.when(~((target - source).below(count) | (source - target).below(count))):
        f.call_library("memcpy", target, source, count)
        f.leave(target)
    size = f.word // 8
    with f.when(((target | source | count) & (size - 1)).equals(0)):
        _shift(f, target, source, count, f.word)
        f.leave(target)
    _shift(f, target, source, count, 8)
    f.leave(target)


def _shift(f: Body, target: Word, source: Word, count: Word, bits: int) -> None:
    """Copies units of some bits, from the end that the other place does not begin with."""
    size, is_up = f.number(bits // 8, f.word), source.below(target)

    def turn(at: Word, left: Word) -> list[Word]:
        f.store(f.load(source + at, bits), target + at)
        return [is_up.choose(at - size, at + size), left - size]

    f.repeat([is_up.choose(count - size, 0), count], lambda _, left: left.differs(0), turn)


def _copied(f: Body, target: Word, source: Word, count: Word) -> None:
    f.call_library("memcpy", target, source, count)
    f.leave(target)


def _filled(f: Body, target: Word, count: Word, byte: Word) -> None:
    """With the arguments in Arm's order."""
    f.call_library("memset", target, byte, count)
    f.leave(target)


def _cleared(f: Body, target: Word, count: Word) -> None:
    _filled(f, target, count, f.number(0, f.word))


def _read(f: Body, place: Word, order: Word) -> None:
    """A number that others may write; where there are no instructions for that, a load is one that nothing divides."""
    f.leave(f.load(place, 32))


def memory(word: int) -> dict[str, Function]:
    """By name, where addresses have so many bits."""
    return {each.name: each for each in _functions(word)}


def _functions(word: int) -> Iterator[Function]:
    yield Function("__atomic_load_4", (32,), (word, 32), _read)
    yield Function("memmove", (word,), (word,) * 3, _moved)
    for aligned in ("", "4", "8"):
        yield Function(f"__aeabi_memmove{aligned}", (word,), (word,) * 3, _moved)
        yield Function(f"__aeabi_memcpy{aligned}", (word,), (word,) * 3, _copied)
        yield Function(f"__aeabi_memset{aligned}", (word,), (word,) * 3, _filled)
        yield Function(f"__aeabi_memclr{aligned}", (word,), (word,) * 2, _cleared)
