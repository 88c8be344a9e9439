"""The report of a real study, opened in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from small_study import small_study

import neol
from neol.cli.main import main
from neol.deploy.evaluation import lifetime
from neol.deploy.plastic_network import PlasticNetwork

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome", "chrome") if (p := shutil.which(n))), None
)
STUDY = small_study(("neat", "hebb", "bcm"), "A <small> study & its report", seeds=3)
FILES = {
    "index.html", "runs.csv", "results.csv", "tests.csv", "tables.tex", "verdicts.txt", "held_out.csv",
    "best_return.csv", "aggregates.csv", "differences.csv", "figures",
}  # fmt: skip


def make(folder: Path, text: str) -> Path:
    (folder / "study.toml").write_text(text)
    assert main(["study", "run", str(folder / "study.toml"), "--out", str(folder / "s"), "--jobs", "1", "--quiet"]) == 0
    assert main(["report", str(folder / "s"), "--quiet", "--lives"]) == 0
    return folder / "s" / "report"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("report"), STUDY)


@pytest.fixture(scope="module")
def grid_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    grid = "[grid]\npop_size = [10, 12]\nlr = [0.1, 0.2, 0.3]\n"
    text = STUDY.replace('"cartpole", "lunarlander"', '"cartpole"').replace("seeds = 3", "seeds = 1")
    return make(tmp_path_factory.mktemp("grid"), text + grid)


def test_a_study_of_which_only_one_arm_was_run_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(small_study(["none", "hebb"], generations=1), encoding="utf-8")
    words = ["--out", str(tmp_path / "s"), "--arms", "hebb", "--tasks", "cartpole", "--jobs", "1", "--quiet"]
    assert main(["study", "run", str(tmp_path / "s.toml"), *words]) == 0
    assert main(["report", str(tmp_path / "s"), "--quiet"]) == 0
    assert "hebb" in (tmp_path / "s" / "report" / "index.html").read_text(encoding="utf-8")


def test_a_report_has_its_page_figures_and_tables(report: Path) -> None:
    assert {p.name for p in report.iterdir()} == FILES
    figures = {p.name for p in (report / "figures").iterdir()}
    for task in ("cartpole", "lunarlander"):
        names = [f"convergence-{task}-env-steps", f"convergence-{task}-generation", f"held-out-{task}",
                 f"boxes-{task}-held-out", f"boxes-{task}-best-return", f"lifetime-{task}"]  # fmt: skip
        assert {f"{n}.{s}" for n in names for s in ("svg", "png")} <= figures
        assert {f"champion-{task}.svg", f"champion-{task}.png"} <= figures
    for png in (report / "figures").glob("*.png"):
        with Image.open(png) as image:
            colours = image.convert("RGB").getcolors(1 << 24)
            assert min(image.size) > 100 and colours is not None and len(colours) > 10, png.name


def test_the_same_study_gives_the_same_bytes(report: Path, tmp_path: Path) -> None:
    assert main(["report", str(report.parent), "--out", str(tmp_path / "again"), "--quiet", "--lives"]) == 0
    for file in report.rglob("*"):
        if file.is_file():
            assert (tmp_path / "again" / file.relative_to(report)).read_bytes() == file.read_bytes(), file


def test_the_page_needs_nothing_from_elsewhere(report: Path) -> None:
    page = (report / "index.html").read_text()
    for word in ('src="http', 'href="http', "@import", "url(http", "<img", "<iframe"):
        assert word not in page
    assert "A &lt;small&gt; study &amp; its report" in page and "<small> study" not in page


def test_ids_in_the_page_are_unique(report: Path) -> None:
    ids = re.findall(r'\bid="([^"]+)"', (report / "index.html").read_text())
    assert len(ids) == len(set(ids)), sorted({i for i in ids if ids.count(i) > 1})[:5]


def test_a_life_is_told_step_by_step(report: Path) -> None:
    study = neol.Study(report.parent)
    row = next(r for r in study.rows if (r.task, r.arm) == ("lunarlander", "hebb"))
    net = PlasticNetwork.from_json(study.champion(row.run))
    life = lifetime(net, max_steps=40)
    assert life.weights.shape == (len(life.rewards) + 1, len(life.connections)) and len(life.rewards) <= 40
    own = PlasticNetwork.from_json(study.champion(row.run))
    own.reset()
    assert life.weights[0].tolist() == list(own.weights.values()) and life.connections == list(own.weights)
    assert (life.weights[-1] != life.weights[0]).any()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def open_page(browser: Any, path: Path, width: int, scheme: str) -> tuple[Any, list[str], list[str]]:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda m: complaints.append(m.text))
    page.on("pageerror", lambda e: complaints.append(str(e)))
    page.on("request", lambda r: requests.append(r.url))
    page.goto(path.as_uri())
    return page, complaints, requests


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_a_browser_shows_every_figure_and_asks_for_nothing(
    report: Path, grid_report: Path, browser: Any, width: int, scheme: str
) -> None:
    for path, least in ((report / "index.html", 12), (grid_report / "index.html", 8)):
        page, complaints, requests = open_page(browser, path, width, scheme)
        assert complaints == []
        assert [r for r in requests if not r.startswith(("file:", "data:"))] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width  # only tables scroll sideways
        boxes = page.eval_on_selector_all(
            "figure svg",
            "all => all.map(s => { const b = s.getBoundingClientRect(); return [b.width, b.height, b.x]; })",
        )
        assert len(boxes) >= least
        assert all(b[0] > min(width, 400) * 0.7 and b[1] > 60 and 0 <= b[2] < width for b in boxes)
        labels = page.eval_on_selector_all("figure svg", "all => all.map(s => s.getAttribute('aria-label'))")
        assert all(labels) and len(set(labels)) > 1
        page.context.close()


def test_every_number_of_every_table_is_in_sight_at_400_pixels(report: Path, grid_report: Path, browser: Any) -> None:
    for path in (report / "index.html", grid_report / "index.html"):
        page, _, _ = open_page(browser, path, 400, "light")
        cells = page.eval_on_selector_all(
            "section table tbody td",
            "all => all.map(c => { const b = c.getBoundingClientRect();"
            " return [b.left, b.right, b.height, c.scrollWidth - c.clientWidth]; })",
        )
        assert len(cells) > 100
        assert all(left >= 0 and right <= 400 and height > 10 and more <= 0 for left, right, height, more in cells)
        names = page.eval_on_selector_all(
            "#table-results tbody tr:first-child td", "all => all.map(c => getComputedStyle(c, '::before').content)"
        )
        assert '"held-out return, mean ± SD"' in names  # each says which column it is of
        page.context.close()


def test_a_verdict_stands_beside_its_numbers_for_each_metric(report: Path, browser: Any) -> None:
    for width in (400, 1400):
        page, _, _ = open_page(browser, report / "index.html", width, "light")
        for summary in page.locator(".claim summary").all():
            summary.click()
        items = page.locator(".verdicts li")
        assert items.count() > 5
        for item in items.all():
            said = item.locator(".said")
            assert [s.split(":")[0] for s in said.all_inner_texts()] == ["held-out return", "final best fitness"]
            for one in said.all():
                box = one.bounding_box()
                assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
                assert one.locator(".chip").inner_text() and re.search(r"\d runs", one.locator(".numbers").inner_text())
        page.context.close()


def colours_of(browser: Any, svg: Path, scheme: str) -> dict[str, str]:
    """What a browser computes for an SVG file that is opened on its own."""
    page, complaints, _ = open_page(browser, svg, 700, scheme)
    found = page.evaluate(
        "() => { const of = (e, k) => getComputedStyle(e)[k]; const texts = [...document.querySelectorAll('text')];"
        " return {paper: of(document.querySelector('#patch_1 path'), 'fill'),"
        " text: of(texts[0], 'fill'), all: texts.map(t => of(t, 'fill')).join(' ')}; }"
    )
    page.context.close()
    assert complaints == []
    return found


def test_svg_files_follow_the_readers_light_or_dark(report: Path, browser: Any) -> None:
    for name in ("convergence-cartpole-env-steps", "held-out-cartpole", "boxes-cartpole-held-out", "lifetime-cartpole",
                 "champion-cartpole"):  # fmt: skip
        light, dark = (colours_of(browser, report / "figures" / f"{name}.svg", s) for s in ("light", "dark"))
        assert light["paper"] == "rgb(255, 255, 255)" and dark["paper"] == "rgb(21, 23, 26)", name
        assert light["text"] != dark["text"] and "rgb(34, 34, 34)" not in dark["all"], name
        assert "rgb(0, 0, 0)" not in dark["all"], name
    assert "prefers-color-scheme" not in re.sub(
        r"<style>.*?</style>", "", (report / "index.html").read_text().partition("<script>")[0], flags=re.DOTALL
    )  # the page's own rules reach its figures, and theirs do not reach the page


def contrast(page: Any, selector: str) -> float:
    """WCAG's ratio of an element's colour and the page's background."""
    colours = page.evaluate(
        "s => [getComputedStyle(document.querySelector(s)).color, getComputedStyle(document.body).backgroundColor]",
        selector,
    )
    lights = []
    for colour in colours:
        parts = [int(v) / 255 for v in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_and_figures_follow_the_scheme(report: Path, browser: Any, scheme: str) -> None:
    page, _, _ = open_page(browser, report / "index.html", 1400, scheme)
    for selector in ("body", ".muted", "a", ".chip", "figure svg text", "caption"):
        assert contrast(page, selector) >= 4.5, selector
    before = page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
    page.click("#theme")
    after = page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert before != after
    assert contrast(page, "body") >= 4.5
    page.context.close()


def test_tables_sort_by_click_and_by_key(report: Path, browser: Any) -> None:
    page, _, _ = open_page(browser, report / "index.html", 1400, "light")
    headers = page.eval_on_selector_all("#table-results th button", "all => all.map(b => b.innerText.trim())")
    column = headers.index("held out, median")

    def cells() -> list[float]:
        texts = page.eval_on_selector_all(
            f"#table-results tbody td:nth-child({column + 1})", "all => all.map(c => c.dataset.key)"
        )
        return [float(t) for t in texts]

    unsorted = cells()
    button = page.locator("#table-results th button").nth(column)
    button.click()
    assert cells() == sorted(unsorted)
    assert page.locator("#table-results th").nth(column).get_attribute("aria-sort") == "ascending"
    button.focus()
    page.keyboard.press("Enter")
    assert cells() == sorted(unsorted, reverse=True)
    assert page.locator("#table-results th").nth(column).get_attribute("aria-sort") == "descending"
    page.locator("#table-results th button").nth(headers.index("task")).click()
    tasks = page.eval_on_selector_all("#table-results tbody td:nth-child(1)", "all => all.map(c => c.innerText)")
    assert tasks == sorted(tasks)
    page.context.close()


def test_the_theory_labs_findings_can_stand_in_the_report(
    report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--rounds", "50", "--pool", "4", "--out", str(tmp_path / "regret"), "--quiet"]
    assert main(["regret", "synthetic", *words]) == 0
    out = tmp_path / "with"
    assert main(["report", str(report.parent), "--out", str(out), "--regret", str(tmp_path / "regret"), "--quiet"]) == 0
    page = (out / "index.html").read_text()
    assert "Regret beside its bound" in page and "<td>inner</td>" in page and "data:image/png;base64," in page
    assert main(["report", str(report.parent), "--out", str(out), "--regret", str(tmp_path), "--quiet"]) == 2
    assert "is not a folder of `neol regret`" in capsys.readouterr().err
