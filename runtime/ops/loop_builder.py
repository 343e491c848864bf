"""Adds a `Loop` to a subgraph under construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import Mode, ScanOutput
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class LoopResults:
    """The outputs of a `Loop`."""

    carried: tuple[Value, ...]
    scans: tuple[Value, ...]
    last: tuple[Value, ...]


def add_loop(g: SubgraphBuilder, op: Loop, body: SubgraphBuilder, *, trip_count: Value | None = None,
             cond: Value | None = None, carried: Sequence[Value] = (), invariants: Sequence[Value] = (),
             scan_inputs: Sequence[Value] = (), lengths: Sequence[Value] = ()) -> LoopResults:
    """Applies a loop.

    Args:
        g: the subgraph that the loop is added to, and all values belong to.
        op: says what the values mean to the body; see `Loop`.
        body: the subgraph `op.body_subgraph_index`, with all its inputs and outputs.
        trip_count: N; None where nothing but the condition or the slices bounds the loop.
        cond: the condition before the first iteration; None for true.
        carried: a first value for each of `op.carried`.
        invariants: a value for each of `op.invariants`.
        scan_inputs: a tensor for each of `op.scan_inputs`.
        lengths: a value for each of `op.scan_outputs` with `has_length`.
    """
    inputs = (trip_count, cond, *carried, *invariants, *scan_inputs, *lengths)
    tensors = g.build().tensors
    declared = loop_outputs(op, [tensors[each.index] for each in carried], body.build())
    results = g.op(op, *inputs, outputs=declared)
    first, second = len(op.carried), len(op.carried) + len(op.scan_outputs)
    return LoopResults(results[:first], results[first:second], results[second:])


def loop_outputs(op: Loop, carried: Sequence[Tensor], body: Subgraph) -> tuple[Tensor, ...]:
    """What the outputs of a loop are declared to be.

    Args:
        carried: the tensors of the first values.
        body: whose declared outputs are trusted.
    """
    results = [body.tensors[each] for each in body.outputs]
    finals = [_either(init, body.tensors[body.inputs[each.body_input]], results[each.body_output])
              for init, each in zip(carried, op.carried, strict=True)]
    scans = [_collected(results[each.body_output], each) for each in op.scan_outputs]
    last = [results[each] for each in op.last_outputs]
    names = (f"loop_{what}_{k}" for what, group in (("carried", finals), ("scan", scans), ("last", last))
             for k in range(len(group)))
    return tuple(replace(each, name=name, data=None, is_variable=False)
                 for name, each in zip(names, (*finals, *scans, *last), strict=True))


def _either(first: Tensor, within: Tensor, then: Tensor) -> Tensor:
    """A tensor that is one or another: dimensions in which they differ are not known."""
    ranks = {len(each.signature) if each.has_rank or each.shape else None for each in (first, within, then)}
    if len(ranks) != 1 or None in ranks:
        return _declared(first, None)
    dims = zip(first.signature, within.signature, then.signature, strict=True)
    return _declared(first, tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in dims))


def _collected(element: Tensor, scan: ScanOutput) -> Tensor:
    if not (element.has_rank or element.shape):
        return _declared(element, None)
    signature = element.signature
    rank = len(signature) + (scan.mode is Mode.STACK)
    if not -rank <= scan.axis < rank:
        return _declared(element, None)
    axis = scan.axis % rank
    rest = signature[axis:] if scan.mode is Mode.STACK else signature[axis + 1:]
    return _declared(element, (*signature[:axis], -1, *rest))


def _declared(like: Tensor, signature: Shape | None) -> Tensor:
    """A tensor of the same type with another shape; None: not even the rank is known."""
    if signature is None:
        return replace(like, shape=(), shape_signature=None, has_rank=False)
    shape = tuple(max(dim, 1) if dim < 0 else dim for dim in signature)
    return replace(like, shape=shape, shape_signature=signature if -1 in signature else None, has_rank=True)
