"""What can run a model: circlet in several settings, and other runtimes. One entry in `peers` adds another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Run: TypeAlias = Callable[[], Mapping[str, Array]]
"""Sets the inputs, runs the model once and returns its outputs by name."""
Load: TypeAlias = Callable[[Path, Mapping[str, Array]], Run]
"""Makes a model ready to run on inputs of the given shapes, on one thread.

Raises whatever the runtime raises if it cannot run the model, `ImportError` if it is not installed.
"""

REFERENCE = "LiteRT"
"""The peer that the others are compared with."""


@dataclass(frozen=True)
class Peer:
    """A runtime in one setting."""

    name: str
    load: Load


def peers(backends: Sequence[str]) -> list[Peer]:
    """Everything that is measured, in the order of the report; circlet with each of the given backends."""
    return [
        *(Peer(f"circlet {backend}{label}", partial(_circlet, backend, elision))
          for backend in backends for elision, label in ((True, ""), (False, ", copying"))),
        Peer(REFERENCE, _litert),
    ]


def _circlet(backend: str, copy_elision: bool, path: Path, inputs: Mapping[str, Array]) -> Run:
    import circlet

    session = circlet.Session(circlet.load(path), backend=backend, num_threads=1, copy_elision=copy_elision)
    return partial(session.run, dict(inputs))


def _litert(path: Path, inputs: Mapping[str, Array]) -> Run:
    """LiteRT as it comes: its default delegate, no signature runner in between."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    indices, results = _litert_tensors(interpreter)
    for name, value in inputs.items():
        interpreter.resize_tensor_input(indices[name], value.shape)
    interpreter.allocate_tensors()
    values = [(indices[name], value) for name, value in inputs.items()]

    def run() -> dict[str, Array]:
        for index, value in values:
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        return {name: np.asarray(interpreter.get_tensor(index)) for name, index in results.items()}

    return run


def _litert_tensors(interpreter: Any) -> tuple[dict[str, int], dict[str, int]]:
    """The tensors of the model's inputs and outputs: by the names of its only signature, or by their own."""
    signatures = interpreter.get_signature_list()
    if len(signatures) == 1:
        runner = interpreter.get_signature_runner(*signatures)
        sides = runner.get_input_details(), runner.get_output_details()
        inputs, outputs = ({name: int(each["index"]) for name, each in side.items()} for side in sides)
        return inputs, outputs
    given, made = interpreter.get_input_details(), interpreter.get_output_details()
    return {each["name"]: int(each["index"]) for each in given}, {each["name"]: int(each["index"]) for each in made}
