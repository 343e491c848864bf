"""Dataclasses that cost little until they are used.

`dataclasses` takes a while to import, and compiles six methods of each class when it is defined, which for hundreds of
classes takes longer than all else of importing them. Here methods that need no text of their own are closures,
`__init__` is made when there are a few objects, and the fields are described when somebody asks. To type checkers,
and to `fields`, `replace` and the like, these are dataclasses as any others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    from functools import cache, partial
    from operator import attrgetter
    from reprlib import recursive_repr
    from types import FunctionType

    _NOTHING = object()
    """The default of a field that has none."""
    _put = object.__setattr__
    _FEW = 8
    """Objects that take less time to make without an `__init__` of their class's own than to make one takes, which is
    60 us for the first class with as many fields: each costs some 2 us more."""

    class _Factory:
        """What makes the default of a field."""

        def __init__(self, make):
            self.make = make

    def field(*, default_factory):
        """As `dataclasses.field`."""
        return _Factory(default_factory)

    def replace(record, /, **changes):
        """As `dataclasses.replace`."""
        return type(record)(**{name: getattr(record, name) for name in record.__match_args__} | changes)

    def dataclass(cls=None, /, *, frozen=False, eq=True):
        """As `dataclasses.dataclass`, for classes whose annotations are text, whose bases are of this kind, and that
        have no options of fields but factories of defaults."""
        return _made(cls, frozen, eq) if cls is not None else lambda given: _made(given, frozen, eq)

    class _Late:
        """An attribute of classes that is made when it is asked for."""

        def __init__(self, make):
            self._make, self._made = make, _NOTHING

        def __get__(self, instance, owner):
            if self._made is _NOTHING:
                self._made = self._make()
            return self._made

    def _made(cls, frozen, eq):
        kind, own = (frozen, eq), _own_fields(cls)
        if not own and _has_all(cls, kind):
            return cls
        found = {name: each for base in reversed(cls.__mro__[1:])
                 for name, each in base.__dict__.get("__record_fields__", {}).items()} | own
        defined, names = cls.__dict__, tuple(found)
        cls.__record_fields__, cls.__record_kind__, cls.__match_args__ = found, kind, names
        cls.__dataclass_fields__ = _Late(partial(_fields, found))
        cls.__dataclass_params__ = _Late(lambda: _theirs(*kind).__dataclass_params__)
        if "__init__" not in defined:
            cls.__init__ = _deferred(cls, found, frozen)
        if "__repr__" not in defined:
            cls.__repr__ = _representation
        if eq and "__eq__" not in defined:
            cls.__eq__ = _comparing(names)
            if "__hash__" not in defined or not frozen:
                cls.__hash__ = _hashing(names) if frozen else None
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
        return cls

    def _own_fields(cls):
        """Annotation and default of each field, by name."""
        found = {}
        for name, text in cls.__annotations__.items():
            if text.startswith("ClassVar"):
                continue
            default = getattr(cls, name, _NOTHING)
            if isinstance(default, _Factory):
                delattr(cls, name)
            elif type(default).__name__ == "Field":
                raise TypeError(f"{cls.__qualname__}.{name}: expected the field of records, found that of dataclasses")
            found[name] = text, default
        return found

    def _has_all(cls, kind):
        """Whether a class without fields of its own has from its base all that it would be given."""
        return (len(cls.__bases__) == 1 and getattr(cls, "__record_kind__", None) == kind
                and cls.__dict__.keys().isdisjoint(("__init__", "__repr__", "__eq__", "__hash__")))

    @cache
    def _theirs(frozen, eq):
        """A class of `dataclasses` with some options, and a field."""
        from dataclasses import dataclass

        return dataclass(init=False, repr=False, eq=eq, frozen=frozen)(
            type("_Theirs", (), {"__annotations__": {"field": "int"}, "__doc__": "A field.", "field": 0}))

    def _fields(found):
        """Fields as `dataclasses` has them."""
        from dataclasses import MISSING, field, fields

        kind = fields(_theirs(True, True))[0]._field_type
        made = {}
        for name, (text, default) in found.items():
            if isinstance(default, _Factory):
                made[name] = field(default_factory=default.make, kw_only=False)
            else:
                made[name] = field(default=MISSING if default is _NOTHING else default, kw_only=False)
            made[name].name, made[name].type, made[name]._field_type = name, text, kind
        return made

    def _deferred(cls, found, frozen):
        """An `__init__` that makes a few frozen objects, and then puts one of the class's own to its place."""
        left, names = iter(range(_FEW if frozen else 0)), tuple(found)

        def __init__(self, /, *args, **kwargs):  # noqa: N807
            values = _arguments(found, names, args, kwargs) if next(left, None) is not None else None
            if values is None:
                cls.__init__ = _compiled_init(cls, found, frozen)
                cls.__init__(self, *args, **kwargs)
                return
            self.__dict__.update(values)
            if hasattr(cls, "__post_init__"):
                self.__post_init__()

        return __init__

    def _arguments(found, names, args, kwargs):
        """The values of fields; None where some are missing or there are others, which `__init__` knows to tell."""
        if not kwargs and len(args) == len(names):
            return zip(names, args, strict=True)
        left = [each for each in names[len(args):] if each not in kwargs]
        values = dict.fromkeys(names)
        values.update(zip(names, args, strict=False))
        values.update(kwargs)
        if len(values) != len(names) or len(args) + len(kwargs) + len(left) != len(names):
            return None
        for name in left:
            default = found[name][1]
            if default is _NOTHING:
                return None
            values[name] = default.make() if isinstance(default, _Factory) else default
        return values

    def _compiled_init(cls, found, frozen):
        defaults = [default for _, default in found.values()]
        factories = {k: each.make for k, each in enumerate(defaults) if isinstance(each, _Factory)}
        code = _init_code(len(found), frozen, tuple(factories), hasattr(cls, "__post_init__"))
        names = {f"_{k}": name for k, name in enumerate(found)}
        own = {each: tuple(names.get(name, name) for name in getattr(code, each))
               for each in ("co_varnames", "co_names", "co_consts")}
        known = {"_MISSING_": _NOTHING, "_put_": _put, **{f"_default_{k}": make for k, make in factories.items()}}
        given = [_NOTHING if k in factories else each for k, each in enumerate(defaults) if each is not _NOTHING]
        if _NOTHING in defaults[len(defaults) - len(given):]:
            raise TypeError(f"{cls.__qualname__}: expected fields with defaults behind all others")
        made = FunctionType(code.replace(**own), known, "__init__", tuple(given))
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made

    @cache
    def _init_code(count, frozen, factories, has_more):
        """The code of an `__init__` of so many fields, called `_0`, `_1`, and so on; to compile it takes ten times as
        long as to name them otherwise."""
        body = []
        for k in range(count):
            value = f"_default_{k}() if _{k} is _MISSING_ else _{k}" if k in factories else f"_{k}"
            body.append(f"_put_(self, '_{k}', {value})" if frozen else f"self._{k} = {value}")
        if has_more:
            body.append("self.__post_init__()")
        found = {}
        exec(f"def __init__({', '.join(['self', *(f'_{k}' for k in range(count))])}):\n "
             + "\n ".join(body or ["pass"]), found)
        return found["__init__"].__code__

    def _values(names):
        """What gives the values of some attributes, as a tuple."""
        if len(names) > 1:
            return attrgetter(*names)
        get = attrgetter(*names) if names else None
        return (lambda self: (get(self),)) if names else lambda self: ()

    def _comparing(names):
        values = _values(names)

        def __eq__(self, other):  # noqa: N807
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        return __eq__

    def _hashing(names):
        values = _values(names)
        return lambda self: hash(values(self))

    @recursive_repr()
    def _representation(self):
        given = zip(self.__match_args__, _values(self.__match_args__)(self), strict=True)
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in given)})"

    def _refuse_to_set(self, name, value):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self, name):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")
