"""No changed model crashes or hangs the process: it runs, or ends with one of circlet's errors, within a second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import mutations

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 30.0
CHECKED = {"CIRCLET_CHECK_BOUNDS": "1", "CIRCLET_CACHE_DIR": ""}
"""Native code that reaches beyond a buffer ends with an error that is not circlet's."""
SMALL = ("collatz", "nested_while", "cond_shapes", "counter", "gather_chase", "list_update")
"""These compile quickly."""
CHOSEN = ("collatz", "nested_while", "list_update", "map_rows_dynamic", "cond_shapes", "cached_attention", "cnn_int8",
          "counter", "hash_table", "lstm_fused_int8", "indexing", "layout")


def check(foreign: list[str], slowest: float) -> None:
    assert not foreign, "\n".join(foreign)
    assert slowest < SECONDS


@pytest.mark.parametrize("kind", mutations.KINDS)
@pytest.mark.parametrize("name", CHOSEN)
def test_mutations(name: str, kind: str) -> None:
    report = mutations.campaign((kind, name, seed) for seed in range(100))
    check(report.foreign, report.slowest)
    assert len(report.outcomes) > 1, "mutations are to meet errors and to come through"


@pytest.mark.parametrize("kind", mutations.KINDS)
def test_mutations_loaded_for_native_code(kind: str) -> None:
    cases = ((kind, name, 30_000 + seed) for name in mutations.names() for seed in range(10))
    report = mutations.campaign(cases, "native", mutations.load)
    check(report.foreign, report.slowest)
    assert report.outcomes["worked"] > len(mutations.names())


@pytest.mark.slow
@pytest.mark.parametrize("kind", mutations.KINDS)
def test_many_mutations_loaded_for_native_code(kind: str) -> None:
    cases = ((kind, name, 40_000 + seed) for name in mutations.names() for seed in range(150))
    report = mutations.campaign(cases, "native", mutations.load)
    check(report.foreign, report.slowest)


def in_process_of_its_own(seed: int, count: int, backend: str = "cpu", *chosen: str) -> dict[str, Any]:
    """The report on mutations of the chosen models, or of all; a crash or a hang shows where it was."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.mutations", str(seed), str(count), backend, *chosen]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **CHECKED}, capture_output=True, text=True,
                          check=False, timeout=900)
    assert done.returncode == 0, f"ended with {done.returncode} at {done.stderr[-4000:]}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_all_models_in_a_process_of_their_own() -> None:
    report = in_process_of_its_own(seed=1, count=4)
    check(report["foreign"], report["slowest"])


def test_small_models_as_native_code() -> None:
    report = in_process_of_its_own(7, 4, "native", *SMALL)
    assert not report["foreign"], "\n".join(report["foreign"])
    assert report["outcomes"]["worked"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 14))
def test_many_mutations_as_native_code(seed: int) -> None:
    report = in_process_of_its_own(seed, 3, "native")
    assert not report["foreign"], "\n".join(report["foreign"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 5))
def test_many_mutations(seed: int) -> None:
    report = in_process_of_its_own(seed, count=40)
    assert not report["foreign"], "\n".join(report["foreign"])
