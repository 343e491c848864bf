"""Gives each value that a loop's body returns a tensor of its own.

LiteRT copies the results of a body to its inputs one after another. A body that returns one of its inputs elsewhere, as
to swap two values, or one tensor twice, would read what is already overwritten.
"""

from __future__ import annotations

import numpy as np

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.model import Model, Subgraph
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import PreTestedLoop
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import StridedSlice
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.passes.transforms.portable.editor import Editor
from circlet.runtime.passes.transforms.portable.signatures import with_subgraphs


def separate_results(model: Model) -> Model:
    """Copies, in the body of each loop, results that are inputs of another place, constants, or other results too."""
    bodies = {operator.op.body_subgraph_index for subgraph in model.subgraphs for operator in subgraph.operators
              if isinstance(operator.op, PreTestedLoop)}
    return with_subgraphs(model, [_separated(subgraph) if index in bodies else subgraph
                                  for index, subgraph in enumerate(model.subgraphs)])


def _separated(body: Subgraph) -> Subgraph:
    editor, outputs = Editor(body), list[int]()
    for operator in body.operators:
        editor.keep(operator)
    for position, tensor in enumerate(body.outputs):
        stays = tensor == body.inputs[position]
        own = tensor not in body.inputs and tensor not in outputs and not body.tensors[tensor].is_constant
        outputs.append(tensor if stays or own else _copied(editor, tensor))
    if tuple(outputs) == body.outputs:
        return body
    finished = editor.finish()
    return Subgraph(finished.name, finished.tensors, finished.inputs, tuple(outputs), finished.operators)


def _copied(editor: Editor, tensor: int) -> int:
    """A copy made by an operator that no runtime takes for one that changes nothing."""
    declared = editor.tensors[tensor]
    if not (declared.has_rank or declared.shape):
        raise UnsupportedError(f"tensor {declared.name!r} is the result of a loop's body in several places, or one of "
                               "its inputs: expected a declared rank, found none")
    if not declared.signature:
        row = editor.add(Reshape(), [tensor, editor.constant([1], DType.INT32)], declared.dtype, (1,))
        return editor.add(Gather(), [row, editor.constant(0, DType.INT32)], declared.dtype)
    rank = len(declared.signature)
    bounds = [editor.constant(np.full(rank, each), DType.INT32) for each in (0, 0, 1)]
    every = (1 << rank) - 1
    return editor.add(StridedSlice(begin_mask=every, end_mask=every), [tensor, *bounds], declared.dtype,
                      declared.signature)
