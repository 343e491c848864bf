"""examples/network.py does what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "network.py"


def test_square_roots(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), "16", "-1", "2.25"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "roots: 4, 0, 1.5"
    invocations = {line.split()[1]: int(line.split()[-1]) for line in lines[4:]}
    assert invocations["each_body"] == 3
    assert invocations["positive_then"] == 2
    assert invocations["positive_else"] == 1
    assert lines[1] == f"steps: {invocations['newton_body']}"
