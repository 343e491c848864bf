"""What tells one flatbuffer format from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass, field
from circlet.schema.layout import Field, Layouts, common_members

OPTIONS_UNIONS = {"builtin_options": "BuiltinOptions", "builtin_options2": "BuiltinOptions2"}
"""The fields of an operator that hold its options, and their unions."""


@dataclass(frozen=True, eq=False)
class Format:
    """A dialect of TensorFlow Lite's schema. Everything that differs between dialects is here."""

    name: str
    """Also the suffix of its files."""
    identifier: bytes
    """Bytes 4 to 8 of every file."""
    versions: tuple[int, ...]
    """The values of `Model.version` that mean this schema; the first one is written."""
    effective_code: Callable[[int, int], int]
    """The operator code that `builtin_code` and `deprecated_builtin_code` mean together."""
    added_members: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Members of enumerations and unions that not all dialects have."""
    added_fields: Mapping[str, Mapping[str, Field]] = field(default_factory=dict)
    """Fields of tables, and whole tables, that not all dialects have."""
    renamed_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By options table: the schema's name of a field that circlet's operator calls otherwise."""
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By table: fields that change what data means in ways circlet does not handle, and what they say if set."""

    @cached_property
    def layouts(self) -> Layouts:
        """The tables by name."""
        return Layouts(self.added_fields)

    def members(self, enumeration: str) -> dict[str, int]:
        """The members of an enumeration or a union by name."""
        return {**common_members(enumeration), **self.added_members.get(enumeration, {})}

    @cached_property
    def codes(self) -> dict[str, int]:
        """Operator codes by name."""
        return self.members("BuiltinOperator")

    @cached_property
    def code_names(self) -> dict[int, str]:
        """Names of operators by code."""
        return {code: name for name, code in self.codes.items()}

    def stored_code(self, code: int) -> tuple[int, int]:
        """`builtin_code` and `deprecated_builtin_code` of an operator code, for readers old and new."""
        return code, min(code, self.codes["PLACEHOLDER_FOR_GREATER_OP_CODES"])

    @cached_property
    def dtypes(self) -> dict[int, DType]:
        """Element types by number."""
        return {number: DType[name] for name, number in self.members("TensorType").items()}

    @cached_property
    def dtype_numbers(self) -> dict[DType, int]:
        """Numbers of the element types."""
        return {dtype: number for number, dtype in self.dtypes.items()}

    @cached_property
    def unions(self) -> dict[str, dict[int, str]]:
        """By union: the tables by tag."""
        names = (*OPTIONS_UNIONS.values(), "QuantizationDetails", "SparseIndexVector")
        return {union: {tag: table for table, tag in self.members(union).items() if tag} for union in names}

    def tag(self, union: str, table: str) -> int:
        """The tag of a table in a union."""
        return next(tag for tag, name in self.unions[union].items() if name == table)

    @cached_property
    def options(self) -> dict[str, tuple[str, int]]:
        """By options table: the field of the operator that holds it, and its tag there."""
        return {table: (name, tag) for name, union in OPTIONS_UNIONS.items()
                for tag, table in self.unions[union].items()}
