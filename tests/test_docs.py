"""What the documents say of the tree holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PATH = re.compile(r"`((?:backends|benchmarks|circlet|docs|examples|runtime|schema|tests|tools)/[\w./-]+)`")
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def _broken(document: Path) -> Iterator[str]:
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    yield from (each for each in PATH.findall(text) if not (ROOT / each).exists())
    yield from (each for each in LINK.findall(text) if not (document.parent / each).exists())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_files_that_documents_name_exist(document: Path) -> None:
    assert not [*_broken(document)]
