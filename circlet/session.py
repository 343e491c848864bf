"""The public `Session`: chooses the backends that the runtime is handed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.backend import NativeBackend
from circlet.backends.native.fuse import fuse_operators
from circlet.runtime.exec.activation import Limits
from circlet.runtime.exec.executor import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.session import Session as RuntimeSession
from circlet.runtime.exec.session import SignatureRunner
from circlet.runtime.ir.model import Model
from circlet.runtime.passes.pipeline import Pass

__all__ = ["BACKENDS", "Session", "SignatureRunner"]


@dataclass(frozen=True)
class Engine:
    """What one choice of `backend` computes with."""

    backends: Callable[[ExecutorMap], Sequence[Backend]]
    """In order of preference."""
    passes: Sequence[Pass] = ()


def _native(executors: ExecutorMap) -> Sequence[Backend]:
    return ControlflowBackend(executors), NativeBackend(executors)


BACKENDS: dict[str, Engine] = {
    "cpu": Engine(lambda executors: (ControlflowBackend(executors), CpuBackend())),
    "native": Engine(_native, (fuse_operators,)),
}
AUTO = "cpu"


class Session(RuntimeSession):
    """A model made runnable. It may be run from several threads at once."""

    def __init__(self, model: Model, backend: str = "auto", num_threads: int = 1, copy_elision: bool = True,
                 limits: Limits | None = None) -> None:
        """
        Args:
            model: from `load` or a `ModelBuilder`.
            backend: `cpu` computes with numpy, `native` with code compiled for this machine; `auto` takes the
                fastest there is.
            num_threads: how many threads one run may use. numpy's own threads are not counted.
            copy_elision: lend buffers to subgraphs instead of copying values in and out of them.
            limits: bounds on each run.

        Raises:
            ModelError: the model is malformed.
            UnsupportedError: some operators cannot be computed; the message lists them all.
            ValueError: an unknown backend, or fewer than one thread.
        """
        if backend != "auto" and backend not in BACKENDS:
            raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}, found {backend!r}")
        if num_threads < 1:
            raise ValueError(f"num_threads must be at least 1, found {num_threads}")
        engine = BACKENDS[AUTO if backend == "auto" else backend]
        super().__init__(model, engine.backends, copy_elision, limits, engine.passes)
        self.num_threads = num_threads
