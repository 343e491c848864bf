"""Dataclasses that cost little until they are used.

`dataclasses` compiles six methods of each class when it is defined, which for hundreds of classes takes longer than all
else of importing them. Here methods that need no text of their own are closures, and `__init__` is compiled when the
first object is made. To type checkers, and to `fields`, `replace` and the like, these are dataclasses as any others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
    from dataclasses import dataclass as compiled
    from inspect import get_annotations
    from operator import attrgetter
    from reprlib import recursive_repr

    def dataclass(cls=None, /, *, frozen=False, eq=True):
        """As `dataclasses.dataclass`, for classes whose annotations are text and that have no options of fields but
        factories of defaults."""
        return _made(cls, frozen, eq) if cls is not None else lambda given: _made(given, frozen, eq)

    @compiled(init=False, repr=False, eq=False)
    class _Ordinary:
        """What the attributes of dataclasses and their fields are taken from."""

        field: int = 0

    _FIELD_TYPE = fields(_Ordinary)[0]._field_type
    _PARAMETERS = {(frozen, eq): compiled(init=False, repr=False, eq=eq, frozen=frozen)(
        type("_Kind", (), {"__doc__": "A kind of dataclasses."})).__dataclass_params__
        for frozen in (False, True) for eq in (False, True)}

    def _made(cls, frozen, eq):
        own, parameters = _own_fields(cls), _PARAMETERS[frozen, eq]
        if not own and _has_all(cls, parameters):
            return cls
        found = {name: each for base in reversed(cls.__mro__[1:])
                 for name, each in base.__dict__.get("__dataclass_fields__", {}).items()} | own
        defined, values = cls.__dict__, found.values()
        cls.__dataclass_fields__, cls.__dataclass_params__ = found, parameters
        cls.__match_args__ = tuple(each.name for each in values if each.init)
        if "__init__" not in defined:
            cls.__init__ = _deferred(cls, tuple(values), frozen)
        if "__repr__" not in defined:
            cls.__repr__ = _representing(tuple(found))
        if eq and "__eq__" not in defined:
            cls.__eq__ = _comparing(tuple(found))
            if "__hash__" not in defined or not frozen:
                cls.__hash__ = _hashing(tuple(found)) if frozen else None
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
        return cls

    def _own_fields(cls):
        found = {}
        for name, text in get_annotations(cls).items():
            if text.startswith("ClassVar"):
                continue
            default = getattr(cls, name, MISSING)
            if isinstance(default, Field):
                found[name] = default
                delattr(cls, name)
            else:
                found[name] = field(default=default, kw_only=False)
            found[name].name, found[name].type, found[name]._field_type = name, text, _FIELD_TYPE
        return found

    def _has_all(cls, parameters):
        """Whether a class without fields of its own has from its base all that it would be given."""
        return (len(cls.__bases__) == 1 and getattr(cls, "__dataclass_params__", None) is parameters
                and cls.__dict__.keys().isdisjoint(("__init__", "__repr__", "__eq__", "__hash__")))

    def _deferred(cls, found, frozen):
        """An `__init__` that first puts the real one to its place."""
        def __init__(self, /, *args, **kwargs):  # noqa: N807
            cls.__init__ = _compiled_init(cls, found, frozen)
            cls.__init__(self, *args, **kwargs)

        return __init__

    def _compiled_init(cls, found, frozen):
        names = {"_MISSING_": MISSING, "_put_": object.__setattr__}
        parameters, body = [], []
        for k, each in enumerate(found):
            value = each.name
            if each.default_factory is not MISSING:
                names[f"_default_{k}"] = each.default_factory
                value = f"_default_{k}()" + (f" if {value} is _MISSING_ else {value}" if each.init else "")
                parameter = f"{each.name}=_MISSING_"
            elif each.default is not MISSING:
                names[f"_default_{k}"] = each.default
                parameter = f"{each.name}=_default_{k}"
            else:
                parameter = each.name
            parameters += [parameter] * each.init
            body.append(f"_put_(self, {each.name!r}, {value})" if frozen else f"self.{each.name} = {value}")
        text = f"def __init__(self, {', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
        exec(text, names)
        made = names["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made

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

    def _representing(names):
        @recursive_repr()
        def __repr__(self):  # noqa: N807
            given = zip(names, _values(names)(self), strict=True)
            return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in given)})"

        return __repr__

    def _refuse_to_set(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
