"""The document lists the layers that have rules."""

from __future__ import annotations

import re
from pathlib import Path

from circlet.schema.openvino import families as families
from circlet.schema.openvino.rules import RULES

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "openvino.md"
OLD_NAMES = {"PReLU", "ReLU", "SoftMax", "Xor", "Reverse"}
"""Names that only early files have."""


def test_the_document_lists_all_layers() -> None:
    rows = DOCUMENT.read_text(encoding="utf-8").partition("| family | layers |")[2].partition("\n\n")[0]
    listed = {name: numbers for row in rows.splitlines()[2:]
              for name, numbers in re.findall(r"([A-Za-z]\w*)(?: \(([\d, ]+)\))?", row.split("|")[2])}
    expected = {name: ", ".join(map(str, sorted(versions))) if len(versions) > 1 else ""
                for name, versions in RULES.items() if name not in OLD_NAMES}
    assert listed == expected
