"""Dataclasses that compile nothing until they are used are what Python's are."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import MISSING, FrozenInstanceError, fields, is_dataclass
from dataclasses import dataclass as compiled
from functools import cached_property
from typing import ClassVar

import pytest

from circlet.runtime.records import dataclass, field, replace


@dataclass(frozen=True)
class Base:
    """Some fields."""

    number: int
    kind: ClassVar[str] = "base"
    put: str = "put"
    items: list[int] = field(default_factory=list)

    @cached_property
    def double(self) -> int:
        return 2 * self.number


@dataclass(frozen=True)
class Same(Base):
    """No field of its own."""

    kind: ClassVar[str] = "same"


@dataclass(frozen=True)
class More(Same):
    """Another field, and another default."""

    put: str = "more"
    last: float = 0.5


@dataclass
class Open:
    """Not frozen."""

    number: int = 0


@dataclass(frozen=True, eq=False)
class Apart:
    """Equal to itself alone."""

    number: int = 0


@compiled(frozen=True)
class Theirs(Base):
    """Of Python's own."""

    extra: int = 1


def test_construction() -> None:
    assert (Base(3).number, Base(3).put, Base(3).items) == (3, "put", [])
    assert Base(1).items is not Base(1).items
    assert (More(1, last=2.0).put, More(1, "x").put, More(1, "x", [4], 8.0).last) == ("more", "x", 8.0)
    assert (Theirs(1, extra=4).extra, Theirs(1).put) == (4, "put")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'number'"):
        Base()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        More(1, other=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("made", range(10))
def test_the_first_objects_are_as_later_ones(made: int) -> None:
    @dataclass(frozen=True)
    class Size:
        width: int
        height: int = 2
        parts: list[int] = field(default_factory=list)

        def __post_init__(self) -> None:
            if self.width < 0:
                raise ValueError("negative")

    for _ in range(made):
        Size(1)
    assert vars(Size(parts=[1], width=3)) == {"width": 3, "height": 2, "parts": [1]}
    assert [*vars(Size(parts=[1], width=3))] == ["width", "height", "parts"]
    assert (Size(1, 5), Size(1).parts is Size(1).parts) == (Size(1, height=5, parts=[]), False)
    with pytest.raises(ValueError, match="negative"):
        Size(-1)


def test_classes_of_as_many_fields_have_names_and_defaults_of_their_own() -> None:
    @dataclass(frozen=True)
    class Pair:
        left: int
        right: int = 1

    @dataclass(frozen=True)
    class Range:
        """What a field is called may be what the code of another one is written with."""

        _1: int
        _0: str = "none"

    for _ in range(10):
        assert (vars(Pair(2)), vars(Range(3))) == ({"left": 2, "right": 1}, {"_1": 3, "_0": "none"})
        assert vars(Range(_0="some", _1=4)) == {"_1": 4, "_0": "some"}
    assert (Pair.__init__.__qualname__, Range.__init__.__qualname__) == (
        f"{Pair.__qualname__}.__init__", f"{Range.__qualname__}.__init__")


def test_fields_without_defaults_come_first() -> None:
    @dataclass
    class Wrong:
        left: int = 1
        right: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="Wrong: expected fields with defaults behind all others"):
        Wrong(1, 2)


@pytest.mark.parametrize(("args", "named", "message"), [
    ((), {}, "missing 1 required positional argument: 'number'"),
    ((), {"put": "x"}, "missing 1 required positional argument: 'number'"),
    ((1,), {"number": 2}, "got multiple values for argument 'number'"),
    ((1,), {"other": 2}, "got an unexpected keyword argument 'other'"),
    ((1, "a", [], 4), {}, "takes from 2 to 4 positional arguments but 5 were given")])
def test_the_first_object_is_refused_as_later_ones(args: tuple[object, ...], named: dict[str, object],
                                                   message: str) -> None:
    @dataclass(frozen=True)
    class One(Base):
        pass

    with pytest.raises(TypeError, match=message):
        One(*args, **named)  # type: ignore[arg-type]


def test_comparison() -> None:
    assert Base(1) == Base(1) != Base(2)
    assert Base(1) != Same(1)
    assert Same(1) == Same(1)
    nan = float("nan")
    assert Open(1) == Open(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))
    assert More(1, last=nan) == More(1, last=nan)
    assert len({Apart(1), Apart(1)}) == 2


def test_equal_objects_have_equal_hashes() -> None:
    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 0

    assert hash(Point(1)) == hash(Point(1, 0))
    assert len({Point(1), Point(1, 0), Point(1, 2)}) == 2


def test_text() -> None:
    assert repr(More(1)) == "More(number=1, put='more', items=[], last=0.5)"
    assert repr(Same(1)) == "Same(number=1, put='put', items=[])"


def test_frozen() -> None:
    for each in (Base(1), Same(1), More(1)):
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'number'"):
            each.number = 2  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'number'"):
            del each.number
        assert each.double == 2
    one = Open(1)
    one.number = 2
    assert one.number == 2


def test_what_python_asks_of_dataclasses() -> None:
    assert is_dataclass(Same)
    assert [each.name for each in fields(More)] == ["number", "put", "items", "last"]
    assert [each.type for each in fields(More)] == ["int", "str", "list[int]", "float"]
    assert fields(Base)[2].default_factory is list
    assert (fields(More)[1].default, fields(Base)[0].default) == ("more", MISSING)
    assert dataclasses.replace(More(1), put="x") == replace(More(1), put="x") == More(1, "x")
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        replace(More(1), other=2)  # type: ignore[call-arg]
    assert More.__match_args__ == ("number", "put", "items", "last")
    match More(7):
        case More(number, put):
            assert (number, put) == (7, "more")


def test_fields_of_dataclasses_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.items: expected the field of records"):
        @dataclass
        class Wrong:
            items: list[int] = dataclasses.field(default_factory=list)


def test_what_follows_construction() -> None:
    @dataclass(frozen=True)
    class Checked:
        number: int = 1

        def __post_init__(self) -> None:
            if not self.number:
                raise ValueError("no number")

    assert replace(Checked(), number=2).number == 2
    with pytest.raises(ValueError, match="no number"):
        Checked(0)


def test_copies_of_classes_without_objects() -> None:
    assert pickle.loads(pickle.dumps(More(1))) == copy.copy(More(1)) == copy.deepcopy(More(1))
