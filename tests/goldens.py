"""Writes the text of each model that the tests import, to compare one state of the sources with another.

    python -m tests.goldens FOLDER [arguments of pytest]
    diff -r FOLDER OTHER

Of each test there is a file with all models that it loads or builds, and with the errors of those that are refused;
of each node case of the package `onnx`, and of each model file in the tree or in `../shared/models`, too.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import circlet
from circlet.runtime.errors import CircletError
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.text import to_text
from circlet.schema.files import load_model
from tests.schema.onnx.node_cases import all_cases

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "examples", ROOT / "tests", ROOT.parent / "shared" / "models")
IMPORTED = ("*.onnx", "*.xml")
TESTS = ("tests/schema/onnx", "tests/schema/openvino", "tests/passes/test_propagate_layout.py", "tests/network",
         "tests/test_dialects.py", "tests/test_conversion.py")
PLACE = re.compile(r"(?<![\w.])/[^ :']*/")
"""Folders in messages, which are others in each run."""


class Recorder:
    """A plugin of pytest that keeps the text of the models of each test."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self._test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Notes the models of one test."""
        self._test = item.nodeid
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr("circlet.load_model", self._noted(load_model))
            monkeypatch.setattr(circlet.Network, "build", self._noted(circlet.Network.build))
            return (yield)

    def _noted(self, make: Callable[..., Model]) -> Callable[..., Model]:
        def made(*args: Any, **options: Any) -> Model:
            notes = self.texts.setdefault(self._test, [])
            try:
                model = make(*args, **options)
            except CircletError as error:
                notes.append(_refusal(error))
                raise
            notes.append(to_text(model))
            return model

        return made


def text_of(source: Any) -> str:
    """The text of the model that a source holds, or the error."""
    try:
        return to_text(circlet.load(source))
    except CircletError as error:
        return _refusal(error)


def _refusal(error: CircletError) -> str:
    return f"{type(error).__name__}: {PLACE.sub('', str(error))}\n"


def files() -> Iterator[Path]:
    """The model files that are imported."""
    for folder in FOLDERS:
        for pattern in IMPORTED:
            yield from sorted(folder.rglob(pattern))


def main(folder: Path, arguments: list[str]) -> int:
    """Writes all texts; gives the exit code of pytest."""
    recorder = Recorder()
    options = ["-q", "-n", "0", "-m", "not slow", "--hypothesis-seed=0"]
    code = pytest.main([*options, *(arguments or TESTS)], plugins=[recorder])
    texts = {name: "\n".join(each) for name, each in recorder.texts.items()}
    texts |= {f"node/{case.name}": text_of(case.model) for case in all_cases()}
    texts |= {f"file/{path.parent.name}/{path.name}": text_of(path) for path in files()}
    for name, text in texts.items():
        target = folder / f"{re.sub(r'[^A-Za-z0-9_./-]', '_', name)[:200]}.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(hashlib.sha256(text.encode()).hexdigest()[:12], name)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
