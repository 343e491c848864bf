"""What code relies on of a processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.native.backend import Listing, NativeBackend, Options
from circlet.backends.native.load import cache, llvm
from circlet.backends.native.rules.quantized.double_scale import factor_of
from circlet.backends.native.targets.aarch64 import AArch64
from circlet.backends.native.targets.arm import Arm
from circlet.backends.native.targets.riscv import RiscV
from circlet.backends.native.targets.target import Goal, Target, Tiles, kind_of
from circlet.backends.native.targets.wasm import WebAssembly
from circlet.backends.native.targets.x86_64 import X86
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.unary import Floor
from tests.native.native_cases import model_of
from tests.ops.cases import Case, T, as_t, check, q
from tests.ops.test_conv import CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV
from tests.ops.test_matmul import HYBRID, INT4, QUANTIZED, per_axis

HOST = llvm.host()
LAYOUT = "e-m:e-i64:64-n8:16:32:64-S128"
AVX512 = "+avx2,+avx512f,+avx512vl,+avx512vnni,+avx512vbmi"


def x86(features: str) -> Target:
    return X86("x86_64-unknown-linux-gnu", "generic", features, LAYOUT)


def lowered(model: Model, target: Target, monkeypatch: pytest.MonkeyPatch, compiles: bool = False
            ) -> Sequence[Listing]:
    """The functions of a model's first subgraph for a processor."""
    made: list[NativeBackend] = []

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        made.append(NativeBackend(executors, Options(keep_text=True, compiles=compiles)))
        return (ControlflowBackend(executors), *made)

    monkeypatch.setattr(llvm, "host", lambda: target)
    main = model.subgraphs[0]
    Session(model, Engine(backends)).bind(0, [np.zeros(main.tensors[each].shape, main.tensors[each].dtype.numpy)
                                      for each in main.inputs])
    return made[0].listings


@pytest.mark.parametrize(("triple", "kind"), [
    ("x86_64-unknown-linux-gnu", X86), ("aarch64-unknown-linux-gnu", AArch64), ("arm64-apple-darwin", AArch64),
    ("riscv64-unknown-linux-gnu", RiscV), ("thumbv7em-unknown-none-eabihf", Arm),
    ("wasm32-unknown-unknown", WebAssembly), ("powerpc64le-unknown-linux-gnu", Target),
])
def test_the_class_of_a_processor(triple: str, kind: type[Target]) -> None:
    assert kind_of(triple) is kind


@pytest.mark.parametrize(("target", "bytes_", "count"), [
    (x86(""), 16, 16), (x86("+avx2"), 32, 16), (x86("+avx2,+avx512f"), 64, 32), (Target("", "", "", ""), 16, 16),
    (AArch64("", "", "", ""), 16, 32),
])
def test_registers(target: Target, bytes_: int, count: int) -> None:
    assert (target.vector_bytes, target.vector_registers) == (bytes_, count)


@pytest.mark.parametrize(("layout", "width"), [(LAYOUT, 8), ("e-m:e-p:32:32-i64:64", 4), ("p:64:64", 8),
                                               ("e-p270:32:32-i64:64", 8)])
def test_the_width_of_addresses(layout: str, width: int) -> None:
    assert Target("", "", "", layout).pointer_bytes == width


@pytest.mark.parametrize(("features", "lanes", "found"), [
    ("", 4, "--++-"), ("+avx2", 8, "--+++"), ("+avx2", 4, "--++-"), ("+avx2,+avxvnni", 8, "+++++"),
    ("+avx2,+avx512f", 16, "--++-"), (AVX512, 16, "++++-"), ("+avx512f,+avx512vnni", 8, "--++-"),
])
def test_instructions_of_x86(features: str, lanes: int, found: str) -> None:
    target = x86(features)
    operations = (target.dot_bytes, target.dot_pairs, target.add_pairs, target.pack, target.dot_magnitudes)
    assert "".join("-" if each(lanes) is None else "+" for each in operations) == found


@pytest.mark.parametrize(("features", "size"), [("+avx2", 32), (AVX512, 64)])
def test_tables_of_x86(features: str, size: int) -> None:
    found = x86(features).look_up()
    assert found is not None
    assert found.size == size
    assert x86("").look_up() is None


INTEGERS = [each for each in (*QUANTIZED, *HYBRID, *INT4, *CONV_2D, *DEPTHWISE_CONV_2D, *TRANSPOSE_CONV)
            if each.error is None and any(given is not None and as_t(given).q is not None for given in each.inputs)]
"""Cases with quantised inputs."""


class Pairs(Target):
    """A processor with vectors of two words."""

    @property
    def vector_bytes(self) -> int:
        return 8


class Words(Target):
    """A processor without vectors and doubles."""

    has_doubles: ClassVar[bool] = False
    tiles: ClassVar[Tiles] = Tiles(most_rows=2, chains=1, turn=4)

    @property
    def vector_bytes(self) -> int:
        return 4

    @property
    def vector_registers(self) -> int:
        return 7


def plain(kind: type[Target], goal: Goal) -> Target:
    """The host without its instructions."""
    return kind(HOST.triple, HOST.cpu, HOST.features, HOST.data_layout, goal)


PLAIN = {Target: Goal.HERE, Pairs: None, Words: Goal.SIZE}
"""What code is made for whenever tests run; other goals are for the slow tests."""


@pytest.mark.parametrize(("kind", "goal"), [
    pytest.param(kind, goal, marks=() if PLAIN[kind] is goal else pytest.mark.slow) for kind in PLAIN for goal in Goal])
@pytest.mark.parametrize("case", INTEGERS, ids=[f"{each.op.name}-{each.id}" for each in INTEGERS])
def test_processors_of_which_nothing_is_known(case: Case, kind: type[Target], goal: Goal,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """The code has no instruction of a processor's own, and gives the same."""
    model, given = model_of(case)
    modules = [each.module for each in lowered(model, plain(kind, goal), monkeypatch)]
    assert modules
    assert not any("llvm.x86" in each for each in modules)
    monkeypatch.setenv(cache.VARIABLE, "")
    found, expected = (circlet.Session(model, backend).invoke(0, [each.array for each in given])
                       for backend in ("native", "cpu"))
    for one, other in zip(found, expected, strict=True):
        check(one, other, 1e-5 if other.dtype.kind == "f" else None)


class Bare(Target):
    """A processor without a system."""

    has_threads: ClassVar[bool] = False
    has_libm: ClassVar[bool] = False


def test_without_threads_no_loop_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (1 << 18,))
    main.output(main.apply(Add(), x, x))
    one, other = (lowered(b.build(), kind("", "", "", LAYOUT), monkeypatch)[0].module for kind in (Target, Bare))
    assert '@"part' in one
    assert '@"part' not in other


def test_without_a_c_library_numpy_computes_what_may_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(Floor(), main.input("x", DType.FLOAT32, (4,))))
    (line,) = lowered(b.build(), Bare("", "", "", LAYOUT), monkeypatch, compiles=True)[0].outline
    assert line.startswith("left to numpy: ")
    assert line.endswith("no C library to call for floor")


@settings(max_examples=8, deadline=None)
@given(scales=st.lists(st.floats(1e-4, 4.0) | st.integers(1, 512).map(lambda n: 1 / n), min_size=1, max_size=40),
       numbers=st.lists(st.integers(-128, 127), min_size=1, max_size=9), zero=st.integers(-128, 127),
       is_wide=st.booleans())
def test_sums_are_scaled_alike_without_doubles(scales: list[float], numbers: list[int], zero: int,
                                               is_wide: bool) -> None:
    """To the bit, by integers for nearly all scales, of int8 and of int16."""
    dtype, zero = (np.int16, 0) if is_wide else (np.int8, zero)
    rows = (np.array(numbers, np.int64)[:, None] * (251 if is_wide else 1)).astype(dtype)
    weights = T(np.array([[1 + k % 3] for k in range(len(scales))], np.int8), q=per_axis(*scales), constant=True)
    bias = T(np.arange(len(scales), dtype=np.int32) * 77 - 100, constant=True)
    made = T(np.zeros((len(numbers), len(scales)), dtype), q=q(1.0, zero))
    model, _ = model_of(Case("scales", FullyConnected(), [T(rows, q=q(1.0)), weights, bias], [made]))
    (expected,) = circlet.Session(model, "cpu").invoke(0, [rows])
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(cache.VARIABLE, "")
        monkeypatch.setattr(llvm, "host", lambda: plain(Words, Goal.SIZE))
        (found,) = circlet.Session(model, "native").invoke(0, [rows])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("scale", "is_integer"), [(0.1, True), (1 / 3, True), (1 / 6, True), (1 / 98, False)])
def test_scales_that_integers_stand_for(scale: float, is_integer: bool) -> None:
    """In double precision 3 / 6 is a half, and so are some of the odd multiples of 49 / 98."""
    assert (factor_of(scale, 512) is not None) is is_integer
