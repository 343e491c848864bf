"""Which loops whose carried shapes change are loops of native code as they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from circlet.backends.native.gemm.tiling import TYPICAL
from circlet.backends.native.lower.general import objections
from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Shape
from circlet.runtime.passes.analyses.specialize import Specialization


def grows(executors: ExecutorMap, index: int, number: int, are_apart: bool = False) -> bool:
    """Whether the loop that is an operator of a subgraph is one, for the shapes that the subgraph's inputs are declared
    with; what is open there is as open as it will be in a run. If more is open than an operator asks for, the one that
    invokes the subgraph may know it.

    Args:
        executors: of the model.
        index: of the subgraph.
        number: of the operator.
        are_apart: whether no two open lengths are taken to be equal but those of one name.
    """
    return _is_code(executors, index, number, are_apart) or any(
        _is_code(executors, *each, are_apart) for each in _around(executors.model, index))


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


def _is_code(executors: ExecutorMap, index: int, number: int, are_apart: bool) -> bool:
    """Whether an operator of a subgraph becomes code without calls of the host, for the shapes that are declared."""
    subgraph = executors.model.subgraphs[index]
    tensors = [subgraph.tensors[each] for each in subgraph.inputs]
    if not all(each.has_rank or each.shape for each in tensors):
        return False
    runs = [tuple([_with_batch(each.signature, batch) for each in tensors]) for batch in (TYPICAL, 1)]
    for shapes in _lengths_apart(executors, index, tensors, runs[0]) if are_apart else dict.fromkeys(runs):
        spec = _derived(executors, index, number, shapes)
        if spec is not None:
            return next(objections(executors, spec, range(number, number + 1)), None) is None
    return False


def _lengths_apart(executors: ExecutorMap, index: int, tensors: Sequence[Tensor], alike: tuple[Shape, ...]
                   ) -> Iterator[tuple[Shape, ...]]:
    """Lengths of runs of which open ones differ unless they have one name, or else unless operators ask them to be
    equal where all are, as those of rows and of a mask that chooses among them."""
    yield _apart(tensors, {})
    with suppress(ExecutionError, LimitError):
        equal = executors.generalizer.equal(index, alike)
        if equal:
            yield _apart(tensors, equal)


def _with_batch(signature: Shape, batch: int) -> Shape:
    """Lengths of a run, of which an open first one is that of the batch: some exporters leave it open in models for
    one."""
    return tuple([(TYPICAL if axis else batch) if size < 0 else size for axis, size in enumerate(signature)])


def _apart(tensors: Sequence[Tensor], equal: Mapping[tuple[int, int], tuple[int, int]]) -> tuple[Shape, ...]:
    """Lengths of a run of which open ones differ unless they have one name, or are to be those of another tensor and
    axis."""
    found: dict[object, int] = {}

    def length(tensor: int, axis: int) -> int:
        place = equal.get((tensor, axis), (tensor, axis))
        name = tensors[place[0]].axes[place[1]:place[1] + 1]
        return found.setdefault(name[0] if any(name) else place, TYPICAL + len(found))

    return tuple([tuple([length(k, axis) if size < 0 else size for axis, size in enumerate(each.signature)])
                  for k, each in enumerate(tensors)])


def _derived(executors: ExecutorMap, index: int, number: int, shapes: tuple[Shape, ...]) -> Specialization | None:
    """What is derived of a subgraph for inputs of these shapes and those like them, if an operator is reached."""
    try:
        general = executors.generalizer.at(index, shapes).general
    except (ExecutionError, LimitError):
        return None
    return general.spec if general is not None and number < general.spec.stop else None
