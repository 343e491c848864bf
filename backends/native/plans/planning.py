"""Plans what a session compiles, so that later ones need not read the model."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from circlet.backends.native.load import cache
from circlet.backends.native.load.library import is_shared
from circlet.backends.native.load.manifest import Constant, Manifest
from circlet.backends.native.load.sealed import checksum, padded, seal
from circlet.backends.native.load.store import kept
from circlet.backends.native.parts import Held, Variable
from circlet.backends.native.plans.key import MARK
from circlet.backends.native.plans.plan import (
    Enclosed,
    Handle,
    HostedGraph,
    Known,
    Lifted,
    Part,
    Plan,
    Planned,
    Stage,
    State,
    Unplanned,
    declared,
    plan_of,
)
from circlet.backends.native.plans.prepared import find
from circlet.runtime.exec.frames.layout import Layout
from circlet.runtime.exec.frames.layouts import fixed_layout, keeps_inputs, lying_value, open_layout
from circlet.runtime.exec.kernel import Span
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import ALIGNMENT, Array, Shape
from circlet.runtime.late import LOADING
from circlet.runtime.ops.controlflow import CallOnVariables, lifted_variables
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.records import dataclass, replace

LARGEST = 1 << 29
"""Bytes of constants that are kept with a plan, half of what the folder holds: a choice."""
ENCLOSED = 1 << 20
"""Bytes of the file of a function that is kept with a plan as well: a choice, so that what large functions take of the
folder is not doubled. It saves 0.2 ms of a session's first run."""
MOST_PLANNED = 16
"""Subgraphs of a plan, each for some shapes: as many as there may be functions for one place of a model; see
`backend.MOST`."""


@dataclass(frozen=True, eq=False)
class Begun:
    """The first functions of a subgraph that is several, which are bound in order."""

    spec: Specialization
    stop: int
    """The operator that the next one begins with."""
    stages: tuple[Stage, ...]
    manifests: tuple[Manifest, ...]
    """What they need."""
    held: tuple[int, ...]
    """The tensors that they find in memory."""


class Planner:
    """Keeps the plan of a model as its functions are bound."""

    def __init__(self, key: str, files: Sequence[memoryview], model: Model, entries: Sequence[int], has_state: bool
                 ) -> None:
        """
        Args:
            key: the name of the plan.
            files: what the model's files hold.
            model: as it was read from there.
            entries: the subgraphs that runs begin with.
            has_state: whether runs change anything.
        """
        self._key, self._model, self._entries = key, model, frozenset(entries)
        self._files: list[Array] = [np.frombuffer(each, np.uint8) for each in files]
        self._plan: Plan | None = None
        self._kept = [np.empty(0, np.uint8)]
        """Constants that are not in the file, each on cache lines of its own."""
        self._offsets: dict[tuple[int, int, Shape, tuple[int, ...]], tuple[int, Array]] = {}
        """Where among them those lie that a session has, by address, bytes, shape and strides, as a view may have the
        elements of another array in another order; with them, so that no other array comes to lie there."""
        self._begun: Begun | None = None
        """What was bound last, if more of its subgraph is to come."""
        found = find(key)
        if found is not None:
            self._plan, self._kept = found.plan, [found.constants]
            return
        with suppress(Unplanned):
            self._plan = plan_of(model, entries, has_state)

    def add(self, executed: Model, span: Span, key: str, manifest: Manifest) -> None:
        """Plans a function that was bound, if it computes a whole subgraph that runs begin with, or the rest of one.

        Args:
            executed: the model as it is compiled.
            span: what the function computes.
            key: its name on the disk.
            manifest: what it needs.
        """
        plan = self._plan
        lifted = {each: op for each in self._entries if (op := lifted_variables(executed.subgraphs[each])) is not None}
        computing = self._entries.union(*(op.callees() for op in lifted.values()))
        if plan is None or span.spec.index not in computing or len(plan.planned) >= MOST_PLANNED:
            return
        if any([stage.key for stage in each.stages] == [key] for each in plan.planned):
            return
        kept, offsets = self._kept.copy(), self._offsets.copy()
        try:
            planned = self._planned(executed, span, key, manifest)
            own = tuple(self._lifted(executed, *each) for each in lifted.items())
        except Unplanned:
            self._kept, self._offsets = kept, offsets
            return
        if planned is None or planned in plan.planned:
            return
        variables = span.run.variables
        handles = tuple(Handle(*each, number in variables.updated) for each, number in variables.handles.items())
        self._plan = replace(plan, handles=handles, planned=(*plan.planned, planned), lifted=own)
        keep(self._key, self._plan, np.concatenate(self._kept))

    def _planned(self, executed: Model, span: Span, key: str, manifest: Manifest) -> Planned | None:
        """What a function completes; None where other parts of the subgraph are to come."""
        graph, general = span.spec.subgraph, span.spec.general
        before, self._begun = self._begun, None
        if manifest.watched is not None or (general is not None and not span.is_whole) or span.spec.is_of_one_run:
            raise Unplanned
        if span.spec.index < len(self._model.subgraphs):
            own = self._model.subgraphs[span.spec.index]
            if (graph.inputs, graph.outputs) != (own.inputs, own.outputs):
                raise Unplanned
        if not span.operators.start:
            before = Begun(span.spec, 0, (), (), ())
        if before is None or before.spec is not span.spec or before.stop != span.operators.start:
            raise Unplanned
        found = sorted({each.tensor for each in manifest.origins if isinstance(each, Held)})
        values = {each: value for each in found if (value := _value(span, each)) is not None}
        held = [each for each in found if each not in values]
        stages = (*before.stages, self._stage(executed, span, key, manifest, values))
        manifests, between = (*before.manifests, manifest), (*before.held, *held)
        if span.operators.stop < len(graph.operators):
            self._begun = Begun(span.spec, span.operators.stop, stages, manifests, between)
            return None
        layout, known = self._layout(span, between)
        if not {*between} <= {each.tensor for each in layout.borders if each.buffer is not None}:
            raise Unplanned
        parts = tuple(self._part(span.spec.index, *each) for each in known.items())
        code = _code(layout, manifests) if span.is_whole else b""
        return Planned(span.spec.index, None if code else layout, code, parts, stages,
                       keeps_inputs(span.aliases, layout, span.is_whole))

    def _lifted(self, executed: Model, subgraph: int, op: CallOnVariables) -> Lifted:
        """A subgraph whose variables, or integers for text, are inputs and results of another one."""
        if not op.read:
            return Lifted(subgraph, op, ())
        first = executed.subgraphs[op.first_subgraph]
        if not all(first.tensors[each].is_constant for each in first.outputs):
            return Lifted(subgraph, op, None)
        found = ((first.tensors[each], self._constant(executed, op.first_subgraph, each)) for each in first.outputs)
        return Lifted(subgraph, op, tuple(Known(part, tensor.dtype, tensor.shape) for tensor, part in found))

    def _stage(self, executed: Model, span: Span, key: str, manifest: Manifest, values: Mapping[int, Array]) -> Stage:
        """A function, and where what it reads lies that is known, such as the values of tensors of the subgraph."""
        graph = span.spec.subgraph
        known = [self._part(span.spec.index, *each) for each in values.items()]
        leading = graph.place(span.spec.index, span.leading, None if graph.operators else "")
        hosted: tuple[HostedGraph, ...] = ()
        if manifest.host_calls:
            with LOADING:
                from circlet.backends.native.plans.hosting import hosted_of

            hosted = tuple(hosted_of(executed, manifest.host_calls, partial(self._constant, executed)))
        return Stage(key, leading, tuple(known), tuple(self._parts(executed, manifest)),
                     tuple(_states(executed, manifest)), hosted)

    def _part(self, index: int, tensor: int, value: Array) -> Part:
        """Where a value of a tensor of a subgraph is; what is not in the model's files is kept with the plan."""
        offset = self._offset(value) if value.flags.c_contiguous else None
        return Part(index, tensor, self._keep(value) if offset is None else offset, value.nbytes, offset is None)

    def _layout(self, span: Span, held: Sequence[int]) -> tuple[Layout, Mapping[int, Array]]:
        """Where inputs and results of a subgraph lie, and what its functions compute for each other; and the values of
        those that lie nowhere, as they are the same for all lengths."""
        tensors, general = span.spec.subgraph.tensors, span.spec.general
        if span.is_whole and general is not None:
            between = [number for number, array in enumerate(span.arrays) if array is not None]
            found, known = open_layout(general, span.aliases, between)
        else:
            fixed = fixed_layout(span.spec, span.aliases, span.arrays, held)
            if fixed is None:
                raise Unplanned
            found, known = fixed
        own = [each.tensor for each in found.borders]
        roots = list(map(span.aliases.root, own))
        is_unknown = any(tensors[each].is_constant and each not in known for each in own)
        if is_unknown or any(tensors[each].is_variable or tensors[each].dtype.numpy.hasobject for each in own + roots):
            raise Unplanned
        return found, known

    def _parts(self, executed: Model, manifest: Manifest) -> Iterator[Part]:
        """The constants of the model that a function reads; what is not in the file is kept beside it."""
        for each in dict.fromkeys(each for each in manifest.origins if isinstance(each, Constant)):
            yield self._constant(executed, each.subgraph, each.tensor)

    def _constant(self, executed: Model, subgraph: int, tensor: int) -> Part:
        """Where the value of a constant of the model is."""
        data = executed.subgraphs[subgraph].tensors[tensor].data
        assert data is not None, f"tensor {tensor} of subgraph {subgraph} has no value"
        return self._part(subgraph, tensor, data)

    def _offset(self, data: Array) -> int | None:
        """Where a constant lies in the model's files; None where it lies elsewhere."""
        before = 0
        for each in self._files:
            offset = data.ctypes.data - each.ctypes.data
            if 0 <= offset <= each.nbytes - data.nbytes:
                return before + offset
            before += each.nbytes
        return None

    def _keep(self, data: Array) -> int:
        """Puts a constant behind those that there are, on a cache line of its own; where that is."""
        key = data.ctypes.data, data.nbytes, data.shape, data.strides
        if key not in self._offsets:
            begin = sum(each.nbytes for each in self._kept)
            size = -(-data.nbytes // ALIGNMENT) * ALIGNMENT
            if begin + size > LARGEST:
                raise Unplanned
            padded = np.zeros(size, np.uint8)
            padded[:data.nbytes] = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            self._kept.append(padded)
            self._offsets[key] = begin, data
        return self._offsets[key][0]


def keep(key: str, plan: Plan, constants: Array) -> None:
    """Puts a plan on the disk, with constants, if there is room; with a function, if that is small, so that one file is
    all that most processes look for."""
    first = _first(plan)
    function = kept(first, ENCLOSED)
    if function is None or not is_shared(function.code[0]):
        cache.write(key, seal(MARK, b"", constants, replace(plan, enclosed=None)))
        return
    size = function.constants.size
    whole = np.concatenate([function.constants, np.zeros(padded(size) - size, np.uint8), constants])
    enclosed = Enclosed(first, function.manifest, size, checksum(function.constants))
    cache.write(key, seal(MARK, function.code[0], whole, replace(plan, enclosed=enclosed)))


def _value(span: Span, tensor: int) -> Array | None:
    """The value of a tensor, if it is known."""
    return lying_value(span.spec, span.aliases, span.arrays[tensor], tensor)


def _first(plan: Plan) -> str:
    """The function that a process is most likely to look for first: one for any lengths, if there is one."""
    planned = min(plan.planned, key=lambda each: each.layout is not None)
    return planned.stages[0].key


def _code(layout: Layout, manifests: Sequence[Manifest]) -> bytes:
    """A layout for any lengths, and what functions need that are bound for it."""
    with LOADING:
        from circlet.backends.native.load.open_invocation import needs_of
        from circlet.runtime.exec.frames.layout_code import layout_code

    needs = [terms for each in manifests for terms in needs_of(each)]
    return marshal.dumps(layout_code(layout, needs, [found for each in manifests for found in each.assumptions]))


def _states(executed: Model, manifest: Manifest) -> Iterator[State]:
    """The variable tensors that a function uses."""
    for each in dict.fromkeys(each for each in manifest.origins if isinstance(each, Variable)):
        tensor = executed.subgraphs[each.subgraph].tensors[each.tensor]
        yield State(each.subgraph, each.tensor, declared(tensor))
