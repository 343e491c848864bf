"""Compiling takes time: what is compiled a great deal runs behind the `slow` marker."""

from __future__ import annotations

from pathlib import Path

import pytest

QUICK = {"test_bounds.py", "test_cache.py", "test_counts.py", "test_elementwise.py", "test_index.py",
         "test_limits.py", "test_models.py", "test_pieces.py", "test_progress.py", "test_stops.py", "test_threads.py"}
"""The files that run by default."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name not in QUICK:
            item.add_marker(pytest.mark.slow)
