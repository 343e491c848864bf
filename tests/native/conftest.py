"""Compiling takes time: what is compiled a great deal runs behind the `slow` marker."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from circlet.backends.platform import Feature, current

QUICK = {"test_bounds.py", "test_cache.py", "test_cache_trust.py", "test_counts.py", "test_elementwise.py",
         "test_index.py", "test_interpreter_plans.py", "test_limits.py", "test_manifest.py", "test_models.py",
         "test_pieces.py", "test_plans.py", "test_plans_enclosed.py", "test_progress.py", "test_refusals.py",
         "test_special_values.py", "test_stops.py", "test_threads.py", "test_uncopied.py", "test_visible.py"}
"""The files that run by default."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {str(each) for each in Path(__file__).parent.glob("test_*.py") if each.name not in QUICK}
    for item in items:
        if str(item.path) in slow:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where functions are kept in this test."""
    from circlet.backends.native.load import cache

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "functions"))
    return tmp_path / "functions"


def functions(folder: Path) -> list[Path]:
    """The files of functions and plans in a folder, without what these are made of."""
    return [each for each in folder.iterdir() if each.is_file() and not each.suffix]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one with each function that is compiled."""
    from circlet.backends.native.lower import span

    made: list[str] = []
    lower = span.lower_span

    def counted(*arguments: object) -> object:
        made.append("function")
        return lower(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(span, "lower_span", counted)
    return made


class _Skipped(pytest.Module):
    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        pytest.skip(f"no native code: {current().lacks[Feature.LLVM]}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Where the platform cannot compile, the folder's files are skipped, unread."""
    return None if current().has(Feature.LLVM) else _Skipped.from_parent(parent, path=module_path)
