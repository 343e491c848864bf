"""Large modules are compiled in pieces: the pieces find each other, and give what the whole does."""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int64
from dataclasses import replace
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
from llvmlite import ir

import circlet
from circlet.backends.native.compilation import Wish
from circlet.backends.native.emit.emitter import I64
from circlet.backends.native.load import cache, store
from circlet.backends.native.load import llvm as target
from circlet.backends.native.load.artifact import Artifact
from circlet.backends.native.load.elf import shared_object as shared_object_module
from circlet.backends.native.load.elf.shared_object import UnknownObject, shared_object
from circlet.backends.native.load.library import ENTRY, MappedLibrary, Mapping, SharedLibrary, is_shared
from circlet.backends.native.load.llvm import host, object_code, object_files
from circlet.backends.native.load.manifest import Manifest
from circlet.backends.native.lower import pieces as pieces_module
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Cutter, Piece
from circlet.backends.platform import Feature, current
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops import normalize, unary
from circlet.runtime.ops.comparison import Greater
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.index import GatherNd, Where
from circlet.runtime.ops.matmul import FullyConnected
from tests.native.against_cpu import agree, values
from tests.native.conftest import functions

OPEN = Tensor("", DType.FLOAT32, (), has_rank=False)
"""A result whose shape the model does not say."""
HEAD = f'target triple = "{host().triple}"\ntarget datalayout = "{host().data_layout}"\n'
COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
ENTERED = """
@table = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
declare hidden i64 @chosen(ptr, ptr, i64)
declare hidden i64 @twice(i64) nounwind
define i64 @circlet_entry(i64 %n) {
  %copy = alloca i64, i64 4
  %bytes = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %copy, ptr @table, i64 %bytes, i1 false)
  %last = sub i64 %n, 1
  %r = call i64 @chosen(ptr @twice, ptr %copy, i64 %last)
  ret i64 %r
}
"""
OTHER = """
@table = internal constant [4 x i64] [i64 100, i64 200, i64 300, i64 400]
declare hidden i64 @circlet_entry(i64)
define hidden i64 @twice(i64 %x) {
  %r = mul i64 %x, 2
  ret i64 %r
}
define hidden i64 @chosen(ptr %f, ptr %numbers, i64 %k) {
  %own = alloca i64, i64 4
  %bytes = add i64 %k, 1
  %size = mul i64 %bytes, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr @table, i64 %size, i1 false)
  %p = getelementptr i64, ptr %numbers, i64 %k
  %x = load i64, ptr %p
  %y = call i64 %f(i64 %x)
  %q = getelementptr i64, ptr %own, i64 %k
  %z = load i64, ptr %q
  %is_first = icmp eq i64 %k, 0
  br i1 %is_first, label %done, label %again
again:
  %before = call i64 @circlet_entry(i64 %k)
  br label %done
done:
  %rest = phi i64 [ 0, %0 ], [ %before, %again ]
  %yz = add i64 %y, %z
  %r = add i64 %yz, %rest
  ret i64 %r
}
"""


@pytest.fixture(params=["shared_object", "objects"])
def folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where functions are kept; as objects, that is nowhere, and LLVM links them."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path) if request.param == "shared_object" else "")
    if request.param == "objects":
        monkeypatch.setattr(store, "_sharable", lambda artifact: artifact)
    return tmp_path


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """The pieces that were compiled."""
    found: list[Piece] = []
    compiled = target._object_code

    def counted(piece: Piece, machine: object) -> bytes:
        found.append(piece)
        return compiled(piece, machine)

    monkeypatch.delenv("CIRCLET_CHECK_BOUNDS", raising=False)  # checked code stays whole
    monkeypatch.setattr(target, "_object_code", counted)
    return found


@pytest.mark.parametrize("order", [[0, 1], [1, 0]], ids=["entry_first", "entry_last"])
def test_objects_call_each_other(folder: Path, order: Sequence[int]) -> None:
    """Constants of one name are each piece's own; what the system defines is found once for all."""
    objects = object_files([Piece(HEAD + COPY + (ENTERED, OTHER)[k]) for k in order], host(), Wish())
    function = store.keep("0" * 64, Artifact(objects, Manifest(), np.empty(0, np.uint8)))
    is_loaded = any(folder.iterdir()) and current().has(Feature.SHARED_OBJECTS)
    assert isinstance(function.library, SharedLibrary) == is_loaded
    entry = CFUNCTYPE(c_int64, c_int64)(function.library.address)
    assert [entry(n) for n in (1, 2, 3, 4)] == [106, 316, 630, 1052]


@pytest.mark.skipif(not current().has(Feature.SHARED_OBJECTS), reason="no shared objects here")
def test_a_mapped_file_is_a_library(tmp_path: Path) -> None:
    """Addresses of its own and of the system's are put into it; the file may be gone then."""
    objects = object_files([Piece(HEAD + COPY + each) for each in (ENTERED, OTHER)], host(), Wish())
    content = shared_object(objects, (ENTRY,))
    (tmp_path / "file").write_bytes(content + bytes(10_000))
    with open(tmp_path / "file", "rb", buffering=0) as file:
        library = MappedLibrary(Mapping(file.fileno(), len(content) + 10_000))
    (tmp_path / "file").unlink()
    entry = CFUNCTYPE(c_int64, c_int64)(library.address)
    assert [entry(n) for n in (1, 2, 3, 4)] == [106, 316, 630, 1052]


def test_constants_that_are_in_memory_are_not_read(folder: Path) -> None:
    objects = object_files([Piece(HEAD + COPY + each) for each in (ENTERED, OTHER)], host(), Wish())
    constants = np.arange(1000, dtype=np.uint8)
    kept = store.keep("0" * 64, Artifact(objects, Manifest(), constants))
    again = store.stored("0" * 64)
    assert kept.constants is constants
    assert (again is None) == (not any(folder.iterdir()))
    if again is not None:
        np.testing.assert_array_equal(again.constants, constants)


def test_two_objects_that_define_the_same_are_refused() -> None:
    code = object_code(Piece(HEAD + COPY + OTHER), host())
    with pytest.raises(UnknownObject, match="'twice' is defined twice"):
        shared_object([code, code], (ENTRY,))


def test_objects_are_kept_where_the_system_loads_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise UnknownObject("another system's")

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(shared_object_module, "shared_object", refuse)
    objects = object_files([Piece(HEAD + COPY + each) for each in (ENTERED, OTHER)], host(), Wish())
    made = store.keep("0" * 64, Artifact(objects, Manifest(), np.empty(0, np.uint8)))
    for function in (made, store.stored("0" * 64)):
        assert function is not None
        assert not isinstance(function.library, SharedLibrary)
        assert CFUNCTYPE(c_int64, c_int64)(function.library.address)(2) == 316
    assert not is_shared(functions(tmp_path)[0].read_bytes())


def network(s: SubgraphBuilder, x: Value) -> Sequence[Value]:
    """Several shared loops and kernels, and a softmax."""
    def weights(*shape: int) -> Value:
        return s.constant(values(shape, np.float32, len(shape)) / 8)

    y = s.apply(Conv2D(Padding.SAME, 2, 2, Activation.RELU6), x, weights(24, 3, 3, 3), weights(24))
    z = s.apply(DepthwiseConv2D(Padding.SAME, 1, 1), y, weights(1, 3, 3, 24), weights(24))
    rows = s.apply(FullyConnected(), s.apply(unary.Tanh(), z), weights(33, 24), weights(33))
    return [s.apply(normalize.Softmax(1.0), rows)]


def test_a_model_in_pieces_gives_what_numpy_does(folder: Path, cut: list[Piece]) -> None:
    agree(network, values((1, 96, 96, 3), np.float32, 1))
    assert len({each.text for each in cut}) == len(cut) > 9
    assert all(len(defined(each)) == 1 for each in cut if each.passes is not Passes.HASTY or each.name == ENTRY)


def defined(piece: Piece) -> list[str]:
    """The functions in a piece."""
    return re.findall(r'^define [^@]*@"([^"]+)"', piece.text, re.MULTILINE)


@pytest.mark.parametrize("characters", [0, 4000, 1 << 30])
def test_functions_that_are_made_soon_share_pieces(folder: Path, cut: list[Piece], characters: int,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is in one of them, whatever they may hold."""
    monkeypatch.setattr(pieces_module, "_SHARED", characters)
    agree(network, values((1, 96, 96, 3), np.float32, 1))
    names = [name for each in cut for name in defined(each)]
    shared = [each for each in cut if each.passes is Passes.HASTY and each.name != ENTRY]
    assert len(set(names)) == len(names)
    assert ENTRY in names
    counts = [len(defined(each)) for each in shared]
    assert sum(counts) > 4
    if characters == 0:
        assert all(len(defined(each)) == 1 for each in cut)
    elif characters == 1 << 30:
        assert len(counts) == 1
    else:
        assert 1 < len(counts) < sum(counts)
        assert all(count == 1 or len(each.text) < 3 * characters for count, each in zip(counts, shared, strict=True))


@pytest.mark.parametrize("count", [1, 3])
def test_code_is_the_same_for_any_number_of_processors(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [Piece(HEAD + COPY + each) for each in (ENTERED, OTHER)]
    monkeypatch.setattr(target, "processors", lambda: count)
    assert list(object_files(some, host(), Wish())) == [object_code(each, host()) for each in some]


def count_down(module: ir.Module, name: str) -> ir.Function:
    """A function of the module that counts an i64 down to 0."""
    function = ir.Function(module, ir.FunctionType(I64, [I64]), name)
    entry, turn, done = (function.append_basic_block() for _ in range(3))
    ir.IRBuilder(entry).branch(turn)
    b = ir.IRBuilder(turn)
    left = b.phi(I64)
    less = b.sub(left, ir.Constant(I64, 1))
    left.add_incoming(function.args[0], entry)
    left.add_incoming(less, turn)
    b.cbranch(b.icmp_signed(">", less, ir.Constant(I64, 0)), turn, done)
    ir.IRBuilder(done).ret(less)
    return function


def test_what_was_written_is_gone_once_it_is_cut() -> None:
    """Without a search for cycles."""
    module, found = ir.Module("test"), list[Piece]()
    cutter, left = Cutter(module, found.append), list["ref[object]"]()
    for name in (ENTRY, "other"):
        function = count_down(module, name)
        written = [function, *function.args, *function.blocks]
        left += [ref(each) for each in (*written, *(each for b in function.blocks for each in b.instructions))]
    del function, written
    gc.disable()
    try:
        cutter.finish()
        del module, cutter
        assert len(found) == 2
        assert [each() for each in left if each() is not None] == []
    finally:
        gc.enable()


def deep(s: SubgraphBuilder, layers: int) -> None:
    """So many layers that are alike, of an open number of rows."""
    x = s.input("x", DType.FLOAT32, (-1, 24))
    for number in range(layers):
        weights = s.constant(values((24, 24), np.float32, number))
        (product,) = s.op(FullyConnected(), x, weights, outputs=[OPEN])
        (soft,) = s.op(normalize.Softmax(1.0), product, outputs=[OPEN])
        (x,) = s.op(Mul(), x, soft, outputs=[OPEN])
    s.output(x)


def test_layers_of_open_lengths_share_their_functions(cut: list[Piece], monkeypatch: pytest.MonkeyPatch) -> None:
    """More layers, whose buffers are elsewhere, need no function that two have not."""
    monkeypatch.setenv(cache.VARIABLE, "")
    names = []
    for layers in (2, 6):
        b = ModelBuilder()
        deep(b.subgraph("main"), layers)
        circlet.Session(b.build(), backend="native").invoke(0, [values((7, 24), np.float32, 9)])
        names.append({each.name for each in cut})
        cut.clear()
    assert names[0] == names[1]


def test_operators_that_tell_lengths_are_functions_too(cut: list[Piece], monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry takes from memory how many elements there are: it has no loops, however many operators tell that."""
    monkeypatch.setenv(cache.VARIABLE, "")
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1,))
    for least in (-1.0, 0.0, 1.0):
        (places,) = main.op(Where(), main.apply(Greater(), x, main.constant(np.float32(least))),
                            outputs=[replace(OPEN, dtype=DType.INT64)])
        (x,) = main.op(GatherNd(), x, places, outputs=[OPEN])
    main.output(main.apply(Mul(), x, x))
    session = circlet.Session(b.build(), backend="native")
    for count in (0, 5, 200, 33):
        given = values((count,), np.float32, count)
        (found,) = session.invoke(0, [given])
        wanted = given[given > 1]
        assert np.array_equal(found, wanted * wanted)
    entries = [each for each in cut if each.name == "circlet_entry"]
    assert all("declare hidden i32 @\"operator_" in each.text for each in entries)
    assert not any(" phi " in each.text for each in entries)
    assert {each.passes for each in entries} == {Passes.HASTY}
