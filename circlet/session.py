"""The public `Session`: chooses the backends that the runtime is handed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from circlet.backends.platform import Feature, current
from circlet.given import Given
from circlet.runtime.errors import CircletError, InputError, RunError, UnsupportedError
from circlet.runtime.exec.engine import Engine, interpreted
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.session import Session as RuntimeSession
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass, replace

if TYPE_CHECKING:
    from circlet.backends.native.plans.keeper import Keeper
    from circlet.runtime.exec.crossing import CopyEdge, Position
    from circlet.runtime.exec.executor_map import ExecutorMap
    from circlet.runtime.exec.kernel import Backend
    from circlet.runtime.exec.preparation import Preparation
    from circlet.runtime.passes.manager import Pipeline, Selection
    from circlet.schema.files import Source

EVALUATED = 1 << 26
"""Bytes that what is computed once of constants may take at a time."""

_Backends: TypeAlias = "Callable[[ExecutorMap], Sequence[Backend]]"


@dataclass(frozen=True)
class Choice(Engine):
    """What one choice of `backend` computes with."""

    name: str = ""
    outline: _Backends | None = None
    """Backends that tell what those would do without making code, and compute nothing; None where they are the same."""


def _cpu_backends(executors: ExecutorMap) -> Sequence[Backend]:
    with LOADING:
        from circlet.backends.controlflow.backend import ControlflowBackend
        from circlet.backends.cpu.backend import CpuBackend

    return ControlflowBackend(executors), CpuBackend()


def _native_backends(compiles: bool, num_threads: int, keeper: Callable[[], Keeper] | None,
                     executors: ExecutorMap) -> Sequence[Backend]:
    with LOADING:
        from circlet.backends.controlflow.backend import ControlflowBackend
        from circlet.backends.native.backend import NativeBackend, Options

    options = Options() if compiles else Options(compiles=False)
    bound = None if keeper is None else keeper().add
    return ControlflowBackend(executors), NativeBackend(executors, options, num_threads, bound)


def _compiled() -> Pipeline:
    with LOADING:
        from circlet.runtime.passes.manager import Pass
        from circlet.runtime.passes.pipelines import compiled

    return compiled(Pass("fuse_operators", _fuse_operators), _Growing().grows, _evaluated)


def _evaluated(model: Model) -> Sequence[Array] | None:
    """What a model without inputs gives, by numpy; None where that fails."""
    try:
        return RuntimeSession(lambda: model, _cpu(1), Limits(memory=EVALUATED)).invoke(0, [])
    except CircletError:
        return None


def _fuse_operators(model: Model) -> Model:
    with LOADING:
        from circlet.backends.native.lower.fuse import fuse_operators

    return fuse_operators(model)


class _Growing:
    """Tells which loops are code as they stand. What is derived of a model answers all that is asked of it in turn."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._executors: ExecutorMap | None = None

    def grows(self, model: Model, subgraph: int, operator: int, are_apart: bool) -> bool:
        """Whether an operator of a subgraph is one; see `grows` of native code."""
        with LOADING:
            from circlet.backends.native.lower.growing import grows

        if model is not self._model:
            self._model, self._executors = model, _outlining(model)
        return self._executors is not None and grows(self._executors, subgraph, operator, are_apart)


def _outlining(model: Model) -> ExecutorMap | None:
    """The executors of a model that is not to run; None where something of it is not supported."""
    with LOADING:
        from circlet.runtime.exec.executor_map import ExecutorMap

    try:
        return ExecutorMap(model, partial(_native_backends, False, 1, None), elide=True)
    except UnsupportedError:
        return None


def _cpu(num_threads: int) -> Choice:
    return Choice(_cpu_backends, interpreted, name="cpu")


def _native(num_threads: int, given: Given | None = None) -> Choice:
    """
    Args:
        given: the model, where plans of it are to be kept.
    """
    keeper = None if given is None else cache(partial(_keeper, given))
    return Choice(partial(_native_backends, True, num_threads, keeper), _compiled, name="native",
                  outline=partial(_native_backends, False, 1, None))


BACKENDS: dict[str, Callable[[int], Choice]] = {"cpu": _cpu, "native": _native}
"""What each choice of `backend` is made by, given the number of threads of a run."""
VARIABLE = "CIRCLET_BACKEND"
"""The environment variable that says what `auto` means; without it, the fastest there is."""


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=5)


def _fastest() -> str:
    """Says so once where that is not `native`."""
    lacks = current().lacks.get(Feature.LLVM)
    if lacks is None:
        return "native"
    _warn_once(f"circlet computes with numpy, for want of LLVM: {lacks}. Loops take many times longer")
    return "cpu"


def engine(backend: str, num_threads: int = 1) -> Choice:
    """What a choice of `backend` computes with, and how many threads a run may use.

    Raises:
        InputError: there is no such choice.
        UnsupportedError: it needs what the platform lacks.
    """
    return BACKENDS[_named(backend, num_threads)](num_threads)


def _named(backend: str, num_threads: int) -> str:
    """The choice that a word stands for, which the platform allows; see `engine`."""
    what = "backend"
    if backend == "auto":
        what, backend = f"the environment variable {VARIABLE}", os.environ.get(VARIABLE) or "auto"
    if backend == "auto":
        backend = _fastest()
    if backend not in BACKENDS:
        raise InputError(f"{what} must be one of auto, {', '.join(BACKENDS)}, found {backend!r}")
    lacks = current().lacks
    if backend == "native" and Feature.LLVM in lacks:
        raise UnsupportedError(f"the native backend needs LLVM: {lacks[Feature.LLVM]}")
    if backend == "native" and num_threads > 1 and Feature.THREADS in lacks:
        _warn_once(f"native code runs in one thread, for want of native threads: {lacks[Feature.THREADS]}")
    return backend


def _prepared(given: Given, num_threads: int) -> Preparation | None:
    """What earlier sessions left of a model, with code for this machine; None if there is nothing."""
    provenance = given.provenance()
    if provenance is None:
        return None
    with LOADING:
        from circlet.backends.native.plans.prepared import prepared

    return prepared(provenance, num_threads)


def _keeper(given: Given) -> Keeper:
    with LOADING:
        from circlet.backends.native.plans.keeper import Keeper

    return Keeper(given.read)


class Session(RuntimeSession):
    """A model made runnable. It may be run from several threads at once.

    `with` closes it. It is copied and pickled as its model and options: the copy has state of its own, which is as in
    a new session, and an `auto` backend is chosen anew.
    """

    def __init__(self, model: Model | Source, backend: str = "auto", num_threads: int = 1, copy_elision: bool = True,
                 limits: Limits | None = None, passes: Selection = None) -> None:
        """
        Args:
            model: from `load`, a `ModelBuilder` or a `Network`, or what `load` takes, such as the path of a file.
            backend: `cpu` computes with numpy, `native` with code compiled for this machine; `auto` is what the
                environment variable `CIRCLET_BACKEND` names, or the fastest there is.
            num_threads: how many threads one run of native code may use, the caller's among them, where the platform
                has native threads. Results do not depend on it, nor does the code. numpy's own threads are not counted.
            copy_elision: lend buffers to subgraphs instead of copying values in and out of them.
            limits: bounds on each run.
            passes: which passes are run, all by default: those of the backend's pipeline, and before them those of
                loading, which a model that is given loaded has behind it. It is the name of the last one, or the names
                of all, so that a wrong result can be traced to one. `circlet inspect --passes` lists them. Without some
                of them a model may not be runnable.

        Raises:
            ModelError: the model is malformed.
            UnsupportedError: some operators cannot be computed; the message lists them all.
            InputError: an unknown backend or pass, or fewer than one thread.
            OSError: the file of a model cannot be opened.
        """
        if num_threads < 1:
            raise InputError(f"num_threads must be at least 1, found {num_threads}")
        name, given = _named(backend, num_threads), Given(model)
        if name == "native" and passes is None and copy_elision:
            prepared, chosen = _prepared(given, num_threads), _native(num_threads, given)
        else:
            prepared, chosen = None, replace(BACKENDS[name](num_threads), copy_elision=copy_elision)
        if passes is not None:
            with LOADING:
                from circlet.runtime.passes.manager import select
                from circlet.runtime.passes.pipelines import IMPORTED
                from circlet.schema.files import load_model

            imported, pipeline = select((IMPORTED, chosen.pipeline()), passes)
            chosen = replace(chosen, pipeline=lambda: pipeline)
            given = Given(model if isinstance(model, Model) else load_model(model, pipeline=imported))
        super().__init__(given.read, chosen, limits, prepared)
        self.num_threads = num_threads
        self._options = backend, num_threads, copy_elision, limits, passes
        self._choice = chosen

    def __reduce__(self) -> tuple[type[Session], tuple[object, ...]]:
        return type(self), (self.model, *self._options)

    @property
    def backend(self) -> str:
        """What the session computes with, `cpu` or `native`; see `backend_of` for each operator."""
        return self._choice.name

    def copies(self) -> list[CopyEdge]:
        """What crosses the borders of subgraphs, and how, for the declared input shapes; lengths that they leave open
        are 1, or the least power of 2 that fits.

        Native code is asked for as far as shapes are known before a run; it is written for that, though not compiled.
        """
        return super().copies() if self._choice.outline is None else self.survey().copies()

    def survey(self, shapes: Mapping[int, tuple[Shape, ...]] | None = None) -> Survey:
        """What runs would compute with, and copy.

        Args:
            shapes: of the inputs of subgraphs that runs begin with; without any, those that are declared.
        """
        self.expect_open()
        return Survey(self.model, self._choice, shapes)


class Survey(RuntimeSession):
    """A model bound as its runs at some shapes bind it, without code being made; it is not to be run."""

    def __init__(self, model: Model, chosen: Choice, shapes: Mapping[int, tuple[Shape, ...]] | None) -> None:
        with LOADING:
            from circlet.runtime.exec.copies import fitting_shapes

        super().__init__(model, replace(chosen, backends=chosen.outline or chosen.backends))
        self._shapes = fitting_shapes(self._executors, self.entries) if shapes is None else shapes
        for each in self._shapes.items():
            self._bind(*each)

    @property
    def executors(self) -> ExecutorMap:
        """What it is bound with."""
        return self._executors

    def copies(self) -> list[CopyEdge]:
        with LOADING:
            from circlet.runtime.exec.copies import copy_edges

        return copy_edges(self._executors, self._shapes, self._bind)

    @property
    def reasons(self) -> Mapping[Position, str]:
        """Why operators, by subgraph and operator, are not computed by the backend that computes several at once."""
        return {position: reason for backend in self._executors.span_backends
                for position, reason in backend.reasons.items()}

    def _bind(self, index: int, shapes: tuple[Shape, ...]) -> None:
        with suppress(RunError, RecursionError, MemoryError), np.errstate(all="ignore"):
            self._executors.frame(index, shapes, Run(self._variables))
