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
Load: TypeAlias = Callable[[int, Path, Mapping[str, Array]], Run]
"""Makes a model ready to run on a number of threads, on inputs of the given shapes.

Raises whatever the runtime raises if it cannot run the model, `ImportError` if it is not installed.
"""

REFERENCES = {".tflite": "LiteRT", ".onnx": "ONNX Runtime"}
"""The peer that the others are compared with, for each kind of file."""
EVERY_FORMAT = frozenset(REFERENCES)


@dataclass(frozen=True)
class Peer:
    """A runtime in one setting."""

    name: str
    load: Load
    reads: frozenset[str] = EVERY_FORMAT
    """The kinds of files that it reads."""


def peers(backends: Sequence[str]) -> list[Peer]:
    """Everything that is measured, in the order of the report; circlet with each of the given backends."""
    return [
        *(Peer(f"circlet {backend}{label}", partial(_circlet, backend, elision))
          for backend in backends for elision, label in ((True, ""), (False, ", copying"))),
        Peer("LiteRT", _litert, frozenset({".tflite"})),
        Peer("ONNX Runtime", _onnxruntime, frozenset({".onnx"})),
        Peer("OpenVINO", _openvino),
    ]


def _circlet(backend: str, copy_elision: bool, threads: int, path: Path, inputs: Mapping[str, Array]) -> Run:
    import circlet

    session = circlet.Session(circlet.load(path), backend=backend, num_threads=threads, copy_elision=copy_elision)
    return partial(session.run, dict(inputs))


def _litert(threads: int, path: Path, inputs: Mapping[str, Array]) -> Run:
    """LiteRT as it comes: its default delegate, no signature runner in between."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=threads)
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


def _onnxruntime(threads: int, path: Path, inputs: Mapping[str, Array]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names, values = [each.name for each in session.get_outputs()], dict(inputs)
    return lambda: dict(zip(names, session.run(names, values), strict=True))


def _openvino(threads: int, path: Path, inputs: Mapping[str, Array]) -> Run:
    """OpenVINO's CPU plugin, at full precision; a model's inputs and outputs are in the order of its file."""
    import openvino

    given, made = _names(path)
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    model = core.read_model(str(path))
    model.reshape({k: list(inputs[name].shape) for k, name in enumerate(given)})
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    values = {k: inputs[name] for k, name in enumerate(given)}

    def run() -> dict[str, Array]:
        found = request.infer(values)
        return {name: np.array(found[k]) for k, name in enumerate(made)}

    return run


def _names(path: Path) -> tuple[list[str], list[str]]:
    """The names of a model's inputs and outputs, in order."""
    import circlet
    from circlet.runtime.exec.values.inputs import entry_of

    model = circlet.load(path)
    named = [each for each in model.signatures if each.subgraph == 0]
    entry = entry_of(model, 0, named[0] if len(named) == 1 else None)
    return [name for name, _ in entry.inputs], [name for name, _ in entry.outputs]
