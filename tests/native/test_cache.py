"""The cache of object code: a second session compiles nothing, and what is damaged is made anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from circlet.backends.native import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "objects"))
    return tmp_path / "objects"


class Compiler:
    """Counts how often it is asked."""

    def __init__(self, code: bytes = b"code") -> None:
        self.calls = 0
        self._code = code

    def __call__(self) -> bytes:
        self.calls += 1
        return self._code


def test_the_same_text_is_compiled_once(folder: Path) -> None:
    compiler = Compiler()
    assert [cache.cached("text", "options", compiler) for _ in range(3)] == [b"code"] * 3
    assert compiler.calls == 1
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(("text", "options"), [("other", "options"), ("text", "other")])
def test_another_text_or_option_is_another_entry(folder: Path, text: str, options: str) -> None:
    cache.cached("text", "options", Compiler())
    compiler = Compiler(b"new")
    assert cache.cached(text, options, compiler) == b"new"
    assert compiler.calls == 1


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"", lambda content: content + b"x",
                                    lambda content: bytes([content[0] ^ 1]) + content[1:]])
def test_a_damaged_entry_is_made_anew(folder: Path, damage: object) -> None:
    cache.cached("text", "options", Compiler())
    (entry,) = folder.iterdir()
    assert callable(damage)
    entry.write_bytes(damage(entry.read_bytes()))
    compiler = Compiler()
    assert cache.cached("text", "options", compiler) == b"code"
    assert cache.cached("text", "options", compiler) == b"code"
    assert compiler.calls == 1


def test_the_folder_stays_within_its_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LARGEST", 3000)
    for number in range(5):
        cache.cached(f"text {number}", "", Compiler(bytes(1000)))
        for age, each in enumerate(sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime)):
            os.utime(each, (age, age))
    assert sum(each.stat().st_size for each in folder.iterdir()) <= 3000
    compiler = Compiler()
    cache.cached("text 4", "", compiler)
    assert compiler.calls == 0


def test_an_empty_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, "")
    compiler = Compiler()
    cache.cached("text", "", compiler)
    cache.cached("text", "", compiler)
    assert compiler.calls == 2


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "objects"))
    assert cache.cached("text", "", Compiler()) == b"code"
