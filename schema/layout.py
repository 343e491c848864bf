"""The tables of a schema: which slot and type each field has."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cached_property

from circlet.runtime.records import dataclass
from circlet.schema.tables import MEMBERS, TABLES

SCALAR_CODES = "?bBhHiIqQfd"
"""The `struct` codes of flatbuffers' scalars."""


class Kind(Enum):
    """What a field holds."""

    SCALAR = "scalar"
    STRING = "string"
    VECTOR = "vector of scalars"
    TABLE = "table"
    TABLES = "vector of tables"
    UNION = "union"


@dataclass(frozen=True)
class Field:
    """One field of a table."""

    slot: int
    kind: Kind
    code: str = ""
    """The `struct` code of a scalar or of a vector's elements."""
    default: int | float = 0
    """The value of a scalar that the file leaves out."""
    table: str = ""
    """The table that a field of kind `TABLE` or `TABLES` holds."""


def scalar(slot: int, code: str, default: int | float = 0) -> Field:
    return Field(slot, Kind.SCALAR, code, default)


def vector(slot: int, code: str) -> Field:
    return Field(slot, Kind.VECTOR, code)


@dataclass(frozen=True, eq=False)
class Layout:
    """The fields of one table, by their names in the schema."""

    name: str
    fields: Mapping[str, Field]

    @cached_property
    def size(self) -> int:
        """The number of slots up to the last field."""
        return 1 + max((each.slot for each in self.fields.values()), default=-1)


class Layouts(dict[str, Layout]):
    """The tables of one dialect by name, each made when it is first asked for.

    `added` names fields, or whole tables, that the dialects do not have in common.
    """

    def __init__(self, added: Mapping[str, Mapping[str, Field]]) -> None:
        super().__init__()
        self._added = added

    def __missing__(self, name: str) -> Layout:
        layout = self[name] = Layout(name, {**common_fields(name), **self._added.get(name, {})})
        return layout


def common_fields(table: str) -> dict[str, Field]:
    """The fields of a table that all dialects have, by their names in snake case."""
    found: dict[str, Field] = {}
    slot = 0
    for text in TABLES.get(table, "").split():
        name, _, rest = text.partition(":")
        rest, _, place = rest.partition("@")
        kind, _, default = rest.partition("=")
        slot = int(place or slot)
        found[name] = _field(slot, kind, default)
        slot += 1
    return found


def _field(slot: int, text: str, default: str) -> Field:
    inner = text.strip("[]")
    if inner in SCALAR_CODES:
        return vector(slot, inner) if text != inner else Field(slot, Kind.SCALAR, inner, _default(inner, default))
    if text in ("s", "union"):
        return Field(slot, Kind.STRING if text == "s" else Kind.UNION)
    return Field(slot, Kind.TABLE if text == inner else Kind.TABLES, table=inner)


def _default(code: str, text: str) -> int | float:
    if code == "?":
        return text == "True"
    return float(text or 0) if code in "fd" else int(text or 0)


def common_members(enumeration: str) -> dict[str, int]:
    """The members of an enumeration or a union that all dialects have."""
    return {name: number for number, name in enumerate(MEMBERS[enumeration].split())}
