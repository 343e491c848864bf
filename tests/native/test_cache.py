"""The cache of compiled functions: a second session compiles nothing, and what is damaged is made anew."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.load import cache, fingerprint, store
from circlet.backends.platform import Feature, current
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather
from tests.exec import graphs as g
from tests.exec.graphs import Array, f32, i32
from tests.native.conftest import functions

TABLE = np.arange(400, dtype=np.float32)
KEYS = tuple(f"{number:064x}" for number in range(5))


def lookup(table: Array = TABLE, added: float = 1) -> Model:
    """table[x] + added"""
    b = ModelBuilder()
    main = b.subgraph("main")
    found = main.apply(Gather(), main.constant(table), main.input("x", DType.INT32, (3,)))
    main.output(main.apply(Add(), found, main.constant(f32(added))))
    return b.build()


def content(key: str) -> bytes | None:
    """What an entry holds."""
    file = cache.find(key)
    if file is None:
        return None
    with file:
        return file.read()


def results(model: Model) -> Array:
    session = circlet.Session(model, backend="native")
    (first,) = g.run(session, [i32([0, 7, 399])])
    with pytest.raises(circlet.ExecutionError, match="400"):
        g.run(session, [i32([0, 7, 400])])
    return first


def test_a_second_session_compiles_nothing(folder: Path, compiled: list[str]) -> None:
    for _ in range(3):
        assert results(lookup()).tolist() == [1, 8, 400]
    assert compiled == ["function"]
    assert len(functions(folder)) == 1


def test_what_the_package_holds_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def content(package: Path, parts: Sequence[str]) -> bytes:
        read.append(bytes([len(read)]) * 32)
        return read[-1]

    monkeypatch.setattr(fingerprint, "content", content)
    first = fingerprint._kept_content()
    assert fingerprint._kept_content() == first == read[0]
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert fingerprint._kept_content() == fingerprint._kept_content() == read[1]
    monkeypatch.setattr(fingerprint, "installation", lambda: bytes(32))
    assert fingerprint._kept_content() == read[2]
    monkeypatch.setenv(cache.VARIABLE, "")
    assert [fingerprint._kept_content() for _ in range(2)] == read[3:]


def test_threads_share_what_a_session_compiled(folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(lookup(), backend="native")
    frames = [session._frame((0, ((3,),), "none"), Run(session._variables)) for _ in range(3)]
    assert [frame.call([i32([k, 1, 2])])[0].tolist() for k, frame in enumerate(frames)] == [
        [1, 2, 3], [2, 2, 3], [3, 2, 3]]
    assert compiled == ["function"]


@pytest.mark.parametrize(("other", "expected"), [
    (lookup(added=2), [2, 9, 401]),
    (lookup(TABLE[::-1].copy()), [400, 393, 1]),
], ids=["scalar", "table"])
def test_another_constant_is_another_function(folder: Path, other: Model, expected: list[float]) -> None:
    results(lookup())
    assert results(other).tolist() == expected
    assert len(functions(folder)) == 2


@pytest.mark.parametrize("damage", [
    lambda content: content[:-1], lambda content: b"", lambda content: content + b"x",
    lambda content: b"x" + content[1:], lambda content: content[:-92] + b"x" + content[-91:],
    lambda content: content[:90] + bytes([content[90] ^ 1]) + content[91:],
    lambda content: content[:-1] + bytes([content[-1] ^ 1]),
], ids=["shorter", "empty", "longer", "start", "mark", "code", "end"])
def test_a_damaged_entry_is_made_anew(folder: Path, compiled: list[str], damage: Callable[[bytes], bytes]) -> None:
    results(lookup())
    (entry,) = functions(folder)
    content = entry.read_bytes()
    entry.unlink()
    entry.write_bytes(damage(content))
    for _ in range(2):
        assert results(lookup()).tolist() == [1, 8, 400]
    assert compiled == ["function"] * 2


def test_the_folder_stays_within_its_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only entries are counted and deleted."""
    folder.mkdir(0o700)
    (folder / "notes").write_bytes(bytes(5000))
    (folder / f"{KEYS[0]}.bak").write_bytes(bytes(5000))
    monkeypatch.setattr(cache, "LARGEST", 3000)
    monkeypatch.setattr(cache, "LOOK", 1)
    for number, key in enumerate(KEYS):
        assert cache.write(key, [bytes(500), bytes(500)])
        os.utime(folder / key, (number, number))
    os.utime(folder / "notes", (0, 0))
    assert [each.key for each in cache.entries()] == list(KEYS[2:])
    assert {each.name for each in folder.iterdir()} == {"notes", f"{KEYS[0]}.bak", *KEYS[2:]}
    assert content(KEYS[4]) == bytes(1000)


def test_the_folder_is_measured_once_in_so_many_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    monkeypatch.setattr(cache, "LOOK", 20_000)
    monkeypatch.setattr(cache, "_trim", looks.append)
    keys = [sha256(str(number).encode()).hexdigest() for number in range(200)]
    for key in keys:
        cache.write(key, [bytes(1000)])
    assert 5 <= len(looks) <= 20  # of 200 kB; the keys decide
    looks.clear()
    cache.write(keys[0], [np.zeros(10_000, np.int16).data])
    assert len(looks) == 1


def test_what_is_used_stays_longest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LOOK", 1)
    for number, key in enumerate(KEYS):
        cache.write(key, [bytes(1000)])
        os.utime(folder / key, (number, number))
    content(KEYS[0])
    monkeypatch.setattr(cache, "LARGEST", 2000)
    cache.write(KEYS[1], [bytes(1000)])
    assert {each.key for each in cache.entries()} == {KEYS[0], KEYS[1]}


def test_uses_are_noted_once_in_a_while(folder: Path) -> None:
    cache.write(KEYS[0], [b"x"])
    now = time.time()
    noted = []
    for age in (0, cache.LATELY // 2, 2 * cache.LATELY, -2 * cache.LATELY):
        os.utime(folder / KEYS[0], (now - age, now - age))
        before = (folder / KEYS[0]).stat().st_mtime
        content(KEYS[0])
        noted.append((folder / KEYS[0]).stat().st_mtime != before)
    assert noted == [False, False, True, True]


def test_what_was_begun_long_ago_is_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LOOK", 1)
    folder.mkdir(0o700)
    old, new, other = (folder / f".{KEYS[0]}.{digit * 16}" for digit in "abz")
    for each in (old, new, other):
        each.write_bytes(b"")
    for each in (old, other):
        os.utime(each, (0, 0))
    cache.write(KEYS[1], [b"x"])
    assert {each.name for each in folder.iterdir()} == {new.name, other.name, KEYS[1]}


def test_clear_deletes_entries_alone(folder: Path) -> None:
    assert (cache.entries(), cache.clear()) == ([], [])
    for key in KEYS[:2]:
        cache.write(key, [b"12345"])
    (folder / "notes").write_text("")
    assert [(each.key, each.size) for each in cache.entries()] == [(KEYS[0], 5), (KEYS[1], 5)]
    assert len(cache.clear()) == 2
    assert [each.name for each in folder.iterdir()] == ["notes"]
    assert cache.entries() == []


def test_an_empty_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch, compiled: list[str]) -> None:
    monkeypatch.setenv(cache.VARIABLE, "")
    results(lookup())
    results(lookup())
    assert compiled == ["function"] * 2


@pytest.mark.skipif(not current().has(Feature.SHARED_OBJECTS), reason="the system loads no code that is made here")
def test_code_that_is_kept_nowhere_is_loaded_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's linker ends the process where code and constants come to lie far apart."""
    monkeypatch.setenv(cache.VARIABLE, "")
    monkeypatch.setattr(store, "_linked", lambda *arguments: pytest.fail("LLVM is asked to link"))
    assert results(lookup()).tolist() == [1, 8, 400]


@pytest.mark.skipif(not current().has(Feature.SHARED_OBJECTS), reason="the system loads no code that is made here")
def test_what_others_kept_as_object_files_is_loaded_by_the_system(folder: Path, compiled: list[str],
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is told to do without shared objects leaves object files under the same name."""
    sharable = store._sharable
    monkeypatch.setattr(store, "_sharable", lambda artifact: artifact)
    assert results(lookup()).tolist() == [1, 8, 400]
    monkeypatch.setattr(store, "_sharable", sharable)
    (file,) = functions(folder)
    before = file.read_bytes()
    monkeypatch.setattr(store, "_linked", lambda *arguments: pytest.fail("LLVM is asked to link"))
    assert results(lookup()).tolist() == [1, 8, 400]
    assert compiled == ["function"]
    assert file.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "functions"))
    assert results(lookup()).tolist() == [1, 8, 400]
