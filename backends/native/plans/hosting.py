"""Operators that the host computes in the midst of planned functions: as plans have them, and as they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.load.codec import UnwritableError, encode
from circlet.backends.native.parts import HostCall
from circlet.backends.native.plans.plan import Hosted, HostedGraph, Part, Unplanned, declared
from circlet.runtime.errors import Place
from circlet.runtime.exec.executor import Executor
from circlet.runtime.exec.kernel import SKIP, Call, Kernel, SkippedKernel
from circlet.runtime.exec.memory import retype
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.records import replace


def hosted_of(model: Model, calls: Iterable[HostCall], part: Callable[[int, int], Part]) -> Iterator[HostedGraph]:
    """The operators of host calls, by subgraph.

    Args:
        model: as it is compiled.
        calls: what a function asks of the host.
        part: where the constant is that a tensor of a subgraph has.

    Raises:
        Unplanned: one of them is more than a computation on tensors.
    """
    found: dict[int, set[int]] = {}
    for each in calls:
        found.setdefault(each.subgraph, set()).add(each.operator)
    for number, operators in sorted(found.items()):
        graph = model.subgraphs[number]
        hosted = tuple(_hosted(each, graph.operators[each]) for each in sorted(operators))
        used = sorted({tensor for each in hosted for tensor in (*each.inputs, *each.outputs, *each.intermediates)
                       if tensor != ABSENT})
        tensors = tuple((each, declared(replace(graph.tensors[each], data=None))) for each in used)
        constants = tuple(part(number, each) for each in used if graph.tensors[each].is_constant)
        yield HostedGraph(number, graph.name, hosted, tensors, constants, graph.origin, graph.added, graph.made_for)


def _hosted(number: int, found: Operator) -> Hosted:
    """An operator as a plan has it."""
    if found.op.callees() or found.op.parts() or not (found.op.pure or found.op.has_state):
        raise Unplanned
    try:
        encode(found.op)
    except UnwritableError:
        raise Unplanned from None
    return Hosted(number, found.op, found.inputs, found.outputs, found.version, bytes(found.custom_options),
                  found.intermediates)


def executor_of(found: HostedGraph, part: Callable[[Part], Array]) -> Executor:
    """What computes the operators.

    Args:
        found: what the plan says of them.
        part: the bytes of a constant.
    """
    data = {each.tensor: part(each) for each in found.constants}
    known = {number: _with(tensor, data.get(number)) for number, tensor in found.tensors}
    blank = Tensor("", DType.FLOAT32, ())
    tensors = tuple(known.get(each, blank) for each in range(max(known, default=-1) + 1))
    hosted = {each.number: Operator(each.op, each.inputs, each.outputs, each.version, each.custom_options,
                                    each.intermediates) for each in found.operators}
    operators = tuple(hosted.get(each, Operator(SKIP, (), ())) for each in range(max(hosted) + 1))
    graph = Subgraph(found.name, tensors, (), (), operators, found.origin, found.added, found.made_for)
    return Executor(found.number, graph, _kernels(found.number, graph, hosted), (), ())


def _with(tensor: Tensor, data: Array | None) -> Tensor:
    """A tensor with the bytes of its value, if it has one."""
    return tensor if data is None else replace(tensor, data=retype(data, tensor.shape, tensor.dtype.numpy))


def _kernels(number: int, graph: Subgraph, hosted: Mapping[int, Operator]) -> tuple[Kernel, ...]:
    """numpy's kernels of some operators; those of others are never bound."""
    cpu = CpuBackend()
    return tuple(cpu.kernel(Call.of(graph, each, Place(number, graph.name, place, each.name)))
                 if place in hosted else SkippedKernel() for place, each in enumerate(graph.operators))
