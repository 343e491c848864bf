"""What all tests share: the backend, and comparison with golden text."""

from __future__ import annotations

import difflib
import gc
import os
from collections.abc import Callable, Generator, Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from circlet.backends.platform import Feature, current
from circlet.runtime.errors import UnsupportedError
from circlet.runtime.late import age

PEERS = {"ai_edge_litert", "circle_schema", "llvmlite", "onnx", "openvino"}
"""Packages that tests compare circlet with, or that it runs without."""
SELDOM = 50
"""How often Python looks through young objects until it may look through old ones as well."""
SLOW_FIXTURE = 0.01
"""Seconds from which on the making of a test's fixtures is told of."""


def pytest_configure() -> None:
    """Tests that do not choose a backend run on numpy, unless the environment says otherwise; see `make native`.
    Properties are tried on the same examples each time, unless HYPOTHESIS_PROFILE is `default`."""
    os.environ.setdefault("CIRCLET_BACKEND", "cpu")
    settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests are collected without a search for cycles: there are none among tens of thousands of items, all of which
    are looked through less often from then on as well."""
    gc.disable()
    try:
        return (yield)
    finally:
        age()
        gc.set_threshold(*gc.get_threshold()[:2], SELDOM)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Of tests that pass, processes that run them tell the one that prints no more than that: five messages for each
    take as long as most tests. Fixtures that take time are told of as well, for `--durations`."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > SLOW_FIXTURE:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skips what asks for native code where the platform cannot compile, and for ONNX where its package is not."""
    try:
        return (yield)
    except UnsupportedError as error:
        lacks_llvm = not current().has(Feature.LLVM) and "needs LLVM" in str(error)
        if lacks_llvm or (find_spec("onnx") is None and "needs the package onnx" in str(error)):
            pytest.skip(str(error))
        raise


class Module(pytest.Module):
    """A file of tests, skipped if it needs a package that is not installed and that circlet runs without."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return [*super().collect()]
        except UnsupportedError as error:
            if current().has(Feature.LLVM):
                raise
            pytest.skip(str(error), allow_module_level=True)
        except self.CollectError as error:
            cause = error.__cause__
            name = (cause.name or "").partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
            if name in PEERS:
                pytest.skip(f"the package {name} is not installed", allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return Module.from_parent(parent, path=module_path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares text with `golden/NAME.txt` beside the test."""
    folder = request.path.parent / "golden"
    update = request.config.getoption("--update-golden")

    def compare(name: str, text: str) -> None:
        file = folder / f"{name}.txt"
        if update:
            folder.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        expected = file.read_text(encoding="utf-8") if file.exists() else ""
        if text != expected:
            pytest.fail(f"{_difference(expected, text, file)}\nIf the new text is right: pytest --update-golden")

    return compare


def _difference(expected: str, found: str, file: Path) -> str:
    return "\n".join(difflib.unified_diff(expected.splitlines(), found.splitlines(), str(file), "found", lineterm=""))
