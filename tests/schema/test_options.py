"""Every operator's dataclass fits its options table."""

from __future__ import annotations

import pkgutil
from dataclasses import fields

import pytest
import tflite

from circlet.runtime.ops.registry import OPERATORS
from circlet.schema.circle import CIRCLE
from circlet.schema.format import Format
from circlet.schema.layout import Kind, common_fields, common_members
from circlet.schema.options import options_codec
from circlet.schema.tables import MEMBERS, TABLES
from circlet.schema.tflite import TFLITE
from tests.schema.generated import generated, generated_fields, generated_members

FORMATS = {"tflite": TFLITE, "circle": CIRCLE}
MADE_BY_PASSES = {name: {"explicit_paddings": ()} for name in (
    "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")}
"""Options that no format has: passes give them to operators of a model that is run; see `absorb_padding.py`."""
NEWER = {"FULLY_CONNECTED": ("quant_spec",)}
"""Fields that no operator reads: models that set them are not run."""


@pytest.mark.parametrize("name", OPERATORS)
def test_options_have_fields_in_the_schema(name: str) -> None:
    cls = OPERATORS[name]
    formats = [format for format in FORMATS.values() if name in format.codes]
    assert formats or name.startswith("CUSTOM:"), "no format has such an operator code"
    for format in formats:
        codec = options_codec(cls, format)
        assert codec.table == cls.table
        assert codec.absent == MADE_BY_PASSES.get(name, {})
        assert codec.foreign in ((), NEWER.get(name))
        assert {option.name for option in codec.known} == {each.name for each in fields(cls)} - codec.absent.keys()


@pytest.mark.parametrize("name", OPERATORS)
def test_defaults_are_those_of_the_schema(name: str) -> None:
    codec = options_codec(OPERATORS[name], TFLITE)
    if codec.table is None:
        return
    layout = TFLITE.layouts[codec.table]
    assert codec.default is not None
    encoded = codec.encode(codec.default)
    for option in codec.known:
        field = layout.fields[option.field]
        if field.kind is Kind.SCALAR and encoded[option.field] != -1:
            assert encoded[option.field] == field.default, f"default of {option.name}"


def test_layouts_are_those_of_the_generated_code() -> None:
    for each in FORMATS.values():
        tensor = each.layouts["Tensor"].fields
        assert (tensor["shape"].slot, tensor["shape"].kind, tensor["shape"].code) == (0, Kind.VECTOR, "i")
        assert (tensor["name"].slot, tensor["name"].kind) == (3, Kind.STRING)
        assert (tensor["quantization"].kind, tensor["quantization"].table) == (Kind.TABLE, "QuantizationParameters")
        model = each.layouts["Model"].fields
        assert (model["subgraphs"].slot, model["subgraphs"].kind, model["subgraphs"].table) == (
            2, Kind.TABLES, "SubGraph")
        operator = each.layouts["Operator"].fields
        assert (operator["builtin_options"].slot, operator["builtin_options"].kind) == (4, Kind.UNION)
        assert (operator["debug_metadata_index"].slot, operator["debug_metadata_index"].default) == (13, -1)
        assert each.layouts["UniqueOptions"].fields["idx_out_type"].default == 2
        assert each.layouts["AddOptions"].fields["pot_scale_int16"].default is True
    assert TFLITE.layouts["SubGraph"].fields["debug_metadata_index"].slot == 5
    assert CIRCLE.layouts["SubGraph"].fields["debug_metadata_index"].slot == 6


def test_tables_are_as_in_the_schema() -> None:
    names = [each.name for each in pkgutil.iter_modules(tflite.__path__) if each.name != "utils"]
    theirs = {name: generated(tflite.__name__, name) for name in names}
    tables = {name: generated_fields(each) for name, each in theirs.items() if hasattr(each, "Init")}
    assert {name: common_fields(name) for name in tables} == tables
    assert TABLES.keys() == {name for name, found in tables.items() if found}
    for name in MEMBERS:
        assert common_members(name) == generated_members(theirs[name]), name


def test_what_the_dialects_do_not_have_in_common_is_as_in_litert_s_schema() -> None:
    newest = pytest.importorskip("ai_edge_litert.schema_py_generated")
    for table, added in TFLITE.added_fields.items():
        fields = generated_fields(vars(newest)[table])
        assert TFLITE.layouts[table].fields == fields, table
        assert added.items() <= fields.items()
    for enumeration in TFLITE.added_members:
        assert TFLITE.members(enumeration) == generated_members(vars(newest)[enumeration])


def test_circle_is_as_in_its_schema() -> None:
    package = pytest.importorskip("circle_schema.v0_10.circle")
    names = {each.name for each in pkgutil.iter_modules(package.__path__)}
    theirs = {name: generated(package.__name__, name) for name in names}
    tables = {name: generated_fields(each) for name, each in theirs.items() if hasattr(each, "Init")}
    matmul = tables["BatchMatMulOptions"]  # in which circlet has TensorFlow Lite's names
    matmul["adj_x"], matmul["adj_y"] = matmul.pop("adjoint_lhs"), matmul.pop("adjoint_rhs")
    assert {name: CIRCLE.layouts[name].fields for name in tables} == tables
    assert CIRCLE.added_fields.keys() <= tables.keys()
    for name in ("BuiltinOperator", "TensorType", *CIRCLE.unions):
        assert CIRCLE.members(name) == generated_members(theirs[name]), name


def test_members_are_not_python_s_own() -> None:
    class Numbered:
        __firstlineno__ = 7
        ADD = 0

    assert generated_members(Numbered) == {"ADD": 0}


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_members_of_unions_have_layouts(format: Format) -> None:
    for union, tables in format.unions.items():
        for tag, table in tables.items():
            assert format.layouts[table].name == table
            assert format.tag(union, table) == tag
