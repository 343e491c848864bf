"""Headless Chromium, steered by ChromeDriver's plain HTTP (W3C WebDriver), for tests of pages.

    @pytest.fixture(scope="module")
    def browser() -> Iterator[Browser]:
        yield from browsers()

    @CHROMIUM
    def test_page(browser: Browser, tmp_path: Path) -> None:
        browser.open(path)
        assert browser.run("return document.title") == "..."
        assert browser.errors() == []
        assert browser.requests() == []
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

TOOLS = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
CHROMIUM = pytest.mark.skipif(None in TOOLS.values(), reason="chromium or chromedriver is not installed")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync")
SECONDS = 60
"""Longer than anything takes; what takes longer fails."""
_DIRECT = build_opener(ProxyHandler({}))


@dataclass(frozen=True)
class Browser:
    """A window of 1280 x 800."""

    session: str
    """The address of the WebDriver session."""

    def open(self, page: Path | str) -> None:
        """Shows a file, or what is at an address; what was logged before is forgotten."""
        self.errors()
        self.requests()
        self.ask("url", {"url": page.absolute().as_uri() if isinstance(page, Path) else page})

    def run(self, script: str, *arguments: object) -> Any:
        """What the body of a function returns; a promise's value. Arguments are `arguments[0]` and so on."""
        text = ("const done = arguments[arguments.length - 1];"
                f"(async () => {{ {script} }})().then(done, (error) => done({{error: String(error.stack)}}));")
        found = self.ask("execute/async", {"script": text, "args": arguments})
        assert not (isinstance(found, dict) and set(found) == {"error"}), found["error"]
        return found

    def click(self, selector: str) -> None:
        """Clicks on the first element of a CSS selector, as a user would: in its middle, if nothing covers it."""
        self.ask(f"element/{self._element(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Types into the first element of a CSS selector; `\\ue007` is the key Enter."""
        self.ask(f"element/{self._element(selector)}/value", {"text": text})

    def settle(self) -> None:
        """Waits until what was asked for is painted."""
        self.run("await new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));")

    def screenshot(self, path: Path) -> None:
        """Writes a PNG of the window."""
        self.settle()
        path.write_bytes(base64.b64decode(self.ask("screenshot")))

    def errors(self) -> list[str]:
        """What the console has said since the page was opened: errors, warnings, refused loads."""
        return [each["message"] for each in self._logged("browser") if each["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened, but for files and data."""
        events = [json.loads(each["message"])["message"] for each in self._logged("performance")]
        urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [each for each in urls if not each.startswith(("file:", "data:"))]

    def emulate(self, scheme: str) -> None:
        """Prefers a colour scheme, `light` or `dark`."""
        self.ask("goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]}})

    def _element(self, selector: str) -> str:
        found: dict[str, str] = self.ask("element", {"using": "css selector", "value": selector})
        return next(iter(found.values()))

    def _logged(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("se/log", {"type": kind})
        return found

    def ask(self, command: str, body: object = None) -> Any:
        """What the driver answers to a command of WebDriver."""
        return _ask(f"{self.session}/{command}", body)


def browsers() -> Iterator[Browser]:
    """Gives one browser, which ends with the test or module whose fixture it is."""
    if None in TOOLS.values():
        pytest.skip("chromium or chromedriver is not installed")
    with (TemporaryDirectory(ignore_cleanup_errors=True) as folder,
          subprocess.Popen([str(TOOLS["chromedriver"]), "--port=0"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True) as driver):
        try:
            address = f"http://127.0.0.1:{_port(driver)}/session"
            options = {"binary": TOOLS["chromium"], "args": [*FLAGS, f"--user-data-dir={folder}"]}
            made = _ask(address, {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
            session = f"{address}/{made['sessionId']}"
            try:
                yield _prepared(Browser(session))
            finally:
                _ask(session, method="DELETE")
        finally:
            driver.terminate()


def _prepared(browser: Browser) -> Browser:
    """On an empty page, in the size of which all else takes nothing."""
    browser.ask("timeouts", {"script": 1000 * SECONDS})
    browser.ask("goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
        "width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}})
    browser.ask("url", {"url": "about:blank"})
    return browser


def _port(driver: subprocess.Popen[str]) -> int:
    """The port that ChromeDriver says it listens on."""
    assert driver.stdout is not None
    for line in driver.stdout:
        if "started successfully on port" in line:
            return int(line.rstrip().rstrip(".").rpartition(" ")[2])
    raise RuntimeError("chromedriver has not started")


def _ask(address: str, body: object = None, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(address, data, {"Content-Type": "application/json"}, method=method)
    with _DIRECT.open(request, timeout=SECONDS) as answer:
        return json.load(answer)["value"]
