"""The models that mutations begin with: what the tests hold, of every format and every family of operators."""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import circlet
from circlet.runtime.ir.model import Model
from circlet.schema.files import dump_model
from tests.models import expectations
from tests.ops.cases import Case, as_t
from tests.ops.one_operator import called, fed_arrays, model_of

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
STORE = ROOT / ".fuzz"
"""Where what takes long to make is kept."""
FOLDERS = ("ops", "schema", "models")
"""Of the tests that seeds are made from."""
MOST_BYTES = 40_000
"""Larger files take too long to change and to run."""


@dataclass(frozen=True, eq=False)
class Seed:
    """A model file, and inputs that it runs on."""

    name: str
    kind: str
    """How it is changed: `flatbuffer`, `onnx` or `ir`."""
    content: bytes
    weights: bytes | None = None
    """The `.bin` file of an OpenVINO model."""
    inputs: tuple[Any, ...] = ()
    """In order; there may be none."""


def few() -> Sequence[Seed]:
    """Some seeds, which take little time to make."""
    operators = _operators(25)
    small = (each for each in _shipped() if len(each.content) <= 8000)
    return (*operators, *small, *_written_networks())


def stored() -> Sequence[Seed]:
    """All seeds, in an order that depends on the source tree alone; made when they are first asked for."""
    file = STORE / f"seeds-{_digest()}.pickle"
    if not file.exists():
        seeds = tuple(_collected())
        STORE.mkdir(exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(pickle.dumps(seeds))
        temporary.replace(file)
    found: tuple[Seed, ...] = pickle.loads(file.read_bytes())
    return found


def _digest() -> str:
    """Of all that seeds are made from."""
    found = hashlib.sha256()
    for path in (Path(__file__), *(each for name in FOLDERS for each in sorted((TESTS / name).rglob("*")))):
        if path.suffix in (".py", ".tflite", ".xml"):
            found.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    for package in ("onnx", "openvino", "numpy"):
        found.update(f"{package} {version(package) if find_spec(package) else None}".encode())
    return found.hexdigest()[:16]


def _collected() -> Iterator[Seed]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for makers in (_shipped(), _operators(), _loops(), _nodes(), _graphs(), _layers(), _networks()):
            yield from (each for each in makers if len(each.content) <= MOST_BYTES)


def _shipped() -> Iterator[Seed]:
    """The files of `tests/models`, of `examples` and, where it is there, of the folder of real models."""
    for folder in (TESTS / "models", ROOT / "examples", *sorted((ROOT.parent / "shared" / "models").glob("*"))):
        for path in sorted(folder.glob("*.*")):
            kind = {".tflite": "flatbuffer", ".circle": "flatbuffer", ".onnx": "onnx"}.get(path.suffix)
            if kind and path.stat().st_size <= MOST_BYTES:
                yield Seed(path.stem, kind, path.read_bytes(), inputs=_expected(path.with_suffix(".npz")))


def _expected(path: Path) -> tuple[Any, ...]:
    if not path.exists():
        return ()
    return tuple(expectations.read(path)[0].inputs.values())


def _cases(folder: str, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The cases in the lists of the test modules of a folder, each with where it was."""
    for path in sorted((TESTS / folder).glob("test_*.py")):
        module = importlib.import_module(".".join(("tests", *folder.split("/"), path.stem)))
        for name, value in vars(module).items():
            if isinstance(value, (list, tuple)):
                yield from ((f"{path.stem}/{name}/{each.id}", each) for each in value if isinstance(each, kind))


def operator_cases() -> list[Case]:
    """The cases of all operators."""
    return [case for _, case in _cases("ops", Case)]


def _operators(stride: int = 1) -> Iterator[Seed]:
    """A model for each case of an operator: fed by its inputs, with all but the first constant, and called."""
    for name, case in islice(_cases("ops", Case), 0, None, stride):
        fixed = replace(case, inputs=[
            each if k == 0 or each is None or as_t(each).variable else replace(as_t(each), constant=True)
            for k, each in enumerate(case.inputs)])
        yield from _written(f"{name}/fed", case, lambda case=case: model_of(case))
        yield from _written(f"{name}/fixed", fixed, lambda case=fixed: model_of(case))
        yield from _written(f"{name}/open", fixed, lambda case=fixed: called(model_of(case, static=False)))


def _written(name: str, case: Case, make: Any) -> Iterator[Seed]:
    for format in ("tflite", "circle"):
        try:
            content = dump_model(make(), format)
        except (circlet.CircletError, ValueError, AttributeError):
            continue
        yield Seed(name, "flatbuffer", content, inputs=tuple(fed_arrays(case)))
        return


def _loops() -> Iterator[Seed]:
    """Loops of all policies, as the formats have them."""
    from tests.ops.loop_cases import LoopCase, arguments, loop_model

    for path in sorted((TESTS / "ops").glob("test_loop*.py")):
        module = importlib.import_module(f"tests.ops.{path.stem}")
        for value in vars(module).values():
            for case in value if isinstance(value, (list, tuple)) else ():
                if isinstance(case, LoopCase) and case.runs:
                    yield from _converted(case.name, loop_model(case, case.runs[0]), arguments(case.runs[0]))


def _converted(name: str, model: Model, inputs: Iterable[Any]) -> Iterator[Seed]:
    try:
        yield Seed(f"loop/{name}", "flatbuffer", dump_model(circlet.convert(model), "tflite"), inputs=tuple(inputs))
    except circlet.CircletError:
        return


def _nodes() -> Iterator[Seed]:
    """The node cases of the package `onnx`."""
    if not find_spec("onnx"):
        return
    from tests.schema.onnx.node_cases import _array, all_cases

    for case in all_cases():
        inputs = tuple(_array(each) for each in case.data_sets[0][0]) if case.data_sets else ()
        yield Seed(case.name, "onnx", case.model.SerializeToString(deterministic=True), inputs=inputs)


def _graphs() -> Iterator[Seed]:
    """The ONNX models with control flow that are written as text."""
    if not find_spec("onnx"):
        return
    from tests.schema.onnx import graphs

    for name, case in _cases("schema/onnx", graphs.Case):
        yield Seed(name, "onnx", graphs.parse(case.text, case.opset), inputs=tuple(case.inputs.values()))


def _layers() -> Iterator[Seed]:
    """A model for each case of an OpenVINO layer, with lengths that are known and that are not."""
    if not find_spec("openvino"):
        return
    from tests.schema.openvino import models

    with tempfile.TemporaryDirectory() as folder:
        for name, case in _cases("schema/openvino", models.Case):
            for dynamic in (False, True) if case.dynamic else (False,):
                own = [models.op.parameter([-1] * each.ndim if dynamic else list(each.shape), each.dtype)
                       for each in case.inputs]
                path = models.save(Path(folder), models.ports(case.make(*own)), own)
                yield _saved(f"{name}/{'open' if dynamic else 'fixed'}", path, tuple(case.inputs))


def _saved(name: str, path: Path, inputs: tuple[Any, ...]) -> Seed:
    return Seed(name, "ir", path.read_bytes(), path.with_suffix(".bin").read_bytes(), inputs)


def _networks() -> Iterator[Seed]:
    """OpenVINO's If, Loop and TensorIterator."""
    yield from _written_networks()
    if find_spec("openvino"):
        yield from _openvino_controlflow()


def _written_networks() -> Iterator[Seed]:
    from tests.schema.openvino import text

    square = np.ones((2, 4), np.float32)
    weights = bytes(64)
    yield Seed("if", "ir", text.seed_if().encode(), weights, (np.array(True), square, square, square))
    yield Seed("loop", "ir", text.seed_loop().encode(), weights,
               (np.array(3), np.array([True]), np.ones((1, 1), np.float32)))
    yield Seed("scan", "ir", text.seed_scan().encode(), weights, (np.ones(3, np.float32), np.ones(1, np.float32)))
    yield Seed("relu", "ir", text.relu().encode(), weights, (np.ones(2, np.float32),))


def _openvino_controlflow() -> Iterator[Seed]:
    from tests.schema.openvino import models, test_branches, test_controlflow

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in test_controlflow.COUNTS:
            first = np.array([count.first], np.float32)
            loop = test_controlflow.Loop(count.body, [first], joined=[(0, *test_controlflow.ALL)], last=[0])
            yield _saved(f"count/{count.id}", loop.save(folder, count.trip, count.condition), (first,))
        for scan in test_controlflow.SCANS:
            path = test_controlflow._scan(folder, scan.cut, scan.join)
            yield _saved(f"scan/{scan.id}", path, (test_controlflow.LINE,))
        for case in test_branches.CASES:
            condition = models.op.parameter([], np.bool_)
            own = [models.op.parameter(list(each.shape), each.dtype) for each in case.values]
            path = models.save(folder, case.build(condition, own), [condition, *own])
            yield _saved(f"branches/{case.id}", path, (np.array(True), *case.values))
