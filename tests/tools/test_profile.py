"""`circlet profile`: what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.needs import NATIVE
from tests.tools.conftest import Program

COLLATZ = ("profile", "examples/collatz.tflite", "-i", "n=27", "--runs", "3", "--warmup", "1")


def test_text(program: Program) -> None:
    lines = program.text(*COLLATZ, "--backend", "cpu").splitlines()
    assert lines[0].startswith("examples/collatz.tflite on cpu, 3 runs: median ")
    titles = [lines[k + 1] for k, each in enumerate(lines) if not each]
    assert [each.split("  ")[0] for each in titles] == [
        "where the time goes", "loops", "subgraphs", "operators by own time", "before the runs"]
    (loop,) = (each for each in lines if each.endswith("  @0 / [0] WHILE"))
    assert loop.split()[4:7] == ["1", "111", loop.split()[6]]


def test_json_in_a_file(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    assert f"saved {path}" in program.text(*COLLATZ, "--backend", "cpu", "--json", str(path))
    found = json.loads(path.read_text())
    assert found["profile"]["runs"]["count"] == found["profile"]["tree"]["count"] > 0
    assert found["files"] == [str(path)]


def test_json(program: Program) -> None:
    found = program.json(*COLLATZ, "--backend", "cpu")
    assert (found["model"], found["backend"], found["warmup"], found["files"]) == (COLLATZ[1], "cpu", 1, [])
    assert found["inputs"] == [{"name": "n", "shape": [], "random": False}]
    profile = found["profile"]
    assert (profile["version"], profile["runs"]["count"]) == (1, 3)
    assert {each["index"]: each["invocations"] for each in profile["subgraphs"]} == {
        0: 3, 1: 123, 2: 210, 3: 336, 4: 333}


def test_what_comes_before_the_runs(program: Program) -> None:
    found = program.json(*COLLATZ, "--backend", "cpu")
    stages = [each["stage"] for each in found["startup"]]
    assert [each for each in stages if not each.startswith("pass ")] == [
        "read", "verify", "choose the backend", "make executors", "first run"]
    assert stages.index("choose the backend") < stages.index("pass eliminate_dead") < stages.index("make executors")
    assert all(each["seconds"] >= 0 for each in found["startup"])
    less = program.json(*COLLATZ, "--backend", "cpu", "--no-startup", "--no-roofline")
    assert [each["stage"] for each in less["startup"]] == ["read", "verify"]
    assert found["profile"]["peak"]["flops"] > 0
    assert less["profile"]["peak"] is None


@NATIVE
def test_functions_are_compiled_or_were_kept(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path))
    for what in ("compile", "take"):
        found = program.json(*COLLATZ, "--backend", "native", "--no-roofline")
        (function,) = (each for each in found["startup"] if each["stage"].startswith(("compile ", "take ")))
        assert function["stage"] == f"{what} @0 main, operators [0] to [0]"
        assert (function["seconds"] > 0) == (what == "compile")
        assert sorted(each["name"] for each in function["units"]) == (
            ["circlet_entry", "circlet_poll"] if what == "compile" else [])
        assert not any(each["kept"] for each in function["units"])


def test_inputs_by_chance(program: Program) -> None:
    def found(*more: str) -> Any:
        return program.json("profile", "tests/models/cond_shapes.tflite", "--backend", "cpu", "--runs", "1", *more)

    first, other = found(), found("--seed", "5")
    assert all(each["random"] for each in first["inputs"])
    assert (first["seed"], other["seed"]) == (0, 5)
    assert "inputs by chance: n int32[]" in program.text(
        "profile", "examples/collatz.tflite", "--backend", "cpu", "--runs", "1")


def test_trace(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert program.text(*COLLATZ, "--backend", "cpu", "--trace", path).endswith(f"\n\nsaved {path}\n")
    found = json.loads(path.read_text())
    assert {each["ph"] for each in found["traceEvents"]} == {"X", "M"}
    assert found["otherData"]["regions_not_kept"] == 0
    assert program.json(*COLLATZ, "--trace", path)["files"] == [str(path)]


@pytest.mark.parametrize(("arguments", "message"), [
    (["-i", "m=1"], "no input 'm'; the entry point takes n"),
    (["--shape", "n=3"], "input 'n': expected shape [], found [3]"),
    (["--signature", "zzz"], "no signature 'zzz'; the model has serving_default"),
    (["--trace", "/nowhere/trace.json"], "/nowhere/trace.json: No such file or directory"),
])
def test_errors(program: Program, arguments: list[str], message: str) -> None:
    assert program.error("profile", "examples/collatz.tflite", "--backend", "cpu", *arguments) == message


@NATIVE
def test_native(program: Program) -> None:
    found = program.json(*COLLATZ, "--backend", "native")
    assert found["backend"] == "native"
    assert found["profile"]["runs"]["count"] == 3
