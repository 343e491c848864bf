"""Plans: a session whose model was run before, on code that is kept, does not read it, and does all that others do."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import circlet
from circlet import given
from circlet.backends.native.load import fingerprint
from circlet.backends.native.load.manifest import Manifest
from circlet.backends.native.lower import budget
from circlet.backends.native.plans import key, planning
from circlet.backends.native.plans.key import MARK
from circlet.backends.native.plans.plan import Plan, Planned, Unplanned
from circlet.runtime.exec.kernel import Span
from circlet.runtime.exec.observe.listener import Counter
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.text import to_text
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.layout import Transpose
from circlet.schema import files
from circlet.schema.content import read_with_status
from circlet.schema.files import dump_model, load_model
from tests.models.expectations import read
from tests.schema.openvino import text

FOLDER = Path(__file__).parents[1] / "models"
MODELS = sorted(each for each in FOLDER.glob("*.tflite") if each.with_suffix(".npz").exists())
EXAMPLES = Path(__file__).parents[2] / "examples"
COLLATZ = EXAMPLES / "collatz.tflite"
QUICK = {"lstm", "cnn_batch", "counter", "cache_gru", "non_zero", "string_gather", "transformer"}
"""The models that are run by default."""
LEAST_PLANNED = 0.5
"""Of the models, how many have plans at the least: those whose every operator is native code."""


def added(length: int = -1) -> bytes:
    """x + 1 for x of any length."""
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(Add(), main.input("x", DType.FLOAT32, (length,)), main.constant(np.float32(1))))
    return dump_model(b.build(), "tflite")


def is_prepared(session: circlet.Session) -> bool:
    """Whether the session has not read its model."""
    return session._prepared is not None and session._open is None


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models cannot be read from here on."""
    monkeypatch.setattr(files, "load_model", lambda *_, **__: pytest.fail("the model is read"))


def played(session: circlet.Session, path: Path) -> list[Any]:
    """What the calls give that are kept beside a model, twice, or their errors."""
    found: list[Any] = []
    for each in read(path.with_suffix(".npz")) * 2:
        runner = session.signature(each.signature) if each.signature else session
        try:
            found.append({name: np.asarray(value) for name, value in runner.run(dict(each.inputs)).items()})
        except circlet.CircletError as error:
            found.append((type(error), str(error)))
    return found


@pytest.mark.parametrize("path", [
    pytest.param(each, id=each.stem, marks=() if each.stem in QUICK else pytest.mark.slow) for each in MODELS])
def test_results_are_the_same(folder: Path, path: Path) -> None:
    wanted = played(circlet.Session(path, "native"), path)
    again = circlet.Session(path, "native")
    found = played(again, path)
    for one, other in zip(wanted, found, strict=True):
        if isinstance(one, dict):
            assert one.keys() == other.keys()
            for name, value in one.items():
                assert value.dtype == other[name].dtype
                assert value.tolist() == other[name].tolist() if value.dtype.hasobject else (
                    value.tobytes() == other[name].tobytes())
        else:
            assert one == other


@pytest.mark.slow
def test_most_models_are_planned(folder: Path) -> None:
    planned = 0
    for path in MODELS:
        played(circlet.Session(path, "native"), path)
        again = circlet.Session(path, "native")
        played(again, path)
        planned += is_prepared(again)
    assert planned >= LEAST_PLANNED * len(MODELS), f"{planned} of {len(MODELS)}"


def test_a_path_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = circlet.Session(COLLATZ, "native")
    wanted = first.run([27])
    forbid_reading(monkeypatch)
    session = circlet.Session(COLLATZ, "native")
    assert session.run([27]) == wanted
    assert repr(session) == repr(first)
    assert session.inputs == first.inputs
    assert session.outputs == first.outputs
    for wrong in ([], [2.5], [[1, 2]], {"m": 1}):
        with pytest.raises(circlet.InputError) as error:
            first.run(wrong)
        with pytest.raises(circlet.InputError) as other:
            session.run(wrong)
        assert str(error.value) == str(other.value)
    session.close()
    with pytest.raises(circlet.ClosedError):
        session.run([27])


def test_bytes_and_loaded_models_have_the_plan_of_their_content(folder: Path) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    for source in (COLLATZ.read_bytes(), str(COLLATZ), circlet.load(COLLATZ), circlet.load(COLLATZ, mmap=True)):
        session = circlet.Session(source, "native")
        assert session.run([27])["steps"] == 111
        assert is_prepared(session)


def test_what_the_plan_does_not_say_is_read(folder: Path) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    session = circlet.Session(COLLATZ, "native")
    assert session.run([27])["steps"] == 111
    assert session.backend_of(0) == ("native",)
    counter = Counter()
    assert session.run([27], listener=counter)["steps"] == 111
    assert counter.invocations
    assert len(session.model.subgraphs) == 5
    assert {*session.backend_of(0)} == {"native"}
    assert session.copies() == circlet.Session(circlet.load(COLLATZ), "native", copy_elision=True).copies()
    assert session.invoke(0, [np.int32(27)])[0] == 111


def test_lengths_are_those_of_the_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = added()
    circlet.Session(content, "native").run([np.zeros(7, np.float32)])
    forbid_reading(monkeypatch)
    session = circlet.Session(content, "native")
    for length in (7, 2, 100, 3):
        assert next(iter(session.run([np.arange(length)]).values())).tolist() == [*range(1, length + 1)]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("rows", [-1, 7])
def test_subgraphs_of_several_functions_are_planned(
        folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int, most: int) -> None:
    monkeypatch.setattr(budget, "MOST_TOGETHER", most)
    monkeypatch.setattr(planning, "ENCLOSED", 0)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = y = main.input("x", DType.FLOAT32, (rows, 3))
    axes = main.constant(np.array([1, 0], np.int32))
    for k in range(3):
        y = main.apply(Transpose(), y, axes)
        y = main.apply(Add(), y, main.constant(np.full((3, 1) if k % 2 == 0 else (1, 3), k, np.float32)))
    main.output(y, main.apply(Transpose(), x, axes))
    content = dump_model(b.build(), "tflite")
    made: list[str] = []
    keep = planning.keep

    def kept(key: str, plan: Plan, constants: Array) -> None:
        made.append(key)
        keep(key, plan, constants)

    monkeypatch.setattr(planning, "keep", kept)
    circlet.Session(content, "native").run([np.zeros((7, 3), np.float32)])
    assert len(made) == 1, "nothing is planned before the last function"
    with monkeypatch.context() as patch:
        forbid_reading(patch)
        session = circlet.Session(content, "native")
        for length in (7, 2, 100, 3) if rows < 0 else (7, 7):
            given = np.arange(3 * length, dtype=np.float32).reshape(length, 3)
            shifted, turned = session.invoke(0, [given])
            assert shifted.tolist() == (given.T + 3).tolist()
            assert turned.tolist() == given.T.tolist()
        assert is_prepared(session)
    for each in folder.iterdir():
        if each.name != made[0]:
            each.unlink()
    session = circlet.Session(content, "native")
    assert session.invoke(0, [np.zeros((7, 3), np.float32)])[0].shape == (3, 7)
    assert not is_prepared(session), "what is gone is made anew"


def test_other_lengths_are_read(folder: Path) -> None:
    content = added()
    circlet.Session(content, "native").run([np.zeros(7, np.float32)])
    session = circlet.Session(content, "native")
    for length in (1, 0, 5):
        assert next(iter(session.run([np.arange(length)]).values())).tolist() == [*range(1, length + 1)]
    assert not is_prepared(session)


def test_a_changed_model_has_no_plan(folder: Path) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    model = circlet.load(COLLATZ)
    assert model.is_as_read
    main = replace(model.subgraphs[0], outputs=model.subgraphs[0].inputs)
    changed = replace(model, subgraphs=(main, *model.subgraphs[1:]), signatures=())
    assert not changed.is_as_read
    assert [*circlet.Session(changed, "native").run([27]).values()] == [27]


def test_constants_of_what_is_not_planned_are_let_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []

    class Failing(planning.Planner):
        def add(self, executed: Model, span: Span, key: str, manifest: Manifest) -> None:
            super().add(executed, span, key, manifest)
            kept.append(sum(each.nbytes for each in self._kept))

        def _planned(self, executed: Model, span: Span, key: str, manifest: Manifest) -> Planned:
            assert self._keep(np.arange(100, dtype=np.uint8)) == 0
            raise Unplanned

    monkeypatch.setattr(planning, "Planner", Failing)
    circlet.Session(COLLATZ, "native").run([27])
    assert kept == [0]
    assert not is_prepared(circlet.Session(COLLATZ, "native"))


def test_the_file_may_change_while_a_session_lives(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(added(3))
    circlet.Session(path, "native").run([[1, 2, 3]])
    session = circlet.Session(path, "native")
    path.write_bytes(b"nothing of that")
    assert next(iter(session.run([[1, 2, 3]]).values())).tolist() == [2, 3, 4]
    assert len(session.model.subgraphs) == 1


def test_what_was_run_is_not_read_to_be_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    with monkeypatch.context() as patch:
        forbid_reading(patch)
        for source in (COLLATZ, str(COLLATZ), COLLATZ.read_bytes()):
            model = circlet.load(source)
            session = circlet.Session(model, "native")
            assert session.run([27])["steps"] == 111
            assert is_prepared(session)
            assert model.is_as_read
    assert session.model is model
    assert to_text(model) == to_text(load_model(COLLATZ))
    assert (model.format, model.version, model.metadata) == ("tflite", 3, load_model(COLLATZ).metadata)
    assert model.is_as_read
    assert model.subgraphs is model.subgraphs


def test_models_that_are_not_read_are_as_others(folder: Path) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    other = load_model(COLLATZ)
    for made in (replace(circlet.load(COLLATZ), provenance=None), pickle.loads(pickle.dumps(circlet.load(COLLATZ))),
                 copy.copy(circlet.load(COLLATZ)), copy.deepcopy(circlet.load(COLLATZ))):
        assert to_text(made) == to_text(other)
        assert not made.is_as_read
    assert not replace(circlet.load(COLLATZ), signatures=()).is_as_read
    assert repr(circlet.load(COLLATZ)) == repr(other)
    for backend in ("cpu", "native"):
        assert circlet.Session(circlet.load(COLLATZ), backend, passes="eliminate_dead").run([27])["steps"] == 111


def test_threads_read_one_model(folder: Path) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    for _ in range(8):
        model, begin = circlet.load(COLLATZ), Barrier(4)

        def look(model: Model = model, begin: Barrier = begin) -> tuple[int, int]:
            begin.wait()
            return id(model.subgraphs), id(model.signatures)

        with ThreadPoolExecutor(4) as pool:
            found = {each.result() for each in [pool.submit(look) for _ in range(4)]}
        assert len(found) == 1
        assert model.is_as_read


def test_what_is_wrong_is_said_as_a_model_is_loaded(folder: Path, tmp_path: Path) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    content = COLLATZ.read_bytes()
    content = content[:len(content) // 2]
    (tmp_path / "bad.tflite").write_bytes(content)
    for source in (tmp_path / "bad.tflite", content):
        with pytest.raises((circlet.ModelError, circlet.UnsupportedError)):
            circlet.load(source)


def test_the_file_may_change_before_its_model_is_read(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(COLLATZ.read_bytes())
    circlet.Session(path, "native").run([27])
    model = circlet.load(path)
    path.write_bytes(b"nothing of that")
    assert circlet.Session(model, "cpu").run([27])["steps"] == 111
    with pytest.raises(circlet.ModelError):
        circlet.load(path)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_file_is_opened_once(folder: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool) -> None:
    if is_kept:
        circlet.Session(COLLATZ, "native").run([27])
    opened: list[str] = []

    def counted(path: str) -> tuple[memoryview, os.stat_result | None]:
        opened.append(path)
        return read_with_status(path)

    monkeypatch.setattr(given, "read_with_status", counted)
    monkeypatch.setattr(files, "read_file", lambda path: counted(path)[0])
    for make in (circlet.Session, lambda path: circlet.Session(circlet.load(path))):
        opened.clear()
        assert make(COLLATZ).model.subgraphs
        assert opened == [str(COLLATZ)]


@pytest.mark.parametrize("which", [None, "cut", *range(0, 100, 7)])
def test_damaged_plans_are_made_anew(folder: Path, which: int | str | None) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    plan = next(each for each in folder.iterdir() if MARK in each.read_bytes())
    content = bytearray(plan.read_bytes())
    if which is None:
        content = bytearray()
    elif isinstance(which, str):
        del content[len(content) // 2:]
    else:
        content[len(content) * which // 100] ^= 0x20
    plan.write_bytes(content)
    session = circlet.Session(COLLATZ, "native")
    assert session.run([27])["steps"] == 111
    assert not is_prepared(session)
    session = circlet.Session(COLLATZ, "native")
    assert session.run([27])["steps"] == 111
    assert is_prepared(session)


def test_functions_that_are_gone_are_made_anew(folder: Path) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    max(folder.iterdir(), key=lambda each: each.stat().st_size).unlink()
    session = circlet.Session(COLLATZ, "native")
    assert session.run([27])["steps"] == 111
    assert not is_prepared(session)


def test_another_installation_has_its_own_plans(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    monkeypatch.setattr(key, "installation", lambda: b"another")
    assert not is_prepared(circlet.Session(COLLATZ, "native"))


def test_an_installation_is_told_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("runtime", "backends", "schema"):
        (tmp_path / part).mkdir()
    source = tmp_path / "runtime" / "one.py"
    source.write_text("1", encoding="utf-8")
    monkeypatch.setattr(fingerprint, "_PACKAGE", tmp_path)
    found = set()
    for content in ("1", "2", "1"):
        status = source.stat()
        source.write_text(content, encoding="utf-8")
        found.add(fingerprint.installation.__wrapped__())
        assert source.stat().st_size == status.st_size
    shutil.copy(source, tmp_path / "backends" / "two.py")
    found.add(fingerprint.installation.__wrapped__())
    assert len(found) == 4


def test_bounds_are_checked_where_the_environment_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circlet.Session(COLLATZ, "native").run([27])
    monkeypatch.setenv("CIRCLET_CHECK_BOUNDS", "1")
    assert not is_prepared(circlet.Session(COLLATZ, "native"))


@pytest.mark.parametrize("options", [{"copy_elision": False}, {"passes": "eliminate_dead"}, {"backend": "cpu"}],
                         ids=str)
def test_only_what_is_compiled_as_by_default_is_planned(folder: Path, options: dict[str, Any]) -> None:
    options = {"backend": "native"} | options
    for _ in range(2):
        session = circlet.Session(COLLATZ, **options)
        assert session.run([27])["steps"] == 111
        assert not is_prepared(session)


def test_a_model_that_fails_leaves_no_plan(folder: Path) -> None:
    with pytest.raises(circlet.CircletError):
        circlet.Session(b"\0\0\0\0TFL3", "native")
    assert not folder.exists() or not [*folder.iterdir()]


def product_ir(folder: Path, scale: float = 1.0, width: int = 64) -> Path:
    """x (?, width) times a matrix, which lies in another file than the graph, where it is all that there is."""
    matrix = text.layer(1, "Const", 0, [(width, width)], element_type="f32", shape=f"{width},{width}", offset=0,
                        size=4 * width * width)
    layers = [text.parameter(0, (-1, width)), matrix, text.layer(2, "MatMul", 2, [(-1, width)]), text.result(3)]
    path = folder / "net.xml"
    path.write_text(text.network(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))
    path.with_suffix(".bin").write_bytes((scale * np.eye(width, dtype=np.float32)).tobytes())
    return path


def test_weights_in_a_file_of_their_own(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither they nor the graph are read into a model, and other weights are those of another model."""
    path, x = product_ir(tmp_path), np.arange(128, dtype=np.float32).reshape(2, 64)
    first = circlet.Session(path, "native")
    expected, name = first.run([x]), next(iter(first.outputs))
    assert (expected[name] == x).all()
    assert not is_prepared(first)
    product_ir(tmp_path, 3.0)
    changed = circlet.Session(path, "native")
    assert not is_prepared(changed)
    assert (changed.run([x])[name] == 3 * x).all()
    given = circlet.load(path.read_bytes(), path.with_suffix(".bin").read_bytes())
    with monkeypatch.context() as context:
        forbid_reading(context)
        for source in (path, circlet.load(path), given):
            again = circlet.Session(source, "native")
            assert (again.run([x[:1]])[name] == 3 * x[:1]).all()
            assert is_prepared(again)
    product_ir(tmp_path)
    back = circlet.Session(path, "native")
    assert (back.run([x])[name] == x).all()
    assert is_prepared(back)
    path.with_suffix(".bin").unlink()
    with pytest.raises(circlet.ModelError, match=r"expected the weights in .*net\.bin, found no such file"):
        circlet.Session(path, "native")


def test_a_session_reads_the_weights_that_it_was_opened_with(folder: Path, tmp_path: Path) -> None:
    path, x = product_ir(tmp_path), np.ones((1, 64), np.float32)
    circlet.Session(path, "native").run([x])
    session = circlet.Session(path, "native")
    product_ir(tmp_path, 2.0)
    assert (next(iter(session.run([x]).values())) == x).all()
    constants = [each.data for each in session.model.subgraphs[0].tensors if each.data is not None]
    assert max(each.max() for each in constants if each.size == 64 * 64) == 1


def test_pickles_and_copies_are_without_provenance() -> None:
    import copy
    import pickle

    model = circlet.load(COLLATZ)
    for each in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(each, Model)
        assert each.provenance is None
        assert not each.is_as_read
