"""Makes axes, sizes and positions int32, the one type in which every runtime takes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import INTEGERS, Array, DType, Shape
from circlet.runtime.ops.elementwise import Maximum, Minimum
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import ReverseV2, Slice, Split, SplitV, StridedSlice, Transpose
from circlet.runtime.ops.pad import MirrorPad, Pad, Tile
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import Arg, Cumsum, Reduction
from circlet.runtime.ops.resize import Resize
from circlet.runtime.ops.shape import BroadcastTo, ExpandDims, Fill, OneHot, Reshape
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.spatial import BatchBlocks
from circlet.runtime.passes.transforms.portable.editor import Editor
from circlet.runtime.passes.transforms.portable.signatures import with_subgraphs

PARAMETERS: Mapping[type[object], tuple[int, ...]] = {
    Arg: (1,), BatchBlocks: (1, 2), BroadcastTo: (1,), Cumsum: (1,), DynamicUpdateSlice: (2,), ExpandDims: (1,),
    Fill: (0,), MirrorPad: (1,), OneHot: (1,), Pad: (1,), Reduction: (1,), Reshape: (1,), Resize: (1,), ReverseV2: (1,),
    Slice: (1, 2), Split: (0,), SplitV: (1, 2), StridedSlice: (1, 2, 3), Tile: (1,), TopKV2: (1,), Transpose: (1,),
}
"""The inputs of operators that are axes, sizes or positions."""
LOWEST, HIGHEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max


def narrow_parameters(model: Model) -> Model:
    """Converts parameters of other integer types. Numbers that int32 has no room for are further than any tensor goes,
    and become the furthest that it has."""
    return with_subgraphs(model, [_narrowed(each) for each in model.subgraphs])


def _parameters(op: Op) -> tuple[int, ...]:
    return next((positions for kind, positions in PARAMETERS.items() if isinstance(op, kind)), ())


def _narrowed(subgraph: Subgraph) -> Subgraph:
    editor, made = Editor(subgraph), dict[int, int]()
    for operator in subgraph.operators:
        inputs = list(operator.inputs)
        for position in _parameters(operator.op):
            tensor = inputs[position] if position < len(inputs) else ABSENT
            if tensor == ABSENT or not _is_wide(editor.tensors[tensor]):
                continue
            if tensor not in made:
                made[tensor] = _converted(editor, tensor)
            inputs[position] = made[tensor]
        editor.keep(Operator(operator.op, tuple(inputs), operator.outputs, operator.version, operator.custom_options,
                             operator.intermediates))
    return editor.finish() if made else subgraph


def _is_wide(tensor: Tensor) -> bool:
    """Whether a tensor is of another integer type; what is no integers is left for its operator to refuse."""
    return tensor.dtype in INTEGERS and tensor.dtype is not DType.INT32 and tensor.sparsity is None


def _converted(editor: Editor, tensor: int) -> int:
    declared = editor.tensors[tensor]
    if declared.data is not None:
        return editor.constant(_clamped(declared.data), DType.INT32)
    signature: Shape = declared.signature
    found = tensor
    if declared.dtype is DType.INT64:
        for op, bound in ((Minimum(), HIGHEST), (Maximum(), LOWEST)):
            found = editor.add(op, [found, editor.constant(bound, DType.INT64)], DType.INT64, signature)
    return editor.add(Cast(declared.dtype, DType.INT32), [found], DType.INT32, signature)


def _clamped(values: Array) -> Array:
    limits = np.iinfo(values.dtype)
    return values.clip(max(LOWEST, limits.min), min(HIGHEST, limits.max)).astype(np.int32)
