"""Finds the plans of models, and binds frames to what they name."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.native.check.watched import are_checked
from circlet.backends.native.load import cache
from circlet.backends.native.load.invocation import Invocation, Setting
from circlet.backends.native.load.library import is_visible
from circlet.backends.native.load.manifest import Constant
from circlet.backends.native.load.sealed import padded, shared, unseal
from circlet.backends.native.load.store import Function, enclosed_function, stored
from circlet.backends.native.load.team import Teams
from circlet.backends.native.plans.key import MARK, FileProvenance, plan_key
from circlet.backends.native.plans.plan import Lifted, Part, Plan, Planned, Stage
from circlet.runtime.exec.frames.layout import Border, Layout
from circlet.runtime.exec.frames.open_layout import OpenLayout
from circlet.runtime.exec.frames.whole_frame import WholeFrame
from circlet.runtime.exec.memory import LARGE, retype
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.step import in_turn
from circlet.runtime.ir.faults import located
from circlet.runtime.ir.model import Model, Provenance
from circlet.runtime.ir.terms import fixed
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.exec.executor import Executor
    from circlet.runtime.exec.frames.lent_frame import LentFrame
    from circlet.runtime.exec.frames.open_frame import OpenFrame
    from circlet.runtime.exec.preparation import EntryFrame, Read
    from circlet.runtime.exec.step import OpenStep, Step

@dataclass(frozen=True, eq=False)
class Found:
    """A plan that is on the disk."""

    plan: Plan
    constants: Array
    """That are kept with it."""
    function: Function | None
    """That is kept in it."""


def find(key: str) -> Found | None:
    """The plan of a name; None where there is none, or it is damaged."""
    file = cache.find(key)
    if file is None:
        return None
    with file:
        known = unseal(file, MARK, Plan)
        if known is None:
            return None
        plan, sealed = known
        if plan.enclosed is None:
            return Found(plan, sealed.constants, None)
        size = plan.enclosed.size
        constants = shared(sealed.constants[:size], plan.enclosed.checksum)
        return Found(plan, sealed.constants[padded(size):], enclosed_function(
            plan.enclosed.key, sealed, plan.enclosed.manifest, constants, file))


def prepared(provenance: Provenance, num_threads: int) -> Prepared | None:
    """What earlier runs left of a model; None if there is nothing, or code is to check bounds or to be
    seen by tools, which is not planned."""
    found = None if are_checked() or is_visible() else find(plan_key(provenance))
    if found is None:
        return None
    if isinstance(provenance, FileProvenance):
        provenance.keep_digest()
    return Prepared(found, provenance.files, num_threads)


class Prepared:
    """A model of which a plan was found."""

    def __init__(self, found: Found, files: Sequence[memoryview], num_threads: int) -> None:
        """
        Args:
            found: the plan of the model.
            files: what the model's files hold.
            num_threads: that a run may use.
        """
        self.has_state = found.plan.has_state
        self._plan = found.plan
        self._kept, self._files = found.constants, [np.frombuffer(each, np.uint8) for each in files]
        self._teams = Teams(num_threads)
        self._functions: dict[str, Function | None] = {}
        if found.function is not None:
            self._functions[found.function.key] = found.function
        self._layouts: dict[bytes, OpenLayout] = {}

    @property
    def outline(self) -> Model:
        """The inputs, outputs and signatures of the model."""
        return self._plan.outline()

    def declare(self, variables: Variables) -> None:
        for each in self._plan.handles:
            handle = variables.handle(each.container, each.name)
            if each.is_updated:
                variables.updated.add(handle)

    def close(self) -> None:
        self._teams.close()

    def frame(self, subgraph: int, shapes: tuple[Shape, ...], run: Run, executors: Read) -> EntryFrame | None:
        lifted = next((each for each in self._plan.lifted if each.subgraph == subgraph), None)
        return self._own(subgraph, shapes, run, executors) if lifted is None else self._stateful(lifted, run, executors)

    def _stateful(self, lifted: Lifted, run: Run, executors: Read) -> EntryFrame:
        """A frame for a subgraph whose variables are inputs and results of another one."""
        with LOADING:
            from circlet.runtime.exec.frames.stateful_frame import StatefulFrame

        first = None if lifted.first is None else [
            retype(self._part(each.part), each.shape, each.dtype.numpy) for each in lifted.first]
        return StatefulFrame(lifted.op, run, lambda subgraph, shapes: self._own(subgraph, shapes, run, executors)
                             or executors().resizable_frame(subgraph, shapes, run), first)

    def _own(self, subgraph: int, shapes: tuple[Shape, ...], run: Run, executors: Read) -> EntryFrame | None:
        """A frame for a subgraph that functions compute."""
        for each in self._plan.planned:
            if each.subgraph == subgraph and (functions := self._fitting(each, shapes)) is not None:
                if each.layout is not None:
                    return self._fixed(each, each.layout, functions, run)
                return self._open(each, functions, shapes, run, executors)
        return None

    def lent(self, subgraph: int, arrays: Sequence[Array], run: Run, executors: Read
             ) -> LentFrame | WholeFrame | None:
        shapes = tuple([each.shape for each in arrays])
        for each in self._plan.planned:
            is_fit = each.subgraph == subgraph and (each.layout is None or each.keeps_inputs)
            if is_fit and (functions := self._fitting(each, shapes)) is not None:
                if each.layout is not None:
                    return self._bound(each, each.layout, functions, run, arrays).frame()
                with LOADING:
                    from circlet.runtime.exec.frames.lent_frame import LentFrame

                opened = self._open(each, functions, shapes, run, executors)
                return None if opened is None else LentFrame(opened, arrays, is_resizable=True)
        return None

    def _fitting(self, planned: Planned, shapes: tuple[Shape, ...]) -> list[Function] | None:
        """The functions of a subgraph; None where one is gone, or not for inputs of some shapes."""
        if planned.layout is None:
            layout = self._layout(planned)
            is_fit = layout.fit(shapes, layout.room, True) is not None
        else:
            is_fit = planned.layout.input_shapes() == shapes
        found = [self._function(each.key) for each in planned.stages] if is_fit else [None]
        return None if None in found else [each for each in found if each is not None]

    def _layout(self, planned: Planned) -> OpenLayout:
        found = self._layouts.get(planned.code)
        if found is None:
            found = self._layouts[planned.code] = OpenLayout(marshal.loads(planned.code))
        return found

    def _function(self, key: str) -> Function | None:
        if key not in self._functions:
            self._functions[key] = stored(key)
        return self._functions[key]

    def _open(self, planned: Planned, functions: Sequence[Function], shapes: tuple[Shape, ...], run: Run,
              executors: Read) -> OpenFrame | None:
        with LOADING:
            from circlet.backends.native.load.open_invocation import OpenInvocation
            from circlet.runtime.exec.frames.open_frame import OpenFrame, UnboundError

        layout = self._layout(planned)
        known = self._known(planned, [(tensor, shape, dtype) for tensor, dtype, shape in layout.known])

        def bind(arrays: Mapping[int, Array]) -> tuple[OpenStep, OpenLayout]:
            return _chained([OpenInvocation(function, self._setting(stage, arrays, run), self._teams)
                             for stage, function in zip(planned.stages, functions, strict=True)]), layout

        with suppress(UnboundError):
            return OpenFrame(planned.subgraph, layout, known, shapes, run, bind,
                             lambda shapes: executors().frame(planned.subgraph, shapes, run), planned.keeps_inputs)
        return None

    def _fixed(self, planned: Planned, layout: Layout, functions: Sequence[Function], run: Run) -> EntryFrame:
        """A frame at fixed shapes that a session uses."""
        bound = self._bound(planned, layout, functions, run)
        large = {each.tensor for each in layout.borders if _is_apart(each, layout)}
        is_moving = large and not any(each.manifest.host_calls for each in functions)
        if not is_moving:
            return bound.frame()
        with LOADING:
            from circlet.runtime.exec.frames.large_frame import LargeFrame

        inputs, outputs = layout.inputs, layout.outputs
        readable = {inputs.index(each): bound.move(each) for each in large.intersection(inputs)
                    if planned.keeps_inputs and each not in outputs}
        given = {outputs.index(each): bound.move(each) for each in large.intersection(outputs)
                 if outputs.count(each) == 1 and each not in inputs}
        return LargeFrame(run, bound.inputs, bound.outputs, bound.step(), readable, given)

    def _bound(self, planned: Planned, layout: Layout, functions: Sequence[Function], run: Run,
               lent: Sequence[Array] = ()) -> _Bound:
        places = {each.tensor: each.buffer for each in layout.borders}
        memory = {places[tensor]: retype(array, (array.nbytes,), np.dtype(np.uint8))
                  for tensor, array in zip(layout.inputs, lent, strict=bool(lent))}
        memory.update({each.number: run.room.allocate((fixed(each.size),), np.dtype(np.uint8))
                       for each in layout.buffers if each.number not in memory})
        shapes = {each.tensor: tuple(map(fixed, each.shape)) for each in layout.borders}
        arrays = self._known(planned, [(each.tensor, shapes[each.tensor], each.dtype.numpy) for each in layout.borders])
        for each in layout.borders:
            if each.buffer is None:
                continue
            shape, dtype = shapes[each.tensor], each.dtype.numpy
            end = each.offset + prod(shape) * dtype.itemsize
            arrays[each.tensor] = retype(memory[each.buffer][each.offset:end], shape, dtype)
        invocations = [Invocation(function, self._setting(stage, arrays, run), self._teams)
                       for stage, function in zip(planned.stages, functions, strict=True)]
        inputs, outputs = ([arrays[each] for each in side] for side in (layout.inputs, layout.outputs))
        return _Bound(run, inputs, outputs, invocations)

    def _known(self, planned: Planned,
               tensors: Iterable[tuple[int, Shape, np.dtype[np.generic]]]) -> dict[int, Array]:
        """Inputs and results that are the same in every run, by tensor."""
        found = {each.tensor: self._part(each) for each in planned.known}
        return {tensor: retype(found[tensor], shape, dtype) for tensor, shape, dtype in tensors
                if tensor in found} if found else {}

    def _setting(self, stage: Stage, arrays: Mapping[int, Array], run: Run) -> Setting:
        parts = {(each.subgraph, each.tensor): self._part(each) for each in stage.parts}
        held = {**arrays, **{each.tensor: self._part(each) for each in stage.known}}
        states = {(each.subgraph, each.number): each.tensor for each in stage.states}
        return Setting(
            run=run, lengths=(), held=held.get, constant=lambda found: parts[_place(found)],
            variable=lambda subgraph, tensor: states[subgraph, tensor], executor=self._executors(stage).__getitem__,
            located=located(lambda _: stage.leading, 0))

    def _executors(self, stage: Stage) -> Mapping[int, Executor]:
        """What computes the operators that the host does, by subgraph."""
        if not stage.hosted:
            return {}
        with LOADING:
            from circlet.backends.native.plans.hosting import executor_of

        return {each.number: executor_of(each, self._part) for each in stage.hosted}

    def _part(self, found: Part) -> Array:
        """The bytes of a constant."""
        source, offset = self._kept, found.offset
        if not found.is_kept:
            source = self._files[0]
            if offset >= source.nbytes:
                source, offset = self._files[1], offset - source.nbytes
        return source[offset:offset + found.size]


@dataclass(frozen=True, eq=False)
class _Bound:
    """Functions of fixed shapes, bound to memory."""

    run: Run
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    invocations: Sequence[Invocation]

    def step(self) -> Step:
        return in_turn([each.step() for each in self.invocations])

    def frame(self) -> WholeFrame:
        return WholeFrame(self.run, self.inputs, self.outputs, self.step())

    def move(self, tensor: int) -> Callable[[Array], None]:
        """What has all functions find a tensor in other memory."""
        found = [(each.move, each.places(tensor)) for each in self.invocations]

        def move(array: Array) -> None:
            for change, places in found:
                change(places, array)

        return move


def _is_apart(border: Border, layout: Layout) -> bool:
    """Whether a tensor is large and nothing else lies in its buffer."""
    return (border.buffer is not None and not border.offset
            and prod(map(fixed, border.shape)) * border.dtype.numpy.itemsize >= LARGE
            and [each.tensor for each in layout.borders if each.buffer == border.buffer] == [border.tensor])


def _chained(steps: Sequence[OpenStep]) -> OpenStep:
    """Steps as one."""
    if len(steps) == 1:
        return steps[0]
    with LOADING:
        from circlet.runtime.exec.frames.chained import Chained

    return Chained(steps)


def _place(found: Constant) -> tuple[int, int]:
    return found.subgraph, found.tensor
