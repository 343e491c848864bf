"""Records as bytes: numbers of 64 bits, then the texts that some of them are the lengths of.

Which they are follows from the classes of records and the annotations of their fields, in order. Before a record stands
the number of its class among those that are possible there, before what may be None whether it is there, before the
items of a tuple how many they are, before what is shared -1, or in its place the number of what is equal. Bytes that do
not say all that, to their end, are `DamageError`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TypeVar

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass, record_of

RecordT = TypeVar("RecordT")
_HEAD = Struct("<Q")
"""How many numbers there are."""
_ENCODING = "utf-8", "surrogatepass"
"""Of texts, which may hold any character."""


class DamageError(ValueError):
    """The bytes are not what were written."""


class Source:
    """What is read."""

    def __init__(self, content: bytes) -> None:
        count, = _HEAD.unpack(content[:_HEAD.size])
        begin = _HEAD.size + 8 * count
        numbers: list[int] = np.frombuffer(content[_HEAD.size:begin], "<i8").tolist()
        if len(numbers) != count:
            raise DamageError(f"expected {count} numbers, found {len(numbers)}")
        self._numbers = iter(numbers)
        self.number = self._numbers.__next__
        """The next number."""
        self._text = content[begin:].decode(*_ENCODING)
        self._at = 0
        self.shared: list[object] = []
        """What was read that may come again."""

    def several(self, count: int) -> tuple[int, ...]:
        """The next numbers."""
        found = tuple(islice(self._numbers, max(count, 0)))
        if len(found) != count:
            raise DamageError(f"expected {count} numbers, found {len(found)}")
        return found

    def truth(self) -> bool:
        """The next number as a truth value."""
        found = self.number()
        if found not in (0, 1):
            raise DamageError(f"expected 0 or 1, found {found}")
        return found == 1

    def text(self) -> str:
        """The next text."""
        begin, size = self._at, self.number()
        self._at = begin + size
        if not begin <= self._at <= len(self._text):
            raise DamageError(f"expected {size} characters at {begin}, found {len(self._text) - begin}")
        return self._text[begin:self._at]

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more."""
        return next(self._numbers, None) is None and self._at == len(self._text)


class Sink:
    """What is written."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.texts: list[str] = []
        self.shared: dict[object, int] = {}
        """The numbers of what was written that may come again."""

    def content(self) -> bytes:
        numbers = np.array(self.numbers, "<i8")
        return _HEAD.pack(numbers.size) + numbers.tobytes() + "".join(self.texts).encode(*_ENCODING)


@dataclass(frozen=True, eq=False)
class Form:
    """How values of a kind are read and written."""

    read: Callable[[Source], object]
    write: Callable[[Sink, object], None]


def encode(record: object) -> bytes:
    """A record of a class that `one_of` named, as bytes."""
    sink = Sink()
    FORMS[type(record).__name__].write(sink, record)
    return sink.content()


def decode(kind: type[RecordT], content: bytes) -> RecordT:
    """The record of a class, which `one_of` named, that was encoded.

    Raises:
        DamageError: it is none.
    """
    try:
        source = Source(content)
        found = FORMS[kind.__name__].read(source)
    except (ValueError, ArithmeticError, LookupError, StopIteration, RecursionError, StructError) as problem:
        raise DamageError(f"{type(problem).__name__}: {problem}") from None
    if not source.is_over:
        raise DamageError(f"expected nothing behind a {kind.__name__}")
    assert isinstance(found, kind)
    return found


def _write_integer(sink: Sink, value: object) -> None:
    assert isinstance(value, int), f"{value!r} is no integer"
    sink.numbers.append(value)


def _write_text(sink: Sink, value: object) -> None:
    assert isinstance(value, str), f"{value!r} is no text"
    sink.numbers.append(len(value))
    sink.texts.append(value)


def _write_dtype(sink: Sink, value: object) -> None:
    assert isinstance(value, DType), f"{value!r} is no element type"
    _write_text(sink, value.value)


INTEGER = Form(lambda source: source.number(), _write_integer)
FORMS: dict[str, Form] = {}
"""The form of a field, by its annotation."""


def _optional(form: Form) -> Form:
    """Something or None."""
    def write(sink: Sink, value: object) -> None:
        sink.numbers.append(value is not None)
        if value is not None:
            form.write(sink, value)

    return Form(lambda source: form.read(source) if source.truth() else None, write)


def several(form: Form) -> Form:
    """A tuple of any length."""
    take = form.read

    def write(sink: Sink, value: object) -> None:
        assert isinstance(value, tuple), f"{value!r} is no tuple"
        sink.numbers.append(len(value))
        for each in value:
            form.write(sink, each)

    if form is INTEGER:
        return Form(lambda source: source.several(source.number()), write)
    return Form(lambda source: tuple([take(source) for _ in range(source.number())]), write)


def shared(form: Form) -> Form:
    """What may be in many places, in each but the first as its number: else what is made of others, as these are, takes
    as many numbers as there are ways from one to another."""
    def read(source: Source) -> object:
        number = source.number()
        if number >= 0:
            return source.shared[number]
        if number != -1:
            raise DamageError(f"expected -1 or a number, found {number}")
        found = form.read(source)
        source.shared.append(found)
        return found

    def write(sink: Sink, value: object) -> None:
        number = sink.shared.get(value, -1)
        sink.numbers.append(number)
        if number < 0:
            form.write(sink, value)
            sink.shared[value] = len(sink.shared)

    return Form(read, write)


def both(first: Form, second: Form) -> Form:
    """A pair."""
    def write(sink: Sink, value: object) -> None:
        assert isinstance(value, tuple), f"{value!r} is no pair"
        one, other = value
        first.write(sink, one)
        second.write(sink, other)

    return Form(lambda source: (first.read(source), second.read(source)), write)


def annotate(name: str, form: Form) -> None:
    """Gives fields with an annotation a form, and those for several and for none of it."""
    FORMS.update({name: form, f"tuple[{name}, ...]": several(form), f"{name} | None": _optional(form),
                  f"tuple[{name} | None, ...]": several(_optional(form))})


def named(annotation: str) -> Form:
    """The form of an annotation, which may be given it later."""
    return Form(lambda source: FORMS[annotation].read(source), lambda sink, value: FORMS[annotation].write(sink, value))


def one_of(*kinds: type) -> Form:
    """A record of one of these classes."""
    known: dict[int, tuple[tuple[str, Form], ...]] = {}

    def fields(number: int) -> tuple[tuple[str, Form], ...]:
        """The names and forms of the fields of a class."""
        found = known.get(number)
        if found is None:
            found = known[number] = tuple((name, FORMS[text]) for name, text in kinds[number].__annotations__.items())
        return found

    def write(sink: Sink, value: object) -> None:
        number = kinds.index(type(value))
        sink.numbers.append(number)
        for name, form in fields(number):
            form.write(sink, getattr(value, name))

    def read(source: Source) -> object:
        number = source.number()
        if not 0 <= number < len(kinds):
            raise DamageError(f"expected one of {len(kinds)} classes, found {number}")
        return record_of(kinds[number], [form.read(source) for _, form in fields(number)])

    return Form(read, write)


annotate("int", INTEGER)
annotate("bool", Form(lambda source: source.truth(), _write_integer))
annotate("str", Form(lambda source: source.text(), _write_text))
annotate("DType", Form(lambda source: DType(source.text()), _write_dtype))
annotate("Shape", several(INTEGER))
