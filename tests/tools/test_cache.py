"""`circlet cache`."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlet
from tests.tools.conftest import Program

COLLATZ = "examples/collatz.tflite"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "functions"))
    return tmp_path / "functions"


def test_info_and_clear(program: Program, folder: Path) -> None:
    assert program.text("cache", "info") == f"{folder}: 0 entries, 0 bytes of at most 1,073,741,824\n"
    circlet.Session(circlet.load(COLLATZ), "native").run({"n": 3})
    entries = list(folder.iterdir())
    whole = [each for each in entries if not each.suffix]
    assert len(whole) == 2, "a function and the plan of its model; others are what functions are made of"
    size = sum(each.stat().st_size for each in entries)
    assert program.json("cache", "info") == {"folder": str(folder), "entries": len(entries), "bytes": size,
                                             "largest_bytes": 1 << 30}
    assert program.text("cache", "clear") == f"{folder}: deleted {len(entries)} entries, {size:,} bytes\n"
    assert program.json("cache", "clear") == {"folder": str(folder), "entries": 0, "bytes": 0}
    assert not list(folder.iterdir())


def test_what_is_no_entry_is_let_be(program: Program, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / ("a" * 64)).mkdir()
    (folder / ("b" * 64)).symlink_to(folder / "notes.txt")
    assert program.json("cache", "info")["entries"] == 0
    assert program.json("cache", "clear")["entries"] == 0
    assert len(list(folder.iterdir())) == 3


def test_no_cache(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    for command in ("info", "clear"):
        assert program.text("cache", command) == "nothing is kept: CIRCLET_CACHE_DIR is empty\n"
        assert program.json("cache", command)["folder"] is None
