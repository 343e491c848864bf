"""Puts the operators of called subgraphs in the place of the calls."""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ops.controlflow import CallSubgraph
from circlet.runtime.passes.transforms.portable.editor import Editor, with_scales
from circlet.runtime.passes.transforms.portable.signatures import with_subgraphs


def inline_calls(model: Model) -> Model:
    """Replaces each CALL by what it calls; operators and tensors get other indices."""
    done: dict[int, Subgraph] = {}
    order = _callees_first(model)
    for index in order:
        done[index] = _inlined(model.subgraphs[index], done)
    return with_subgraphs(model, [done[index] for index in range(len(model.subgraphs))])


def _callees_first(model: Model) -> list[int]:
    found: dict[int, None] = {}
    for root in range(len(model.subgraphs)):
        pending = [(root, False)]
        while pending:
            index, is_ready = pending.pop()
            if is_ready:
                found.setdefault(index)
            elif index not in found:
                pending.append((index, True))
                pending.extend((callee, False) for each in model.subgraphs[index].operators
                               if isinstance(each.op, CallSubgraph) for callee in each.op.callees())
    return list(found)


def _inlined(subgraph: Subgraph, done: dict[int, Subgraph]) -> Subgraph:
    if not any(isinstance(each.op, CallSubgraph) for each in subgraph.operators):
        return subgraph
    editor = Editor(subgraph)
    for operator in subgraph.operators:
        if isinstance(operator.op, CallSubgraph):
            _expand(editor, operator, done[operator.op.subgraph])
        else:
            editor.keep(operator)
    return editor.finish()


def _expand(editor: Editor, call: Operator, callee: Subgraph) -> None:
    """Adds the operators of the callee on the operands of the call."""
    own = dict(zip(callee.inputs, map(editor.current, call.inputs), strict=True))
    written = {tensor for operator in callee.operators for tensor in operator.outputs}
    for result, tensor in zip(call.outputs, callee.outputs, strict=True):
        if tensor in written:
            own.setdefault(tensor, result)
    start = len(editor.tensors)
    for index, each in enumerate(callee.tensors):
        if index not in own:
            own[index] = editor.tensor(each)
    for index in range(start, len(editor.tensors)):
        editor.tensors[index] = with_scales(editor.tensors[index], own)
    own[ABSENT] = ABSENT
    for operator in callee.operators:
        inputs, outputs, intermediates = (tuple(own[each] for each in indices) for indices in
                                          (operator.inputs, operator.outputs, operator.intermediates))
        editor.keep(replace(operator, inputs=inputs, outputs=outputs, intermediates=intermediates))
    for result, tensor in zip(call.outputs, callee.outputs, strict=True):
        if own[tensor] != result:
            editor.use(result, own[tensor])
