"""Profilers and debuggers see native code by operators: names in shared objects, perf's map, paths of libraries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from platform import machine
from struct import Struct

import numpy as np
import pytest

import circlet
from circlet.backends.native.load import cache, library, store
from circlet.backends.native.load.elf import symbols
from circlet.backends.native.load.elf.symbols import Symbol, functions_of
from circlet.backends.native.lower.labels import label, labels
from circlet.backends.native.plans.key import MARK
from circlet.backends.platform import Feature, current
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import normalize
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.matmul import FullyConnected

HEADER, SECTION = Struct("<16sHHIQQQIHHHHHH"), Struct("<IIQQQQIIQQ")
SYMBOL = Struct("<IBBHQQ")
SHARED = pytest.mark.skipif(not current().has(Feature.SHARED_OBJECTS), reason="no shared objects here")
X = np.ones((20, 40), np.float32)


@pytest.fixture(params=["shared_object", "objects"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Where code is: in shared objects on the disk, or in memory that LLVM links object files in."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "functions") if request.param == "shared_object" else "")
    return str(request.param)


def dense(name: str) -> Model:
    """Two products of one shape, the second with SOFTMAX behind it, then a loop that adds."""
    b = ModelBuilder()
    main, condition, body = b.subgraph(name), b.subgraph("condition"), b.subgraph("body")
    weights = main.constant(np.eye(40, dtype=np.float32))
    first = main.apply(FullyConnected(), main.input("x", DType.FLOAT32, X.shape), weights)
    second = main.apply(FullyConnected(), main.apply(normalize.Softmax(1.0), first), weights)
    counter, _ = carried(condition)
    condition.output(condition.apply(Less(), counter, condition.constant(3)))
    counter, value = carried(body)
    body.output(body.apply(Add(), counter, body.constant(1)),
                body.apply(FullyConnected(), value, body.constant(np.eye(40, dtype=np.float32))))
    main.output(main.apply(normalize.Softmax(1.0), main.op(While(condition.index, body.index), main.constant(0), second,
                                                           count=2)[1]))
    return b.build()


def carried(graph: SubgraphBuilder) -> tuple[Value, Value]:
    return graph.input("n", DType.INT32, ()), graph.input("v", DType.FLOAT32, X.shape)


def run(model: Model) -> None:
    circlet.Session(model, "native").run({"x": X})


def named(path: Path) -> dict[str, range]:
    """The functions that a shared object names, and where their code is."""
    content = path.read_bytes()
    header = HEADER.unpack_from(content)
    begin, number, strings = header[6], header[12], header[13]
    sections = [SECTION.unpack_from(content, begin + k * SECTION.size) for k in range(number)]
    assert content[sections[strings][4] + sections[1][0]:].startswith(b".text\0")
    text = range(sections[1][3], sections[1][3] + sections[1][5])
    _, kind, _, _, offset, size, link, *_ = sections[2]
    assert kind == 2
    found = {}
    for name, info, _, section, value, length in SYMBOL.iter_unpack(content[offset:offset + size]):
        if info & 0xF == 2:
            start = sections[link][4] + name
            assert section == 1
            assert value in text
            assert value + length <= text.stop
            found[content[start:content.index(0, start)].decode()] = range(value, value + length)
    return found


def shared_objects(folder: str) -> list[Path]:
    """The functions that are kept by themselves, not with a plan."""
    found = {Path(folder, each.key): Path(folder, each.key).read_bytes() for each in cache.entries()
             if not each.key.endswith(cache.UNIT)}
    return [path for path, content in found.items() if content.startswith(library.ELF) and MARK not in content[-200:]]


@SHARED
def test_shared_objects_name_operators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    run(dense("dense net"))
    (path,) = shared_objects(str(tmp_path))
    found = named(path)
    assert "dense net" in found
    assert any(each.startswith("dense net/SOFTMAX_") for each in found)
    tiles = [each for each in found if "tile_f32" in each]
    assert any("dense net/FULLY_CONNECTED_0" in each for each in tiles)
    assert any("body/FULLY_CONNECTED_1" in each for each in tiles)
    assert len({each.start for each in found.values()}) == len(found)


@SHARED
def test_names_do_not_keep_models_from_sharing_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    run(dense("one"))
    before = {each.key for each in cache.entries()}
    run(dense("other"))
    added = [key for key in {each.key for each in cache.entries()} - before if not key.endswith(cache.UNIT)]
    assert {each.key for each in cache.entries() if each.key.endswith(cache.UNIT)} <= before
    assert any("other/FULLY_CONNECTED_0" in name for key in added for name in _names(Path(tmp_path, key)))


def _names(path: Path) -> Iterable[str]:
    return named(path) if path.read_bytes().startswith(library.ELF) else ()


@SHARED
@pytest.mark.skipif(machine() != "x86_64", reason="the instructions are those of x86-64")
@pytest.mark.parametrize("is_wanted", [False, True])
def test_callers_can_be_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_wanted: bool) -> None:
    """Each function begins with PUSH RBP, if that is asked for, and no other session is given such code."""
    folder = tmp_path / "functions"
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    monkeypatch.setenv(library.VARIABLE, "1" if is_wanted else "")
    model = tmp_path / "dense.tflite"
    circlet.save(dense("main"), model)
    outputs = [circlet.Session(model, "native").run({"x": X})]
    (path,) = shared_objects(str(folder))
    code = path.read_bytes()
    assert all(code[each.start] == 0x55 for each in named(path).values()) == is_wanted
    monkeypatch.setenv(library.VARIABLE, "" if is_wanted else "1")
    outputs.append(circlet.Session(model, "native").run({"x": X}))
    assert len(shared_objects(str(folder))) == 2
    assert all(np.array_equal(*values) for values in zip(*(each.values() for each in outputs), strict=True))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="perf is Linux's")
def test_a_map_for_perf(kept: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Code that lies in no file is in the map, with nothing there of code that does."""
    path = tmp_path / "perf.map"
    monkeypatch.setattr(symbols, "map_path", lambda: str(path))
    made: list[store.Function] = []
    linked = store._linked

    def heard(*arguments: object) -> store.Function:
        made.append(linked(*arguments))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(store, "_linked", heard)
    run(dense("unseen"))
    assert not path.exists(), "nobody asked"
    monkeypatch.setenv(library.VARIABLE, "1")
    made.clear()
    run(dense("main"))
    assert path.exists() == bool(made) == (kept == "objects" or not current().has(Feature.SHARED_OBJECTS))
    if made:
        rows = [line.split(" ", 2) for line in path.read_text().splitlines()]
        addresses = {name: int(start, 16) for start, _, name in rows}
        assert addresses["main"] == made[-1].library.address
        assert all(int(size, 16) > 0 for _, size, _ in rows)
        assert any("main/FULLY_CONNECTED_0" in name for name in addresses)


def test_a_map_of_others_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "perf.map"
    target.write_text("mine\n")
    path.symlink_to(target)
    monkeypatch.setattr(symbols, "map_path", lambda: str(path))
    symbols.add_to_map([Symbol("main", 0x1000, 16)])
    assert target.read_text() == "mine\n"
    path.unlink()
    symbols.add_to_map([Symbol("main", 0x1000, 16)])
    symbols.add_to_map([Symbol("a b", 0x2000, 255)])
    assert path.read_text() == "1000 10 main\n2000 ff a b\n"
    assert path.stat().st_mode & 0o777 == 0o600


class DynamicInfo(ctypes.Structure):
    """`Dl_info`."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]


@SHARED
@pytest.mark.parametrize("is_wanted", [False, True])
def test_debuggers_find_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_wanted: bool) -> None:
    """The loader knows a library by a path that other processes can open, if that is asked for; else it may know of
    none."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    if is_wanted:
        monkeypatch.setenv(library.VARIABLE, "1")
    run(dense("main"))
    (path,) = shared_objects(str(tmp_path))
    function = store.stored(path.name)
    assert function is not None
    info = DynamicInfo()
    is_known = ctypes.CDLL(None).dladdr(ctypes.c_void_p(function.library.address), ctypes.byref(info)) != 0
    assert (is_known and info.file == os.fsencode(path)) == is_wanted


def test_a_path_that_leads_elsewhere_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with path.open() as file:
        assert symbols.file_path(file.fileno()) in (str(path), None)
        path.rename(tmp_path / "away")
        path.write_text("new")
        path.unlink()
        assert symbols.file_path(file.fileno()) in (str(tmp_path / "away"), None)
        (tmp_path / "away").unlink()
        assert symbols.file_path(file.fileno()) is None


def test_labels() -> None:
    found = labels({"operator.1": ["main/ADD_1"], "operator.2": ["main/ADD_1"], "tile": ["main/ADD_1", "b/MUL_2"],
                    "part.3": ["b/MUL_2"], "kept": []}, {"operator.1": "operator_a", "operator.2": "operator_b"})
    assert found == {"operator_a": "main/ADD_1", "operator_b": "main/ADD_1 #2", "tile": "tile of main/ADD_1, b/MUL_2",
                     "part.3": "b/MUL_2 part", "kept": "kept"}


def test_one_function_for_several_operators() -> None:
    users = {f"operator.{k}": [f"main/CONV_2D_{k}"] for k in range(1000)}
    (text,) = labels(users, dict.fromkeys(users, "operator_a")).values()
    assert text.startswith("main/CONV_2D_0, main/CONV_2D_1, ")
    assert text.endswith(" more")
    assert len(text) < 130


def test_names_from_files_confuse_no_tool() -> None:
    assert label("a;b\n'c'", "ADD", 3) == "a_b__c_/ADD_3"
    assert label("", "ADD", 3) == "_/ADD_3"
    assert len(label("x" * 5000, "ADD", 3)) < 120


def test_functions_of_what_is_no_elf_file() -> None:
    assert list(functions_of(b"\xcf\xfa\xed\xfe" + bytes(100))) == []
