"""Checks that a `Loop`, its operands and its subgraphs fit each other. Each function raises ShapeError if not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from circlet.runtime.ir.op import Interface, Operand, Operands, ShapeError
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.loop_options import NONE, Base, Feed, LoopOptions, Mode, ScanInput

COUNTS = (DType.INT32, DType.INT64)


def check_operands(op: LoopOptions, args: Operands) -> None:
    """Checks the number, types and declared shapes of a loop's operands."""
    wanted = 2 + len(op.carried) + len(op.invariants) + len(op.scan_inputs) + len(op.lengths)
    if len(args) != wanted:
        raise ShapeError(f"expected {wanted} inputs: trip count, condition, {len(op.carried)} carried values, "
                         f"{len(op.invariants)} invariants, {len(op.scan_inputs)} scan inputs and {len(op.lengths)} "
                         f"lengths, found {len(args)}")
    results = len(op.carried) + len(op.scan_outputs) + len(op.last_outputs)
    if args.outputs != results:
        raise ShapeError(f"expected {results} outputs: {len(op.carried)} carried values, {len(op.scan_outputs)} scan "
                         f"outputs and {len(op.last_outputs)} last outputs, found {args.outputs}")
    _check_operand(args.get(0), "trip count", COUNTS)
    _check_operand(args.get(1), "condition", (DType.BOOL,))
    for k in range(len(op.lengths)):
        _check_operand(args[len(args) - len(op.lengths) + k], f"length {k}", COUNTS)
    for k, each in enumerate(op.scan_inputs):
        if each.begin.base is Base.TRIP and args.get(0) is None and not op.count_from_scan:
            raise ShapeError(f"scan input {k}: expected a trip count to count positions from, found none")
    if op.count_from_scan and args.get(0) is not None:
        raise ShapeError("trip count: expected none, since the scan inputs give it, found one")


def check_options(op: LoopOptions) -> None:
    """Checks the options that no operand has a part in."""
    if op.count_from_scan and not op.scan_inputs:
        raise ShapeError("count_from_scan: expected scan inputs to take the trip count from, found none")
    for k, each in enumerate(op.scan_inputs):
        _check_scan_input(op, each, f"scan input {k}")
    for k, scan in enumerate(op.scan_outputs):
        if scan.part < 1 or (scan.part != 1 and scan.mode is Mode.STACK):
            raise ShapeError(f"scan output {k}: expected a part of at least 1, and of 1 where elements are stacked, "
                             f"found {scan.part}")


def check_body(op: LoopOptions, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], body: Interface) -> None:
    """Checks what a loop passes to its body and takes from it."""
    _check_sources(op, len(body.inputs))
    _check_indices(op, len(body.outputs))
    own = list(inputs[2:])
    for k, each in enumerate(op.carried):
        where, declared = f"carried value {k}", body.inputs[each.body_input]
        _check_same(declared, own[k], where, f"body input {each.body_input}")
        _check_same(body.outputs[each.body_output], own[k], where, f"body output {each.body_output}")
    own = own[len(op.carried):]
    for k, position in enumerate(op.invariants):
        _check_same(body.inputs[position], own[k], f"invariant {k}", f"body input {position}")
    own = own[len(op.invariants):]
    for k, scan in enumerate(op.scan_inputs):
        _check_same(body.inputs[scan.body_input], own[k], f"scan input {k}", f"body input {scan.body_input}")
        _check_axis(own[k], scan.axis, 0, f"scan input {k}")
    _check_results(op, outputs, body)
    _check_feed(op.iteration, body, "iteration", COUNTS)
    _check_feed(op.cond_input, body, "condition", (DType.BOOL,))
    if op.cond_output != NONE:
        _check_single(body.outputs[op.cond_output], f"condition, body output {op.cond_output}", (DType.BOOL,))


def check_cond(op: LoopOptions, inputs: Sequence[Tensor | None], cond: Interface) -> None:
    """Checks what a loop passes to its cond subgraph."""
    own = inputs[2:2 + len(op.carried) + len(op.invariants)]
    if len(own) != len(cond.inputs):
        raise ShapeError(f"expected {len(own)} inputs, the carried values and the invariants, found {len(cond.inputs)}")
    for k, (mine, other) in enumerate(zip(own, cond.inputs, strict=True)):
        _check_same(other, mine, f"input {k}", "it")


def _check_operand(found: Operand | None, name: str, allowed: Sequence[DType]) -> None:
    if found is not None and found.dtype not in allowed:
        raise ShapeError(f"{name}: expected {_either(allowed)}, found {found.dtype.value}")
    if found is not None and prod(found.shape) != 1:
        raise ShapeError(f"{name}: expected exactly one element, found shape {found.shape}")


def _check_scan_input(op: LoopOptions, scan: ScanInput, where: str) -> None:
    if scan.step == 0:
        raise ShapeError(f"{where}: expected a step that is not 0")
    if scan.size < 1 or (scan.size != 1 and not scan.keep_axis):
        raise ShapeError(f"{where}: expected slices of at least 1 element, and of 1 where the axis is dropped, "
                         f"found size {scan.size}")
    relative = [each for each in (scan.begin, scan.end) if each is not None and each.base is Base.TRIP]
    if op.count_from_scan and relative:
        raise ShapeError(f"{where}: expected positions that do not count from the trip count, which the scan inputs "
                         "give")


def _check_sources(op: LoopOptions, count: int) -> None:
    sources: dict[int, str] = {}
    for position, name in _sources(op):
        if not 0 <= position < count:
            raise ShapeError(f"{name}: expected a body input, below {count}, found {position}")
        if position in sources:
            raise ShapeError(f"body input {position}: expected one value for it, found {sources[position]} and {name}")
        sources[position] = name
    missing = [position for position in range(count) if position not in sources]
    if missing:
        raise ShapeError(f"expected a value for each body input, found none for {', '.join(map(str, missing))}")


def _sources(op: LoopOptions) -> Iterator[tuple[int, str]]:
    if op.iteration is not None:
        yield op.iteration.body_input, "iteration"
    if op.cond_input is not None:
        yield op.cond_input.body_input, "condition"
    for k, carried in enumerate(op.carried):
        yield carried.body_input, f"carried value {k}"
    for k, position in enumerate(op.invariants):
        yield position, f"invariant {k}"
    for k, scan in enumerate(op.scan_inputs):
        yield scan.body_input, f"scan input {k}"


def _check_indices(op: LoopOptions, count: int) -> None:
    named = [(each.body_output, f"carried value {k}") for k, each in enumerate(op.carried)]
    named += [(each.body_output, f"scan output {k}") for k, each in enumerate(op.scan_outputs)]
    named += [(each, f"last output {k}") for k, each in enumerate(op.last_outputs)]
    if op.cond_output != NONE:
        named.append((op.cond_output, "condition"))
    for position, name in named:
        if not 0 <= position < count:
            raise ShapeError(f"{name}: expected a body output, below {count}, found {position}")


def _check_results(op: LoopOptions, outputs: Sequence[Tensor], body: Interface) -> None:
    own = list(outputs[len(op.carried):])
    for k, scan in enumerate(op.scan_outputs):
        element = body.outputs[scan.body_output]
        _check_same(element, own[k], f"scan output {k}", f"body output {scan.body_output}")
        _check_axis(element, scan.axis, scan.mode is Mode.STACK, f"scan output {k}")
    own = own[len(op.scan_outputs):]
    for k, position in enumerate(op.last_outputs):
        _check_same(body.outputs[position], own[k], f"last output {k}", f"body output {position}")


def _check_same(theirs: Tensor, mine: Tensor | None, where: str, what: str) -> None:
    if mine is not None and theirs.dtype is not mine.dtype:
        raise ShapeError(f"{where}: expected {mine.dtype.value} as tensor {mine.name!r} of the operator is, {what}, "
                         f"tensor {theirs.name!r}, is {theirs.dtype.value}")


def _check_axis(tensor: Tensor | None, axis: int, more: int, where: str) -> None:
    if tensor is None or not (tensor.has_rank or tensor.shape):
        return
    rank = len(tensor.shape) + more
    if not -rank <= axis < rank:
        raise ShapeError(f"{where}: expected an axis from {-rank} to {rank - 1}, found {axis}")


def _check_feed(feed: Feed | None, body: Interface, name: str, allowed: Sequence[DType]) -> None:
    if feed is None:
        return
    if feed.rank not in (0, 1):
        raise ShapeError(f"{name}: expected rank 0 or 1, found {feed.rank}")
    tensor = body.inputs[feed.body_input]
    _check_single(tensor, f"{name}, body input {feed.body_input}", allowed)
    if tensor.is_static and len(tensor.shape) != feed.rank:
        raise ShapeError(f"{name}: expected rank {len(tensor.shape)} as body input {feed.body_input} declares, "
                         f"found {feed.rank}")


def _check_single(tensor: Tensor, where: str, allowed: Sequence[DType]) -> None:
    if tensor.dtype not in allowed:
        raise ShapeError(f"{where}: expected {_either(allowed)}, found {tensor.dtype.value}")
    if tensor.is_static and prod(tensor.shape) != 1:
        raise ShapeError(f"{where}: expected exactly one element, found shape {tensor.shape}")


def _either(allowed: Sequence[DType]) -> str:
    return " or ".join(each.value for each in allowed)
