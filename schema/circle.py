"""The Circle format of Samsung's ONE, `.circle`."""

from __future__ import annotations

from circlet.schema.format import Format


def _effective_code(builtin: int, deprecated: int) -> int:
    """Circle's own operators are negative; older files name them in the deprecated byte alone."""
    return min(builtin, deprecated) if min(builtin, deprecated) < 0 else max(builtin, deprecated)


CIRCLE = Format(
    name="circle",
    identifier=b"CIR0",
    package="circle_schema.v0_10.circle",
    versions=(0, 3),
    effective_code=_effective_code,
    renamed_options={
        "BatchMatMulOptions": {"adj_x": "adjoint_lhs", "adj_y": "adjoint_rhs"},
        "StableHLOCompositeOptions": {"composite_name": "name"},
    },
    refused={"Tensor": {"compression_type": "its data is compressed (type {value})"}},
)
