"""What the system may lack, and that circlet runs without it: each feature is turned off here in turn."""

from __future__ import annotations

import platform as python_platform
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import circlet
from circlet import session
from circlet.backends import platform
from circlet.backends.platform import VARIABLE, Feature
from tests.exec import graphs as g
from tests.exec.graphs import i32
from tests.needs import NATIVE

ROOT = Path(__file__).parents[1]
EVERYWHERE = {Feature.LLVM, Feature.SHARED_OBJECTS, Feature.THREADS}


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has said nothing yet, and in which no variable speaks."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(session.VARIABLE)
    session._warn_once.cache_clear()
    yield
    session._warn_once.cache_clear()


def model() -> circlet.Model:
    return g.while_model(g.at_most(3), lambda s, v: [g.plus(s, v[0])], [i32(0)])


def chosen(**arguments: object) -> str:
    made = circlet.Session(model(), **arguments)  # type: ignore[arg-type]
    g.assert_equal(g.run(made, [i32(1)]), [i32(4)])
    return made.backend_of(1)[0]


@pytest.mark.parametrize(("system", "machine", "bits", "has"), [
    ("linux", "x86_64", 64, EVERYWHERE),
    ("linux", "aarch64", 64, {Feature.LLVM, Feature.THREADS}),
    ("linux", "i686", 32, set()),
    ("linux", "x86_64", 32, set()),
    ("darwin", "arm64", 64, {Feature.LLVM}),
    ("win32", "AMD64", 64, set()),
])
def test_what_a_system_has(monkeypatch: pytest.MonkeyPatch, system: str, machine: str, bits: int,
                           has: set[Feature]) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(sys, "maxsize", (1 << bits - 1) - 1)
    monkeypatch.setattr(python_platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "find_spec", lambda name: name)
    found = platform.found.__wrapped__()
    assert {each for each in Feature if found.has(each)} == has
    assert all(found.lacks.values())


@pytest.mark.parametrize(("triple", "advice"), [
    ("x86_64-pc-linux-musl", "no wheels for musl"), ("x86_64-pc-linux-gnu", "pip install"), (None, "pip install"),
])
def test_without_llvmlite_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch, triple: str | None,
                                                advice: str) -> None:
    monkeypatch.setattr(platform, "find_spec", lambda name: None)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: triple)
    assert advice in platform.found.__wrapped__().lacks[Feature.LLVM]


def test_a_variable_turns_features_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " threads, shared-objects,")
    assert {Feature.THREADS, Feature.SHARED_OBJECTS} <= platform.current().lacks.keys()
    assert platform.current().has(Feature.LLVM) == platform.found().has(Feature.LLVM)
    monkeypatch.setenv(VARIABLE, "thread")
    with pytest.raises(ValueError, match="may name llvm, shared-objects, threads, found 'thread'"):
        chosen()


def test_without_llvm_it_is_numpy_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "llvm")
    with pytest.warns(UserWarning, match="computes with numpy, for want of LLVM: "):
        assert chosen() == "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen() == "cpu"
    with pytest.raises(circlet.UnsupportedError, match="native backend needs LLVM: "):
        chosen(backend="native")


@NATIVE
def test_without_threads_the_caller_does_the_work_and_it_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from circlet.backends.native.load.team import Teams

    monkeypatch.setenv(VARIABLE, "threads")
    assert Teams(4).participants == 1
    with pytest.warns(UserWarning, match=r"runs in one thread.*turns it off"):
        assert chosen(backend="native", num_threads=2) == "native"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen(backend="native", num_threads=2)
        chosen(backend="cpu", num_threads=2)


@NATIVE
def test_without_shared_objects_object_files_are_kept_and_linked(monkeypatch: pytest.MonkeyPatch,
                                                                 tmp_path: Path) -> None:
    from circlet.backends.native.load import cache
    from circlet.backends.native.load.library import is_shared
    from circlet.backends.native.lower import span

    compiled: list[object] = []
    lower = span.lower_span

    def counted(*given: object) -> object:
        compiled.append(given)
        return lower(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(span, "lower_span", counted)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))

    def kept() -> bool:
        """Whether a shared object is kept, once the model has run."""
        assert chosen(backend="native") == "native"
        (entry,) = (each for each in tmp_path.iterdir() if each.is_file() and each.suffix != ".o")
        return is_shared(entry.read_bytes())

    has_loader = platform.found().has(Feature.SHARED_OBJECTS)
    assert kept() == has_loader
    monkeypatch.setenv(VARIABLE, "shared-objects")
    assert not kept()
    assert not kept()
    assert len(compiled) == 1 + has_loader
    monkeypatch.delenv(VARIABLE)
    assert not kept(), "what is there is linked, not compiled again"
    assert len(compiled) == 1 + has_loader


@NATIVE
def test_other_private_names_of_llvmlite_cost_only_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from circlet.backends.native.compilation import Wish
    from circlet.backends.native.load import llvm as target
    from circlet.backends.native.lower.pieces import Piece

    text = "define float @f(float %x) {\n  %y = fmul float %x, %x\n  ret float %y\n}\n"
    piece = Piece(text)
    own = target.object_files([piece, piece], target.host(), Wish())

    class Renamed:
        lib = None

    unlocked = target._unlocked
    assert unlocked() is not None
    monkeypatch.setattr(f"{target.__name__}.llvm.ffi", Renamed)
    monkeypatch.setattr(target, "_unlocked", unlocked.__wrapped__)
    assert target._unlocked() is None
    assert target.object_files([piece, piece], target.host(), Wish()) == own


WITHOUT_LLVMLITE = """
import sys, warnings
sys.modules["llvmlite"] = None
import circlet
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    sessions = [circlet.Session(circlet.load("examples/collatz.tflite")) for _ in range(2)]
print([session.run({"n": 27})["steps"].item() for session in sessions], *(each.message for each in said), sep="; ")
"""


def test_circlet_runs_without_llvmlite() -> None:
    found = subprocess.run([sys.executable, "-c", WITHOUT_LLVMLITE], cwd=ROOT, capture_output=True, text=True,
                           check=False)
    assert found.stderr == ""
    steps, *said = found.stdout.strip().split("; ")
    assert steps == "[111, 111]"
    (warning,) = said
    assert "llvmlite is not installed" in warning
