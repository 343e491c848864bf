"""Measures models with open lengths: random shapes, the first run among them, in a process of each runtime's own.

    python -m benchmarks.lengths [--rounds N] [--shapes N] [NAME...]
"""

from __future__ import annotations

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from benchmarks.open_models import MODELS, Arrays, write_model
from circlet.tools.tables import duration_text

if TYPE_CHECKING:
    import circlet

Runner: TypeAlias = "Callable[[Arrays], list[object]]"


def _circlet(path: Path) -> Runner:
    import circlet

    session = circlet.Session(path)

    def run(inputs: Arrays) -> list[object]:
        if path.suffix != STEPS:
            session.reset_state()
        return list(session.invoke(0, list(inputs.values())))

    return run


def _alone(path: Path) -> Runner:
    """Code for the shapes of the first inputs alone."""
    import circlet

    model = circlet.load(path)
    sessions: list[circlet.Session] = []

    def run(inputs: Arrays) -> list[object]:
        if not sessions:
            sessions.append(circlet.Session(_fixed(model, [each.shape for each in inputs.values()])))
        sessions[0].reset_state()
        return list(sessions[0].invoke(0, list(inputs.values())))

    return run


def _fixed(model: circlet.Model, shapes: Sequence[tuple[int, ...]]) -> circlet.Model:
    """The model with inputs of fixed shapes."""
    main, *others = model.subgraphs
    tensors = list(main.tensors)
    for each, shape in zip(main.inputs, shapes, strict=True):
        tensors[each] = replace(tensors[each], shape=shape, shape_signature=None)
    return replace(model, subgraphs=(replace(main, tensors=tuple(tensors)), *others))


def _interpreter(path: Path) -> Runner:
    from circlet.interpreter import Interpreter

    return _resized(Interpreter(str(path)))


def _litert(path: Path) -> Runner:
    from ai_edge_litert.interpreter import Interpreter

    return _resized(Interpreter(model_path=str(path), num_threads=1))


def _resized(interpreter: Any) -> Runner:
    indices = [each["index"] for each in interpreter.get_input_details()]

    def run(inputs: Arrays) -> list[object]:
        for index, value in zip(indices, inputs.values(), strict=True):
            interpreter.resize_tensor_input(index, value.shape)
        interpreter.allocate_tensors()
        interpreter.reset_all_variables()
        for index, value in zip(indices, inputs.values(), strict=True):
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]

    return run


def _onnxruntime(path: Path) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: list(session.run(None, inputs))


def _openvino(path: Path) -> Runner:
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "INFERENCE_NUM_THREADS": 1,
               "CACHE_DIR": str(path.with_name("openvino"))}
    request = openvino.compile_model(path, "CPU", options).create_infer_request()
    return lambda inputs: list(request.infer(inputs).values())


AGE = 3
"""Seconds before models are run: those of users did not change just now, which circlet looks at."""
STEPS = ".xml"
"""What the files are called of models that go on from what the run before left."""
ALONE = "circlet, one shape"
"""What is given one shape only."""
RUNTIMES: dict[str, tuple[Callable[[Path], Runner], str]] = {
    "circlet": (_circlet, "circlet"), ALONE: (_alone, "circlet"),
    "circlet.Interpreter": (_interpreter, "circlet.interpreter"),
    "LiteRT": (_litert, "ai_edge_litert.interpreter"),
    "ONNX Runtime": (_onnxruntime, "onnxruntime"), "OpenVINO": (_openvino, "openvino")}
"""What loads a model, and the module that is not counted."""
PEERS = {".tflite": "LiteRT", ".onnx": "ONNX Runtime", STEPS: "OpenVINO"}
"""By the kind of file."""


def measure_here(runtime: str, name: str, path: Path, shapes: int) -> None:
    """Prints the seconds of loading the model and of all runs, those until the first result, and of a run at a shape
    that came before; then a sum of all results, by which runtimes are compared. Results are looked at between runs and
    dropped, as programs do."""
    random = np.random.default_rng(1)
    given = [MODELS[name][1](random) for _ in range(shapes)][-1 if runtime == ALONE else 0:]
    load, module = RUNTIMES[runtime]
    import_module(module)
    gc.collect()  # else Python looks, in the midst of it, through all that importing the models made
    begin = time.perf_counter()
    run = load(path)
    found = run(given[0])
    first = seconds = time.perf_counter() - begin
    total = _sum(found)
    for each in given[1:]:
        begin = time.perf_counter()
        found = run(each)
        seconds += time.perf_counter() - begin
        total += _sum(found)
    again = []
    for _ in range(30):
        start = time.perf_counter()
        run(given[-1])
        again.append(time.perf_counter() - start)
    print(seconds, first, median(again), total)


def _sum(results: Sequence[object]) -> float:
    """Of the elements of all results, whatever their sign."""
    return sum(float(np.abs(np.asarray(each, np.float64)).sum()) for each in results)


def _measured(runtime: str, name: str, path: Path, shapes: int, cache: str) -> tuple[float, ...]:
    command = [sys.executable, "-m", "benchmarks.lengths", "--here", runtime, "--path", str(path), "--shapes",
               str(shapes), name]
    found = subprocess.run(command, check=True, capture_output=True, text=True,
                           env={**os.environ, "CIRCLET_CACHE_DIR": cache})
    return tuple(map(float, found.stdout.split()))


def _compare(name: str, path: Path, rounds: int, shapes: int) -> None:
    print(f"{name}: {MODELS[name][2]}")
    other = PEERS[path.suffix]
    own = [each for each in ("circlet", ALONE, "circlet.Interpreter")
           if (other == "LiteRT" or "Interpreter" not in each) and (path.suffix != STEPS or each != ALONE)]
    with tempfile.TemporaryDirectory() as cache:
        cold, *_ = [_measured(each, name, path, shapes, cache) for each in own]
        turns = [{each: _measured(each, name, path, shapes, cache) for each in (*own, other)} for _ in range(rounds)]
    warm = {each: [turn[each] for turn in turns] for each in (*own, other)}
    peer = warm[other]
    reference = median(each[0] for each in peer)
    for label, samples in (("circlet, compiling", [cold]), *warm.items()):
        total, first, again = (median(each[k] for each in samples) for k in range(3))
        if label == ALONE:
            print(f"  {label:20}{'':28}{duration_text(again):>10}")
            continue
        differs = "" if np.isclose(samples[0][3], peer[0][3], rtol=1e-3) else "  (differs)"
        texts = [f"{duration_text(each):>10}" for each in (total, first, again)]
        print(f"  {label:20}{texts[0]}{reference / total:8.2f}{texts[1]}{texts[2]}{differs}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lengths", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(MODELS)}; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each (default: 5)")
    parser.add_argument("--shapes", type=int, default=60, help="random shapes in a process (default: 60)")
    parser.add_argument("--here", choices=RUNTIMES, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        measure_here(arguments.here, arguments.names[0], arguments.path, arguments.shapes)
        return 0
    print(f"{arguments.shapes} random shapes: load and all runs, the peer's time by that, load and first run, a run at "
          "the last shape")
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: write_model(name, Path(folder)) for name in arguments.names or MODELS}
        time.sleep(AGE)
        for name, path in paths.items():
            _compare(name, path, arguments.rounds, arguments.shapes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
