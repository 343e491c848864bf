"""Which loops whose carried shapes change are loops of native code as they stand."""

from __future__ import annotations

from circlet.backends.native.gemm.tiling import TYPICAL
from circlet.backends.native.lower.general import objections
from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.exec.executor_map import ExecutorMap


def grows(executors: ExecutorMap, index: int, number: int) -> bool:
    """Whether the loop that is an operator of a subgraph is one, for the shapes that the subgraph's inputs are declared
    with; what is open there is as open as it will be in a run."""
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
