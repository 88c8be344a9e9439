"""The live page in real Chromium: trainings that grow, lives that are touched; nothing from elsewhere, no complaint."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked import ForkServer
from live_client import Address, champion, served, train, wait_for

from neol.deploy import network_json
from neol.envs.tasks import TASKS

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome", "chrome") if (p := shutil.which(n))), None
)
PATIENCE = 150_000  # milliseconds: the first player on a machine compiles
ODD = "<img src=x onerror=document.title=1>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lander's champion, and a run whose name is a trap."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("lander", ODD):
        (folder / name).mkdir()
        task = "lunarlander" if name == "lander" else ODD
        (folder / name / "config.toml").write_text(f'[run]\ntask = "{task}"\nseed = 0\n', encoding="utf-8")
    net = champion(TASKS["lunarlander"], max_steps=400)
    (folder / "lander" / "champion.json").write_text(network_json.dump(net.to_json()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[Address]:
    with served(home) as url:
        yield url


class Seen:
    """A page, and everything that it complained about or asked for."""

    def __init__(self, browser: Any, address: str, width: int = 1400, scheme: str = "light") -> None:
        self.page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda m: self.complaints.append(m.text))
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.on("websocket", lambda w: self.asked.append(w.url))
        self.address = address

    def until(self, expression: str) -> None:
        """Wait for it. (Playwright's own waiting compiles text in the page, which the page's policy forbids.)"""
        wait_for(lambda: self.page.evaluate(f"() => Boolean({expression})"), PATIENCE / 1000)

    def close(self) -> None:
        """It complained of nothing, and asked nobody else."""
        own = (self.address, self.address.replace("http", "ws", 1), "blob:", "data:")
        assert self.complaints == []
        assert [a for a in self.asked if not a.startswith(own)] == []
        assert len(self.asked) > 5
        self.page.context.close()


def test_a_training_is_watched_through_its_third_generation_a_kill_and_a_resume(
    browser: Any, forks: ForkServer, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    with served(folder) as url:
        seen = Seen(browser, url)
        seen.page.goto(url)
        seen.until("neolLive.list")
        seen.page.evaluate("() => { window.same = true; }")
        process = train(forks, folder / "a", "--generations", "100000")
        try:
            seen.page.wait_for_selector("tbody a")
            seen.page.click("tbody a")
            seen.until("neolLive.runs.a?.generation >= 2")
            seen.page.wait_for_selector("figure svg path.curve")
            seen.page.wait_for_selector(".state.running")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        at = seen.page.evaluate("neolLive.runs.a.generation")
        again = train(forks, folder / "a", "--generations", "100000", "--resume")
        try:
            seen.until(f"neolLive.runs.a.generation > {at} && neolLive.runs.a.state === 'running'")
        finally:
            again.send_signal(signal.SIGKILL)
            again.wait()
        assert seen.page.evaluate("window.same")  # it was never loaded again
        drawn = seen.page.evaluate("document.querySelectorAll('figure svg path.curve').length")
        assert drawn >= 4
        assert seen.page.evaluate("neolLive.page.view.drawing.edges.length") > 0
        seen.close()


def test_a_click_inverts_the_side_engine_and_the_drawn_weights_change(browser: Any, address: Address) -> None:
    seen = Seen(browser, address)
    page = seen.page
    page.goto(f"{address}#/life/lander")
    seen.until("neolLive.page?.lives?.length === 1")
    page.keyboard.press("2")
    seen.until("neolLive.page.lives.length === 2 && neolLive.page.frame.playing")
    page.click("button[data-change='action invert of=1']")
    seen.until("neolLive.page.frame.changes.some(c => c.on && c.text.startsWith('action invert of=1 from='))")
    page.wait_for_selector("button[data-change='action invert of=1'][aria-pressed=true]")
    before = page.evaluate("neolLive.page.lives.map(v => [...v.network.weights])")
    at = page.evaluate("neolLive.page.frame.lives[0].step")
    seen.until(f"neolLive.page.frame.lives[0].step > {at} + 10 || neolLive.page.frame.over")
    after = page.evaluate("neolLive.page.lives.map(v => [...v.network.weights])")
    moved = [max(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in zip(before, after, strict=True)]
    assert moved[0] > 1e-4  # the plastic one's, as they are drawn
    assert moved[1] < 1e-6  # the frozen one's
    assert page.evaluate("neolLive.page.lives.every(v => v.picture.width === 600)")
    assert "--change" in page.inner_text(".world pre")
    page.keyboard.press("r")
    seen.until("neolLive.page.frame.changes.length === 0")
    page.keyboard.press("Space")
    seen.until("!neolLive.page.frame.playing")
    at = page.evaluate("neolLive.page.frame.lives[0].step")
    page.keyboard.press("ArrowRight")
    seen.until(f"neolLive.page.frame.lives[0].step === {at} + 1")
    page.keyboard.press("Escape")
    page.wait_for_selector("tbody tr")
    seen.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_every_page_fits_its_width_and_text_from_files_stays_text(
    browser: Any, address: Address, width: int, scheme: str
) -> None:
    seen = Seen(browser, address, width, scheme)
    for where in ("#/", "#/run/lander", "#/life/lander"):
        seen.page.goto(address + where)
        seen.page.wait_for_selector({"#/": "tbody tr", "#/run/lander": "figure canvas"}.get(where, "article canvas"))
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), where
        if where == "#/":
            assert ODD in seen.page.inner_text("tbody")
            assert seen.page.evaluate("document.querySelectorAll('main img').length") == 0
            assert seen.page.title() == "NEOL live"
    seen.close()
