"""Sessions as objects: what they are made from, what they tell and print, and how they end and are copied."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ops.unary import Neg
from tests.models.expectations import agrees, read

ROOT = Path(__file__).parents[1]
COLLATZ = ROOT / "examples" / "collatz.tflite"
MODELS = sorted((ROOT / "tests" / "models").glob("*.tflite"))
STEPS = 111


def steps(session: circlet.Session) -> int:
    return int(session.run([27])["steps"])


CONTENT = COLLATZ.read_bytes()
SOURCES: dict[str, Callable[[], Any]] = {
    "path": lambda: COLLATZ, "str": lambda: str(COLLATZ), "bytes": lambda: CONTENT,
    "bytearray": lambda: bytearray(CONTENT), "memoryview": lambda: memoryview(CONTENT),
    "BytesIO": lambda: io.BytesIO(CONTENT), "file": lambda: COLLATZ.open("rb"),
    "model": lambda: circlet.load(COLLATZ),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_session_takes_what_load_takes(make: Callable[[], Any]) -> None:
    source = make()
    assert steps(circlet.Session(source, "cpu")) == STEPS
    if not isinstance(source, circlet.Model):
        if isinstance(source, io.IOBase):
            source.seek(0)
        assert steps(circlet.Session(circlet.load(source), "cpu")) == STEPS
    if isinstance(source, io.IOBase):
        source.close()


def test_files_are_read_from_where_they_are() -> None:
    file = io.BytesIO(b"header" + CONTENT)
    file.seek(6)
    assert steps(circlet.Session(file, "cpu")) == STEPS


def test_messages_of_onnx_are_loaded() -> None:
    onnx = pytest.importorskip("onnx")
    proto = onnx.load(ROOT / "examples" / "sum_even.onnx")
    for session in (circlet.Session(proto), circlet.Session(circlet.load(proto))):
        assert session.run([[1, 2, 3, 4]])["s"].tolist() == [6]
    with pytest.raises(circlet.InputError, match="only models of OpenVINO have weights"):
        circlet.load(proto, b"")
    proto.graph.node[0].op_type = "Unheard"
    with pytest.raises(circlet.UnsupportedError, match="Unheard"):
        circlet.load(proto)
    with pytest.raises(circlet.ModelError, match="expected a graph"):
        circlet.load(onnx.ModelProto())


@pytest.mark.parametrize("source", [5, None, 1.5, [CONTENT], io.StringIO("text"), {}, object()],
                         ids=lambda source: type(source).__name__)
def test_refused_sources(source: Any) -> None:
    message = "expected a path, the content of a file, a file opened for reading bytes or an onnx.ModelProto, found "
    for make in (circlet.load, circlet.Session):
        with pytest.raises(circlet.InputError, match=message + type(source).__name__):
            make(source)


def described() -> circlet.Session:
    b = circlet.ModelBuilder()
    main = b.subgraph()
    x = main.input("x", DType.INT8, (-1, 4), Quantization((0.5,), (3,)))
    main.output(x, main.input("flag", DType.BOOL, ()), main.input("words", DType.STRING, (2,)))
    b.signature("serve", main, {"a": x}, {"b": x})
    return circlet.Session(b.build())


def test_inputs_and_outputs_are_described() -> None:
    session = described()
    x = circlet.TensorInfo("x", "int8", np.dtype(np.int8), (-1, 4), Quantization((0.5,), (3,)))
    flag = circlet.TensorInfo("flag", "bool", np.dtype(bool), (), None)
    words = circlet.TensorInfo("words", "string", np.dtype(object), (2,), None)
    assert session.inputs == {"x": x, "flag": flag, "words": words}
    assert list(session.outputs.values()) == [x, flag, words]
    assert hash(x) == hash(session.inputs["x"])
    collatz = circlet.Session(COLLATZ).signature("serving_default")
    assert [str(each) for each in (*collatz.inputs.values(), *collatz.outputs.values())] == [
        "n: int32[]", "steps: int32[]", "peak: int32[]"]


def test_a_signature_is_called_with_names_a_dictionary_or_a_list() -> None:
    run = circlet.Session(COLLATZ, "cpu").signature()
    calls: list[Callable[[], Any]] = [lambda: run(n=27), lambda: run({"n": 27}), lambda: run([27]), lambda: run((27,)),
                                      lambda: run.run([27]), lambda: run.run({"n": 27})]
    assert [int(call()["steps"]) for call in calls] == [STEPS] * 6
    with pytest.raises(circlet.InputError, match="found both"):
        run([27], n=27)
    with pytest.raises(circlet.InputError, match="missing n"):
        run()


def test_everything_prints_in_short() -> None:
    session = circlet.Session(COLLATZ)
    model = session.model
    assert repr(model) == ("<Model from tflite: 5 subgraphs, 11 operators, (serving_default_n:0: int32[]) -> "
                           "(PartitionedCall:1: int32[], PartitionedCall:0: int32[])>")
    assert repr(session) == "<Session of tflite model: (n: int32[]) -> (steps: int32[], peak: int32[])>"
    assert repr(session.signature()) == (
        "<SignatureRunner 'serving_default': (n: int32[]) -> (steps: int32[], peak: int32[])>")
    assert repr(model.subgraphs[0].operators[0]) == "<Operator WHILE: (1, 0, 1, 0) -> (2, 3, 4, 5)>"
    assert repr(model.subgraphs[4].tensors[4]) == "<Tensor 'arith.constant1': constant int32[]>"
    assert repr(circlet.Model(())) == "<Model from memory: 0 subgraphs, 0 operators>"
    for path in MODELS[::8]:
        found = circlet.load(path)
        parts = [found, *found.subgraphs, *(each for subgraph in found.subgraphs for each in (
            *subgraph.tensors, *subgraph.operators))]
        assert max(len(repr(each)) for each in parts) < 2000


def test_one_thing_is_no_plural() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(Neg(), main.input("x", DType.FLOAT32, ())))
    model = b.build()
    assert "1 subgraph, 1 operator, " in repr(model)
    assert "1 operator, " in repr(model.subgraphs[0])
    with pytest.raises(circlet.InputError, match=r"expected 1 input \(x\)"):
        circlet.Session(model, "cpu").run(3)  # type: ignore[arg-type]


def test_notebooks_have_tables() -> None:
    session = described()
    page = session._repr_html_()
    assert page.count("<tr>") == 1 + 3 + 3
    cells = re.sub(r"<td [^>]*>", "<td>", page)
    assert "<td>input</td><td>x</td><td>int8</td><td>(-1, 4)</td><td>Quantization(scales=(0.5,)" in cells
    network = circlet.Network()
    network.output(network.input("<b>", np.float32, (2,)), "y")
    assert "&lt;b&gt;: float32[2]" in network.build()._repr_html_()
    assert circlet.load(COLLATZ)._repr_html_().count("<tr>") == 1 + 5


def test_notebooks_have_pictures_of_what_is_small() -> None:
    def chain(count: int) -> circlet.Model:
        main = (builder := circlet.ModelBuilder()).subgraph("main")
        x = main.input("<b>", np.float32, (2,))
        for _ in range(count):
            x = main.apply(Neg(), x)
        main.output(x)
        return builder.build()

    small = chain(3)
    for page in (small._repr_html_(), circlet.Session(small, "cpu")._repr_html_()):
        picture = ElementTree.fromstring(page[page.index("<svg"):])
        texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert texts == ["<b>", "float32[2]", *["NEG", "float32[2]"] * 3, "neg_3", "float32[2]"]
        assert len(list(picture.iter("{http://www.w3.org/2000/svg}polyline"))) == 4
    assert "<svg" not in chain(40)._repr_html_()


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_a_closed_session_runs_no_more(backend: str) -> None:
    with circlet.Session(COLLATZ, backend) as session:
        assert steps(session) == STEPS
        bound = session.bind(0, [np.array(27, np.int32)])
        session.run_bound(bound)
    for _ in range(2):
        session.close()
        calls: list[Callable[[], Any]] = [
            lambda: session.run([27]), lambda: session.run([28]), lambda: session.signature()(n=27),
            lambda: session.invoke(0, [np.array(27, np.int32)]), lambda: session.run_bound(bound),
            lambda: session.bind(0, [np.array(27, np.int32)]), session.copies, session.backend_of]
        for call in calls:
            with pytest.raises(circlet.ClosedError, match="the session is closed"):
                call()
    session.cancel()
    session.reset_state()
    assert "closed" in repr(session)
    assert list(session.inputs) == ["n"]
    assert steps(pickle.loads(pickle.dumps(session))) == STEPS


def test_what_runs_when_a_session_is_closed_goes_on() -> None:
    class Closing(circlet.Listener):
        def will_invoke(self, subgraph: int) -> None:
            session.close()

    session = circlet.Session(COLLATZ, "cpu")
    assert session.run([27], listener=Closing())["steps"] == STEPS
    with pytest.raises(circlet.ClosedError):
        session.run([27])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads where Linux lists them")
def test_closing_ends_threads() -> None:
    b = circlet.Network()
    x = b.input("x", np.float32, (512, 512))
    b.output(b.matmul(x, x), "y")
    before = len(os.listdir("/proc/self/task"))
    session = circlet.Session(b.build(), "native", num_threads=3)
    session.run([np.ones((512, 512), np.float32)])
    assert len(os.listdir("/proc/self/task")) > before
    session.close()
    until = time.monotonic() + 10
    while len(os.listdir("/proc/self/task")) > before and time.monotonic() < until:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= before
    assert threading.active_count() >= 1


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_a_copy_has_the_options_and_state_of_its_own(backend: str) -> None:
    limits = circlet.Limits(max_iterations=50)
    session = circlet.Session(ROOT / "tests" / "models" / "counter.tflite", backend, 2, False, limits)
    session.signature("increment")(by=5)
    for found in (pickle.loads(pickle.dumps(session)), copy.copy(session), copy.deepcopy(session)):
        assert (found.num_threads, found.limits) == (2, limits)
        assert found.backend == session.backend
        assert found.signature("increment")(by=1)["count"] == 11
        assert found._options == session._options
    assert session.signature("get")()["count"] == 15


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_are_pickled(path: Path) -> None:
    """The copy gives the same results, and its constants are read-only too."""
    model = pickle.loads(pickle.dumps(circlet.load(path)))
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            assert tensor.data is None or not tensor.data.flags.writeable
    session = circlet.Session(model, "cpu")
    call = read(path.with_suffix(".npz"))[0]
    found = session.signature(call.signature).run(call.inputs) if call.signature else session.run(call.inputs)
    for name, expected in call.outputs.items():
        assert agrees(found[name], expected)


@pytest.mark.slow
def test_sessions_go_to_other_processes() -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        assert pool.submit(steps, circlet.Session(COLLATZ)).result() == STEPS
