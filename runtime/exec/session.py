"""A model made runnable: its executors, its state and the limits of its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from circlet.runtime.errors import ClosedError, InputError, RunError
from circlet.runtime.exec import fork
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.frames.cache import Key
from circlet.runtime.exec.frames.pool import SPARES, FramePool
from circlet.runtime.exec.limits import UNLIMITED, Limits, overrun
from circlet.runtime.exec.observe.listener import Listener, ListenerFailure, Observation, observation
from circlet.runtime.exec.observe.recording import Recording
from circlet.runtime.exec.run import Run, observed_run
from circlet.runtime.exec.state.transactions import Transactions
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.values.entry_points import has_state, primary
from circlet.runtime.exec.values.inputs import Entry, Inputs, Lane, Outputs, entry_of
from circlet.runtime.ir.model import Model, Signature, entries_of
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.late import LOADING

if TYPE_CHECKING:
    from circlet.runtime.exec.bound import BoundRun
    from circlet.runtime.exec.crossing import CopyEdge
    from circlet.runtime.exec.executor_map import ExecutorMap
    from circlet.runtime.exec.preparation import EntryFrame, Preparation
    from circlet.runtime.exec.signature_runner import SignatureRunner
    from circlet.runtime.exec.values.tensor_info import TensorInfo
    from circlet.runtime.ir.op import Op

UNOBSERVED, TIMED = Observation.NONE.value, Observation.TIMES
S = TypeVar("S", bound="Session")
T = TypeVar("T")


class Session:
    """Runs a model. It may be used from several threads at once.

    After a fork, parent and child have it each for themselves. Runs of other threads do not go on in the child: the
    state there is that before them.
    """

    def __init__(self, model: Model | Callable[[], Model], engine: Engine, limits: Limits | None = None,
                 prepared: Preparation | None = None) -> None:
        """
        Args:
            model: is verified here, unless it is prepared; it may be what reads it, when that is needed.
            engine: what it is run with.
            limits: bounds on each run.
            prepared: what earlier runs left of the same model and engine.

        Raises:
            ModelError: the model is malformed.
            UnsupportedError: no backend computes some operators; the message lists them all.
        """
        self.limits = limits or UNLIMITED
        self._engine = engine
        self._variables = Variables()
        self._frames = FramePool()
        self._running: set[Run] = set()
        self._state = Transactions(self._variables)
        self._building = RLock()
        self._model = model
        self._open: ExecutorMap | None = None
        self._is_closed = False
        self._prepared = prepared
        self.recording = Recording(self._frames)
        self._unread: set[tuple[int, tuple[Shape, ...]]] = set()
        """Subgraphs, and the shapes of their inputs, that were bound without the model."""
        if prepared is None:
            with LOADING:
                from circlet.runtime.ir.verify import verify

            verify(self.model)
            self._stateful = has_state(self.model)
            self._open = self._opened()
        else:
            self._stateful = prepared.has_state
            prepared.declare(self._variables)
        fork.watch(self)

    @cached_property
    def _outline(self) -> Model:
        """The model, as far as its inputs, outputs and signatures go."""
        return self.model if self._prepared is None else self._prepared.outline

    @cached_property
    def _primary(self) -> Entry:
        """The entry point of subgraph 0."""
        return primary(self._outline)

    @property
    def model(self) -> Model:
        """The model, as it was given."""
        if not isinstance(self._model, Model):
            with self._building:
                if not isinstance(self._model, Model):
                    self._model = self._model()
        return self._model

    @property
    def _executors(self) -> ExecutorMap:
        self.expect_open()
        found = self._open
        if found is None:
            with self._building:
                found = self._open = self._open or self._opened()
        return found

    def _opened(self) -> ExecutorMap:
        """Executors for the model."""
        try:
            found = self._engine.executors(self.model)
        except (RecursionError, MemoryError) as error:
            raise overrun(error) from None
        self._variables.name_all(found.model)
        return found

    def expect_open(self) -> None:
        """
        Raises:
            ClosedError: the session is closed.
        """
        if self._is_closed:
            raise ClosedError("the session is closed")

    def close(self) -> None:
        """Gives up the memory, state and threads of the session; what runs goes on to its end. Later runs raise
        ClosedError. It may be closed again."""
        self._is_closed = True
        for each in (self._open, self._prepared):
            if each is not None:
                each.close()
        self._open, self._prepared, self._variables = None, None, Variables()
        self._state = Transactions(self._variables)
        self._frames.close()

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        with LOADING:
            from circlet.runtime.exec.display import text

        state = "closed, " if self._is_closed else ""
        return f"<Session of {self._outline.format} model: {state}{text(self)}>"

    def _repr_html_(self) -> str:
        with LOADING:
            from circlet.runtime.exec.display import table

        return table(self)

    @property
    def inputs(self) -> dict[str, TensorInfo]:
        """What the inputs of the primary entry point are, by name."""
        return self._primary.describe(self._primary.inputs)

    @property
    def outputs(self) -> dict[str, TensorInfo]:
        """What the outputs of the primary entry point are, by name."""
        return self._primary.describe(self._primary.outputs)

    def run(self, inputs: Inputs = (), listener: Listener | None = None) -> Outputs:
        """Runs the primary entry point.

        Args:
            inputs: `{name: value}`, or values in input order: arrays, of numpy's or what becomes one by `__array__` or
                DLPack, Python's numbers and strings, lists of these. They have the declared shape. An array of another
                element type is taken if the declared one holds each of its values exactly; Python's floats are
                rounded. A sequence is a list, an optional None or its value.
            listener: hears of what happens, e.g. a `Counter`.

        Returns:
            `{output name: value}`, where values are arrays, lists of them or None; they are the caller's. Elements that
            numpy lacks are of types of `ml_dtypes`. Strings are `str` in models read from ONNX, else `bytes`.

        Raises:
            InputError: an input is missing, unknown, has another shape than declared, or values that the declared
                element type does not hold.
            ExecutionError: an operator cannot compute with the values it got.
            LimitError, CancelledError: the run was stopped, or took longer than its deadline.
            ClosedError: the session is closed.
            What the listener raises. State is as before the run after any error, KeyboardInterrupt among them.
        """
        return self.run_entry(self._primary, inputs, listener)

    def signature(self, key: str | None = None) -> SignatureRunner:
        """The entry point that a signature names; without a key, the only one.

        Raises:
            InputError: there is no such signature, or several and no key.
        """
        if key is None and len(self._outline.signatures) == 1:
            key = self._outline.signatures[0].key
        found = self._named.get(key)
        if found is None:
            raise InputError(f"no signature {key!r}; the model has {[each.key for each in self._outline.signatures]}")
        signature, entry = found
        return self._runner(self, signature, entry)

    @cached_property
    def _runner(self) -> type[SignatureRunner]:
        """What runs an entry point by name, looked for once."""
        with LOADING:
            from circlet.runtime.exec.signature_runner import SignatureRunner

        return SignatureRunner

    @cached_property
    def _named(self) -> Mapping[str | None, tuple[Signature, Entry]]:
        """The entry points that signatures name, by key; the first one where several have a key."""
        outline = self._outline
        return {each.key: (each, entry_of(outline, each.subgraph, each)) for each in reversed(outline.signatures)}

    def run_entry(self, entry: Entry, inputs: Inputs, listener: Listener | None = None) -> Outputs:
        """Runs an entry point; see `run`."""
        if listener is None:
            if self.recording.recorder is not None:
                return self.recording.run(partial(self.run_entry, entry, inputs))
            idle = self._frames.latest if entry.is_open else self._frames.direct.get(entry)
            if idle and type(inputs) is dict:
                found = self._run_again(entry, idle, inputs)
                if found is not None:
                    return found
        ready = entry.ready(inputs)
        if ready is None or (listener is not None and listener.observation is not TIMED):
            return entry.named(self.invoke(entry.subgraph, entry.arrays(inputs), listener))
        results = self._run(entry.key_of(ready, listener is not None), ready, listener)
        if listener is None:
            self._frames.enter(entry)
        return entry.named(results)

    def _run_again(self, entry: Entry, idle: list[EntryFrame], inputs: dict[str, Any]) -> Outputs | None:
        """Runs an entry point on an idle frame, with no work but what each run needs; None, and nothing is changed,
        where inputs are not arrays that fit as they are, or a frame for any lengths is not likely to have theirs."""
        try:
            frame = idle.pop()
        except IndexError:  # another thread was faster
            return None
        lane, run = frame.lane, frame.run
        if lane is None or lane.entry is not entry:
            if frame.opened is not None and not frame.opened.serves(entry.key):
                idle.append(frame)
                return None
            lane = frame.lane = Lane(entry, frame)
        results: Outputs | None = None
        run.start(self.limits)
        self._running.add(run)
        try:
            if lane.fill(inputs):
                if self._stateful:
                    results = self._state.alone(run.watch, partial(lane.finish, frame))
                else:
                    results = lane.finish(frame)
                    if run.watch.is_timed:
                        run.watch.check()
        except (RecursionError, MemoryError) as error:
            raise overrun(error) from None
        finally:
            self._running.discard(run)
        if len(idle) < SPARES:
            idle.append(frame)
        return results

    def invoke(self, subgraph: int, arrays: Sequence[Array], listener: Listener | None = None) -> list[Array]:
        """Runs a subgraph on stored values of its inputs' types, of any shapes that its operators can compute with.

        Returns:
            The outputs as stored, see `DType.numpy`, in arrays that belong to the caller.

        Raises:
            InputError: there is no such subgraph, or it takes another number of inputs.
            As `run`.
        """
        if self.recording.recorder is not None and listener is None:
            return self.recording.run(partial(self.invoke, subgraph, arrays))
        observed = UNOBSERVED if listener is None else observation(listener).value
        try:
            return self._run((subgraph, tuple([each.shape for each in arrays]), observed), arrays, listener)
        except ListenerFailure as failure:
            error = failure.error
        raise error

    def _run(self, key: Key, arrays: Sequence[Array], listener: Listener | None) -> list[Array]:
        """Runs on a frame of its own, which is given up if the run fails."""
        frame = self._frames.take(key)
        run = observed_run(self._variables, Observation(key[2]), lambda: self.model) if frame is None else frame.run
        run.start(self.limits, listener)
        self._running.add(run)
        try:
            if frame is None:
                with run.observer.preparing():
                    frame = self._frame(key, run)
            if self._stateful:
                results = self._state.alone(run.watch, partial(frame.call, arrays))
            else:
                results = frame.call(arrays)
                if run.watch.is_timed:
                    run.watch.check()
        except (RecursionError, MemoryError) as error:
            raise overrun(error) from None
        finally:
            self._running.discard(run)
        self._frames.give(key, frame)
        return results

    def after_fork(self) -> None:
        """Takes back what threads that are not in this process were changing."""
        self._running.clear()
        self._building = RLock()
        self._state.after_fork()

    def _frame(self, key: Key, run: Run) -> EntryFrame:
        subgraph, shapes, observed = key
        self.expect_open()
        if self._prepared is not None and observed == UNOBSERVED:
            read = partial(self._entered, subgraph, len(shapes))
            found = self._bound(run, partial(self._prepared.frame, subgraph, shapes, run, read))
            if found is not None:
                self._unread.add((subgraph, shapes))
                return found
        executors = self._entered(subgraph, len(shapes), run.observer.sees_values)
        return self._bound(run, partial(executors.entry_frame, subgraph, shapes, run))

    def _bound(self, run: Run, bind: Callable[[], T]) -> T:
        """Binds a frame, which moves values of variables to where it wants them."""
        with np.errstate(all="ignore"):
            return self._state.alone(run.watch, bind) if self._stateful else bind()

    def _entered(self, subgraph: int, count: int, is_seen: bool = False) -> ExecutorMap:
        """The executors to run a subgraph with that a caller passes so many inputs, and of which values may be seen."""
        if not 0 <= subgraph < len(self.model.subgraphs):
            raise InputError(f"expected the index of a subgraph, below {len(self.model.subgraphs)}, found {subgraph}")
        own, now = self.model.subgraphs[subgraph], self._executors[subgraph].subgraph
        if len(own.inputs) != count:
            raise InputError(f"subgraph {subgraph} ({own.name!r}): expected {len(own.inputs)} inputs, found {count}")
        is_changed = (own.inputs, own.outputs) != (now.inputs, now.outputs)
        return self._as_given if is_changed or (is_seen and self._executors.span_backends) else self._executors

    @cached_property
    def _as_given(self) -> ExecutorMap:
        return self._engine.plain_executors(self.model)

    def bind(self, subgraph: int, arrays: Sequence[Array], is_resizable: bool = False) -> BoundRun:
        """Binds a subgraph to input arrays that the caller keeps, of its inputs' element types, for `run_bound`.

        Where it `is_resizable`, it is bound for other lengths too, if it can be, to `rebind` it, perhaps on `inputs`
        of its own, of the same values; and the model is not read for that where earlier runs left a plan.

        Raises:
            InputError: there is no such subgraph, or it takes another number of inputs.
            ExecutionError: an operator cannot compute with these shapes.
            LimitError, CancelledError: it takes longer than a run may, more memory, or was stopped.
        """
        run = Run(self._variables)
        return self._within(run, partial(self._bound_to, subgraph, arrays, run, is_resizable))

    def rebind(self, bound: BoundRun, shapes: tuple[Shape, ...]) -> bool:
        """Changes what `bind` made to `inputs` of other shapes, of any values; says whether it did.

        Raises:
            LimitError: there is not memory enough.
        """
        self.expect_open()
        bound.run.start(self.limits)
        return bound.move(shapes)

    def _within(self, run: Run, work: Callable[[], T]) -> T:
        """Binds something, within the limits of a run."""
        self.expect_open()
        run.start(self.limits)
        self._running.add(run)
        try:
            return self._bound(run, work)
        except (RecursionError, MemoryError) as error:
            raise overrun(error) from None
        finally:
            self._running.discard(run)

    def _bound_to(self, subgraph: int, arrays: Sequence[Array], run: Run, is_resizable: bool) -> BoundRun:
        with LOADING:
            from circlet.runtime.exec.bound import BoundRun

        if self._prepared is not None and is_resizable:
            found = self._prepared.lent(subgraph, arrays, run, partial(self._entered, subgraph, len(arrays)))
            if found is not None:
                self._unread.add((subgraph, tuple(each.shape for each in arrays)))
                return BoundRun(found, subgraph, arrays)
        executors = self._entered(subgraph, len(arrays))
        return BoundRun(executors.frame_on(subgraph, arrays, run, is_resizable), subgraph, arrays)

    def run_bound(self, bound: BoundRun, listener: Listener | None = None) -> None:
        """Runs what `bind` made; a run that fails leaves nothing of worth in `bound.results`.

        Raises:
            As `run`.
        """
        if self._is_closed:
            self.expect_open()
        if listener is None and self.recording.recorder is not None:
            self._run_timed(bound)
            return
        bound.was_timed = False
        run = bound.run
        run.start(self.limits, listener)
        self._running.add(run)
        try:
            if self._stateful:
                self._state.alone(run.watch, bound.step)
            else:
                bound.step()
                if run.watch.is_timed:
                    run.watch.check()
        except (RecursionError, MemoryError) as error:
            raise overrun(error) from None
        finally:
            self._running.discard(run)

    def _run_timed(self, bound: BoundRun) -> None:
        """Runs what stands for what `bind` made, while runs are timed."""
        timed = bound.timed
        if timed is None:
            run = observed_run(self._variables, Observation.TIMES, lambda: self.model)
            timed = bound.timed = self._within(run, partial(self._bound_to, bound.subgraph, bound.inputs, run, False))
        self.recording.bound[bound.subgraph] = tuple(each.shape for each in bound.inputs)
        self.recording.run(partial(self.run_bound, timed))
        bound.take(timed)

    def cancel(self) -> None:
        """Stops every run in progress, those too that wait, bind or compile; each raises CancelledError. It may be
        called from any thread, and from signal handlers."""
        for run in tuple(self._running):
            run.watch.cancel()

    def reset_state(self) -> None:
        """Forgets all variables, as in a new session."""
        if self._stateful:
            self._state.change(self._variables.reset)

    @property
    def executed(self) -> Model:
        """The model as passes leave it: subgraphs and operators keep their places, and new ones follow them."""
        return self._executors.model

    def backend_of(self, subgraph: int = 0) -> tuple[str, ...]:
        """The name of the backend that computes each operator of a subgraph.

        Where runs have shown it, that is what did compute it, several names in several places as `cpu+native`; else
        what is expected to. `none` is an operator that passes merged into others, or whose results nothing needs.
        """
        self._rebind()
        own, executor = self.model.subgraphs[subgraph].operators, self._executors[subgraph]
        found = zip(own, executor.subgraph.operators, self._executors.computed_by(subgraph), strict=False)
        return tuple(self._backend_instead(each.op, now.op) or name for each, now, name in found)

    def _rebind(self) -> None:
        """Binds what was run without the model once more, so that backends know of it."""
        for subgraph, shapes in tuple(self._unread):
            run = Run(self._variables)
            with suppress(RunError, MemoryError):
                self._bound(run, partial(self._entered(subgraph, len(shapes)).entry_frame, subgraph, shapes, run))
            self._unread.discard((subgraph, shapes))

    def _backend_instead(self, op: Op, now: Op) -> str | None:
        """The backend of what a pass calls in place of an operator; None for operators that do their own work."""
        with LOADING:
            from circlet.runtime.ops.controlflow import CallSubgraph, ControlFlow

        return self._executors.computed_by(now.subgraph)[-1] if (
            isinstance(now, CallSubgraph) and not isinstance(op, ControlFlow)) else None

    def copies(self) -> list[CopyEdge]:
        """What crosses the borders of subgraphs, and how, for the declared input shapes."""
        with LOADING:
            from circlet.runtime.exec.copies import copy_edges, fitting_shapes

        return copy_edges(self._executors, fitting_shapes(self._executors, self.entries))

    @property
    def entries(self) -> Sequence[int]:
        """The subgraphs that runs begin with: 0 and those of signatures."""
        return entries_of(self._outline)
