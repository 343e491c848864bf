"""Products of float32 whose results have few columns."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.few_rows import multiply_few
from circlet.backends.native.gemm.microkernel import FLOAT32
from circlet.backends.native.gemm.operands import Put
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.rules.rule import Node
from circlet.runtime.ir.length import certain, is_length

_FEW_COLUMNS, _DEEP = 2, 2
"""As many columns as one part in so many of a vector's lanes are few: rows are summed up along themselves then, rather
than multiplied by panels that hardly any columns fill; if that is so many vectors deep, for each of them. On AVX-512
1000 rows of 256 take 39, 54 and 81 microseconds with 1, 4 and 8 columns instead of 100."""


def are_few_columns(node: Node[Any], plan: Plan, right: Value) -> bool:
    """Whether a result has so few columns that rows are summed up along themselves."""
    columns = plan.columns
    is_narrow = right.known is not None and node.function.narrow(right.known) is not None
    return not is_length(columns) and columns * _FEW_COLUMNS <= plan.lanes and not is_narrow and certain(
        plan.depth, "<", _DEEP * plan.lanes * columns) is not True


def multiply_columns(e: Emitter, plan: Plan, rows: ir.Value, columns: ir.Value, put: Put, bias: Value | None = None
                     ) -> None:
    """Emits a product of rows with columns, each of which lies in one run of memory: the few columns are multiplied by
    the many rows, which gives the result with rows and columns exchanged. The bias is added, and `put` gets results."""
    def exchanged(e: Emitter, column: ir.Value, row: ir.Value, value: ir.Value) -> None:
        put(e, row, column, value if bias is None else e.builder.fadd(value, bias.linear(e, column)))

    multiply_few(e, Plan.of(e.target, FLOAT32, plan.columns, plan.rows, plan.depth), columns, rows, None, exchanged)
