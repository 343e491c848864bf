"""How entry points are shown to people."""

from __future__ import annotations

from typing import Protocol

from circlet.runtime.exec.values.tensor_info import TensorInfo, signature_text
from circlet.runtime.ir.html import html_table


class Runner(Protocol):
    """What has inputs and outputs."""

    @property
    def inputs(self) -> dict[str, TensorInfo]: ...

    @property
    def outputs(self) -> dict[str, TensorInfo]: ...


def text(runner: Runner) -> str:
    """What goes in and comes out, e.g. `(n: int32[]) -> (steps: int32[])`."""
    return signature_text(runner.inputs, runner.outputs)


def table(runner: Runner) -> str:
    """For notebooks: a row for each input and output."""
    rows = [(side, each.name, each.type, each.shape, "" if each.quantization is None else each.quantization)
            for side, infos in (("input", runner.inputs), ("output", runner.outputs)) for each in infos.values()]
    caption = repr(runner).partition(":")[0].strip("<")
    return html_table(caption, ("", "name", "type", "shape", "quantization"), rows)
