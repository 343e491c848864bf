"""Every row of docs/dialects.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.needs import ONNX, OPENVINO

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^\[([\w-]+)\]: \.\./(tests/\S+\.py)$", TEXT, re.MULTILINE))
LINK = re.compile(r"\[`(test_\w+(?:\[[^`]*\])?)`\]\[([\w-]+)\]")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.endswith("| shown by |")]


class Collector:
    """Keeps the ids of what a session of pytest collects."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.found += [each.nodeid for each in items]


def collected() -> set[str]:
    """The ids of all tests in the files, with those of their parameters, and each with fewer of these."""
    collector = Collector()
    options = ["--collect-only", "--override-ini=addopts=--import-mode=importlib",
               "-Wignore::pytest.PytestConfigWarning",
               *(f"-pno:{name}" for name in (
                   "terminal", "faulthandler", "xdist", "cacheprovider", "unraisableexception"))]
    code = pytest.main([*options, *(str(ROOT / each) for each in FILES.values())], [collector])
    assert code in {0, 5}
    ids = set(collector.found)
    for each in collector.found:
        name, _, parameters = each.partition("[")
        parts = parameters.removesuffix("]").split("-")
        ids |= {name, *(f"{name}[{'-'.join(parts[:k])}]" for k in range(1, len(parts)))}
    return ids


@ONNX
@OPENVINO
def test_tests_exist() -> None:
    known = collected()
    links = [f"{FILES[file]}::{name}" for name, file in LINK.findall(TEXT)]
    assert len(links) > 200
    assert [each for each in links if each not in known] == []


def test_every_row_names_a_test() -> None:
    assert len(ROWS) > 100
    assert [row for row in ROWS if not LINK.search(row.rpartition(" | ")[2])] == []


def test_every_file_is_named() -> None:
    assert {file for _, file in LINK.findall(TEXT)} == set(FILES)
    assert all((ROOT / file).exists() for file in FILES.values())
