"""The examples in docs/network.md and README.md do what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(file: str, language: str) -> list[str]:
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_examples() -> None:
    text = "\n".join(blocks("docs/network.md", "pycon"))
    examples = doctest.DocTestParser().get_doctest(text, {}, "docs/network.md", None, None)
    report: list[str] = []
    result = doctest.DocTestRunner().run(examples, out=report.append)
    assert (result.failed, "".join(report)) == (0, "")
    assert result.attempted > 20


def test_a_network_in_the_introduction(tmp_path: Path) -> None:
    (code,) = (block for block in blocks("README.md", "python") if "circlet.Network" in block)
    file = tmp_path / "gated.tflite"
    code = code.replace('"gated.tflite"', repr(str(file)))
    exec(code, {"np": __import__("numpy"), "circlet": __import__("circlet")})
    assert file.exists()
