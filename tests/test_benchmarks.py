"""The document of what benchmarks print."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import document
from benchmarks.measure import Result
from circlet.tools.measuring.agreement import Agreement
from circlet.tools.measuring.benched import Benched
from circlet.tools.measuring.sampling import Measured
from circlet.tools.measuring.work import Work

DOCUMENT = Path(__file__).parent.parent / "docs" / "performance.md"


def test_every_table_names_a_benchmark() -> None:
    found = [block.groups() for block in document._BLOCK.finditer(DOCUMENT.read_text(encoding="utf-8"))]
    assert len(found) == DOCUMENT.read_text(encoding="utf-8").count("<!--")
    for arguments, name in found:
        assert find_spec(f"benchmarks.{name}") is not None, arguments


def test_a_table_is_printed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "before\n<!-- python -m benchmarks.{} --help -->\n```\nold\n```\nbetween\n"
    made = document.filled(text.format("lengths") + text.format("open_code"), ["open_code"])
    first, second = made.split("before\n")[1:]
    assert "\nold\n" in first
    assert "usage: python -m benchmarks.open_code" in second
    assert second.endswith("```\nbetween\n")


@pytest.mark.parametrize(("differing", "agrees"), [
    (None, True), ("OpenVINO", True), ("LiteRT", False), ("circlet auto, copying", False)])
def test_a_peer_may_be_wrong_but_neither_circlet_nor_the_reference(differing: str | None, agrees: bool) -> None:
    """A table that tells of it does not keep `make bench` from the next ones."""
    found = [Measured(name, agreement=Agreement(name != differing, "equal" if name != differing else "y differs"))
             for name in ("circlet auto", "circlet auto, copying", "LiteRT", "OpenVINO")]
    assert Result("case", None, Benched(Work(Path("case.tflite"), {}, ["y"]), found)).agrees is agrees
