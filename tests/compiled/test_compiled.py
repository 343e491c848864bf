"""Code out of a file: entry points, state, errors, limits, threads, forks, machines that it does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import circlet
from circlet.backends.native.aot.between import Dims
from circlet.backends.native.targets.catalogue import Processor
from circlet.compiled import CompiledModel, load, machine
from circlet.embed import compile_model
from circlet.embed import container as making
from circlet.embed.compiled import Compiled
from circlet.embed.container import TARGETS, container
from circlet.runtime.errors import CircletError
from circlet.runtime.ir.model import Model
from tests.compiled.files import COLLATZ, changed, described, here, only, opened
from tests.embed.test_interface import sums
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32


@pytest.fixture
def collatz(tmp_path: Path) -> CompiledModel:
    return opened(circlet.load(COLLATZ), tmp_path)


def endless() -> Model:
    """A loop that ends at once if its input is 1, and never if it is 0."""
    return g.while_model(g.at_most(0), lambda _, values: values, [i32(0)])


@here
def test_values_and_names_are_those_of_a_session(collatz: CompiledModel) -> None:
    session = circlet.Session(COLLATZ)
    assert collatz.inputs == session.inputs
    assert collatz.outputs == session.outputs
    for inputs in ({"n": 27}, [27], {"n": np.int64(27)}, {"n": i32(27)}):
        assert collatz.run(inputs) == session.run(inputs) == {"steps": 111, "peak": 9232}
    one, other = collatz.run([27]), collatz.run([6])
    assert (one["steps"], other["steps"]) == (111, 8)
    assert collatz.signature()(n=27) == one
    assert collatz.backend == "compiled"


@here
@pytest.mark.parametrize("inputs", [{}, {"m": 1}, {"n": 1, "m": 1}, [], [1, 2], [[1, 2]], {"n": 2.5}, {"n": "a"},
                                    {"n": 1 << 40}, {"n": np.zeros((1, 1), np.int32)}, 3])
def test_inputs_that_do_not_fit_are_refused_as_by_a_session(collatz: CompiledModel, inputs: object) -> None:
    session = circlet.Session(COLLATZ)
    with pytest.raises(circlet.InputError) as expected:
        session.run(inputs)  # type: ignore[arg-type]
    with pytest.raises(circlet.InputError) as found:
        collatz.run(inputs)  # type: ignore[arg-type]
    assert str(found.value) == str(expected.value)


@here
def test_signatures_that_there_are_not(tmp_path: Path, collatz: CompiledModel) -> None:
    with pytest.raises(circlet.InputError, match=r"no signature 'x'; the code has \['serving_default'\]"):
        collatz.signature("x")
    model = opened(sums(), tmp_path, signature="get")
    assert model.signature()()["total"].tolist() == [1, 2, 3, 4]
    with pytest.raises(circlet.InputError, match=r"subgraph 0 was not compiled, but the signatures \['get'\]"):
        model.run()


@here
def test_arrays_with_gaps_and_of_other_orders(tmp_path: Path) -> None:
    model = opened(sums(), tmp_path)
    add = model.signature("add")
    odd = np.frombuffer(b"\0" + f32([1, 2, 3, 4]).tobytes(), np.uint8)[1:].view(np.float32)
    for x in (f32([1, 9, 2, 9, 3, 9, 4, 9])[::2], f32([1, 2, 3, 4]).astype(">f4"), f32([4, 3, 2, 1])[::-1], odd):
        model.reset_state()
        assert add(x=x, at=i32([3]))["element"] == 8


@here
def test_state_is_kept_and_reset(tmp_path: Path) -> None:
    with opened(sums(), tmp_path) as model:
        add = model.signature("add")
        ones = f32([1, 1, 1, 1])
        assert [add(x=ones, at=i32([2]))["element"] for _ in range(3)] == [4, 5, 6]
        with pytest.raises(circlet.ExecutionError, match="GATHER") as error:
            add(x=ones, at=i32([4]))
        assert error.value.place is not None
        assert error.value.place.operator_name == "GATHER"
        assert model.signature("get")()["total"].tolist() == [4, 5, 6, 7]
        model.reset_state()
        assert model.signature("get")()["total"].tolist() == [1, 2, 3, 4]
    with pytest.raises(circlet.ClosedError):
        model.run([ones, i32([0])])


@here
def test_results_belong_to_the_caller(tmp_path: Path) -> None:
    model = opened(sums(), tmp_path)
    get = model.signature("get")
    first = get()["total"]
    first[:] = 0
    assert get()["total"].tolist() == [1, 2, 3, 4]


@here
def test_iterations_are_bounded(collatz: CompiledModel) -> None:
    for most, passes in ((111, True), (110, False), (None, True), (1 << 40, True), (0, False)):
        collatz.limits = circlet.Limits(max_iterations=most)
        if passes:
            assert collatz.run([27])["steps"] == 111
        else:
            with pytest.raises(circlet.LimitError, match=f"more than max_iterations={most} loop iterations"):
                collatz.run([27])


@here
def test_memory_is_bounded(collatz: CompiledModel) -> None:
    collatz.limits = circlet.Limits(memory=4)
    with pytest.raises(circlet.LimitError, match="the run needs 8 bytes, more than memory=4"):
        collatz.run([27])


@here
def test_a_deadline_ends_a_loop(tmp_path: Path) -> None:
    model = opened(endless(), tmp_path, circlet.Limits(deadline=0.05))
    with pytest.raises(circlet.LimitError, match=r"deadline of 0\.05 s"):
        model.run([0])
    model.limits = circlet.Limits(deadline=60)
    assert model.run([1])


@here
def test_cancelling_ends_all_runs(tmp_path: Path) -> None:
    model = opened(endless(), tmp_path)
    errors: list[CircletError] = []

    def run() -> None:
        try:
            model.run([0])
        except CircletError as error:
            errors.append(error)

    threads = [Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    end = time.monotonic() + 60
    while any(each.is_alive() for each in threads) and time.monotonic() < end:
        model.cancel()
        time.sleep(0.01)
    assert [type(each) for each in errors] == [circlet.CancelledError] * 2
    assert model.run([1])


@here
def test_threads_have_memory_of_their_own(collatz: CompiledModel) -> None:
    session = circlet.Session(COLLATZ, "cpu")
    numbers = range(1, 60)
    expected = [session.run([each]) for each in numbers]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(lambda each: collatz.run([each]), numbers)) == expected


@here
def test_runs_on_a_state_go_one_after_another(tmp_path: Path) -> None:
    add = opened(sums(), tmp_path).signature("add")
    inputs = {"x": f32([1, 1, 1, 1]), "at": i32([0])}
    with ThreadPoolExecutor(4) as pool:
        found = sorted(each["element"].item() for each in pool.map(lambda _: add(inputs), range(200)))
    assert found == list(range(2, 202))


@here
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_child_has_a_state_of_its_own(tmp_path: Path) -> None:
    model = opened(sums(), tmp_path)
    add = model.signature("add")
    inputs = {"x": f32([1, 1, 1, 1]), "at": i32([0])}
    add(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in processes with threads
        child = os.fork()
    if child == 0:
        found = 0
        try:
            found = int(add(inputs)["element"].item() + add(inputs)["element"].item())
        finally:
            os._exit(found)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3 + 4
    assert add(inputs)["element"] == 3


@here
def test_a_state_is_taken_back_in_a_child_of_a_fork_in_the_midst_of_a_run(tmp_path: Path) -> None:
    model = opened(sums(), tmp_path)
    state = model._state
    assert state is not None
    add, get = (each.writes for each in model._functions)
    assert (add, get) == (((0, 16),), ())
    model._before = state.copies(add)
    thread = Thread(target=model._lock.acquire)
    thread.start()
    thread.join()
    state.bytes[:16] = 0xFF
    model.after_fork()
    assert model.signature("get")()["total"].tolist() == [1, 2, 3, 4]


@here
def test_code_for_several_processors_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "collatz.circlet"
    content = container(circlet.load(COLLATZ), name="collatz")
    found = described(content)
    assert [each.target for each in found.variants] == list(TARGETS)
    has = machine.features()
    for number, each in enumerate(found.variants):
        assert set(each.features) >= set(found.variants[max(number - 1, 0)].features)
        if machine.lacks(each, has):
            continue
        path.write_bytes(only(content, number))
        model = load(path, fallback=False)
        assert isinstance(model, CompiledModel)
        assert (model.target, int(model.run([27])["steps"])) == (each.target, 111)


@here
def test_the_best_code_is_taken_that_a_machine_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    content = container(circlet.load(COLLATZ), name="collatz")
    found = described(content)
    for number, each in enumerate(found.variants):
        monkeypatch.setattr(machine, "features", partial(frozenset, each.features))
        assert machine.best(found.variants) is found.variants[number]
    monkeypatch.setattr(machine, "features", lambda: frozenset({"sse2"}))
    assert machine.best(found.variants) is None


@pytest.mark.parametrize("field", [{"machine": "pdp11"}, {"system": "plan9"}, {"features": ["avx1024"]}])
def test_where_no_code_fits_the_model_inside_is_computed(tmp_path: Path, field: dict[str, object]) -> None:
    path = tmp_path / "collatz.circlet"
    content = container(circlet.load(COLLATZ), ("x86-64",))
    path.write_bytes(changed(content, lambda table: table["variants"][0].update(field), is_honest=True))
    wanted = "pdp11, linux|x86_64, plan9|avx1024|x86_64, linux"
    with pytest.warns(RuntimeWarning, match=rf"no code in it runs on this machine \(x86-64: ({wanted})\)"):
        model = load(path, circlet.Limits(max_iterations=111))
    assert isinstance(model, circlet.Session)
    assert model.run([27])["steps"] == 111
    assert model.limits.max_iterations == 111
    with pytest.raises(circlet.UnsupportedError, match="no code in it runs on this machine"):
        load(path, fallback=False)


@here
def test_a_machine_without_files_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert opened(circlet.load(COLLATZ), tmp_path).run([27])["steps"] == 111


@here
def test_the_file_may_go_once_it_is_loaded(tmp_path: Path) -> None:
    model = opened(circlet.load(COLLATZ), tmp_path)
    (tmp_path / "model.circlet").write_bytes(b"")
    assert model.run([27])["steps"] == 111


def test_the_model_inside_is_the_one_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "collatz.circlet"
    path.write_bytes(container(circlet.load(COLLATZ), ("x86-64",)))
    again = tmp_path / "again.circlet"
    again.write_bytes(container(circlet.load(path), ("x86-64",)))
    for each in (path, again):
        content = memoryview(each.read_bytes())
        part = described(content).model
        assert content[part.offset:part.offset + part.size] == COLLATZ.read_bytes()
        assert circlet.load(each, mmap=True).format == "tflite"
        assert circlet.Session(each).run([27])["steps"] == 111


def test_models_that_no_file_was_read_for_are_converted(tmp_path: Path) -> None:
    path = tmp_path / "sums.circlet"
    path.write_bytes(container(sums(), ("x86-64",)))
    assert [each.key for each in circlet.load(path).signatures] == ["add", "get"]


def test_processors_without_code_for_a_model_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = circlet.load(COLLATZ)

    def made(model: Model, target: Processor, name: str, signature: str | None, shapes: Mapping[str, Dims] | None,
             is_small: bool, limits: bool, capacity: int | None) -> Compiled:
        if target.name == TARGETS[0]:
            raise circlet.UnsupportedError("no instructions")
        return compile_model(model, target, name, signature, shapes, is_small, limits, capacity)

    monkeypatch.setattr(making, "compile_model", made)
    assert [each.target for each in described(container(model)).variants] == list(TARGETS[1:])
    with pytest.raises(circlet.UnsupportedError, match="no instructions"):
        container(model, (TARGETS[1], TARGETS[0]))


def test_targets_that_cannot_tell_what_they_fit() -> None:
    with pytest.raises(circlet.InputError, match="must say which machines they fit"):
        container(circlet.load(COLLATZ), ("x86_64-unknown-linux-gnu",))
    with pytest.raises(circlet.UnsupportedError, match="no shared object for aarch64"):
        container(circlet.load(COLLATZ), ("aarch64",))


@here
def test_listeners_are_refused(collatz: CompiledModel) -> None:
    with pytest.raises(circlet.UnsupportedError, match="tells listeners nothing"):
        collatz.signature().run([27], circlet.Counter())


PROGRAM = """
import sys
sys.modules['llvmlite'] = None
import numpy
import circlet.compiled
print(int(circlet.compiled.load(sys.argv[1], fallback=False).run([27])['steps']))
"""


@here
def test_llvm_is_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "collatz.circlet"
    path.write_bytes(container(circlet.load(COLLATZ), ("host",)))
    found = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
    assert found.stdout == "111\n"


@here
def test_without_a_state_there_is_nothing_to_reset(tmp_path: Path) -> None:
    path = tmp_path / "model.circlet"
    path.write_bytes(container(circlet.load(COLLATZ), ("host",), limits=False))
    with load(path, fallback=False) as model:
        model.reset_state()
        assert model.run([27])["steps"] == 111
