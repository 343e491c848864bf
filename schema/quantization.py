"""Quantisation and sparsity: dataclasses here, tables in a file."""

from __future__ import annotations

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.types import Blockwise, DimensionSparsity, DType, Quantization, Sparsity
from circlet.schema.document import Document, Member
from circlet.schema.flatbuffer import Table, read_each
from circlet.schema.format import Format

_MX = frozenset({DType.MXFP4, DType.MXINT8})
_DENSE, _COMPRESSED = 0, 1


def read_quantization(table: Table, format: Format) -> Quantization | None:
    """The quantisation that a table says; None where it says nothing.

    Raises:
        UnsupportedError: a kind of quantisation that circlet cannot express.
    """
    details, blockwise, axis = _read_details(table, format), None, table.integer("quantized_dimension")
    if details is not None and details.layout.name == "BlockwiseQuantization":
        blockwise = Blockwise(*map(details.integer, ("scales", "zero_points", "block_size")))
    elif details is not None:
        axis = details.integer("axis")
    found = Quantization(table.values("scale"), table.values("zero_point"), axis, table.values("min"),
                         table.values("max"), blockwise)
    says = details or found.scales or found.zero_points or found.minimum or found.maximum
    return found if says else None


def _read_details(table: Table, format: Format) -> Table | None:
    """What a quantisation says beyond scales and zero points."""
    tag = table.integer("details_type")
    if not tag:
        return None
    kind = format.unions["QuantizationDetails"].get(tag, f"details of type {tag}")
    if kind not in ("BlockwiseQuantization", "MXQuantization"):
        raise UnsupportedError(f"quantisation by {kind} is not supported")
    details = table.union("details", kind)
    if details is None:
        raise ModelError(f"{table.layout.name}.details is missing, expected {kind}")
    refuse(details, format)
    return details


def refuse(table: Table, format: Format) -> None:
    """Checks that a table sets none of the fields that the format cannot be read with.

    Raises:
        UnsupportedError: it does.
    """
    for name, reason in format.refused.get(table.layout.name, {}).items():
        value = table.value(name)
        if value:
            raise UnsupportedError(reason.format(value=value))


def quantization_document(quantization: Quantization, dtype: DType, format: Format) -> Document:
    """The table of a quantisation.

    Raises:
        UnsupportedError: the format has no such quantisation.
    """
    scales, zero_points = quantization.scales, quantization.zero_points
    if len(zero_points) < len(scales):
        zero_points = (quantization.zero_point,) * len(scales)
    vectors = {"scale": scales, "zero_point": zero_points, "min": quantization.minimum, "max": quantization.maximum}
    document: Document = {name: values for name, values in vectors.items() if values}
    document = {**document, "quantized_dimension": quantization.axis}
    details = _details(quantization, dtype)
    if details is None:
        return document
    if details.table not in format.unions["QuantizationDetails"].values():
        raise UnsupportedError(f"the format {format.name} has no {details.table}")
    return {**document, **details.fields("details", format.tag("QuantizationDetails", details.table))}


def _details(quantization: Quantization, dtype: DType) -> Member | None:
    blockwise = quantization.blockwise
    if blockwise is not None:
        return Member("BlockwiseQuantization", {"scales": blockwise.scales, "zero_points": blockwise.zero_points,
                                                "block_size": blockwise.block_size})
    return Member("MXQuantization", {"axis": quantization.axis}) if dtype in _MX else None


def read_sparsity(table: Table, format: Format) -> Sparsity:
    """How the constant of a sparse tensor is stored."""
    return Sparsity(table.values("traversal_order"), table.values("block_map"), read_each(
        table.tables("dim_metadata"), "dimension", lambda each: _read_dimension(each, format)))


def _read_dimension(table: Table, format: Format) -> DimensionSparsity:
    kind = table.integer("format")
    if kind == _DENSE:
        return DimensionSparsity(table.integer("dense_size"))
    if kind != _COMPRESSED:
        raise ModelError(f"DimensionMetadata.format is {kind}, which the schema does not know")
    segments, indices = (_read_indices(table, name, format) for name in ("array_segments", "array_indices"))
    if not segments:
        raise ModelError("a compressed dimension has no array_segments")
    return DimensionSparsity(table.integer("dense_size"), segments, indices)


def _read_indices(table: Table, name: str, format: Format) -> tuple[int, ...]:
    tag = table.integer(f"{name}_type")
    kind = format.unions["SparseIndexVector"].get(tag)
    found = None if kind is None else table.union(name, kind)
    if tag and found is None:
        raise ModelError(f"DimensionMetadata.{name} is missing or of type {tag}, which the schema does not know")
    return () if found is None else tuple(found.values("values"))


def sparsity_document(sparsity: Sparsity, format: Format) -> Document:
    """The table of a sparsity."""
    return {"traversal_order": sparsity.traversal_order, "block_map": sparsity.block_map,
            "dim_metadata": [_dimension_document(each, format) for each in sparsity.dimensions]}


def _dimension_document(dimension: DimensionSparsity, format: Format) -> Document:
    if dimension.is_dense:
        return {"format": _DENSE, "dense_size": dimension.dense_size}
    return {"format": _COMPRESSED, "dense_size": dimension.dense_size,
            **_indices(dimension.segments, "array_segments", format),
            **_indices(dimension.indices, "array_indices", format)}


def _indices(values: tuple[int, ...], name: str, format: Format) -> Document:
    largest = max(values, default=0)
    table = "Uint8Vector" if largest < 1 << 8 else "Uint16Vector" if largest < 1 << 16 else "Int32Vector"
    return Member(table, {"values": values}).fields(name, format.tag("SparseIndexVector", table))
