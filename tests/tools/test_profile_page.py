"""The page of a profile, as a browser shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import circlet
from circlet.tools.page.profile import profile_page
from tests.models.expectations import read
from tests.needs import NATIVE
from tests.tools.browser import CHROMIUM, Browser, browsers
from tests.tools.conftest import Program

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browsers()


def profiled(name: str, runs: int = 2, backend: str = "cpu") -> circlet.Profile:
    path = MODELS / f"{name}.tflite"
    session, call = circlet.Session(path, backend), read(path.with_suffix(".npz"))[-1]
    with circlet.profile(session):
        session.run(call.inputs)
    with circlet.profile(session) as found:
        for _ in range(runs):
            session.run(call.inputs)
    return found


def share_of_body(profile: circlet.Profile) -> float:
    """How much of its time is in the turns of a loop: less where other programs took the processor in between."""
    return max(each.total for each in profile.root.walk() if profile.role(each) == "body") / profile.root.total


def shown(browser: Browser, tmp_path: Path, profile: circlet.Profile) -> None:
    path = tmp_path / "page.html"
    path.write_text(profile_page(profile.tables, "A model", [("model", "m.tflite")]), encoding="utf-8")
    browser.open(path)
    browser.settle()


def tab(browser: Browser, title: str) -> None:
    browser.run("[...document.querySelectorAll('nav button')].find((each) => each.textContent === arguments[0])"
                ".click();", title)
    browser.settle()


def labels(browser: Browser) -> list[str]:
    found: list[str] = browser.run("return [...document.querySelectorAll('.flame .node')].map((each) =>"
                                   " each.textContent).filter(Boolean)")
    return found


def facts(browser: Browser) -> dict[str, str]:
    found: dict[str, str] = browser.run(
        "const about = document.querySelector('.flame .about'); const texts = (tag) =>"
        " [...about.querySelectorAll(tag)].map((each) => each.textContent);"
        " const values = texts('dd'); return {path: texts('h3')[0],"
        " ...Object.fromEntries(texts('dt').map((name, k) => [name, values[k]]))}")
    return found


def width(browser: Browser, label: str) -> float:
    found: float = browser.run(
        "const chart = document.querySelector('.flame .chart'); const node = [...chart.children].find((each) =>"
        " each.textContent === arguments[0]); return (parseFloat(node.style.width) + 1) / chart.clientWidth", label)
    return found


@pytest.mark.slow
@CHROMIUM
def test_the_flame_chart_zooms_and_searches(browser: Browser, tmp_path: Path) -> None:
    profile = max((profiled("nested_while") for _ in range(20)), key=share_of_body)
    root, (entry,) = profile.root, profile.root.children.values()
    shown(browser, tmp_path, profile)
    assert labels(browser)[:3] == ["run (own: inputs in, results out, memory)", "@0 main", "[0] WHILE"]
    assert width(browser, "@0 main") == pytest.approx(entry.total / root.total, abs=2e-3)
    browser.click(".flame .node:nth-child(3)")
    (loop,) = (each for each in entry.children.values())
    assert facts(browser)["path"] == "@0 / [0] WHILE"
    assert facts(browser)["time"].endswith(f"{100 * loop.total / entry.total:.1f} % of @0 main")
    assert width(browser, "[0] WHILE") == pytest.approx(1, abs=2e-3)
    body = next(each for each in loop.children.values() if profile.role(each) == "body")
    assert width(browser, "@4 body") == pytest.approx(body.total / loop.total, abs=2e-3)
    browser.click(".flame .tools button")
    assert facts(browser)["path"] == "run"
    browser.type(".flame input", "less")
    share = sum(each.total for each in root.walk() if "LESS" in profile.label(each)) / root.total
    counted = browser.run("return document.querySelector('.flame .count').textContent")
    assert counted == f"{100 * share:.1f} % of the time"
    assert browser.run("return document.querySelectorAll('.flame .node:not(.faded)').length") > 0
    assert (browser.errors(), browser.requests()) == ([], [])


def data(page: str) -> dict[str, list[dict[str, Any]]]:
    """The parts of the tabs of a page."""
    text = page.partition('id="data">')[2].partition("</script>")[0]
    return {each["title"]: each["parts"] for each in json.loads(text)["tabs"]}


def test_numbers_are_those_of_the_json() -> None:
    profile = profiled("lstm", runs=3)
    found, tabs = profile.to_json(), data(profile_page(profile.tables, "A model", []))
    columns = [each["title"] for each in tabs["Operators"][0]["data"]["columns"]]
    rows = {row[0]["text"]: dict(zip(columns, row, strict=True)) for row in tabs["Operators"][0]["data"]["rows"]}
    operators: Any = found["operators"]
    assert len(rows) == len(operators)
    for each in operators:
        row = rows[f"@{each['subgraph']}[{each['index']}] {each['name']}"]
        assert row["own"] == pytest.approx(each["own"] * 1e-9 / 3, abs=1e-9)
        assert (row["count"], row["FLOPs"]) == (each["count"] / 3, each["work"] and each["work"]["flops"])
    loops: Any = found["loops"]
    (loop,) = tabs["Time"][2]["data"]["rows"]
    assert loop[0]["text"] == loops[0]["path"]
    assert loop[1] == pytest.approx(loops[0]["total"] * 1e-9 / 3, abs=1e-9)


@CHROMIUM
def test_every_tab(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, profiled("cond_nested"))
    for title in ("Operators", "Subgraphs", "Graph", "Copies", "Memory", "Time"):
        tab(browser, title)
    tab(browser, "Operators")
    browser.click("section:not([hidden]) th:nth-child(4) button")
    counts = browser.run("return [...document.querySelectorAll('section:not([hidden]) tbody tr:not(.space)')]"
                         ".map((row) => parseFloat(row.children[3].textContent))")
    assert counts == sorted(counts, reverse=True)
    assert len(counts) > 3
    tab(browser, "Memory")
    assert browser.run("return document.querySelectorAll('.memory rect').length") > 0
    browser.run("const rect = document.querySelector('.memory rect');"
                " rect.dispatchEvent(new MouseEvent('mouseenter'));")
    assert ": " in browser.run("return document.querySelector('.memory .about').textContent")
    tab(browser, "Operators")
    browser.click("section:not([hidden]) tbody .link")
    assert browser.run("return document.querySelector('nav [aria-selected=true]').textContent") == "Graph"
    assert (browser.errors(), browser.requests()) == ([], [])


@NATIVE
def test_merged_operators_are_called_by_their_parts() -> None:
    profile = profiled("lstm", backend="native")
    (graph,) = data(profile_page(profile.tables, "A model", []))["Graph"]
    merged = 0
    for index, subgraph in enumerate(graph["data"]["subgraphs"]):
        titles = {number: title for kind, number, title, *_ in subgraph["boxes"] if kind == "operator"}
        assert not {"FUSED", "SKIP"} & {*titles.values()}
        for number, operator in enumerate(subgraph["operators"]):
            parts = profile.model.subgraphs[index].operators[number].op.parts()
            names = [f"[{each}] {profile.session.model.subgraphs[index].operators[each].name}" for each in parts]
            assert [name for name, _ in operator.get("parts", ())] == names
            if parts:
                merged += 1
                assert operator["options"] == {}
                assert operator["name"] == titles[number]
                assert titles[number].split("+")[0] == names[0].partition(" ")[2]
    assert merged


@pytest.mark.slow
@CHROMIUM
def test_turns_are_drawn(browser: Browser, tmp_path: Path) -> None:
    profile = profiled("nested_while")
    shown(browser, tmp_path, profile)
    found = browser.run("return [...document.querySelectorAll('.histograms figure')].map((each) =>"
                        " [each.querySelector('figcaption').textContent, each.querySelectorAll('.bar').length])")
    assert found == [[each.path, len(each.times.histogram)] for each in profile.tables.loops if each.times is not None]
    assert browser.errors() == []


@pytest.mark.slow
@CHROMIUM
def test_long_tables_are_filled(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, profiled("transformer"))
    tab(browser, "Operators")
    assert browser.run("return document.querySelectorAll('section:not([hidden]) tbody tr:not(.space)').length") > 20


def test_the_program_writes_pages(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    program.text("profile", "examples/collatz.tflite", "--backend", "cpu", "--runs", "1", "--html", path)
    assert list(data(path.read_text(encoding="utf-8"))) == [
        "Time", "Operators", "Subgraphs", "Graph", "Copies", "Memory", "Start"]
