"""Models that are read when they are first looked into."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from circlet.runtime.ir.model import Model, Provenance

ModelT = TypeVar("ModelT", bound="Unread")


class _Field:
    """A field of a model that may have to be read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, model: Unread, owner: type[Unread]) -> object:
        return model.read()[self._name]


class Unread(Model):
    """A model that was read and verified before from the same content, and is read again when it is looked into: a
    session with a plan of it need not do that."""

    if not TYPE_CHECKING:  # found in the object once they are known
        subgraphs, signatures, description, metadata, version, format = map(
            _Field, ("subgraphs", "signatures", "description", "metadata", "version", "format"))

    @classmethod
    def of(cls: type[ModelT], provenance: Provenance, read: Callable[[], Model]) -> ModelT:
        """A model of some content, and what reads it, perhaps at once in several threads."""
        model = cls.__new__(cls)
        model.__dict__.update(provenance=provenance, _read=read)
        return model

    def read(self) -> dict[str, object]:
        """All fields; the same ones for all threads, without a lock, which a fork could find taken."""
        known = self.__dict__
        found: dict[str, object] = known.setdefault("_known", vars(known["_read"]()))
        known.update(found)
        return found

    @property
    def is_as_read(self) -> bool:
        return ("_known" not in self.__dict__ and "_read" in self.__dict__) or super().is_as_read

    def __reduce__(self) -> tuple[type[Model], tuple[object, ...]]:
        return Model, tuple(None if name == "provenance" else getattr(self, name) for name in self.__match_args__)
