"""`circlet inspect --html` as a browser shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import circlet
from circlet.tools.inspection.inspection import inspection_of
from circlet.tools.inspection.page import page_text
from tests.tools.browser import CHROMIUM, Browser, browsers
from tests.tools.conftest import Program

COLLATZ = "examples/collatz.tflite"
TEXTS = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browsers()


@CHROMIUM
def test_the_page(browser: Browser, program: Program, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert program.text("inspect", COLLATZ, "--backend", "cpu", "--html", path).startswith(f"{path}: ")
    browser.open(path)
    browser.settle()
    assert browser.run(TEXTS, "nav button") == ["Overview", "Graph", "Operators", "Tensors"]
    assert browser.run(TEXTS, "dd")[:2] == ["3,960 bytes", "16 bytes"]
    heading, = browser.run(TEXTS, ".item h3")
    assert heading == "@0[0] WHILE, %1 arith.constant"
    assert browser.run(TEXTS, "tbody tr:not(.space) td:first-child") == [
        "@0 main", "@1 while_cond_false_320", "@2 while_cond_true_310", "@3 while_cond", "@4 while_body"]
    browser.click(".item button")
    assert browser.run("return page.graph.index") == 0
    assert browser.run(TEXTS, "aside .warning")[0].startswith("carries value 0")
    browser.click("aside .callees button:nth-child(2)")
    browser.run("page.graph.goTo(4, 3)")
    assert "0 itself: the subgraphs that it invokes count." in browser.run(TEXTS, "aside dd")
    for number, first in ((3, ["@0[0]", "@1[0]"]), (4, ["@0 %0", "@0 %1"])):
        browser.click(f"nav button:nth-child({number})")
        assert browser.run(TEXTS, "section:not([hidden]) tbody tr:not(.space) td:first-child")[:2] == first
    assert browser.errors() == []
    assert browser.requests() == []


@CHROMIUM
@pytest.mark.parametrize("name", ["cnn_int8", "lstm", "collatz_longest"])
def test_pages_of_models(browser: Browser, tmp_path: Path, name: str) -> None:
    """Every subgraph is drawn, every operator's details shown, without an error."""
    model = circlet.load(Path(__file__).parents[1] / "models" / f"{name}.tflite")
    path = tmp_path / "page.html"
    path.write_text(page_text(inspection_of(name, 1, model, range(len(model.subgraphs)), "cpu")), encoding="utf-8")
    browser.open(path)
    shown = browser.run("""
        page.show(1);
        let count = 0;
        page.graph.data.subgraphs.forEach(({ operators }, subgraph) => operators.forEach((each, operator) => {
          page.graph.goTo(subgraph, operator);
          new GraphPainter(page.graph).paint();
          count += document.querySelector("aside h2").textContent.includes(each.name);
        }));
        return count;""")
    assert shown == sum(len(each.operators) for each in model.subgraphs)
    assert browser.errors() == []


def test_a_malformed_model_has_a_page() -> None:
    model = circlet.load(Path(__file__).parents[2] / COLLATZ)
    broken = replace(model, subgraphs=model.subgraphs[:1])
    found = inspection_of("broken", 0, broken, (0,), "cpu")
    assert found.support.is_malformed
    assert "Cannot be run" in page_text(found)


def test_what_the_command_says(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    found = program.json("inspect", COLLATZ, "--html", path)
    assert found == {"model": COLLATZ, "html": str(path), "bytes": path.stat().st_size}
    assert program.error("inspect", COLLATZ, "--html", tmp_path) == f"{tmp_path}: Is a directory"


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "models").glob("cond*.tflite")),
                         ids=lambda each: each.stem)
def test_pages_are_made_of_branching_models(path: Path) -> None:
    """Also where only a run can tell shapes."""
    model = circlet.load(path)
    text = page_text(inspection_of(path.name, 0, model, range(len(model.subgraphs)), "cpu"))
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert [len(each["operators"]) for each in data["tabs"][1]["parts"][0]["data"]["subgraphs"]] == [
        len(each.operators) for each in model.subgraphs]
