"""What is in the folder of compiled functions is run: only what nobody else can have put there is."""

from __future__ import annotations

import os
import resource
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from circlet.backends.native.load import cache, fingerprint
from circlet.backends.native.load import folder as folders
from tests.native.conftest import functions
from tests.native.test_cache import KEYS, content, lookup, results

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the system has no owners of files")
STRANGER = 65534
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can change owners")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_the_folder_is_this_users_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the umask, and those above it that had to be made too."""
    inner = folder / "a" / "b"
    monkeypatch.setenv(cache.VARIABLE, str(inner))
    assert results(lookup()).tolist() == [1, 8, 400]
    (entry,) = functions(inner)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder / "a", inner, entry)] == [0o700] * 3 + [0o600]


def _chmod(mode: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(mode)


def _give_away(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def _link(path: Path) -> None:
    elsewhere = path.with_name(f"{path.name}-moved")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FOLDERS = [
    pytest.param(_chmod(0o770), "can be written to by others", id="group"),
    pytest.param(_chmod(0o1777), "can be written to by others", id="everyone"),
    pytest.param(_give_away, f"belongs to user {STRANGER}", id="owner", marks=as_root),
    pytest.param(_link, "is a link", id="link"),
]
ENTRIES = [
    pytest.param(_chmod(0o620), "can be written to by others", id="group"),
    pytest.param(_chmod(0o602), "can be written to by others", id="everyone"),
    pytest.param(_give_away, f"belongs to user {STRANGER}", id="owner", marks=as_root),
    pytest.param(_link, "is a link", id="link"),
    pytest.param(_pipe, "is no regular file", id="pipe"),
    pytest.param(_folder, "is no regular file", id="folder"),
    pytest.param(lambda path: os.truncate(path, cache.LARGEST + 1), "is larger than", id="huge"),
]


@pytest.mark.parametrize(("change", "reason"), FOLDERS)
def test_a_folder_that_others_can_write_to_is_not_used(folder: Path, compiled: list[str],
                                                       change: Callable[[Path], None], reason: str) -> None:
    results(lookup())
    change(folder)
    before = sorted(each.stat().st_mtime_ns for each in folder.iterdir())
    for use in (lambda: content(KEYS[0]), cache.entries, cache.clear, lambda: cache.write(KEYS[0], [b"x"])):
        with pytest.warns(RuntimeWarning, match=f"{folder} {reason}"):
            assert not use()
    with pytest.warns(RuntimeWarning, match=f"{folder} {reason}"):
        assert results(lookup()).tolist() == [1, 8, 400]
    assert compiled == ["function"] * 2
    assert sorted(each.stat().st_mtime_ns for each in folder.iterdir()) == before


@pytest.mark.parametrize(("change", "reason"), ENTRIES)
def test_an_entry_that_others_can_write_to_is_made_anew(folder: Path, compiled: list[str],
                                                        change: Callable[[Path], None], reason: str) -> None:
    results(lookup())
    (entry,) = functions(folder)
    change(entry)
    with pytest.warns(RuntimeWarning, match=f"{entry} {reason}"):
        assert results(lookup()).tolist() == [1, 8, 400]
    assert compiled == ["function"] * 2
    if reason != "is no regular file" or not entry.is_dir():
        assert results(lookup()).tolist() == [1, 8, 400]
        assert compiled == ["function"] * 2


def test_what_was_opened_is_loaded(folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what its path leads to later."""
    results(lookup())
    (entry,) = functions(folder)
    find = cache.find

    def swapped(key: str) -> object:
        file = find(key)
        entry.unlink()
        entry.write_bytes(b"\x7fELF, but another one")
        return file

    monkeypatch.setattr(cache, "find", swapped)
    assert results(lookup()).tolist() == [1, 8, 400]
    assert compiled == ["function"]


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user can reach, as in the image of a container."""
    path = Path(mkdtemp())
    path.chmod(0o755)
    monkeypatch.setenv(cache.VARIABLE, str(path / "functions"))
    yield path / "functions"
    shutil.rmtree(path)


@pytest.mark.parametrize("user", [
    pytest.param(None, id="own"), pytest.param(STRANGER, id="root's", marks=as_root)])
def test_a_folder_that_can_only_be_read_is_used(image: Path, compiled: list[str], user: int | None,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    results(lookup())
    (entry,) = functions(image)
    os.utime(entry, (0, 0))
    entry.chmod(0o444)
    image.chmod(0o555)
    if user is None:
        monkeypatch.setattr(os, "utime", refuse)
        monkeypatch.setattr(os, "supports_fd", {refuse})
        assert results(lookup()).tolist() == [1, 8, 400]
    else:
        os.seteuid(user)
        try:
            assert results(lookup()).tolist() == [1, 8, 400]
            assert not cache.write(KEYS[0], [b"x"])
        finally:
            os.seteuid(0)
    assert compiled == ["function"]
    assert functions(image) == [entry]


def test_a_full_disk_leaves_nothing(folder: Path) -> None:
    assert cache.write(KEYS[0], [b"x"])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        assert not cache.write(KEYS[1], [bytes(9_000), bytes(9_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [each.name for each in folder.iterdir()] == [KEYS[0]]


def test_an_interrupt_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.write(KEYS[0], [b"x"])
    assert list(folder.iterdir()) == []


def test_a_system_without_owners_has_a_cache_too(folder: Path, compiled: list[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_HAS_OWNERS", False)
    for _ in range(2):
        assert results(lookup()).tolist() == [1, 8, 400]
    assert compiled == ["function"]
    assert len(functions(folder)) == 1
    assert len(cache.clear()) > 1


def test_sources_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    """Not by sizes and times, which builds that are to be reproducible make the same, and copies new."""
    def package(name: str, source: str, time: int) -> bytes:
        file = tmp_path / name / "runtime" / "ops" / "add.py"
        file.parent.mkdir(parents=True)
        file.write_text(source)
        os.utime(file, (time, time))
        return fingerprint.content(tmp_path / name, ["runtime"])

    first = package("first", "x = 1", 0)
    assert package("second", "x = 2", 0) != first
    assert package("third", "x = 1", 9) == first
