"""The native backend: spans of operators become one LLVM function each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import llvmlite
import numpy as np

from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.cache import cached
from circlet.backends.native.function import FunctionLowering
from circlet.backends.native.fuse import Fused
from circlet.backends.native.host import HOST_FAILED
from circlet.backends.native.program import (
    DONE,
    EXHAUSTED,
    FIRST_SITE,
    STOPPED,
    HostCall,
    Program,
    Site,
    Staging,
    Unlowerable,
)
from circlet.backends.native.rule import rule_of
from circlet.backends.native.target import Library, host, link, object_code
from circlet.backends.native.value import in_memory
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.activation import Activation
from circlet.runtime.exec.executor import ExecutorMap
from circlet.runtime.exec.kernel import Call, Kernel, Span, Step
from circlet.runtime.exec.memory import allocate, retype
from circlet.runtime.ir.faults import FAULTS, raise_located
from circlet.runtime.ir.types import Array

ENTRY = "circlet_entry"
_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)


@dataclass(frozen=True)
class Listing:
    """A function for people to read."""

    outline: tuple[str, ...]
    """Loops and operators, indented."""
    module: str
    """LLVM's assembly language, before its passes."""


class NativeBackend:
    """Compiles what it can; the numpy backend computes the rest."""

    name = "native"

    def __init__(self, executors: ExecutorMap) -> None:
        self._executors = executors
        self._cpu = CpuBackend()
        self.latest: Listing | None = None
        """The function made last."""

    def computes_with(self, call: Call) -> str:
        return self.name if isinstance(call.op, Fused) or rule_of(call) is not None else self._cpu.name

    def refuses(self, call: Call) -> str | None:
        return None if isinstance(call.op, Fused) else self._cpu.refuses(call)

    def kernel(self, call: Call) -> Kernel:
        return FusedKernel(call, call.op, self._cpu) if isinstance(call.op, Fused) else self._cpu.kernel(call)

    def bind_span(self, span: Span) -> Step | None:
        try:
            function = lower_span(self._executors, span)
        except Unlowerable:
            return None
        self.latest = Listing(tuple(function.program.outline), str(function.e.module))
        library = link(compiled(str(function.e.module)), ENTRY)
        return Invocation(self._executors, library, function.program, span.activation)


def compiled(text: str) -> bytes:
    """The object code of a module for this machine, from the cache if it is there."""
    target = host()
    options = f"{target.triple} {target.cpu} {target.features} llvmlite {llvmlite.__version__}"
    return cached(text, options, lambda: object_code(text, target))


def lower_span(executors: ExecutorMap, span: Span) -> FunctionLowering:
    """The function for a span."""
    function = FunctionLowering(executors, host(), ENTRY, span.activation.variables)
    spec = span.spec
    written = {each for number in span.operators for each in spec.subgraph.operators[number].outputs}
    values = {}
    places = {}
    for tensor, array in enumerate(span.arrays):
        if array is None or tensor in spec.known or array.dtype.hasobject:
            continue
        if tensor in written:
            if array.size != 1 or tensor in span.exported:
                places[span.aliases.root(tensor)] = function.external(array)
        else:
            home = function.external(array)
            values[tensor] = in_memory(home, array.shape, spec.subgraph.tensors[tensor].dtype)
            places[span.aliases.root(tensor)] = home
    function.emit(spec, span.operators, span.aliases, values, places)
    function.finish()
    return function


class Invocation:
    """A function bound to its buffers."""

    def __init__(self, executors: ExecutorMap, library: Library, program: Program, activation: Activation) -> None:
        self._library = library
        self._sites = program.sites
        self._evidence = program.evidence
        self._activation = activation
        self._arrays = program.externals
        self._arena = allocate((program.arena_bytes,), np.dtype(np.uint8))
        self._table = np.array([each.ctypes.data for each in program.externals], np.uint64)
        self._hosts = [_bind_host(executors, each, self._arena, activation) for each in program.host_calls]
        self._callback = _HOST_TYPE(self._host)
        self._host_address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        self._error: BaseException | None = None
        entry = _ENTRY_TYPE(library.address)
        addresses = (each.ctypes.data for each in (activation.control, self._arena, self._table))
        self._enter: Callable[[], int] = partial(entry, *addresses)

    def __call__(self) -> None:
        activation = self._activation
        if self._hosts:
            status = self._with_host(activation)
        elif activation.has_deadline:
            with activation.compiled():
                status = self._enter()
        else:
            status = self._enter()
        if status != DONE:
            self._fail(status)

    def _with_host(self, activation: Activation) -> int:
        """Enters a function that calls the host; a host call may enter another one."""
        control = activation.control
        outer, control[2] = control[2], self._host_address
        try:
            if not activation.has_deadline:
                return self._enter()
            with activation.compiled():
                return self._enter()
        finally:
            control[2] = outer

    def _fail(self, status: int) -> None:
        if status == STOPPED:
            self._activation.stopped()
        if status == EXHAUSTED:
            self._activation.exhausted()
        site: Site = self._sites[status - FIRST_SITE]
        if site.message == HOST_FAILED and self._error is not None:
            error, self._error = self._error, None
            if isinstance(error, FAULTS):
                raise_located(error, site.place)
            raise error
        evidence = self._evidence[:site.numbers].tolist()
        raise ExecutionError(site.message.format(*evidence) if evidence else site.message, site.place)

    def _host(self, number: int, _: int) -> int:
        try:
            with np.errstate(all="ignore"):
                self._hosts[number]()
        except BaseException as error:  # it must not pass through native code
            self._error = error
            return 1
        return 0


def _bind_host(executors: ExecutorMap, call: HostCall, arena: Array, activation: Activation) -> Step:
    """The numpy kernel of an operator on the buffers of a host call."""
    inputs = [None if each is None else _buffer(each, arena) for each in call.inputs]
    outputs = [_buffer(each, arena) for each in call.outputs]
    return executors[call.subgraph].bind(call.operator, inputs, outputs, activation)


def _buffer(place: Array | Staging, arena: Array) -> Array:
    if not isinstance(place, Staging):
        return place
    dtype = place.dtype.numpy
    return retype(arena[place.offset:place.offset + prod(place.shape) * dtype.itemsize], place.shape, dtype)


class FusedKernel:
    """A group of operators computed one by one with numpy."""

    def __init__(self, call: Call, op: Fused, cpu: CpuBackend) -> None:
        self._call = call
        self._op = op
        self._kernels = [cpu.kernel(Call.of_tensors(op.tensors, each.operator, call.place)) for each in op.members]

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array], activation: Activation) -> Step:
        arrays: dict[int, Array | None] = dict(zip(self._op.sources, inputs, strict=True))
        arrays[-1] = None
        shapes = self._op.shapes({tensor: array for tensor, array in arrays.items() if array is not None})
        for member in self._op.members[:-1]:
            for each in member.operator.outputs:
                arrays[each] = allocate(shapes[each], self._op.tensors[each].dtype.numpy)
        last = self._op.members[-1].operator
        arrays.update(zip(last.outputs, outputs, strict=True))
        steps = [
            kernel.bind([arrays[each] for each in member.operator.inputs],
                        [array for each in member.operator.outputs if (array := arrays[each]) is not None], activation)
            for kernel, member in zip(self._kernels, self._op.members, strict=True)
        ]

        def step() -> None:
            for each in steps:
                each()

        return step
