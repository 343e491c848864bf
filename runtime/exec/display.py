"""How entry points are shown to people."""

from __future__ import annotations

from typing import Protocol

from circlet.runtime.exec.values.tensor_info import TensorInfo, signature_text
from circlet.runtime.ir.display.html import html_table
from circlet.runtime.ir.display.picture import picture
from circlet.runtime.ir.model import Model


class Runner(Protocol):
    """What has inputs and outputs."""

    @property
    def inputs(self) -> dict[str, TensorInfo]: ...

    @property
    def outputs(self) -> dict[str, TensorInfo]: ...


def text(runner: Runner) -> str:
    """What goes in and comes out, e.g. `(n: int32[]) -> (steps: int32[])`."""
    return signature_text(runner.inputs, runner.outputs)


class Displayed(Runner, Protocol):
    """What also has a model."""

    @property
    def model(self) -> Model: ...


def table(runner: Displayed) -> str:
    """For notebooks: a row for each input and output, and a picture of the model's first subgraph if it is small."""
    rows = [(side, each.name, each.type, each.shape, "" if each.quantization is None else each.quantization)
            for side, infos in (("input", runner.inputs), ("output", runner.outputs)) for each in infos.values()]
    caption = repr(runner).partition(":")[0].strip("<")
    found = html_table(caption, ("", "name", "type", "shape", "quantization"), rows)
    return found + "".join(map(picture, runner.model.subgraphs[:1]))
