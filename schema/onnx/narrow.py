"""Narrow floats: where circlet computes in float32 alone, operands are converted and results rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlet.runtime.ir.types import DType
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node

MOVES = frozenset({
    "BitCast", "Cast", "CastLike", "Compress", "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Expand",
    "EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "If", "Loop", "Optional",
    "OptionalGetElement", "OptionalHasElement", "Reshape", "ReverseSequence", "Scan", "Scatter", "SequenceAt",
    "SequenceConstruct", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "Shape", "Size", "Slice",
    "SpaceToDepth", "Split", "SplitToSequence", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
    "QuantizeLinear", "DequantizeLinear",
})
"""The operators that take elements as they are, or see to bfloat16 themselves."""


HALF = frozenset({
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "CumSum", "DeformConv", "Einsum", "GRU", "Gemm",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "InstanceNormalization", "LRN", "LSTM", "LayerNormalization",
    "LogSoftmax", "LpNormalization", "LpPool", "MatMul", "MaxPool", "MeanVarianceNormalization", "RNN", "ReduceL1",
    "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Resize",
    "RoiAlign",
    *(f"com.microsoft.{each}" for each in ("Attention", "FusedConv", "FusedGemm", "FusedMatMul")),
})
"""The operators that circlet does not compute in half precision."""


def _narrow_type(node: Node) -> DType | None:
    """The narrow type that an operator is to be spared; None where there is none."""
    found = {each.type for each in node.inputs if each is not None}
    if node.operator in HALF and DType.FLOAT16 in found:
        return DType.FLOAT16
    return DType.BFLOAT16 if node.operator not in MOVES and DType.BFLOAT16 in found else None


def widened(node: Node) -> Node:
    """The node with operands that are too narrow converted to float32."""
    graph, narrow = node.graph, _narrow_type(node)
    if narrow is None:
        return node
    return replace(node, inputs=tuple(
        c.cast(graph, each, DType.FLOAT32) if each is not None and each.type is narrow else each
        for each in node.inputs))


def narrowed(node: Node, results: Sequence[Value | None]) -> list[Value | None]:
    """The results of the widened node, those of float32 converted back."""
    graph, narrow = node.graph, _narrow_type(node)
    if narrow is None:
        return list(results)
    return [c.cast(graph, each, narrow) if each is not None and each.type is DType.FLOAT32 else each
            for each in results]
