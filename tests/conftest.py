"""What all tests share: the backend, and comparison with golden text."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from circlet.backends.platform import Feature, current
from circlet.runtime.errors import UnsupportedError


def pytest_configure() -> None:
    """Tests that do not choose a backend run on numpy, unless the environment says otherwise; see `make native`."""
    os.environ.setdefault("CIRCLET_BACKEND", "cpu")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skips what asks for native code where the platform cannot compile."""
    try:
        return (yield)
    except UnsupportedError as error:
        if current().has(Feature.LLVM) or "needs LLVM" not in str(error):
            raise
        pytest.skip(str(error))


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
