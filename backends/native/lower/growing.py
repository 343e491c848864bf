"""Which loops whose carried shapes change are loops of native code as they stand."""

from __future__ import annotations

from collections.abc import Iterator

from circlet.backends.native.gemm.tiling import TYPICAL
from circlet.backends.native.lower.general import objections
from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.model import Model


def grows(executors: ExecutorMap, index: int, number: int) -> bool:
    """Whether the loop that is an operator of a subgraph is one, for the shapes that the subgraph's inputs are declared
    with; what is open there is as open as it will be in a run. If more is open than an operator asks for, the one that
    invokes the subgraph may know it."""
    return _is_code(executors, index, number) or any(
        _is_code(executors, *each) for each in _around(executors.model, index))


def _around(model: Model, index: int) -> Iterator[tuple[int, int]]:
    """The operator that alone invokes a subgraph, with the subgraph that has it, and what alone invokes that, and so
    on."""
    for _ in model.subgraphs:
        callers = [(caller, number) for caller, subgraph in enumerate(model.subgraphs)
                   for number, operator in enumerate(subgraph.operators) if index in operator.op.callees()]
        if len(callers) != 1:
            return
        yield callers[0]
        index = callers[0][0]


def _is_code(executors: ExecutorMap, index: int, number: int) -> bool:
    """Whether an operator of a subgraph becomes code without calls of the host, for the shapes that are declared."""
    subgraph = executors.model.subgraphs[index]
    tensors = [subgraph.tensors[each] for each in subgraph.inputs]
    if not all(each.has_rank or each.shape for each in tensors):
        return False
    shapes = tuple(tuple(TYPICAL if size < 0 else size for size in each.signature) for each in tensors)
    try:
        general = executors.generalizer.at(index, shapes).general
    except (ExecutionError, LimitError):
        return False
    if general is None or number >= general.spec.stop:
        return False
    return next(objections(executors, general.spec, range(number, number + 1)), None) is None
