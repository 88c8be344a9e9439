"""MkDocs' hooks: what the site has besides docs/, and a check that a reader needs no network.

README, CHANGELOG, CONTRIBUTING and the READMEs of results and benchmarks become pages; a study's report is copied to
reports/STUDY; any other file outside docs/ that a page links to is copied to files/. Links follow, so that the same
Markdown works in a repository's browser and on the site.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# a file of the repository -> the page that it becomes
PAGES = {
    "README.md": "index.md",
    "results/README.md": "evidence.md",
    "benchmarks/README.md": "benchmarks.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
SHOWN = {".html", ".png", ".svg", ".gif", ".json", ".csv", ".sqlite"}  # the rest is shown as text
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
LIST = re.compile(r"^((?!\d+\. |[-#\s]).+)\n(- |\d+\. )", re.MULTILINE)  # a list right below a line of text
REPORT = re.compile(r"results/studies/([^/]+)/report/(.+)")


def links(markdown: str) -> list[str]:
    """The relative targets of a text's links and images, outside code."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", markdown, flags=re.DOTALL)
    return [t for _, t in LINK.findall(prose) if not re.match(r"[a-z]+:|#", t)]


def repository_path(source: str, target: str) -> str:
    """Where a link in the file `source` leads, from the repository's root, without its anchor."""
    return os.path.normpath(PurePosixPath(source).parent / target.partition("#")[0])


def place(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if report := REPORT.fullmatch(path):
        return f"reports/{report[1]}/{report[2]}"
    name = path.replace("README.md", "about")
    return f"files/{name}" if PurePosixPath(name).suffix in SHOWN else f"files/{name}.txt"


def sources() -> dict[str, str]:
    """Every page of the site: its place -> its file in the repository."""
    own = {p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md")}
    return {place(path): path for path in sorted(own | set(PAGES))}


def linked_files() -> list[str]:
    """The files outside docs/ that pages link to, and whole reports."""
    found = set()
    for source in sources().values():
        for target in links((ROOT / source).read_text(encoding="utf-8")):
            path = repository_path(source, target)
            if path not in PAGES and not path.startswith("docs/"):
                found.add(path)
    reports = (ROOT / "results" / "studies").glob("*/report/**/*")
    return sorted(found | {p.relative_to(ROOT).as_posix() for p in reports if p.is_file()})


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and files that are not in docs/."""
    from mkdocs.exceptions import PluginError
    from mkdocs.structure.files import File

    for path in (*PAGES, *linked_files()):
        if not (ROOT / path).is_file():
            raise PluginError(f"a page links to '{path}', which is no file")
        files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links between files of the repository into links between places of the site.

    A list right below a line of text gets the blank line that Python-Markdown wants and GitHub does not.
    """
    source = sources()[page.file.src_uri]
    home = PurePosixPath(page.file.src_uri).parent

    def moved(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        anchor = target.partition("#")[2]
        path = os.path.relpath(place(repository_path(source, target)), home)
        return f"{found[1]}({path}{'#' + anchor if anchor else ''})"

    return outside_code(markdown, lambda prose: LIST.sub(r"\1\n\n\2", LINK.sub(moved, prose)))


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """The text with everything but its code changed."""
    parts = re.split(r"(```.*?```|`[^`\n]*`)", markdown, flags=re.DOTALL)
    # a link's own text may hold code: join what stands around inline code before links are looked for
    held: list[str] = []
    for i in range(1, len(parts), 2):
        held.append(parts[i])
        parts[i] = f"\x00{len(held) - 1}\x00"
    return re.sub(r"\x00(\d+)\x00", lambda m: held[int(m[1])], change("".join(parts)))


class _Loaded(HTMLParser):
    """What a page loads by itself: scripts, styles, pictures, frames."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {k: v or "" for k, v in attrs}
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "image", "use"):
            self.found += [v for k, v in named.items() if k in ("src", "srcset", "href", "xlink:href")]
        elif tag == "link":
            self.found.append(named.get("href", ""))


def foreign(folder: Path) -> list[str]:
    """What files of a built site would load from other hosts."""
    out = []
    for file in sorted(folder.rglob("*.html")):
        reader = _Loaded()
        reader.feed(file.read_text(encoding="utf-8"))
        out += [f"{file.relative_to(folder)}: {u}" for u in reader.found if re.match(r"(https?:)?//", u)]
    for file in sorted(folder.rglob("*.css")):
        loaded = re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", file.read_text(encoding="utf-8"))
        out += [f"{file.relative_to(folder)}: {u}" for u in loaded]
    return out


def on_post_build(config: Any) -> None:
    """Refuse a site that is not whole without a network."""
    from mkdocs.exceptions import PluginError

    if found := foreign(Path(config.site_dir)):
        raise PluginError("the site would load from other hosts: " + "; ".join(found[:5]))
