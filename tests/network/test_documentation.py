"""The examples in docs/network.md and README.md do what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import circlet

ROOT = Path(__file__).parents[2]


def blocks(file: str, language: str) -> list[str]:
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks("docs/network.md", "pycon"))
    examples = doctest.DocTestParser().get_doctest(text, {}, "docs/network.md", None, None)
    report: list[str] = []
    result = doctest.DocTestRunner().run(examples, out=report.append)
    assert (result.failed, "".join(report)) == (0, "")
    assert result.attempted > 20
    assert (tmp_path / "sum_even.tflite").exists()


def test_a_network_in_the_introduction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = (block for block in blocks("README.md", "python") if "circlet.Network" in block)
    exec(code, {"np": np, "circlet": circlet})
    assert (tmp_path / "gated.tflite").exists()
