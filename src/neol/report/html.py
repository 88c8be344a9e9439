"""The report's HTML: one page that needs nothing else. No script or style from elsewhere, figures inline.

Figures come as matplotlib's SVG. Their known colours become the page's own, so that they follow light and dark, and
each has its alternative text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

from neol.figures.style import EDGE, GRID, INK, MUTED, PAPER, SCHEME
from neol.report.tables import Table

_THEME = {INK: "currentColor", MUTED: "var(--muted)", EDGE: "var(--muted)", GRID: "var(--rule)"}


class Figure(NamedTuple):
    title: str
    alt: str
    svg: str
    note: str = ""


def inline(svg: str, alt: str) -> str:
    """A matplotlib SVG as part of a page: scales with it, follows its colours, and says what it shows."""
    mine = hashlib.sha256(svg.encode()).hexdigest()[:8]  # a page has many figures, and ids must differ
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="([^"]+)"', svg)
    body = svg[svg.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(rf"{re.escape(SCHEME)}.*?</style>", "", body, flags=re.DOTALL)  # the page has its own
    body = re.sub(r'<g id="[^"]*"', "<g", body)  # nothing refers to them
    body = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{mine}-", body)
    body = re.sub(r'(<g>\s*<path[^>]*?)style="fill: #ffffff"', r'\1style="fill: none"', body, count=1)  # background
    body = body.replace(f"fill: {PAPER}; opacity", "fill: var(--paper); opacity")  # behind text on top of lines
    for colour, own in _THEME.items():
        body = re.sub(re.escape(colour), own, body, flags=re.IGNORECASE)
    body = re.sub(r"(<text[^>]*style=\")(?![^\"]*fill)", r"\1fill: currentColor; ", body)
    body = re.sub(r"<text(?![^>]*style=)", '<text style="fill: currentColor"', body)
    return (
        f'<svg role="img" aria-label="{escape(alt, quote=True)}" viewBox="{box.group(1) if box else "0 0 100 100"}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{body}'
    )


def table_html(table: Table) -> str:
    """A table that sorts by a click or a key on a column's name; on a narrow screen each row is a block of cells."""
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(c)}<span aria-hidden="true"></span></button>'
        "</th>"
        for c in table.columns
    )
    rows = "".join("<tr>" + "".join(map(_cell, row, table.columns)) + "</tr>" for row in table.rows)
    kept = table.columns.index("arm") + 1 if "arm" in table.columns else 1  # stays in sight when the table scrolls
    return (
        f'<div class="scroll stack" tabindex="0" role="region" aria-label="{escape(table.caption, quote=True)}">'
        f'<table id="table-{escape(table.name)}" class="keep{kept}"><caption>{escape(table.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(cell: tuple[str, object], column: str) -> str:
    shown, key = cell
    kind = ' class="n"' if isinstance(key, int | float) else ""
    sort = "" if key is None else escape(str(key), quote=True)
    return f'<td{kind} data-key="{sort}" data-column="{escape(column, quote=True)}">{escape(shown)}</td>'


def figures_html(figures: Iterable[Figure]) -> str:
    parts = [
        f"<figure><figcaption>{escape(f.title)}</figcaption>{inline(f.svg, f.alt)}"
        + (f"<p>{escape(f.note)}</p>" if f.note else "")
        + "</figure>"
        for f in figures
    ]
    return f'<div class="figures">{"".join(parts)}</div>'


def markdown_html(text: str) -> str:
    """The little Markdown that regret.md has: headings, tables, lists, paragraphs."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        while lines and lines[0].startswith("#"):
            out.append(f"<h3>{escape(lines.pop(0).lstrip('# '))}</h3>")
        if not lines:
            continue
        if lines[0].startswith("|"):
            rows = [[c.strip() for c in line.strip().strip("|").split("|")] for line in lines if "---" not in line]
            parts = ["".join(f"<{tag}>{escape(c)}</{tag}>" for c in r) for r, tag in zip(rows, _tags(), strict=False)]
            table = "".join(f"<tr>{p}</tr>" for p in parts)
            body = f'<table class="keep1">{table}</table>'
            out.append(f'<div class="scroll" tabindex="0" role="region" aria-label="table">{body}</div>')
        elif lines[0].startswith("- "):
            out.append("<ul>" + "".join(f"<li>{escape(line[2:])}</li>" for line in lines) + "</ul>")
        else:
            out.append(f"<p>{escape(' '.join(lines))}</p>")
    return "".join(out)


def _tags() -> Iterator[str]:
    return chain(["th"], repeat("td"))


def picture_html(path: Path, alt: str) -> str:
    """A PNG inside the page."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="{escape(alt, quote=True)}" src="data:image/png;base64,{data}"></figure>'


def page(title: str, sections: Iterable[tuple[str, str, str]]) -> str:
    """sections: (id, heading, HTML)."""
    listed = list(sections)
    links = "".join(f'<li><a href="#{i}">{escape(h)}</a></li>' for i, h, _ in listed)
    body = "".join(f'<section id="{i}"><h2>{escape(h)}</h2>{html}</section>' for i, h, html in listed)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        '<a class="skip" href="#main">Skip to the results</a>'
        f'<header><h1>{escape(title)}</h1><button type="button" id="theme">Dark or light</button></header>'
        f'<nav aria-label="Contents"><ul>{links}</ul></nav><main id="main">{body}</main>'
        f"<footer>Made by <code>neol report</code>.</footer><script>{_SCRIPT}</script></body></html>\n"
    )


_STYLE = """
:root{--paper:#fff;--ink:#1c1e21;--muted:#5d646d;--rule:#e1e4e8;--soft:#f5f6f8;--link:#0057a8;--yes:#00694a;--no:#a33c00;
--maybe:#5d646d}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){--paper:#15171a;--ink:#e6e8eb;--muted:#a0a7b0;
--rule:#353a41;--soft:#1e2125;--link:#7db8f0;--yes:#4fcf9f;--no:#ff9a63;--maybe:#a0a7b0}}
:root[data-theme=dark]{--paper:#15171a;--ink:#e6e8eb;--muted:#a0a7b0;--rule:#353a41;--soft:#1e2125;--link:#7db8f0;
--yes:#4fcf9f;--no:#ff9a63;--maybe:#a0a7b0}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0 auto;max-width:1240px;padding:0 16px 48px;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
header{display:flex;gap:16px;align-items:baseline;justify-content:space-between;flex-wrap:wrap;margin-top:28px}
h1{font-size:1.7rem;line-height:1.2;margin:0}
h2{font-size:1.25rem;margin:40px 0 10px;padding-top:12px;border-top:1px solid var(--rule)}
h3{font-size:1.02rem;margin:24px 0 6px}
a{color:var(--link)}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
pre{background:var(--soft);padding:12px;border-radius:6px;overflow-x:auto}
button{font:inherit;color:inherit;background:none;border:1px solid var(--rule);border-radius:6px;padding:4px 10px;
cursor:pointer}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-999px}.skip:focus{left:16px;top:8px;background:var(--paper);padding:4px 8px}
nav ul{display:flex;flex-wrap:wrap;gap:4px 16px;list-style:none;padding:0;margin:12px 0 0}
.scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:6px;margin:10px 0 22px}
table{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:8px 10px;color:var(--muted);position:sticky;left:0}
th,td{padding:6px 10px;text-align:left;border-top:1px solid var(--rule);vertical-align:top}
th{background:var(--soft);vertical-align:bottom}
th button{border:0;padding:0;font-weight:600;text-align:left}
th span::after{content:"\\2195";opacity:.45;padding-left:4px}
th[aria-sort=ascending] span::after{content:"\\2191";opacity:1}
th[aria-sort=descending] span::after{content:"\\2193";opacity:1}
td.n{text-align:right;white-space:nowrap}
td{background:var(--paper)}
.keep1 td:nth-child(1),.keep1 th:nth-child(1),.keep2 td:nth-child(2),.keep2 th:nth-child(2),
.keep3 td:nth-child(3),.keep3 th:nth-child(3){position:sticky;left:0;
white-space:nowrap;box-shadow:1px 0 var(--rule)}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:22px;margin:12px 0}
figure{margin:0;border:1px solid var(--rule);border-radius:6px;padding:10px}
figure svg{width:100%;height:auto;display:block}
figure img{width:100%;height:auto;display:block;background:#fff}
figure p{margin:6px 0 0;font-size:.86rem;color:var(--muted)}
figcaption{font-weight:600;font-size:.95rem;margin-bottom:6px}
.claim{border:1px solid var(--rule);border-radius:6px;padding:12px 14px;margin:10px 0}
.claim h3{margin:0 0 4px}
.claim details{margin-top:8px}
.claim summary{color:var(--muted);font-size:.9rem}
.verdicts{list-style:none;margin:8px 0 0;padding:0;font-size:.9rem}
.verdicts li{display:grid;grid-template-columns:minmax(150px,1fr) minmax(0,2fr) minmax(0,2fr);gap:4px 18px;
padding:8px 0;border-top:1px solid var(--rule)}
.who{font-weight:600}
.said span{overflow-wrap:anywhere}
.metric,.why{color:var(--muted)}
.numbers,.why{display:block;font-variant-numeric:tabular-nums}
.chip{font-weight:650}.yes{color:var(--yes)}.no{color:var(--no)}.alike{color:var(--link)}.open{color:var(--maybe)}
@media (max-width:800px){.verdicts li{grid-template-columns:minmax(0,1fr)}}
@media (max-width:640px){
.stack{overflow-x:visible;border:0}
.stack table,.stack caption,.stack thead,.stack tbody,.stack tr,.stack td{display:block;width:auto}
.stack caption{position:static;padding:0 0 6px}
.stack thead tr{display:flex;overflow-x:auto;border:1px solid var(--rule);border-radius:6px}
.stack th{border:0;white-space:nowrap}
.stack tbody tr{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));border:1px solid var(--rule);
border-radius:6px;margin:8px 0;padding:6px 10px}
.stack td,.stack td.n{border:0;padding:3px 6px 3px 0;text-align:left;white-space:normal!important;
overflow-wrap:anywhere;position:static!important;box-shadow:none!important}
.stack .keep3 td:nth-child(-n+3),.stack .keep2 td:nth-child(-n+2),.stack .keep1 td:nth-child(1){font-weight:600}
.stack td::before{font-weight:400;content:attr(data-column);display:block;font-size:.78rem;color:var(--muted)}
}
.muted{color:var(--muted)}
footer{margin-top:40px;color:var(--muted);font-size:.86rem}
"""

_SCRIPT = """
for (const button of document.querySelectorAll('th button')) button.addEventListener('click', () => {
  const th = button.parentElement, table = th.closest('table'), body = table.tBodies[0];
  const column = [...th.parentElement.children].indexOf(th);
  const down = th.getAttribute('aria-sort') === 'ascending';
  for (const other of th.parentElement.children) other.setAttribute('aria-sort', 'none');
  th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const key = row => { const k = row.children[column].dataset.key; return k === '' ? null : isNaN(k) ? k : Number(k); };
  const order = (a, b) => {
    const x = key(a), y = key(b);
    if (x === null || y === null) return (x === null) - (y === null);
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
  };
  body.append(...[...body.rows].sort(order));
});
document.getElementById('theme').addEventListener('click', () => {
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const now = root.dataset.theme || (dark ? 'dark' : 'light');
  root.dataset.theme = now === 'dark' ? 'light' : 'dark';
});
"""
