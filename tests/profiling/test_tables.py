"""What is made of profiles: tables, text, JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.profiling.crossings import Crossed
from circlet.profiling.picture import picture
from circlet.profiling.sheets import size_text, time_text
from circlet.profiling.turns import quantile
from circlet.runtime.exec.observe.regions import Kind, duration_class
from tests.models.expectations import read

MODELS = Path(__file__).parent.parent / "models"
NAMES = ("nested_while", "triple_while", "cond_nested", "switch", "variable_loop", "scan_rows", "cnn")


def profiled(name: str, times: int = 2, **options: Any) -> circlet.Profile:
    path = MODELS / f"{name}.tflite"
    session, call = circlet.Session(path, "cpu", **options), read(path.with_suffix(".npz"))[0]
    runner = session.signature(call.signature) if call.signature else session
    with circlet.profile(session) as found:
        for _ in range(times):
            runner.run(call.inputs)
    return found


def collatz(**options: Any) -> circlet.Profile:
    session = circlet.Session("examples/collatz.tflite", "cpu", **options)
    with circlet.profile(session) as found:
        session.run([27])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_rows_add_up(name: str) -> None:
    found = profiled(name)
    copies = sum(each.own for each in found.root.walk() if each.region.kind is Kind.COPIES)
    own = sum(each.own for each in found.tables.subgraphs) + sum(each.own for each in found.tables.operators)
    assert found.root.own + own + copies == pytest.approx(found.root.total)
    flow = sum(each.own for each in found.tables.operators if not each.invokes)
    assert sum(each.overhead for each in found.tables.subgraphs) == pytest.approx(
        found.root.total - found.root.own - flow)
    assert found.tables.subgraphs[0].total == pytest.approx(found.root.total - found.root.own)
    for row in found.tables.loops:
        assert row.total >= row.condition + row.body > 0
        if row.times is not None:
            spread = [row.times.p10, row.times.median, row.times.p90, row.times.longest]
            assert None not in spread
            assert spread == sorted(each for each in spread if each is not None)


def test_what_is_copied_and_what_is_not() -> None:
    rows = {each.index: each for each in collatz().tables.subgraphs}
    assert (rows[0].copies, rows[0].copied_bytes) == (4, 16)
    assert rows[0].elided == Crossed(4 * 112 + 4 * 111, 4 * (4 * 112 + 4 * 111))
    assert (rows[4].copies, rows[4].elided) == (0, Crossed(2 * 111, 8 * 111))
    made = {each.index: each for each in collatz(copy_elision=False).tables.subgraphs}
    assert made[0].copies == 4 * (1 + 112 + 111 + 111)
    assert made[4].copies == 2 * 111
    assert {each.elided for each in made.values()} == {Crossed()}


def test_loops_and_operators() -> None:
    found = collatz()
    (loop,) = found.tables.loops
    assert (loop.path, loop.activations, loop.turns, loop.fewest, loop.typical, loop.most) == (
        "@0 / [0] WHILE", 1, 111, 111, 111, 111)
    assert loop.times is not None
    assert (loop.times.timed, sum(count for _, _, count in loop.times.histogram)) == (111, 111)
    assert loop.times.mean * 111 == pytest.approx(loop.times.first + 110 * loop.times.rest)  # type: ignore[operator]
    rows = {(each.subgraph, each.index): each for each in found.tables.operators}
    assert rows[0, 0].place == "@0[0] WHILE"
    assert (rows[0, 0].invokes, rows[0, 0].backend, rows[0, 0].copies) == ((3, 4), "controlflow", 4)
    assert rows[4, 3].count == 111
    assert all(each.source and each.outputs for each in rows.values())


def test_a_closed_session_does_not_tell_what_was_elided() -> None:
    with circlet.Session("examples/collatz.tflite", "cpu") as session, circlet.profile(session) as found:
        session.run([27])
    assert {each.elided for each in found.tables.subgraphs} == {None}
    assert "?" in str(found)
    assert found.to_json()["subgraphs"][0]["elided"] is None  # type: ignore[index,call-overload]


def nodes(tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield tree
    for each in tree["children"]:
        yield from nodes(each)


@pytest.mark.parametrize("name", NAMES)
def test_json(name: str) -> None:
    found = json.loads(json.dumps(profiled(name).to_json(), allow_nan=False))
    assert (found["version"], found["runs"]["count"]) == (1, 2)
    tree = found["tree"]
    assert tree["total"] == pytest.approx(sum(found["runs"]["walls"]), abs=1)
    assert sum(each["own"] for each in nodes(tree)) == pytest.approx(tree["total"], rel=1e-6)
    counts: Counter[int] = Counter()
    for each in nodes(tree):
        counts[each["subgraph"]] += each["count"] if each["kind"] == "subgraph" else 0
    assert +counts == {each["index"]: each["invocations"] for each in found["subgraphs"]}


def test_text_and_notebooks() -> None:
    found = collatz()
    text = str(found)
    assert [line for line in text.splitlines() if line.endswith(":")] == [
        "where the time goes:", "loops:", "subgraphs:", "operators by own time:"]
    assert "@4 while_body" in text
    assert text.startswith("1 run of ")
    assert repr(found).startswith("<Profile: 1 run of ")
    assert found._repr_html_().count("<table>") == 4
    assert found._repr_html_().count("<svg ") == 1
    assert 'white-space:pre-wrap">    [0] WHILE</td>' in found._repr_html_(), "the tree is indented"
    assert '<td style="text-align:right">100.0 %</td>' in found._repr_html_()
    with circlet.profile(circlet.Session("examples/collatz.tflite", "cpu")) as empty:
        pass
    assert (str(empty), empty._repr_html_()) == ("no runs", "")
    assert empty.to_json()["loops"] == []


def test_the_picture_of_a_profile() -> None:
    found = profiled("nested_while")
    root = ElementTree.fromstring(picture(found))
    boxes = {str(each[0].text).partition(":")[0]: each[1].attrib for each in root}
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(float(each["x"]) + float(each["width"]) <= width + 1e-6 for each in boxes.values())
    assert all(float(each["y"]) + float(each["height"]) <= height for each in boxes.values())
    for node in found.root.walk():
        part = width * node.total / found.root.total
        assert (found.path(node) in boxes) == (part >= 1) or part == pytest.approx(1)
        if found.path(node) in boxes:
            assert float(boxes[found.path(node)]["width"]) == pytest.approx(max(part - 1, 0.5), abs=0.01)


@settings(deadline=None)
@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=50), st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_quantiles_are_those_of_the_durations_but_for_their_class(times: list[int], share: float) -> None:
    exact = float(np.quantile(times, share, method="inverted_cdf"))
    found = quantile(Counter(map(duration_class, times)), share)
    assert exact / 1.25 <= found <= exact * 1.25 + 1


@pytest.mark.parametrize(("time", "text"), [
    (0.0, "0 ns"), (12.34, "12.3 ns"), (1500.0, "1.5 us"), (999_600.0, "1,000 us"), (2.5e6, "2.5 ms"),
    (1.234e9, "1.23 s"), (4.2e12, "4,200 s")])
def test_times_have_fitting_units(time: float, text: str) -> None:
    assert time_text(time) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (2.5e6, "2.5 MB"),
                                            (3e9, "3 GB")])
def test_sizes_have_fitting_units(size: float, text: str) -> None:
    assert size_text(size) == text
