"""What can run a model: circlet in several settings, and other runtimes where they are installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from circlet.runtime.ir.types import Shape
from circlet.schema.files import load_model
from circlet.tools.measuring.work import Work
from circlet.tools.results import Value

Run: TypeAlias = Callable[[], Mapping[str, Value]]
"""Sets the inputs, runs the model once and returns its outputs by name."""
Load: TypeAlias = Callable[[Work], Run]
"""Makes a model ready to run; raises whatever the runtime raises if it cannot run it."""


@dataclass(frozen=True)
class Peer:
    """A runtime in one setting."""

    name: str
    load: Load
    module: str
    """What is imported before time counts."""
    package: str
    """What brings the module."""
    reads: frozenset[str] | None
    """The endings of files that it reads; None where it looks at what is in them."""

    def reads_files(self, suffix: str) -> bool:
        """Whether it reads files of an ending."""
        return self.reads is None or suffix in self.reads

    @property
    def is_installed(self) -> bool:
        return find_spec(self.module.partition(".")[0]) is not None


class RefusedError(Exception):
    """The runtime cannot do what is asked for."""


def circlet_peer(backend: str, copy_elision: bool = True) -> Peer:
    """circlet with one of its backends."""
    name = f"circlet {backend}" + ("" if copy_elision else ", copying")
    return Peer(name, partial(_circlet, backend, copy_elision), "circlet", "circlet", None)


def _circlet(backend: str, copy_elision: bool, work: Work) -> Run:
    import circlet

    model = load_model(work.path, options=work.reading) if work.reading else work.path
    session = circlet.Session(model, backend=backend, num_threads=work.threads, copy_elision=copy_elision)
    given = dict(work.inputs)
    if work.signature is None:
        return partial(session.run, given)
    return partial(session.signature(work.signature), **given)


def _litert(work: Work) -> Run:
    """LiteRT as it comes, with its default delegate; no signature runner in between if the model has one signature."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(work.path), num_threads=work.threads)
    if work.signature is not None and len(interpreter.get_signature_list()) > 1:
        runner = interpreter.get_signature_runner(work.signature)
        return lambda: {name: np.asarray(value) for name, value in runner(**work.inputs).items()}
    indices, results = _litert_tensors(interpreter, work)
    for name, value in work.inputs.items():
        interpreter.resize_tensor_input(indices[name], _shape(value))
    interpreter.allocate_tensors()
    values = [(indices[name], value) for name, value in work.inputs.items()]

    def run() -> dict[str, Value]:
        for index, value in values:
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        return {name: np.asarray(interpreter.get_tensor(index)) for name, index in results.items()}

    return run


def _litert_tensors(interpreter: Any, work: Work) -> tuple[dict[str, int], dict[str, int]]:
    """The tensors of the model's inputs and outputs: by the names of its only signature, or in order."""
    if work.signature is not None:
        runner = interpreter.get_signature_runner(work.signature)
        sides = runner.get_input_details(), runner.get_output_details()
        inputs, outputs = ({name: int(each["index"]) for name, each in side.items()} for side in sides)
        return inputs, outputs
    given, made = interpreter.get_input_details(), interpreter.get_output_details()
    return ({name: int(each["index"]) for name, each in zip(work.inputs, given, strict=True)},
            {name: int(each["index"]) for name, each in zip(work.outputs, made, strict=True)})


def _onnxruntime(work: Work) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = work.threads, 1
    options.log_severity_level = 3  # errors: warnings of a model would mix with what is measured
    session = onnxruntime.InferenceSession(str(work.path), options, providers=["CPUExecutionProvider"])
    names, values = [each.name for each in session.get_outputs()], dict(work.inputs)
    return lambda: dict(zip(names, session.run(names, values), strict=True))


def _openvino(work: Work) -> Run:
    """OpenVINO's CPU plugin, at full precision; a model's inputs and outputs are in the order of its file."""
    import openvino

    _expect_one_entry(work)
    settings = {"INFERENCE_NUM_THREADS": work.threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    model = core.read_model(str(work.path))
    model.reshape({k: list(_shape(value)) for k, value in enumerate(work.inputs.values())})
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    values = dict(enumerate(work.inputs.values()))

    def run() -> dict[str, Value]:
        found = request.infer(values)
        return {name: np.array(found[k]) for k, name in enumerate(work.outputs)}

    return run


def _onert(work: Work) -> Run:
    """ONE's runtime with its backend `cpu`; a model's inputs and outputs are in the order of its file."""
    from onert import infer

    _expect_one_entry(work)
    values = list(work.inputs.values())
    with _environment("RUY_THREADS", str(work.threads)):
        session = infer.session(str(work.path), backends="cpu")
        session.infer(values)

    def run() -> dict[str, Value]:
        return {name: np.array(value) for name, value in zip(work.outputs, session.infer(values), strict=True)}

    return run


def _shape(value: Value) -> Shape:
    """The shape of an array; raises RefusedError for what is none."""
    if not isinstance(value, np.ndarray):
        raise RefusedError("it takes arrays alone")
    return value.shape


def _expect_one_entry(work: Work) -> None:
    """Raises RefusedError for what needs the model's signatures."""
    if work.is_further_entry:
        raise RefusedError(f"it enters models by subgraph 0 alone, not by the signature {work.signature!r}")


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Sets a variable that a library reads as it is loaded."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


_FLATBUFFERS = frozenset({".tflite"})
PEERS: Mapping[str, Peer] = {
    "litert": Peer("LiteRT", _litert, "ai_edge_litert.interpreter", "ai-edge-litert", _FLATBUFFERS),
    "onnxruntime": Peer("ONNX Runtime", _onnxruntime, "onnxruntime", "onnxruntime", frozenset({".onnx"})),
    "openvino": Peer("OpenVINO", _openvino, "openvino", "openvino", frozenset({".tflite", ".onnx", ".xml"})),
    "onert": Peer("onert", _onert, "onert", "onert", frozenset({".tflite", ".circle"})),
}
"""The other runtimes, by the word for each."""


def readers(names: Sequence[str] | None, suffix: str) -> list[Peer]:
    """The runtimes of some names; without them those that are installed and read files of an ending."""
    if names is not None:
        return [PEERS[each] for each in names]
    return [each for each in PEERS.values() if each.reads_files(suffix) and each.is_installed]


def ready(peer: Peer, work: Work) -> None:
    """Imports a runtime, if it can be asked to run a model.

    Raises:
        RefusedError: it is not installed, or reads no files of this kind.
    """
    if not peer.reads_files(work.path.suffix):
        kinds = ", ".join(sorted(peer.reads or ()))
        raise RefusedError(f"it reads {kinds}, not {work.path.suffix or 'files without an ending'}")
    try:
        import_module(peer.module)
    except ImportError as error:
        if not peer.is_installed:
            raise RefusedError(f"not installed (pip install {peer.package})") from None
        raise RefusedError(f"it cannot be imported: {error}") from error
