"""Models with lengths that each run gives, or tells, within bounds."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.aot.between import Between
from circlet.backends.native.aot.limits import MISFIT
from circlet.embed import compile_model
from circlet.embed.compiled import Compiled
from circlet.embed.files import files
from circlet.embed.names import identifier
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import CallOnce, CallSubgraph
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.variable import AssignVariable
from circlet.tools.main import main
from tests.embed.devices import DEVICES, VARIED, Device, run
from tests.embed.library import Library
from tests.embed.test_interface import FAILED, here
from tests.exec.graphs import f32, i32
from tests.exec.test_variables import handle, read
from tests.models.expectations import Expectation, agrees
from tests.native.test_lengths import DEPTH, Graph, chosen, cut, encoder, joined, layers, loop, model
from tests.native.test_lengths_captured import a_number_of_the_run, in_a_loop, made
from tests.native.test_lengths_image import MODELS as IMAGES
from tests.passes.test_lift_words import looked_up, naming

MODELS = Path(__file__).parents[1] / "models"
ENCODER, LAYERS, CHOSEN, CUT, JOINED, LOOP = (
    model(encoder), model(layers), model(chosen), model(cut), model(joined), model(loop, 3))
RANDOM = np.random.default_rng(5)
Inputs = Mapping[str, Array]


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def ids(count: int) -> Array:
    return RANDOM.integers(0, 50, count).astype(np.int32)


def summed(g: Graph) -> Sequence[Value]:
    """The sum of two inputs of one open length."""
    return [g(Add(), *(g.builder.input(name, DType.FLOAT32, (-1,)) for name in "xy"))]


@dataclass(frozen=True)
class Case:
    """A model with open lengths, what they are within, and calls.

    Attributes:
        model: it.
        shapes: of inputs.
        calls: inputs.
        misfits: those that runs refuse.
        functions: how many there are, each for some lengths.
        capacity: room for lengths without bounds.
    """

    model: Callable[[], Model]
    shapes: Mapping[str, Sequence[int | Between]]
    calls: Sequence[Inputs]
    misfits: Sequence[Inputs] = ()
    functions: int = 1
    capacity: int | None = None


def stored(name: str) -> Callable[[], Model]:
    return lambda: circlet.load(MODELS / f"{name}.tflite")


CASES: dict[str, Case] = {
    "encoder": Case(lambda: ENCODER, {"ids": (Between(2, 30),)}, [{"ids": ids(n)} for n in (2, 30, 7, 16)],
                    [{"ids": ids(n)} for n in (1, 31, 0)]),
    "encoder from 1": Case(lambda: ENCODER, {"ids": (Between(1, 9),)}, [{"ids": ids(n)} for n in (1, 9, 2)],
                           [{"ids": ids(10)}]),
    "time of an LSTM": Case(stored("lstm_time"), {"x": (1, Between(1, 40), 4)},
                            [{"x": floats(1, n, 4)} for n in (1, 40, 17)], [{"x": floats(1, n, 4)} for n in (0, 41)]),
    "images": Case(lambda: IMAGES["classifier"], {"image": (Between(1, 2), Between(5, 16), Between(1, 16), 3)},
                   [{"image": floats(*shape, 3)} for shape in ((2, 16, 16), (1, 5, 1), (1, 9, 13))],
                   [{"image": floats(*shape, 3)} for shape in ((3, 5, 5), (1, 4, 5), (1, 5, 17))]),
    "batch": Case(lambda: LAYERS, {"x": (Between(0, 9), DEPTH)}, [{"x": floats(n, DEPTH)} for n in (9, 0, 1, 4)],
                  [{"x": floats(10, DEPTH)}], functions=2),
    "integers": Case(stored("cnn_batch"), {"x": (Between(1, 4), 8, 8, 3)}, [{"x": floats(n, 8, 8, 3)} for n in (1, 4)]),
    "found elements": Case(lambda: CHOSEN, {"x": (Between(1, 20), 4)},
                           [{"x": each} for each in (floats(20, 4), floats(1, 4), -abs(floats(7, 4)))]),
    "found among a fixed number": Case(stored("non_zero"), {}, [
        {"x": i32(each)} for each in ([0] * 8, [1] * 8, [0, 2, 0, 3, -1, 0, 0, 5])]),
    "cut where an input says": Case(lambda: CUT, {"x": (Between(2, 12), 3)},
                                    [{"x": floats(n, 3), "k": i32([k])} for n, k in ((12, 5), (2, 0), (3, 2))]),
    "two lengths": Case(lambda: JOINED, {"x": (Between(2, 6), 3), "y": (Between(4, 5), 3)},
                        [{"x": floats(n, 3), "y": floats(m, 3)} for n, m in ((2, 5), (6, 4), (5, 5))],
                        [{"x": floats(2, 3), "y": floats(3, 3)}]),
    "a loop over a matrix": Case(
        lambda: LOOP, {"x": (Between(2, 7),) * 2},
        [{"k": i32(3), "x": floats(n, n)} for n in (2, 7, 4)], [{"k": i32(3), "x": floats(8, 8)}], functions=1),
    "a loop that is told the batch": Case(
        lambda: made(in_a_loop), {"x": (Between(2, 9), 4)}, [{"x": floats(n, 4), "k": i32(0)} for n in (2, 9, 5)],
        [{"x": floats(10, 4), "k": i32(0)}]),
    "a loop that is told a number": Case(
        lambda: made(a_number_of_the_run), {"x": (1, 4)}, [{"x": floats(1, 4), "k": i32(k)} for k in (3, 0, 12)],
        capacity=12),
    "a loop that appends": Case(stored("grow_concat"), {}, [{"n": i32(n)} for n in (0, 1, 30)], capacity=32),
    "a loop that attends": Case(stored("cache_gru"), {}, [{"x": floats(1, 8), "steps": i32(n)} for n in (0, 3, 20)],
                                capacity=24),
    "a loop that pads": Case(stored("grow_pad"), {}, [{"x": floats(2, 2), "n": i32(n)} for n in (0, 5)], capacity=16),
    "ranges and shapes of values": Case(stored("computed_shapes"), {}, [
        {"rows": i32(n), "columns": i32(m)} for n, m in ((3, 4), (0, 2), (1, 1), (10, 12))], capacity=12),
    "a list as long as an input says": Case(stored("list_dynamic"), {}, [{"n": i32(n)} for n in (0, 1, 9)], capacity=9),
    "a table of lengths from 0": Case(stored("scatter_rows"), {"order": (Between(0, 3),)}, [
        {"x": floats(4, 3), "order": i32(each)} for each in ([], [2], [0, 3, 1])], functions=2),
}
LONG = ("images", "encoder", "encoder from 1")
"""Those that take long to compile."""
SOME = [pytest.param(each, marks=pytest.mark.slow if each in LONG else ()) for each in CASES]
FEW = ("time of an LSTM", "found elements", "a loop that appends")
"""Those that run on devices, and as small code, whenever tests do; the others are slow."""
EACH = [pytest.param(each, marks=() if each in FEW else pytest.mark.slow) for each in CASES]
ON_DEVICES = [
    pytest.param(name, device, id=f"{name}-{device.target}",
                 marks=() if name == FEW[0] or (name in FEW and device.target in VARIED) else pytest.mark.slow)
    for device in DEVICES for name in CASES]
"""The first of them runs on every device."""


def compiled(case: Case, target: str, is_small: bool = False) -> Compiled:
    return compile_model(case.model(), target, "found", None, {name: tuple(each) for name, each in case.shapes.items()},
                         is_small, capacity=case.capacity)


@lru_cache(len(CASES))
def compiled_here(name: str) -> Compiled:
    return compiled(CASES[name], "host")


@lru_cache(len(CASES))
def expected(name: str, backend: str) -> list[dict[str, Array]]:
    case = CASES[name]
    session = circlet.Session(case.model(), backend)
    return [session.run(dict(each)) for each in case.calls]


@here
@pytest.mark.parametrize("name", SOME)
def test_results_have_the_bits_of_a_session(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    found = compiled_here(name)
    library = Library(found, tmp_path)
    for given, wanted in zip(case.calls, expected(name, "native"), strict=True):
        status, outputs = library.run(given)
        assert status == 0
        for key, value in wanted.items():
            np.testing.assert_array_equal(outputs[identifier(key)], value, strict=True)
    functions = [each for each in found.code.module.functions if "_body_" in each.name]
    assert len(functions) == case.functions


@here
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("name", EACH)
def test_small_code_for_lesser_processors(name: str, target: str, tmp_path: Path) -> None:
    case = CASES[name]
    library = Library(compiled(case, target, is_small=True), tmp_path)
    for given, wanted in zip(case.calls, expected(name, "cpu"), strict=True):
        status, outputs = library.run(given)
        assert status == 0
        assert all(agrees(outputs[identifier(key)], value) for key, value in wanted.items())


@here
@pytest.mark.parametrize("name", [each for each in SOME if CASES[str(each.values[0])].misfits])
def test_other_lengths_are_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    found = compiled_here(name)
    library = Library(found, tmp_path)
    report = json.loads(files(found)["found.json"])
    state, arena = library.state.copy(), library.arena.copy()
    for given in case.misfits:
        status, outputs = library.run(given)
        assert status == MISFIT
        assert "out of its bounds" in report["entries"][0]["statuses"][str(status)]
        assert all((np.asarray(each) == 0xA5).all() for each in outputs.values())
    np.testing.assert_array_equal(library.state, state)
    np.testing.assert_array_equal(library.arena, arena)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "device"), ON_DEVICES)
def test_devices(name: str, device: Device, tmp_path: Path) -> None:
    if device.missing:
        pytest.skip(f"not installed: {', '.join(device.missing)}")
    case = CASES[name]
    calls = [Expectation(0, "", each, {}) for each in (*case.calls, *case.misfits)]
    found = compiled(case, device.target, is_small=True)
    if not device.has_room(found, calls):
        pytest.skip("the board has too little memory")
    results = list(run(device, found, calls, tmp_path))
    assert [status for status, _ in results] == [0] * len(case.calls) + [MISFIT] * len(case.misfits)
    for (_, outputs), wanted in zip(results, expected(name, "cpu"), strict=False):
        assert all(agrees(outputs[identifier(key)], value) for key, value in wanted.items())


@here
def test_lengths_that_do_not_fit_each_other_have_a_status(tmp_path: Path) -> None:
    bounds = {"x": (Between(1, 6),), "y": (Between(1, 6),)}
    found = compile_model(model(summed), "host", "sum", shapes=bounds)
    library = Library(found, tmp_path)
    session = circlet.Session(model(summed), "cpu")
    for n in range(1, 7):
        for m in range(1, 7):
            given = {"x": floats(n), "y": floats(m)}
            status, outputs = library.run(given)
            if n == m or 1 in (n, m):
                assert status == 0
                (result,), (wanted,) = outputs.values(), session.run(given).values()
                np.testing.assert_array_equal(result, wanted, strict=True)
            else:
                place = json.loads(files(found)["sum.json"])["entries"][0]["statuses"][str(status)]
                assert place["name"] == "ADD"
                assert "lengths that do not fit, such as x[0]: 6, y[0]: 5" in place["message"]


def totals() -> Model:
    """Adds the sum of x to a variable, which begins as 5, and gives an element of x times that."""
    b = ModelBuilder()
    main, init = b.subgraph("main"), b.subgraph("init")
    init.op(AssignVariable(), handle(init), init.constant(f32([5])), outputs=[])
    g = Graph(main)
    x, at = main.input("x", DType.FLOAT32, (-1,)), main.input("at", DType.INT32, (1,))
    main.op(CallOnce(init.index), outputs=[])
    total = main.apply(Add(), read(main, shape=(1,), known=True), main.apply(Sum(keep_dims=True), x, g.ints(0)))
    main.op(AssignVariable(), handle(main), total, outputs=[])
    main.output(g(Mul(), g(Gather(), x, at), total))
    return b.build()


@here
def test_runs_that_are_refused_or_fail_leave_the_state(tmp_path: Path) -> None:
    library = Library(compile_model(totals(), "host", "totals", shapes={"x": (Between(1, 8),)}), tmp_path)
    before = library.state.copy()
    for count, at, wanted in ((0, 0, MISFIT), (9, 0, MISFIT), (3, 3, FAILED), (8, 8, FAILED)):
        assert library.run({"x": f32([1] * count), "at": i32([at])})[0] == wanted
        np.testing.assert_array_equal(library.state, before)
    for count, total in ((3, 9), (8, 18), (1, 20)):
        status, outputs = library.run({"x": f32([2] + [1] * (count - 1)), "at": i32([0])})
        assert status == 0
        (result,) = outputs.values()
        np.testing.assert_array_equal(result, f32([2 * total]))


@here
def test_a_run_that_comes_to_more_than_there_is_room_for_fails(tmp_path: Path) -> None:
    found = compile_model(stored("grow_concat")(), "host", "grow", capacity=10)
    library = Library(found, tmp_path)
    statuses = [library.run({"n": i32(n)})[0] for n in (0, 5, 9, 10, 100)]
    assert statuses == [0, 0, 0, FAILED, FAILED]
    fill = Library(compile_model(stored("list_dynamic")(), "host", "fill", capacity=10), tmp_path)
    assert [fill.run({"n": i32(n)})[0] for n in (10, 11, -1, 1 << 30)] == [0, FAILED, FAILED + 1, FAILED]
    report = json.loads(files(found)["grow.json"])["entries"][0]
    assert "more than the 10 that there is room for" in report["statuses"][str(FAILED)]["message"]
    assert report["outputs"][1]["lengths"] == [{"axis": 0, "least": 1, "most": 10}]


def test_lengths_without_a_bound_are_refused() -> None:
    with pytest.raises(circlet.UnsupportedError, match=r"operator 0 \(WHILE\): lengths that nothing bounds.*capacity"):
        compile_model(stored("grow_concat")(), "cortex-m4")


def test_an_operator_of_unknown_shape_is_named_where_it_is() -> None:
    b = ModelBuilder()
    main, inner = Graph(b.subgraph("main")), Graph(b.subgraph("inner"))
    taken, given = ([each.builder.input(name, DType.FLOAT32, (size,)) for name, size in (("x", 4), ("shape", 2))]
                    for each in (inner, main))
    inner.builder.output(inner(Reshape(), taken[0], inner(Cast(), taken[1], dtype=DType.INT32)))
    main.builder.output(main(CallSubgraph(inner.builder.index), *given))
    with pytest.raises(circlet.UnsupportedError, match=r"subgraph 1 \('inner'\), operator 1 \(RESHAPE\): shapes that"):
        compile_model(b.build(), "cortex-m4", capacity=4)


def test_names_of_classes_are_refused_by_their_type() -> None:
    with pytest.raises(circlet.UnsupportedError, match="elements of type string"):
        compile_model(naming(looked_up), "cortex-m4", shapes={"x": (2, 3)})


def test_memory_beyond_addresses_is_refused() -> None:
    bounds = {"x": (Between(1, 1 << 30), 2)}
    assert compile_model(stored("map_rows_dynamic")(), "aarch64", shapes=bounds).object
    with pytest.raises(circlet.UnsupportedError, match=r"runs need 8589934592 bytes .* addresses of 32 bits"):
        compile_model(stored("map_rows_dynamic")(), "cortex-m4", shapes=bounds)


def test_the_arena_is_that_of_the_longest() -> None:
    sizes = [compile_model(stored("lstm_time")(), "cortex-m4", shapes={"x": (1, each, 4)}).code.arena_bytes
             for each in (Between(1, 40), 40)]
    assert sizes[0] <= 1.1 * sizes[1]


@pytest.mark.parametrize(("bounds", "message"), [
    (Between(5, 4), "bounds of a length in order"),
    (Between(-1, 4), "bounds of a length in order"),
    (Between(1, 1 << 31), "bounds of a length in order"),
])
def test_bounds_are_in_order(bounds: Between, message: str) -> None:
    with pytest.raises(circlet.InputError, match=message):
        compile_model(stored("lstm_time")(), "cortex-m4", shapes={"x": (1, bounds, 4)})


def test_fixed_lengths_have_no_bounds() -> None:
    with pytest.raises(circlet.InputError, match=r"input 'x' has shape \[1, \?, 4\], found \[1, 1..9, 1..4\]"):
        compile_model(stored("lstm_time")(), "cortex-m4", shapes={"x": (1, Between(1, 9), Between(1, 4))})


@pytest.mark.parametrize(("shape", "message"), [
    ("x=1,?,4", "length ? has no bound"), ("x=1,-1,4", "length -1 has no bound"), ("x=1,2..,4", "expected lengths as"),
    ("x=1,1..2..3,4", "expected lengths as"), ("x=1,9..2,4", "in order")])
def test_the_command_says_what_is_wrong(shape: str, message: str, tmp_path: Path,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(MODELS / "lstm_time.tflite"), "--target", "cortex-m4", "--shape", shape,
                 "-o", str(tmp_path / "build")]) != 0
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@here
def test_the_example_gives_lengths_and_prints_them(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    assert main(["compile", str(MODELS / "embed_mean.tflite"), "--target", "host", "--shape", "tokens=1..12",
                 "--example", "-o", str(tmp_path)]) == 0
    assert main(["compile", str(MODELS / "non_zero.tflite"), "--target", "host", "--example", "-o",
                 str(tmp_path / "other")]) == 0
    written = [_built(compiler, folder, name) for folder, name in (
        (tmp_path, "embed_mean"), (tmp_path / "other", "non_zero"))]
    assert written[0].startswith("embed_mean: status 0\nscores: ")
    assert written[1] == "non_zero: status 0\ntotal: 0\nwhere[0]:\n"


def _built(compiler: str, folder: Path, name: str) -> str:
    command = [compiler, "-Wall", "-Wextra", "-Werror", "main.c", f"{name}.o", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([str(folder / "program")], check=True, capture_output=True, text=True).stdout


def test_the_header_says_what_is_open(tmp_path: Path) -> None:
    found = compile_model(CHOSEN, "cortex-m4", "chosen", shapes={"x": (Between(1, 20), 4)})
    header = files(found)["chosen.h"].decode()
    for each in ("    const float *x; /* float32[1..20, 4] */\n    size_t x_lengths[1]; /* of axis 0 */\n",
                 "_lengths; /* [1], of axis 0, which a run writes; or NULL */\n",
                 "#define CHOSEN_INPUT_X_MAX_COUNT 80\n", "#define CHOSEN_INPUT_X_MAX_BYTES 320\n",
                 "#define CHOSEN_INPUT_X_SHAPE { -1, 4 }\n", "#define CHOSEN_INPUT_X_MAX_SHAPE { 20, 4 }\n",
                 "#define CHOSEN_MISFIT 3\n"):
        assert each in header
    assert "CHOSEN_INPUT_X_COUNT" not in header


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_a_page_gives_arrays_with_shapes(tmp_path: Path) -> None:
    found = compile_model(JOINED, "wasm32-simd", "joined", shapes={
        "x": (Between(2, 6), 3), "y": (Between(2, 6), 3)})
    for name, content in files(found).items():
        (tmp_path / name).write_bytes(content)
    shutil.copy(Path(__file__).parents[2] / "examples" / "embed" / "web" / "circlet.mjs", tmp_path)
    (tmp_path / "try.mjs").write_text("""
import fs from 'fs';
import {Model} from './circlet.mjs';
const model = await Model.load(fs.readFileSync('joined.wasm'), JSON.parse(fs.readFileSync('joined.json')));
const x = Float32Array.from({length: 6}, (_, k) => k), y = Float32Array.from({length: 12}, (_, k) => -k);
const first = Object.values(model.run({x, y}));
console.log(JSON.stringify(first.map((each) => [each.shape, [...each]])));
const again = Object.values(model.run({x: first[0], y: Object.assign(y, {shape: [4, 3]})}));
console.log(JSON.stringify(again.map((each) => each.shape)));
const [short, long, odd] = [3, 21, 7].map((each) => new Float32Array(each));
for (const wrong of [short, long, odd, Object.assign(y, {shape: [3, 4]})]) {
  try { model.run({x: wrong, y: x}); } catch (error) { console.log(error.message.split(':')[0]); }
}
""")
    done = subprocess.run(["node", "try.mjs"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    lines = done.splitlines()
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), -np.arange(12, dtype=np.float32).reshape(4, 3)
    assert json.loads(lines[0]) == [[[6, 3], [*map(float, np.concatenate([x, y]).reshape(-1))]],
                                    [[2, 4], [*map(float, (x @ y.T).reshape(-1))]]]
    assert json.loads(lines[1]) == [[10, 3], [6, 4]]
    assert lines[2:] == ["input x"] * 4
