"""The example page: a model in a browser, from the file that `circlet compile` wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import circlet
from circlet.tools.main import main
from tests.needs import NATIVE
from tests.tools.browser import CHROMIUM, Browser, browsers

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "examples" / "embed" / "web"
COLLATZ = ROOT / "examples" / "collatz.tflite"
IMAGES = ROOT / "tests" / "models" / "cnn.tflite"
DIGITS = ROOT.parent / "shared" / "models" / "real" / "mnist_quantized.tflite"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browsers()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with the page, and its address."""
    for each in PAGE.iterdir():
        shutil.copy(each, tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield tmp_path, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@NATIVE
@CHROMIUM
@pytest.mark.parametrize("path", [pytest.param(each, id=each.stem) for each in (IMAGES, DIGITS) if each.exists()])
@pytest.mark.parametrize("target", ["wasm32", pytest.param("wasm32-simd", marks=pytest.mark.slow)])
def test_scores_are_those_of_a_session(browser: Browser, served: tuple[Path, str], path: Path, target: str) -> None:
    folder, address = served
    assert main(["compile", str(path), "--target", target, "-o", str(folder), "--name", "shown"]) == 0
    browser.open(f"{address}/index.html?model=shown")
    browser.run("while (!document.body.dataset.ready) await new Promise((go) => setTimeout(go, 20));")
    browser.run("""
        const pen = document.getElementById('pad').getContext('2d'), pad = pen.canvas;
        pen.fillStyle = 'white';
        pen.fillRect(pad.width * 0.45, pad.height * 0.15, pad.width * 0.12, pad.height * 0.7);
        document.getElementById('pad').dispatchEvent(new Event('drawn'));""")
    report = json.loads((folder / "shown.json").read_text())
    (given,) = report["entries"][0]["inputs"]
    pixels = np.array(browser.run("""
        const pen = document.getElementById('pad').getContext('2d'), pad = pen.canvas;
        return Array.from(pen.getImageData(0, 0, pad.width, pad.height).data).filter((_, k) => k % 4 === 0);"""))
    found = json.loads(browser.run("return document.getElementById('scores').dataset.values;"))
    image = np.broadcast_to((pixels / 255).astype(np.float32).reshape(*given["shape"][:3], 1), given["shape"])
    assert image.max() > 0.5
    (expected,) = circlet.Session(circlet.load(path)).run([image]).values()
    np.testing.assert_allclose(found, expected.reshape(-1), rtol=1e-4, atol=1e-5)
    assert not browser.errors()


@NATIVE
@CHROMIUM
@pytest.mark.parametrize(("given", "expected"), [
    ("27", "steps []: 111\npeak []: 9232"), ("[27, 28]", "input n: expected shape [] with [], found [] of 2 elements")])
def test_models_of_no_images_have_fields(browser: Browser, served: tuple[Path, str], given: str, expected: str) -> None:
    folder, address = served
    assert main(["compile", str(COLLATZ), "--target", "wasm32", "-o", str(folder)]) == 0
    browser.open(f"{address}/index.html?model=collatz")
    browser.run("while (!document.body.dataset.ready) await new Promise((go) => setTimeout(go, 20));")
    found = browser.run(f"""
        const form = document.querySelector('form');
        form.elements.n.value = {json.dumps(given)};
        form.requestSubmit();
        return form.querySelector('pre').textContent;""")
    assert found == expected
    assert not browser.errors()


@NATIVE
@CHROMIUM
def test_a_model_that_is_not_there(browser: Browser, served: tuple[Path, str]) -> None:
    _, address = served
    browser.open(f"{address}/index.html?model=none")
    told = browser.run("""
        const about = document.getElementById('about');
        while (!about.textContent) await new Promise((go) => setTimeout(go, 20));
        return about.textContent;""")
    assert "none.wasm: 404" in str(told) or "none.json: 404" in str(told)
    browser.errors()
