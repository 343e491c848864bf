"""Models that are computed by code out of a file, without LLVM."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock, Timer
from typing import TYPE_CHECKING, TypeAlias

from circlet.backends.native.abi import DONE, FIRST_SITE, STOPPED
from circlet.backends.native.aot.limits import EXHAUSTED, MISFIT
from circlet.compiled.code import MOST_ITERATIONS, Bound, Function, Words, memory, symbol
from circlet.runtime.errors import ClosedError, ExecutionError, InputError, LimitError, UnsupportedError
from circlet.runtime.exec import fork
from circlet.runtime.exec.limits import UNLIMITED, Limits
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.exec.values.inputs import Entry, Inputs, Outputs
from circlet.runtime.exec.watch import Watch
from circlet.runtime.ir.model import Signature
from circlet.runtime.ir.types import Array
from circlet.runtime.late import LOADING
from circlet.schema.container import Container, Variant

if TYPE_CHECKING:
    from circlet.runtime.exec.signature_runner import SignatureRunner
    from circlet.runtime.exec.values.tensor_info import TensorInfo

WAIT = 0.02
"""Seconds between two looks at the limits of a run that waits for another one."""


_Copy: TypeAlias = "tuple[Array, Array]"
"""A part of a state, and what it was."""


class _State:
    """What outlives a run: variables, behind the words that say whether it may go on."""

    def __init__(self, variant: Variant, init: Callable[[int], None]) -> None:
        self.bytes = memory(variant.state_bytes, variant.alignment)
        self.address = self.bytes.ctypes.data
        self.words = Words.from_address(self.address) if variant.header_bytes else None
        init(self.address)

    def copies(self, parts: Sequence[tuple[int, int]]) -> Sequence[_Copy]:
        """Copies of parts, each given by offset and bytes."""
        views = [self.bytes[offset:offset + size] for offset, size in parts]
        return [(each, each.copy()) for each in views]


class _Run:
    """What a run has to itself."""

    def __init__(self, variant: Variant, state: _State) -> None:
        self.watch = Watch()
        self._plain = self.watch.control
        self._arena = memory(variant.arena_bytes, variant.alignment)
        self._address = self._arena.ctypes.data
        self._state = state
        self._bound: dict[Function, Bound] = {}

    def call(self, function: Function, arrays: Sequence[Array]) -> list[Array]:
        """Runs a function on arrays of its inputs' types and shapes; the results belong to the caller.

        Raises:
            ExecutionError: an operator failed.
            LimitError, CancelledError: the run was stopped, or there is not memory enough.
        """
        watch, words, bound = self.watch, self._state.words, self._bound.get(function)
        if bound is None:
            bound = self._bound[function] = function.bind(self._address, self._state.address)
        status = bound.run(arrays) if words is None else self._watched(bound, arrays, words)
        if status != DONE:
            self._fail(status, function)
        if watch.is_timed:
            watch.check()
        return bound.results()

    def _watched(self, bound: Bound, arrays: Sequence[Array], words: Words) -> int:
        """Runs what the words of the state can stop."""
        self.watch.move(words)
        try:
            if not self.watch.is_timed:
                return bound.run(arrays)
            with _alarm(words):
                return bound.run(arrays)
        finally:
            self.watch.control = self._plain

    def _fail(self, status: int, function: Function) -> None:
        if status == STOPPED:
            self.watch.stopped()
        if status == EXHAUSTED:
            raise self._exhausted()
        if status == MISFIT:
            raise InputError("lengths of inputs do not fit each other")
        sites = function.sites[status - FIRST_SITE:]
        if status < FIRST_SITE or not sites:
            raise ExecutionError(f"the code ended with status {status}")
        place, message = sites[0]
        raise ExecutionError(message, place)

    def _exhausted(self) -> LimitError:
        words = self._state.words
        if words is not None and words.iterations == MOST_ITERATIONS:
            return LimitError(f"the run needs more than {MOST_ITERATIONS} loop iterations, which no code counts")
        return self.watch.exhausted()


@contextmanager
def _alarm(words: Words) -> Iterator[None]:
    """Stops what is done inside at the deadline."""

    def stop() -> None:
        words.stop = 1

    timer = Timer(max(words.deadline - time.monotonic_ns(), 0) / 1e9, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # or it would stop a later run


class CompiledModel:
    """A model with the code for this machine, made by `load`. It may be used from several threads at once, as a
    `Session`, and after a fork by parent and child, each for itself.

    The shapes of inputs are those that it was compiled for, with any lengths within the bounds that were given for
    them. Nobody can listen to operators. Ctrl-C is heeded when a run has ended; a deadline, or `cancel` in another
    thread, stops its loops.
    """

    def __init__(self, found: Container, variant: Variant, code: ctypes.CDLL, limits: Limits | None = None) -> None:
        """
        Args:
            found: what the file says.
            variant: of it, for this machine.
            code: the shared object.
            limits: bounds on each run.

        Raises:
            ModelError: the code lacks functions.
            LimitError: there is not memory enough.
        """
        self.limits = limits or UNLIMITED
        self.name = found.name
        self.target = variant.target
        """The processor that the code is for."""
        self._variant = variant
        self._functions = [Function(code, each, graph, bounds) for each, graph, bounds in zip(
            variant.functions, found.functions, found.bounds, strict=True)]
        self._init, self._reset = (_starter(code, each) for each in (variant.init, variant.reset))
        self._entries = {each.signature: Entry(each.function, each.inputs, each.outputs, found.functions[each.function])
                         for each in found.entries}
        self._state = _State(variant, self._init) if variant.state_bytes > variant.header_bytes else None
        """What all runs share; None where each has its own."""
        self._lock = RLock()
        self._before: Sequence[_Copy] = ()
        """What changes at present, and what it was before; the last change first."""
        self._spare: list[_Run] = []
        self._running: set[_Run] = set()
        self._is_closed = False
        fork.watch(self)

    @property
    def backend(self) -> str:
        """What computes: `compiled`, where a `Session` has `cpu` or `native`."""
        return "compiled"

    @property
    def inputs(self) -> dict[str, TensorInfo]:
        """What the inputs of the primary entry point are, by name."""
        return self._primary.describe(self._primary.inputs)

    @property
    def outputs(self) -> dict[str, TensorInfo]:
        """What the outputs of the primary entry point are, by name."""
        return self._primary.describe(self._primary.outputs)

    def run(self, inputs: Inputs = ()) -> Outputs:
        """Runs the primary entry point, as `Session.run` does.

        Raises:
            InputError: an input is missing, unknown, of another shape than the code is for, or has values that its
                element type does not hold; or the entry point was not compiled.
            ExecutionError: an operator cannot compute with the values it got.
            LimitError, CancelledError: the run was stopped, or took longer than its deadline.
            ClosedError: the model is closed.
            State is as before the run after any error.
        """
        return self.run_entry(self._primary, inputs)

    def signature(self, key: str | None = None) -> SignatureRunner:
        """The entry point that a signature names; without a key, the only one.

        Raises:
            InputError: there is no such signature, or several and no key.
        """
        keys = [each for each in self._entries if each is not None]
        if key is None and len(keys) == 1:
            key = keys[0]
        if key is None or key not in self._entries:
            raise InputError(f"no signature {key!r}; the code has {keys}")
        with LOADING:
            from circlet.runtime.exec.signature_runner import SignatureRunner

        entry = self._entries[key]
        return SignatureRunner(self, Signature(key, entry.subgraph, dict(entry.inputs), dict(entry.outputs)), entry)

    @property
    def _primary(self) -> Entry:
        if None not in self._entries:
            raise InputError(f"subgraph 0 was not compiled, but the signatures {list(self._entries)}")
        return self._entries[None]

    def run_entry(self, entry: Entry, inputs: Inputs, listener: Listener | None = None) -> Outputs:
        """Runs an entry point; see `run`."""
        if listener is not None:
            raise UnsupportedError("compiled code tells listeners nothing; a Session of the same file does")
        function = self._functions[entry.subgraph]
        arrays = entry.ready(inputs) or entry.arrays(inputs)
        if function.is_open:
            function.expect_lengths(entry, arrays)
        return entry.named(self._run(function, arrays))

    def _run(self, function: Function, arrays: Sequence[Array]) -> list[Array]:
        self._expect_open()
        try:
            run = self._taken()
            run.watch.start(self.limits)
            self._running.add(run)
            try:
                if self._state is None:
                    results = run.call(function, arrays)
                else:
                    results = self._alone(self._state, run, function, arrays)
            finally:
                self._running.discard(run)
        except MemoryError as error:
            raise LimitError(f"out of memory: {error}") from None
        self._spare.append(run)
        return results

    def _taken(self) -> _Run:
        """A run that nobody uses."""
        variant, most = self._variant, self.limits.memory
        size = variant.arena_bytes + variant.state_bytes
        if most is not None and size > most:
            raise LimitError(f"the run needs {size} bytes, more than memory={most}")
        try:
            return self._spare.pop()
        except IndexError:
            return _Run(variant, self._state or _State(variant, self._init))

    def _alone(self, state: _State, run: _Run, function: Function, arrays: Sequence[Array]) -> list[Array]:
        """A run that may change the state: waits for others, keeps them out, and takes it back if it fails."""
        if not self._lock.acquire(blocking=False):
            while not self._lock.acquire(timeout=WAIT):
                run.watch.check()
        outer, before = self._before, state.copies(function.writes)
        try:
            self._before = [*before, *outer]
            return run.call(function, arrays)
        except BaseException:
            _take_back(before)
            raise
        finally:
            self._before = outer
            self._lock.release()

    def cancel(self) -> None:
        """Stops the loops of every run in progress, and those that wait; each raises CancelledError."""
        for run in tuple(self._running):
            run.watch.cancel()

    def reset_state(self) -> None:
        """Gives all variables the values that they had at first."""
        self._expect_open()
        if self._state is not None:
            with self._lock:
                self._reset(self._state.address)

    def after_fork(self) -> None:
        """Takes back what threads that are not in this process were changing."""
        self._running.clear()
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return
        self._lock = RLock()
        _take_back(self._before)
        self._before = ()

    def close(self) -> None:
        """Gives up what later runs would need; those in progress go on to their end. It may be closed again."""
        self._is_closed = True
        self._spare.clear()

    def _expect_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the model is closed")

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<CompiledModel {self.name!r} for {self.target}{', closed' * self._is_closed}>"


def _take_back(copies: Sequence[_Copy]) -> None:
    """Makes parts of a state what they were."""
    for part, before in copies:
        part[:] = before


def _starter(code: ctypes.CDLL, name: str | None) -> Callable[[int], None]:
    """A function that makes a state what it is before any run, given its address; one of no name does nothing."""
    if name is None:
        return lambda address: None
    found = symbol(code, name)
    found.argtypes, found.restype = [ctypes.c_void_p], None

    def start(address: int) -> None:
        found(address)

    return start
