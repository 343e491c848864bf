"""Native code stops when it is told to, wherever it is: in loops, in long operators, while it is compiled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

import circlet
from circlet.backends.native.abi import control_of
from circlet.backends.native.backend import NativeBackend
from circlet.backends.native.compilation import Abandoned, Compilation, Making, Wish
from circlet.backends.native.lower import span
from circlet.runtime.exec.watch import UNBOUNDED, Watch
from circlet.runtime.ir.types import Array
from tests.exec.test_limits import SLACK, repeated
from tests.native.long_models import LONG, loop

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:native code runs in one thread")


@pytest.fixture(autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test compiled, the others find."""
    folder = tmp_path_factory.getbasetemp() / "functions"
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(folder))


def session_of(name: str, threads: int, **limits: float) -> tuple[circlet.Session, list[Array]]:
    model, inputs = LONG[name]()
    bounds = circlet.Limits(**limits)  # type: ignore[arg-type]
    return circlet.Session(model, backend="native", num_threads=threads, limits=bounds), inputs


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_cancel_from_another_thread(name: str, threads: int) -> None:
    session, inputs = session_of(name, threads)
    for delay in (0.1, 0.02):
        start = time.monotonic()
        with repeated(session.cancel, delay), pytest.raises(circlet.CancelledError, match="cancelled"):
            session.run(inputs)
        assert time.monotonic() - start < SLACK


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_deadline(name: str, threads: int) -> None:
    session, inputs = session_of(name, threads, deadline=0.05)
    for _ in range(2):
        start = time.monotonic()
        with pytest.raises(circlet.LimitError, match=r"deadline of 0.05 s"):
            session.run(inputs)
        assert 0.05 <= time.monotonic() - start < SLACK


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
@pytest.mark.parametrize("name", LONG)
def test_signal_handlers_run_meanwhile(name: str) -> None:
    session, inputs = session_of(name, 1)
    before = signal.signal(signal.SIGUSR1, lambda *_: session.cancel())
    try:
        with repeated(partial(os.kill, os.getpid(), signal.SIGUSR1), 0.3), pytest.raises(circlet.CancelledError):
            session.run(inputs)
    finally:
        signal.signal(signal.SIGUSR1, before)


def _heeds_interrupts() -> None:
    """Undoes what a shell does to the programs that it runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(*arguments: str) -> tuple[str, str, int]:
    """What Python writes after the line `running`, and ends with, if it gets Ctrl-C a second later."""
    with subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, preexec_fn=_heeds_interrupts) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SLACK)
    return out, err, process.returncode


@pytest.mark.slow
@pytest.mark.parametrize(("name", "threads"), [("loop", 1), ("nest", 1), ("products", 1), ("recurrence", 2)])
def test_interrupt(name: str, threads: int) -> None:
    assert interrupted("-m", "tests.native.long_models", name, str(threads)) == ("interrupted\n", "", 0)


PROGRAM = "import sys; from circlet.tools.main import main; print('running', flush=True); sys.exit(main())"


def test_interrupt_ends_the_program_with_130(tmp_path: Path) -> None:
    model, _ = loop()
    circlet.save(model, tmp_path / "loop.tflite")
    file = str(tmp_path / "loop.tflite")
    assert interrupted("-c", PROGRAM, "run", file, "-i", "x=1", "--backend", "native") == ("", "", 130)


def test_the_interpreter_stops(tmp_path: Path) -> None:
    model, inputs = loop()
    circlet.save(model, tmp_path / "loop.tflite")
    content = (tmp_path / "loop.tflite").read_bytes()
    interpreter = circlet.Interpreter(model_content=content, limits=circlet.Limits(deadline=0.5))
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    interpreter.set_tensor(given["index"], inputs[0])
    with pytest.raises(RuntimeError, match="deadline"):
        interpreter.invoke()
    interpreter = circlet.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], inputs[0])
    with repeated(interpreter.cancel, 0.1), pytest.raises(RuntimeError, match="cancelled"):
        interpreter.invoke()
    interpreter.set_tensor(given["index"], np.array(-4, np.int32))
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]) == -4


class Stuck:
    """Takes the place of a function of LLVM's, and lasts until it is told to go on."""

    def __init__(self, done: Callable[..., object]) -> None:
        self.begun, self.go_on = Event(), Event()
        self._done = done

    def __call__(self, *arguments: object) -> object:
        self.begun.set()
        assert self.go_on.wait(SLACK)
        return self._done(*arguments)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Stuck:
    """Compiling takes as long as a test wants."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    found = Stuck(span.lower_span)
    monkeypatch.setattr(span, "lower_span", found)
    return found


def test_cancel_while_it_is_compiled(stuck: Stuck) -> None:
    session, inputs = session_of("loop", 1)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            session.run(inputs)
        except circlet.CancelledError as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    assert stuck.begun.wait(SLACK)
    session.cancel()
    thread.join(SLACK)
    stuck.go_on.set()
    assert len(errors) == 1


def test_a_deadline_ends_compiling_for_this_run_alone(stuck: Stuck) -> None:
    model, _ = loop()
    session = circlet.Session(model, backend="native", limits=circlet.Limits(deadline=0.1))
    for _ in range(2):
        with pytest.raises(circlet.LimitError, match="deadline"):
            session.run([np.array(-1, np.int32)])
    stuck.go_on.set()
    native = next(each for each in session._executors.span_backends if isinstance(each, NativeBackend))
    (work,) = native._under_way.values()
    work.result(lambda: None)
    session.limits = circlet.Limits()
    assert session.run([np.array(-1, np.int32)])["y"] == -1


def _all(make: Callable[[int], int], items: Iterable[int], threads: int, wish: Wish | None = None) -> list[int]:
    with Making(make, wish or Wish(), threads) as some:
        for each in items:
            some.ask(each)
        return some.results()


def test_what_nobody_wants_is_not_made() -> None:
    wish, made = Wish(), []

    def make(item: int) -> int:
        made.append(item)
        if item == 2:
            wish.withdraw()
        return item

    with pytest.raises(Abandoned):
        _all(make, range(10), 1, wish)
    assert made == [0, 1, 2]


@pytest.mark.parametrize("threads", [1, 3])
def test_several_threads_make_each_once(threads: int) -> None:
    assert _all(lambda item: item * item, range(20), threads) == [k * k for k in range(20)]
    with pytest.raises(ZeroDivisionError):
        _all(lambda item: 1 // item, [1, 0, 1], threads)


def test_a_helper_makes_what_is_asked_for_while_others_are() -> None:
    made = Event()

    def make(item: int) -> int:
        made.set()
        return item

    with Making(make, Wish(), 2) as some:
        some.ask(3)
        assert made.wait(10)
        some.ask(5)
        assert some.results() == [3, 5]


def test_what_fails_while_it_is_asked_for_ends_the_helpers() -> None:
    def fail() -> None:
        with some:
            some.ask(0)
            raise ZeroDivisionError

    some: Making[int, str] = Making(str, Wish(), 3)
    with pytest.raises(ZeroDivisionError):
        fail()
    assert not any(each.is_alive() for each in some._helpers)


def test_without_threads_it_is_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    assert Compilation(lambda wish: _all(lambda item: item + 1, [1, 2], 2, wish)).result(lambda: None) == [2, 3]


def test_a_run_with_a_deadline_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = session_of("loop", 1, deadline=100.0)
    session.run([np.array(-1, np.int32)])
    monkeypatch.setattr(Thread, "start", lambda self: pytest.fail("a thread was started"))
    assert session.run([np.array(-1, np.int32)])["y"] == -1


def test_the_words_that_code_and_python_share_fit() -> None:
    watch = Watch()
    control = control_of(watch)
    watch.start(circlet.Limits(deadline=1e300, max_iterations=1 << 70))
    assert control_of(watch) is control
    assert control.iterations == control.deadline == UNBOUNDED
