"""README and docs say what is true: snippets run, links lead somewhere, commands parse, what they name exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import neol
from neol.cli import main as cli
from neol.config.schema import fields

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import docs_site

ROOT = docs_site.ROOT
PAGES = sorted(docs_site.sources().values())
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
every_page = pytest.mark.parametrize("page", PAGES)


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in a language, without their indentation."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", TEXTS[page], flags=re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


def run(code: str, folder: Path) -> str:
    """What a program prints, in a folder of its own and a process of its own."""
    file = folder / "snippet.py"
    file.write_text(code, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(Path(neol.__file__).parents[1])}  # these very sources
    command = [sys.executable, str(file)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_snippet_of_the_readme_runs_as_it_stands(tmp_path: Path) -> None:
    own_environment, deploy = blocks("README.md", "python")
    assert "is its mean return on 100 fresh episodes" in run(own_environment, tmp_path)
    assert re.search(r"\(-1, 0\): ", run(deploy, tmp_path))
    assert (tmp_path / "grown.json").is_file()


def test_the_tutorial_runs_from_top_to_bottom(tmp_path: Path) -> None:
    steps = blocks("docs/tutorial.md", "python")
    assert len(steps) >= 8
    said = run("\n".join(steps), tmp_path)
    assert "unknown setting 'popsize'; did you mean 'pop_size'" in said
    assert "found the light in" in said
    assert int(re.findall(r"stopped after (\d+) generations", said)[0]) < 40


@every_page
def test_every_relative_link_leads_to_a_file(page: str) -> None:
    targets = {docs_site.repository_path(page, t) for t in docs_site.links(TEXTS[page])}
    assert not [t for t in targets if not (ROOT / t).is_file()]


@every_page
def test_no_text_is_taken_for_an_html_tag(page: str) -> None:
    seen: list[str] = []
    docs_site.outside_code(TEXTS[page], lambda text: seen.append(text) or text)  # type: ignore[func-returns-value]
    tags = re.findall(r"<(?!!--)/?[a-z][^>\n]*>", seen[0])
    assert not [t for t in tags if t not in ('<div class="wide" markdown>', "</div>")]


def test_pages_of_the_repository_become_pages_of_the_site() -> None:
    assert docs_site.place("docs/theory.md") == "theory.md"
    assert docs_site.place("README.md") == "index.md"
    assert docs_site.place("results/studies/defaults/report/index.html") == "reports/defaults/index.html"
    assert docs_site.place("examples/study.py") == "files/examples/study.py.txt"
    assert {"examples/custom_env.py", "results/studies/defaults/report/index.html"} <= set(docs_site.linked_files())


def test_a_page_that_loads_from_another_host_is_found(tmp_path: Path) -> None:
    own = '<a href="https://else.example">a link is no load</a><img src="here.png"><script src="a.js"></script>'
    (tmp_path / "own.html").write_text(own, encoding="utf-8")
    assert docs_site.foreign(tmp_path) == []
    (tmp_path / "page.html").write_text('<link rel="x" href="//fonts.example/f.css">', encoding="utf-8")
    (tmp_path / "style.css").write_text("@import 'https://else.example/s.css';", encoding="utf-8")
    assert [found.partition(":")[0] for found in docs_site.foreign(tmp_path)] == ["page.html", "style.css"]


def commands() -> list[str]:
    """Every line of a shell block that starts with `neol`."""
    lines = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    return sorted({re.sub(r"^\w\$ ", "", line) for line in lines if re.match(r"(\w\$ )?neol ", line)})


@pytest.mark.parametrize("line", commands())
def test_every_command_that_is_shown_parses(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    if words == ["--version"]:
        with pytest.raises(SystemExit):
            cli._parser().parse_args(words)
    else:
        assert cli._parser().parse_args(words).command == words[0]


def test_a_command_with_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(cli.NeolError, match="unknown option"):
        cli._parser().parse_args(["train", "cartpole", "--no-such-option"])


def prose() -> str:
    return "\n".join(text for page, text in TEXTS.items() if page != "CHANGELOG.md")


def test_every_file_and_test_that_the_docs_name_exists() -> None:
    paths = set(re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|sh|json|csv|md|txt))`", prose()))
    assert "network/step.py" in paths
    missing = [p for p in paths if not any((ROOT / base / p).exists() for base in ("", "src/neol", "results"))]
    assert not [p for p in missing if not p.startswith(("runs/", "site/"))]
    written = "\n".join(f.read_text(encoding="utf-8") for f in (ROOT / "tests").glob("test_*.py"))
    named = set(re.findall(r"\b(test_[a-z0-9_]+)`", prose())) - set(fields())  # a setting is no test
    assert named
    assert not [name for name in named if f"def {name}(" not in written]


def test_every_make_target_that_the_docs_name_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    shown = "\n".join([*(b for page in PAGES for b in blocks(page, "sh")), *re.findall(r"`make [a-z-]+`", prose())])
    named = set(re.findall(r"^`?(?:PYTHON=\S+ )?make ([a-z-]+)", shown, flags=re.MULTILINE))
    assert {"train", "test", "setup", "docs"} <= named <= targets


def test_the_readme_can_be_read_in_minutes() -> None:
    assert len(TEXTS["README.md"].splitlines()) <= 130
