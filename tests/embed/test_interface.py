"""What C sees of compiled models: state, limits, failures, several entry points, headers, archives."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.targets.catalogue import PROCESSORS
from circlet.embed import chosen_processor, compile_model
from circlet.embed.files import files
from circlet.embed.names import identifier, unique
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ops.controlflow import CallOnce
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.reduce import ReduceMax, ReduceMin
from circlet.runtime.ops.unary import Ceil, Floor, Logistic, Round, Sqrt
from circlet.runtime.ops.variable import AssignVariable
from circlet.tools.main import main
from tests.embed.library import Library
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32
from tests.exec.test_variables import handle, read

HERE = sys.platform == "linux" and platform.machine() == "x86_64"
here = pytest.mark.skipif(not HERE, reason="shared objects are made for x86-64 Linux")
OK, STOPPED, EXHAUSTED, FAILED = 0, 1, 2, 16
CNN = Path(__file__).parents[1] / "models" / "cnn.tflite"
COUNT = Path(__file__).parents[2] / "examples" / "collatz.tflite"


def sums() -> Model:
    """`add` adds x to a variable, which begins as 1, 2, 3, 4, and gives the element at `at`; `get` gives all."""
    b = ModelBuilder()
    add, get, init = b.subgraph("add"), b.subgraph("get"), b.subgraph("init")
    init.op(AssignVariable(), handle(init), init.constant(f32([1, 2, 3, 4])), outputs=[])
    x, at = add.input("x", DType.FLOAT32, (4,)), add.input("at", DType.INT32, (1,))
    for each in (add, get):
        each.op(CallOnce(init.index), outputs=[])
    total = g.add(add, read(add, shape=(4,), known=True), x)
    add.op(AssignVariable(), handle(add), total, outputs=[])
    (element,) = add.op(Gather(), total, at)
    add.output(element)
    found = read(get, shape=(4,), known=True)
    get.output(found)
    b.signature("add", add, {"x": x, "at": at}, {"element": element})
    b.signature("get", get, {}, {"total": Value(get.index, found.index)})
    return b.build()


@here
def test_state_is_kept_between_runs_of_all_entry_points(tmp_path: Path) -> None:
    library = Library(compile_model(sums(), "host", "sums"), tmp_path)
    add = {"x": f32([1, 1, 1, 1]), "at": i32([2])}
    assert library.run(add, "add")[1]["element"] == 4
    assert library.run(add, "add")[1]["element"] == 5
    np.testing.assert_array_equal(library.run({}, "get")[1]["total"], [3, 4, 5, 6])
    library.call("reset")
    np.testing.assert_array_equal(library.run({}, "get")[1]["total"], [1, 2, 3, 4])


@here
def test_the_last_of_several_first_values_holds(tmp_path: Path) -> None:
    b = ModelBuilder()
    main, late, early = b.subgraph("main"), b.subgraph("late"), b.subgraph("early")
    for each, value in ((late, 2), (early, 1)):
        each.op(AssignVariable(), handle(each), each.constant(f32([value])), outputs=[])
    for each in (early, late):
        main.op(CallOnce(each.index), outputs=[])
    main.output(read(main, shape=(1,), known=True))
    library = Library(compile_model(b.build(), "host", "order"), tmp_path)
    for _ in range(2):
        (found,) = library.run({})[1].values()
        assert found == circlet.Session(b.build()).run()["value"] == 2


@here
def test_a_failed_run_leaves_the_state(tmp_path: Path) -> None:
    found = compile_model(sums(), "host", "sums")
    library = Library(found, tmp_path)
    before = library.state.copy()
    status, _ = library.run({"x": f32([1, 1, 1, 1]), "at": i32([4])}, "add")
    report = json.loads(files(found)["sums.json"])
    assert status >= FAILED
    assert report["entries"][0]["statuses"][str(status)]["name"] == "GATHER"
    np.testing.assert_array_equal(library.state, before)


def test_the_report_lists_the_largest_buffers() -> None:
    found = compile_model(circlet.load(CNN), "cortex-m4", is_small=True)
    (entry,) = json.loads(files(found)["model.json"])["entries"]
    sizes = [each["bytes"] for each in entry["buffers"]]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < sizes[0] <= entry["arena"] == found.code.arena_bytes
    assert entry["buffers"][0]["tensor"] in {each.name for each in circlet.load(CNN).subgraphs[0].tensors}


@here
def test_states_are_apart(tmp_path: Path) -> None:
    found = compile_model(sums(), "host", "sums", signature="get")
    one, other = Library(found, tmp_path), Library(found, tmp_path)
    one.state[:] = 0
    np.testing.assert_array_equal(one.run({}, "get")[1]["total"], [0, 0, 0, 0])
    np.testing.assert_array_equal(other.run({}, "get")[1]["total"], [1, 2, 3, 4])


def _collatz(library: Library) -> tuple[int, int, int]:
    """Of 27: the status, how many steps there are, and the largest number on the way."""
    status, outputs = library.run({"n": i32(27)})
    return status, int(outputs["steps"]), int(outputs["peak"])


@here
def test_loops_are_stopped_and_bounded(tmp_path: Path) -> None:
    library = Library(compile_model(circlet.load(COUNT), "host", "collatz"), tmp_path)
    words, inputs = library.state[:8].view(np.uint32), {"n": i32(27)}
    assert _collatz(library) == (OK, 111, 9232)
    words[:] = 0, 111
    assert library.run(inputs)[0] == OK
    words[:] = 0, 110
    assert library.run(inputs)[0] == EXHAUSTED
    words[:] = 1, 111
    assert library.run(inputs)[0] == STOPPED
    library.call("init")
    assert library.run(inputs)[0] == OK


@here
def test_without_limits_there_is_no_state(tmp_path: Path) -> None:
    found = compile_model(circlet.load(COUNT), "host", "collatz", limits=False)
    assert found.code.state.nbytes == 0
    assert {*found.exports} == {*found.contents.exported} == {"collatz_run"}
    assert _collatz(Library(found, tmp_path)) == (OK, 111, 9232)


@pytest.mark.parametrize(("compiler", "language"), [("gcc", "c"), ("g++", "c++")])
def test_headers_are_c_and_cxx(compiler: str, language: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (tmp_path / "sums.h").write_bytes(files(compile_model(sums(), "cortex-m4", "sums"))["sums.h"])
    body = "static sums_add_inputs in; return in.x != 0 || SUMS_ADD_INPUT_X_COUNT != 4;"
    source = f'#include "sums.h"\nint main(void) {{ {body} }}\n'
    command = [compiler, "-x", language, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-"]
    subprocess.run(command, input=source, text=True, check=True, cwd=tmp_path)


@here
@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize(("compiler", "language"), [("gcc", "c"), ("g++", "c++")])
def test_programs_need_not_know_whether_there_is_a_state(
        compiler: str, language: str, limits: bool, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    for name, content in files(compile_model(circlet.load(COUNT), "host", "collatz", limits=limits)).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "main.c").write_text("""
        #include "collatz.h"
        int main(void) {
            static uint64_t state[COLLATZ_STATE_BYTES / 8 + 1];
            int32_t n = 27, steps, peak;
            collatz_inputs inputs = {&n};
            collatz_outputs outputs = {&steps, &peak};
            collatz_init(state);
            collatz_reset(state);
            return collatz_run(&inputs, &outputs, 0, state) != COLLATZ_OK || steps != 111 || peak != 9232;
        }""")
    warnings = "-Wall", "-Wextra", "-pedantic", "-Werror"
    command = [compiler, *warnings, "-x", language, "main.c", "-x", "none", "collatz.o", "-o", "program"]
    subprocess.run(command, check=True, cwd=tmp_path)
    subprocess.run([tmp_path / "program"], check=True)


def test_archives_hold_the_object(tmp_path: Path) -> None:
    if shutil.which("ar") is None:
        pytest.skip("no ar")
    found = compile_model(sums(), "aarch64", "sums")
    (tmp_path / "sums.a").write_bytes(files(found, "archive")["sums.a"])

    def run(*command: str) -> bytes:
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout

    assert run("ar", "t", "sums.a") == b"sums.o\n"
    assert run("ar", "p", "sums.a", "sums.o") == found.object
    listed = run("nm", "--print-armap", "sums.a").decode().splitlines()
    assert {f"{each} in sums.o" for each in found.exports} <= set(listed)


def test_the_same_model_is_the_same_object() -> None:
    one, other = (compile_model(sums(), "cortex-m4", "sums") for _ in range(2))
    assert one.object == other.object


@pytest.mark.parametrize(("arguments", "message"), [
    ({"target": "cortex-m5"}, "no target 'cortex-m5'.* did you mean 'cortex-m"),
    ({"target": "x86_64-pc-windows-msvc"}, "with ELF files"),
    ({"target": "aarch64-apple-darwin"}, "with ELF files"),
    ({"target": "aarch64_be-unknown-linux-gnu"}, "with ELF files"),
    ({"target": "bpf-unknown-none"}, "with ELF files"),
    ({"signature": "ad"}, "no signature 'ad'; the model has add, get"),
    ({"shapes": {"y": (4,)}}, "no input 'y'; there are x, at"),
    ({"shapes": {"x": (5,)}}, r"input 'x' has shape \[4\], found \[5\]"),
])
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(circlet.InputError, match=message):
        compile_model(sums(), **{"target": "cortex-m4", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(("target", "cpu", "is_there"), [
    ("cortex-m4", "nonsense", False), ("x86-64-v3", "cortex-m4", False),
    ("thumbv8m.main-none-gnueabihf", "cortex-m33", True)])
def test_processors_are_those_that_llvm_knows(target: str, cpu: str, is_there: bool) -> None:
    with nullcontext() if is_there else pytest.raises(circlet.InputError, match=f"no processor '{cpu}'"):
        assert compile_model(sums(), chosen_processor(target, cpu)).object


@pytest.mark.parametrize("op", [Ceil, Floor, Round])
def test_halves_are_rounded_without_instructions(op: type[Op]) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(op(), main.input("x", DType.FLOAT16, (8,))))
    assert not {*compile_model(b.build(), "cortex-m4").contents.needed} - {"__gnu_h2f_ieee", "__gnu_f2h_ieee"}


@pytest.mark.parametrize("target", PROCESSORS)
def test_square_roots_need_no_library(target: str) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(Sqrt(), main.input("x", DType.FLOAT32, (8,))))
    assert not [each for each in compile_model(b.build(), target).contents.needed if "sqrt" in each]


@pytest.mark.parametrize("op", [ReduceMax, ReduceMin])
@pytest.mark.parametrize("target", PROCESSORS)
def test_extremes_need_no_library(target: str, op: type[Op]) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (4, 8))
    for each in (x, main.apply(Logistic(), x)):
        main.output(main.apply(op(), each, main.constant([1])))
    needed = compile_model(b.build(), target).contents.needed
    assert not [each for each in needed if "max" in each or "min" in each]


@pytest.mark.parametrize("target", PROCESSORS)
def test_limits_need_no_library(target: str) -> None:
    assert not [each for each in compile_model(circlet.load(COUNT), target).contents.needed if "atomic" in each]


def test_names_are_identifiers() -> None:
    assert [identifier(each) for each in ("serving_default_x:0", "int", "3d", "", "a//b")] == [
        "serving_default_x_0", "int_", "n3d", "unnamed", "a_b"]
    assert unique(["a", "a", "b", "a"]) == ["a", "a_2", "b", "a_3"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_example_runs(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None or not HERE:
        pytest.skip(f"no {compiler} for this machine")
    folder = str(tmp_path)
    assert main(["compile", str(COUNT), "--target", "host", "--example", "-o", folder]) == 0
    command = [compiler, "-Wall", "-Wextra", "-Werror", "main.c", "collatz.o", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    written = subprocess.run([str(tmp_path / "program")], check=True, capture_output=True, text=True).stdout
    assert written == "collatz: status 0\nsteps: 0\npeak: 0\n"


def test_constants_are_there_once_and_only_if_they_are_read() -> None:
    weights = np.random.default_rng(0).integers(-127, 128, (64, 256)).astype(np.int8)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.INT8, (1, 256), Quantization((0.1,), (3,)))
    w = main.constant(weights, quantization=Quantization((0.01,), (0,)))
    y = Tensor("y", DType.INT8, (1, 64), quantization=Quantization((0.2,), (1,)))
    main.output(*main.op(FullyConnected(), x, w, None, outputs=[y]))
    found = compile_model(b.build(), "cortex-m4", is_small=True)
    assert weights.nbytes <= found.contents.data_bytes < 1.1 * weights.nbytes
