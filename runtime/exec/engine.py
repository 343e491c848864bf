"""What models are run with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.exec.executor_map import ExecutorMap
    from circlet.runtime.exec.kernel import Backend
    from circlet.runtime.ir.model import Model
    from circlet.runtime.passes.manager import Pipeline


def interpreted() -> Pipeline:
    """What is run on models for numpy."""
    with LOADING:
        from circlet.runtime.passes.pipelines import INTERPRETED

    return INTERPRETED


@dataclass(frozen=True)
class Engine:
    """What models are run with."""

    backends: Callable[[ExecutorMap], Sequence[Backend]]
    """In order of preference."""
    pipeline: Callable[[], Pipeline] = interpreted
    """Gives what is run on models first."""
    copy_elision: bool = True
    """Lend buffers to subgraphs instead of copying values in and out of them."""

    def executors(self, model: Model) -> ExecutorMap:
        """Those of a model."""
        return self._executors_after(self.pipeline(), model)

    def plain_executors(self, model: Model) -> ExecutorMap:
        """The same without what the backends want done to the model, which may give the callees of loops more
        inputs."""
        pipeline, common = self.pipeline(), interpreted().passes
        names = [each.name for each in pipeline.passes if each in common]
        return self._executors_after(pipeline.selected(names), model)

    def _executors_after(self, pipeline: Pipeline, model: Model) -> ExecutorMap:
        with LOADING:
            from circlet.runtime.exec.executor_map import ExecutorMap

        return ExecutorMap(pipeline.run(model), self.backends, self.copy_elision)
