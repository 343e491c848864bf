"""The examples in docs/cli.md and docs/debug.md print what these say."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.needs import NATIVE
from tests.tools.conftest import ROOT, Program

TEXT = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("cli.md", "debug.md"))
BLOCKS = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
EXAMPLES = [example for block in BLOCKS
            for example in re.findall(r"^\$ circlet (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]


@pytest.mark.parametrize(("command", "output"), [
    pytest.param(*example, id=example[0], marks=NATIVE if "--backend cpu" not in example[0] else ())
    for example in EXAMPLES
])
def test_example(program: Program, monkeypatch: pytest.MonkeyPatch, command: str, output: str) -> None:
    monkeypatch.delenv("CIRCLET_BACKEND", raising=False)
    _, out, err = program(*shlex.split(command))
    assert err + out == output


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5
