"""Pages as a browser shows them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.unary import Neg
from circlet.tools.page.graph import Note, graph_part
from circlet.tools.page.page import Tab, document
from circlet.tools.page.parts import Cell, Column, Link, code_part, facts_part, table_part, text_part
from tests.tools.browser import CHROMIUM, Browser, browsers

COLLATZ = "examples/collatz.tflite"
HOSTILE = "</script><script>document.title='broken'</script><!--<b>&amp;\u2028"
COLUMNS = [Column("operator"), Column("bytes", "bytes", bar=True), Column("time", "seconds"), Column("calls", "count")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browsers()


def shown(browser: Browser, path: Path, *tabs: Tab) -> None:
    """Opens a page of tabs."""
    path.write_text(document("A page", tabs, "of parts"), encoding="utf-8")
    browser.open(path)
    browser.settle()


def quiet(browser: Browser) -> None:
    """Nothing was complained of, and nothing asked for."""
    assert browser.errors() == []
    assert browser.requests() == []


def column(browser: Browser, index: int) -> list[str]:
    """The texts of a column, as far as it is in the document."""
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('tbody tr:not(.space)')].map((row) =>"
        " row.children[arguments[0]].textContent)", index)
    return found


def chain(count: int) -> circlet.Model:
    """A model of many operators, each of which reads the last value and an early one."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    values = [main.input("x", np.float32, (4,))]
    for k in range(count // 2):
        values.append(main.apply(Add(), main.apply(Neg(), values[-1]), values[k // 2]))
    main.output(values[-1])
    return builder.build()


def collatz() -> circlet.Model:
    return circlet.load(Path(__file__).parents[2] / COLLATZ)


@CHROMIUM
def test_parts(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path / "page.html",
          Tab("First", [facts_part([("size", "12"), (HOSTILE, HOSTILE)]), text_part("one\n\ntwo", "Words")]),
          Tab("Second", [code_part("a\n  b")]))
    assert browser.run("return document.title") == "A page"
    assert browser.run("return [...document.querySelectorAll('dt, dd, p')].map((each) => each.textContent)") == [
        "of parts", "size", "12", HOSTILE, HOSTILE, "one", "two"]
    assert browser.run("return document.querySelector('pre')") is None
    browser.click("nav button:nth-child(2)")
    assert browser.run("return document.querySelector('pre').textContent") == "a\n  b"
    assert browser.run("return [...document.querySelectorAll('section')].map((each) => each.hidden)") == [True, False]
    quiet(browser)


def test_numbers_that_json_has_not() -> None:
    with pytest.raises(ValueError, match="JSON"):
        document("t", [Tab("t", [table_part([Column("a")], [[math.nan]])])])


def test_data_cannot_end_its_script() -> None:
    text = document(HOSTILE, [Tab("t", [text_part(HOSTILE)])])
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["tabs"][0]["parts"][0]["data"]["paragraphs"] == [HOSTILE]
    assert "<title>&lt;/script&gt;" in text


@CHROMIUM
def test_a_table_sorts_and_searches(browser: Browser, tmp_path: Path) -> None:
    rows: list[list[Cell]] = [["conv10", 2048, 0.25, 1500], ["conv9", None, 2.5e-6, 2], ["conv100", 3 << 30, 3e-8, 3],
                              ["add", 5, None, 4]]
    shown(browser, tmp_path / "page.html", Tab("Table", [table_part(COLUMNS, rows, "Rows")]))
    assert column(browser, 0) == ["conv10", "conv9", "conv100", "add"]
    assert [column(browser, k) for k in (1, 2, 3)] == [
        ["2 KiB", "", "3 GiB", "5 bytes"], ["250 ms", "2.5 µs", "30 ns", ""], ["1.5 k", "2", "3", "4"]]
    browser.click("th:nth-child(1) button")
    assert column(browser, 0) == ["add", "conv9", "conv10", "conv100"]
    browser.click("th:nth-child(1) button")
    assert column(browser, 0) == ["conv100", "conv10", "conv9", "add"]
    browser.click("th:nth-child(2) button")
    assert column(browser, 1) == ["3 GiB", "2 KiB", "5 bytes", ""]
    browser.click("th:nth-child(2) button")
    assert column(browser, 1) == ["5 bytes", "2 KiB", "3 GiB", ""]
    browser.click("th:nth-child(2) button")
    assert column(browser, 0) == ["conv10", "conv9", "conv100", "add"]
    browser.type("input[type=search]", "CONV gib")
    assert column(browser, 0) == ["conv100"]
    assert browser.run("return document.querySelector('.count').textContent") == "1 of 4"
    quiet(browser)


@CHROMIUM
def test_a_long_table_has_the_rows_in_view(browser: Browser, tmp_path: Path) -> None:
    rows: list[list[Cell]] = [[f"row {k}", k] for k in range(10_000)]
    shown(browser, tmp_path / "page.html", Tab("Table", [table_part([Column("name"), Column("number")], rows)]))
    assert column(browser, 0)[0] == "row 0"
    assert len(column(browser, 0)) < 100
    taken = browser.run("""
        const started = performance.now();
        document.querySelector("th:nth-child(2) button").click();
        document.querySelector("input").value = "row 99";
        document.querySelector("input").dispatchEvent(new Event("input"));
        return performance.now() - started;""")
    assert taken < 1000
    assert column(browser, 0)[:2] == ["row 9999", "row 9998"]
    expected = [k for k in range(10_000) if "99" in str(k)]
    assert browser.run("return document.querySelector('.count').textContent") == f"{len(expected)} of 10,000"
    browser.run("document.querySelector('.scroll').scrollTop = 1e6")
    browser.settle()
    assert column(browser, 0)[-1] == "row 99"
    quiet(browser)


@CHROMIUM
def test_a_graph_is_stepped_into(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path / "page.html", Tab("Graph", [graph_part(collatz())]))
    assert browser.run("return page.graph.index") == 0
    browser.run("page.graph.goTo(0, 0)")
    assert browser.run("return document.querySelector('aside h2').textContent") == "[0] WHILE"
    browser.settle()
    assert double_click(browser, "operator", 0) == 4
    crumbs = "return document.querySelector('.crumbs').textContent"
    assert browser.run(crumbs) == "@0[0] WHILE›@4 while_body"
    assert double_click(browser, "operator", 3) == 2
    assert browser.run(crumbs) == "@0[0] WHILE›@4[3] IF›@2 while_cond_true_310"
    browser.click(".crumbs button:nth-child(1)")
    assert browser.run("return page.graph.index") == 0
    browser.run("page.graph.goTo(4, 3)")
    browser.click("aside .callees button:nth-child(2)")
    assert browser.run("return page.graph.index") == 1
    assert browser.run("return [...document.querySelectorAll('aside .link')].map((each) => each.textContent)") == [
        "@4[3] IF else"]
    quiet(browser)


def double_click(browser: Browser, kind: str, index: int) -> int:
    """Clicks twice on a box, where it is in view; the subgraph that is then shown."""
    found: int = browser.run("""
        const graph = page.graph;
        const box = graph.subgraph.boxes[graph.boxOf(...arguments)];
        const at = graph.canvas.getBoundingClientRect();
        const place = { clientX: at.x + (box[4] - graph.view.x) * graph.view.scale,
          clientY: at.y + (box[5] - graph.view.y) * graph.view.scale, bubbles: true };
        graph.canvas.dispatchEvent(new MouseEvent("dblclick", place));
        return graph.index;""", kind, index)
    return found


@CHROMIUM
def test_a_graph_is_zoomed_dragged_and_searched(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path / "page.html", Tab("Graph", [graph_part(collatz(), entries=[4])]))
    scale = browser.run("return page.graph.view.scale")
    browser.click(".tools button:nth-last-child(3)")
    assert browser.run("return page.graph.view.scale") == pytest.approx(1.4 * scale)
    fixed = browser.run("""
        const at = ({ scale, x, y }) => [x + 100 / scale, y + 50 / scale];
        const before = at(page.graph.view);
        page.graph.zoom(0.3, 100, 50);
        return [before, at(page.graph.view)];""")
    assert fixed[0] == pytest.approx(fixed[1])
    browser.click(".tools button:nth-last-child(1)")
    assert browser.run("return page.graph.view.scale") == pytest.approx(scale)
    moved = browser.run("""
        const { x, y } = page.graph.view;
        const send = (type, clientX, clientY) => page.graph.canvas.dispatchEvent(
          new PointerEvent(type, { clientX, clientY, pointerId: 1 }));
        page.graph.canvas.setPointerCapture = () => {};
        send("pointerdown", 100, 300); send("pointermove", 150, 330); send("pointerup", 150, 330);
        return [x - page.graph.view.x, y - page.graph.view.y];""")
    assert moved == pytest.approx([50 / scale, 30 / scale])
    browser.type("input[type=search]", "while/mod\ue007")
    assert browser.run("return document.querySelector('aside h2').textContent") == "[1] FLOOR_MOD"
    assert "while/mod/y" in browser.run("return document.querySelector('aside').textContent")
    quiet(browser)


@CHROMIUM
def test_heat_and_warnings_are_painted(browser: Browser, tmp_path: Path) -> None:
    """The colour of a box tells its heat, in both colour schemes."""
    notes = {(0, 0): Note(1.0, "9 ms", [("time", "9 ms")], "it copies"), (0, 1): Note(0.0)}
    shown(browser, tmp_path / "page.html", Tab("Graph", [graph_part(chain(2), notes, heat="share of the run")]))
    colour = """
        const graph = page.graph;
        const [, , , , x, y, width] = graph.subgraph.boxes[graph.boxOf("operator", arguments[0])];
        const { scale, ...from } = graph.view;
        const copy = new OffscreenCanvas(graph.canvas.width, graph.canvas.height);
        copy.getContext("2d").drawImage(graph.canvas, 0, 0);
        return [...copy.getContext("2d").getImageData((x + width / 2 - 4 - from.x) * scale,
          (y + 12 - from.y) * scale, 1, 1).data];"""
    found = {}
    for scheme in ("light", "dark"):
        browser.emulate(scheme)
        browser.settle()
        hot, cold = browser.run(colour, 0), browser.run(colour, 1)
        assert hot[0] > 190
        assert hot[2] < 90
        assert abs(cold[0] - cold[2]) < 60
        found[scheme] = cold
    assert found["light"][0] > 200 > 60 > found["dark"][0]
    browser.emulate("light")
    browser.run("page.graph.goTo(0, 0)")
    assert browser.run("return document.querySelector('aside .warning').textContent") == "it copies"
    assert browser.run("return document.querySelector('.legend').textContent") == "share of the run"
    quiet(browser)


@CHROMIUM
def test_links_of_a_table_lead_to_the_graph(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path / "page.html",
          Tab("Table", [table_part([Column("operator")], [[Link("the mod", 4, 1)]])]),
          Tab("Graph", [graph_part(collatz())]))
    browser.click("td button")
    assert browser.run("return [page.graph.index, document.querySelector('aside h2').textContent]") == [
        4, "[1] FLOOR_MOD"]
    quiet(browser)


@pytest.mark.slow
@CHROMIUM
def test_a_graph_of_ten_thousand_operators_is_quick(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path / "page.html", Tab("Graph", [graph_part(chain(10_000))]))
    frames = browser.run("""
        const painted = () => { const started = performance.now(); new GraphPainter(page.graph).paint();
          return performance.now() - started; };
        const near = painted();
        page.graph.fit();
        return [near, painted()];""")
    assert max(frames) < 500
    browser.type("input[type=search]", "[9999]\ue007")
    assert browser.run("return document.querySelector('aside h2').textContent") == "[9999] ADD"
    quiet(browser)
