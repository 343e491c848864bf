"""`circlet inspect`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.text import to_text
from circlet.runtime.ir.types import DType, Padding, Quantization
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.pool import MaxPool2D
from circlet.runtime.ops.quantize import Quantize
from circlet.runtime.ops.shape import Reshape
from circlet.schema.foreign import Foreign
from circlet.schema.tflite import TFLITE
from circlet.schema.writer import write_model
from tests.needs import NATIVE
from tests.passes.growth_cases import PADDED, growing
from tests.tools.conftest import Program

COLLATZ = "examples/collatz.tflite"


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """A model with an operator that nobody knows and one with operands that no kernel takes."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.bool_, (2,))
    y, = main.op(Foreign("CUSTOM:Mystery"), x, count=1)
    main.output(main.apply(Add(), y, y))
    path = tmp_path / "unknown.tflite"
    circlet.save(builder.build(), path)
    return path


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    """A model with an operator whose result nobody reads."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (2,))
    main.apply(Mul(), x, x)
    main.output(main.apply(Add(), x, x))
    path = tmp_path / "dead.tflite"
    circlet.save(builder.build(), path)
    return path


def test_text(program: Program, golden: Callable[[str, str], None]) -> None:
    golden("inspect_collatz", program.text("inspect", COLLATZ, "--backend", "cpu"))


@NATIVE
def test_native_code(program: Program, golden: Callable[[str, str], None]) -> None:
    golden("inspect_collatz_native", program.text("inspect", COLLATZ, "--native"))


@NATIVE
def test_native_code_in_other_languages(program: Program) -> None:
    (found,) = program.json("inspect", COLLATZ, "--subgraph", "4", "--native", "--llvm", "--asm")["functions"]
    assert (found["subgraph"], found["operators"], found["arena_bytes"]) == (4, [0, 1, 2, 3, 4, 5], 0)
    assert found["outline"][2:4] == ["[3] int32[] register = IF", "  then @2"]
    assert "define " in found["llvm"]
    assert "circlet_entry:" in found["asm"]
    text = program.text("inspect", COLLATZ, "--subgraph", "4", "--llvm")
    assert "define " in text
    assert "[3] int32[] register = IF" not in text


@NATIVE
def test_native_code_for_lengths_that_fit(program: Program, tmp_path: Path) -> None:
    """A window of five rows, where one row is what an open length would be."""
    b = circlet.ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", np.float32, (1, -1, 8, 3))
    main.output(main.apply(MaxPool2D(Padding.VALID, 1, 1, filter_width=2, filter_height=5), x))
    path = tmp_path / "window.tflite"
    circlet.save(b.build(), path)
    assert "MAX_POOL_2D" in program.text("inspect", path, "--native")


def test_models_for_even_lengths(program: Program, tmp_path: Path) -> None:
    b = circlet.ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", np.float32, (-1,))
    main.output(main.apply(Reshape(), x, main.constant(np.array([2, -1], np.int32))))
    path = tmp_path / "halves.tflite"
    circlet.save(b.build(), path)
    assert "RESHAPE" in program.text("inspect", path)


@NATIVE
def test_why_there_is_no_native_code(program: Program, tmp_path: Path) -> None:
    b = circlet.ModelBuilder()
    main = b.subgraph("main")
    one, other = (Tensor(name, DType.INT8, (2,), quantization=Quantization((scale,), (0,)))
                  for name, scale in (("x", 0.5), ("y", 0.0)))
    x = main.tensor(one)
    main.feed(x)
    main.output(*main.op(Quantize(), x, outputs=[other]))
    path = tmp_path / "infinite.tflite"
    circlet.save(b.build(), path)
    reason = "left to numpy: subgraph 0 ('main'), operator 0 (QUANTIZE): the scales need to be multiplied by [inf]"
    for option in ("--native", "--llvm", "--asm"):
        assert f"operators [0] to [0]: {reason}" in program.text("inspect", path, option)
    (found,) = program.json("inspect", path, "--native", "--llvm", "--asm")["functions"]
    assert found["outline"][0].startswith(reason)
    assert not {"llvm", "asm"} & found.keys()


def test_text_ends_with_the_model(program: Program) -> None:
    assert program.text("inspect", COLLATZ).endswith(to_text(circlet.load(COLLATZ)))


def test_subgraph(program: Program) -> None:
    assert program.text("inspect", COLLATZ, "--subgraph", "2", "--backend", "cpu") == """\
examples/collatz.tflite: tflite, 3,960 bytes, 5 subgraphs, 11 operators, 1 signature
weights: 16 bytes
work: about 1 FLOP, 8 bytes read and 4 written, of loops one turn
memory at its peak: 128 bytes, at @2[0] FLOOR_DIV

subgraph                operators  tensors  constant bytes  FLOP  peak bytes  called by
@2 while_cond_true_310          1        3               4     1         128  @4[3] IF then

operator   count  computed by
FLOOR_DIV      1  cpu

subgraph 2 'while_cond_true_310' (%0 while_cond_true_310_arg0: int32[]) -> (%2)
  %1 while/cond/floordiv/y: constant int32[] = 2
  [0] %2 while/cond/floordiv: int32[] = FLOOR_DIV(%0, %1)
"""


def test_json(program: Program) -> None:
    found = program.json("inspect", COLLATZ, "--subgraph", "2", "--backend", "cpu")
    assert found == {
        "model": COLLATZ, "format": "tflite", "version": 3, "description": "MLIR Converted.", "bytes": 3960,
        "weights_bytes": 16, "problem": None, "problems": [], "same_constants": [],
        "signatures": [{"key": "serving_default", "subgraph": 0, "inputs": {"n": 0},
                        "outputs": {"peak": 3, "steps": 4}}],
        "subgraphs": [{
            "index": 2, "name": "while_cond_true_310", "inputs": [0], "outputs": [2], "constant_bytes": 4,
            "flops": 1, "bytes_read": 8, "bytes_written": 4, "operators_without_estimate": 0, "peak_bytes": 128,
            "peak_operator": 0,
            "called_by": [{"subgraph": 4, "operator": 3, "role": "then"}], "unused_tensors": [],
            "tensors": [
                {"index": 0, "name": "while_cond_true_310_arg0", "dtype": "int32", "kind": "value", "shape": [],
                 "quantization": None},
                {"index": 1, "name": "while/cond/floordiv/y", "dtype": "int32", "kind": "constant", "shape": [],
                 "quantization": None},
                {"index": 2, "name": "while/cond/floordiv", "dtype": "int32", "kind": "value", "shape": [],
                 "quantization": None},
            ],
            "operators": [{"index": 0, "name": "FLOOR_DIV", "version": 1, "inputs": [0, 1], "outputs": [2],
                           "backend": "cpu", "reason": None, "flops": 1, "bytes_read": 8, "bytes_written": 4}],
        }],
    }
    assert len(program.json("inspect", COLLATZ)["subgraphs"]) == 5


def test_model_that_cannot_be_run(program: Program, unknown: Path) -> None:
    lines = program.text("inspect", unknown).splitlines()
    assert "CUSTOM:Mystery      1  unsupported: not implemented" in lines
    assert any(line.startswith("ADD                 1  unsupported: ") for line in lines)
    assert "2 kinds of operators cannot be run" in lines
    assert lines[-1].startswith("  [1] ")
    found = program.json("inspect", unknown)
    assert found["problem"] == "2 kinds of operators cannot be run"
    operators = found["subgraphs"][0]["operators"]
    assert [(each["name"], each["backend"]) for each in operators] == [("CUSTOM:Mystery", None), ("ADD", None)]
    assert operators[0]["reason"] == "not implemented"


def test_copies_of_a_model_that_cannot_be_run(program: Program, unknown: Path) -> None:
    for command in (("inspect", "--copies"), ("run",)):
        message = program.error(command[0], unknown, *command[1:])
        assert message.startswith("2 kinds of operators cannot be run: ")
        assert "CUSTOM:Mystery (version 1): not implemented, first in subgraph 0 ('main'), operator 0 " in message


def test_operators_of_a_kind_are_told_once(program: Program, tmp_path: Path) -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (2,))
    for name in ("Mystery", "Riddle", "Mystery", "Mystery"):
        x, = main.op(Foreign(f"CUSTOM:{name}"), x, count=1)
    main.output(x)
    circlet.save(builder.build(), tmp_path / "kinds.tflite")
    message = program.error("run", tmp_path / "kinds.tflite")
    assert message.startswith("2 kinds of operators cannot be run: ")
    assert [message.count(name + " (version 1)") for name in ("CUSTOM:Mystery", "CUSTOM:Riddle")] == [1, 1]
    assert "CUSTOM:Riddle (version 1): not implemented, first in subgraph 0 ('main'), operator 1 " in message


@pytest.mark.parametrize("name", ["collatz", "loop_switch", "grow_concat", "map_nested"])
@pytest.mark.parametrize("elision", [True, False], ids=["elision", "copies"])
def test_copies_as_json(program: Program, name: str, elision: bool) -> None:
    path = f"tests/models/{name}.tflite"
    found = program.json("inspect", path, "--copies", *([] if elision else ["--no-copy-elision"]))["copies"]
    edges = circlet.Session(circlet.load(path), copy_elision=elision).copies()
    assert found == [{**asdict(each), "action": each.action.value} for each in edges]
    assert all(list(each) == ["subgraph", "operator", "edge", "bytes", "per_iteration", "action", "reason"]
               for each in found)


def test_copies_of_one_subgraph(program: Program) -> None:
    for name in ("4", "@4", "while_body"):
        found = program.json("inspect", COLLATZ, "--copies", "--subgraph", name)["copies"]
        assert {each["subgraph"] for each in found} == {4}


def test_copies(program: Program) -> None:
    lines = program.text("inspect", COLLATZ, "--copies", "--backend", "cpu").splitlines()
    assert lines[0].split() == ["operator", "edge", "bytes", "in", "loop", "action", "reason"]
    assert lines[1].startswith("@0[0] WHILE  input 0            4           copy      ")
    assert lines[13].startswith("@4[3] IF     then input 0       4  yes      lend      ")
    assert lines[17:] == [
        "",
        "action    edges  bytes  in loops  bytes in loops",
        "lend          6     24         6              24",
        "in_place      6     24         6              24",
        "copy          4     16         0               0",
        "",
        "no copies are left in loops",
    ]


def test_copies_left_in_loops(program: Program) -> None:
    out = program.text("inspect", COLLATZ, "--copies", "--no-copy-elision", "--backend", "cpu")
    assert out.endswith("""
action  edges  bytes  in loops  bytes in loops
copy       20     80        16              64

left in loops: 16 copies, 64 bytes
  @0[0] WHILE: cond input 0, body input 0, body output 0, cond input 1, body input 1, body output 1,
    cond input 2, body input 2, body output 2, cond input 3, body input 3, body output 3
  @4[3] IF: then input 0, then output 0, else input 0, else output 0
""")


def test_copies_of_unknown_size(program: Program) -> None:
    path = "tests/models/grow_concat.tflite"
    assert "left in loops: 9 copies, ? bytes" in program.text("inspect", path, "--copies", "--backend", "cpu")


@NATIVE
def test_copies_of_what_grows(program: Program, tmp_path: Path) -> None:
    """Native code has a loop of fixed shapes within one that makes room."""
    path = tmp_path / "model.tflite"
    circlet.save(growing(PADDED["doubles"]), path)
    out = program.text("inspect", str(path), "--copies", "--backend", "native")
    assert " LOOP_ROUNDS " in out
    assert "1,024  yes      in_place  the body updates the value where it lies" in out
    assert "1,024  yes      in_place  the result is written over input 0, which is dead" in out
    assert "no copies are left in loops\n" in out


def test_no_copies(program: Program) -> None:
    path = "tests/models/cnn.tflite"
    assert program.text("inspect", path, "--copies") == "no values cross the border of a subgraph\n"
    assert program.json("inspect", path, "--copies") == {"copies": []}


@pytest.mark.parametrize(("arguments", "message"), [
    (["nosuch.tflite"], "nosuch.tflite: No such file or directory"),
    (["pyproject.toml"], "pyproject.toml: expected a .tflite, .circle, .circlet, .onnx or OpenVINO model"),
    ([COLLATZ, "--subgraph", "5"], "no subgraph 5; the model has 5 subgraphs, from 0"),
])
def test_errors(program: Program, arguments: list[str], message: str) -> None:
    assert program.error("inspect", *arguments).startswith(message)


def test_names_of_subgraphs(program: Program, tmp_path: Path) -> None:
    builder = circlet.ModelBuilder()
    for name in ("main", "twice", "twice", "7"):
        graph = builder.subgraph(name)
        graph.output(graph.input("x", np.float32, ()))
    path = tmp_path / "names.tflite"
    circlet.save(builder.build(), path)
    assert [each["index"] for each in program.json("inspect", path, "--subgraph", "7")["subgraphs"]] == [3]
    assert program.error("inspect", path, "--subgraph", "twice") == (
        "subgraphs 1, 2 are all called twice: expected an index")
    assert program.error("inspect", path, "--subgraph", "mian") == "no subgraph 'mian'; did you mean 'main'?"


def test_malformed_models_are_shown(program: Program, tmp_path: Path) -> None:
    """A subgraph that is invoked and is not there, and an operator that reads what nothing writes."""
    model = circlet.load(COLLATZ)
    main, *others = model.subgraphs
    loop = main.operators[0]
    assert isinstance(loop.op, While)
    broken = replace(main, operators=(replace(loop, op=replace(loop.op, cond_subgraph_index=9), inputs=(5, 5, 5, 5)),))
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"".join(write_model(replace(model, subgraphs=(broken, *others)), TFLITE)))
    out = program.text("inspect", path)
    problem = "subgraph 0 ('main'), operator 0 (WHILE), tensor 5"
    assert f"\n\n{problem}" in out
    assert "WHILE          1  unsupported: not judged in a malformed model\n" in out
    assert " = WHILE(%5, %5, %5, %5) {cond: @9, body: @4}" in out
    found = program.json("inspect", path)
    assert found["problem"].startswith(problem)
    assert {each["backend"] for each in found["subgraphs"][0]["operators"]} == {None}
    for option in ("--copies", "--native"):
        assert program.error("inspect", path, option).startswith(problem)
    assert program.error("run", path).startswith(problem)


def test_hostile_names(program: Program, tmp_path: Path) -> None:
    """Nothing of a model reaches the terminal as a control sequence, or is taken for rich's markup."""
    name = "[red]\x1b[31m\n\x85x\u202e"
    builder = circlet.ModelBuilder()
    main = builder.subgraph(name)
    y, = main.op(Foreign(f"CUSTOM:{name}"), main.input(name, np.float32, ()), count=1)
    main.output(y)
    path = tmp_path / "hostile.tflite"
    circlet.save(builder.build(), path)
    out = program.text("inspect", path)
    assert "[red]\\x1b[31m\\n\\x85x\\u202e" in out
    assert [each for each in out.split("\n") if not each.isprintable()] == []
    assert all(each.isprintable() for each in program.error("run", path, "-i", f"{name}=1").split("\n"))
    assert all(each.isprintable() for each in program.error("inspect", path, "--subgraph", "[red]").split("\n"))


def test_passes(program: Program) -> None:
    text = program.text("inspect", "tests/models/list_update.tflite", "--passes", "--backend", "cpu")
    assert [line.split() for line in text.splitlines()] == [
        ["pass", "indices", "changed"], *([name, "kept", "nothing"] for name in (
            "collect_lists", "lower_loops", "simplify_identities", "pick_elements", "divide_down", "fuse_row_updates",
            "place_slices", "update_variables", "expand_sparse", "unpack_filters", "name_combinations",
            "eliminate_dead"))]


def test_what_passes_change(program: Program, dead: Path) -> None:
    found = program.json("inspect", dead, "--passes", "--backend", "cpu")["passes"]
    assert [(each["name"], each["renumbers"], each["changes"]) for each in found] == [
        ("collect_lists", False, False), ("lower_loops", False, False), ("simplify_identities", False, False),
        ("pick_elements", False, False),
        ("divide_down", False, False), ("fuse_row_updates", False, False),
        ("place_slices", False, False), ("update_variables", False, False),
        ("expand_sparse", False, False), ("unpack_filters", False, False),
        ("name_combinations", False, False), ("eliminate_dead", False, True)]
    assert found[-1]["operators"] == {"MUL": [1, 0], "SKIP": [0, 1]}
    assert found[-1]["subgraphs"] == [1, 1]
    assert "MUL 1 -> 0, SKIP 0 -> 1" in program.text("inspect", dead, "--passes", "--backend", "cpu")


def test_the_model_after_a_pass(program: Program, dead: Path) -> None:
    before, after = (program.text("inspect", dead, "--backend", "cpu", "--after", name)
                     for name in ("fuse_row_updates", "eliminate_dead"))
    assert before == to_text(circlet.load(dead))
    assert "MUL" in before
    assert "MUL" not in after
    found = program.json("inspect", dead, "--backend", "cpu", "--after", "eliminate_dead", "--subgraph", "main")
    assert found["after"] == "eliminate_dead"
    assert found["model"] == after.split("\n\n", 1)[1]


def test_passes_of_loading_come_first(program: Program) -> None:
    path = "examples/sum_even.onnx"
    loaded = to_text(circlet.load(path))
    found = program.json("inspect", path, "--passes", "--backend", "cpu")["passes"]
    assert [(each["name"], each["renumbers"]) for each in found[:3]] == [
        ("propagate_layout", True), ("collect_lists", False), ("lower_loops", False)]
    assert program.text("inspect", path, "--after", "propagate_layout") == loaded


def test_no_such_pass(program: Program) -> None:
    assert program.error("inspect", COLLATZ, "--backend", "cpu", "--after", "eliminate_ded") == (
        "no pass 'eliminate_ded' in pipeline 'imported and interpreted'; it has propagate_layout, collect_lists, "
        "lower_loops, simplify_identities, pick_elements, divide_down, fuse_row_updates, place_slices, "
        "update_variables, expand_sparse, unpack_filters, name_combinations, eliminate_dead; "
        "did you mean 'eliminate_dead'?")
