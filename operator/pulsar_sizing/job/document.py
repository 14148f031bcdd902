"""The report as one HTML document: nothing is loaded from elsewhere, names from the cluster are escaped.

In light and dark as the reader's system is set; as wide as a phone or wider, where wide tables and plots scroll
separately; tables with headings of rows and columns, plots with alternative text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from pulsar_sizing.job.palette import DARK, LIGHT
from pulsar_sizing.job.plots import Plot


@dataclass(frozen=True)
class Table:
    """A table of the report, of texts."""

    title: str
    heads: Sequence[str]
    rows: list[Sequence[str]]
    note: str = ""
    """A sentence below it."""


STYLE: Final = f"""
:root{{color-scheme:light dark;{LIGHT.variables()}}}
@media (prefers-color-scheme:dark){{:root{{{DARK.variables()}}}}}
body{{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}}
main{{max-width:68rem;margin:0 auto;padding:1rem}}
h1{{font-size:1.5rem;line-height:1.2}}
pre{{font:inherit;white-space:pre-wrap;overflow-wrap:anywhere}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}}
dt{{color:var(--muted)}}dd{{margin:0;overflow-wrap:anywhere}}
figure{{margin:2rem 0}}figcaption,caption{{font-size:1rem;font-weight:600;text-align:left;padding:.25rem 0}}
.wide{{overflow-x:auto}}.wide:focus-visible{{outline:2px solid var(--recommended)}}
svg{{display:block;width:100%;min-width:32rem;max-width:52rem;height:auto}}
svg *{{stroke-linejoin:round;stroke-linecap:butt}}
table{{border-collapse:collapse;font-size:.875rem}}
th,td{{padding:.25rem .75rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}}
thead th{{color:var(--muted);vertical-align:bottom}}
tbody th{{font-weight:400;min-width:min(12rem,45vw);overflow-wrap:anywhere}}
.number{{text-align:right;font-variant-numeric:tabular-nums}}
td.number,td.short{{white-space:nowrap}}td.long{{min-width:min(18rem,75vw)}}
p{{color:var(--muted);font-size:.875rem}}
"""
_NUMBER = re.compile(r"-|[0-9]+(?:\.[0-9]+)?%?")
_SHORT: Final = 20
"""Letters of a text that is not broken."""
_LONG: Final = 40
"""Letters of a text that is given room: of few words a line, rows would be higher than a phone's page."""


def document(title: str, summary: str, plots: Sequence[Plot], tables: Sequence[Table]) -> str:
    """The document; ``summary`` has a line for each fact, a word and what there is to say of it."""
    body = [f"<h1>{escape(title)}</h1>", _facts(summary), *map(_figure, plots), *map(_table, tables)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _facts(summary: str) -> str:
    first, *lines = summary.splitlines()
    pairs = [line.split(None, 1) for line in lines if line.strip()]
    facts = "".join(f"<dt>{escape(word)}</dt><dd>{escape(' '.join(more))}</dd>" for word, *more in pairs)
    return f"<p>{escape(first)}</p>\n<dl>{facts}</dl>"


def _figure(plot: Plot) -> str:
    words = escape(plot.words)
    return f"<figure>\n<figcaption>{words}</figcaption>\n{_wide(plot.words, plot.svg())}\n</figure>"


def _table(table: Table) -> str:
    numbers = [all(map(_NUMBER.fullmatch, column)) for column in zip(*table.rows, strict=True)]
    kinds = [' class="number"' if numeric else "" for numeric in numbers] or [""] * len(table.heads)
    heads = "".join(f'<th scope="col"{kind}>{escape(cell)}</th>' for cell, kind in zip(table.heads, kinds, strict=True))
    rows = "\n".join(
        f'<tr><th scope="row">{escape(first)}</th>' + "".join(map(_cell, more)) + "</tr>" for first, *more in table.rows
    )
    text = f"<table>\n<caption>{escape(table.title)}</caption>\n<thead><tr>{heads}</tr></thead>\n"
    note = f"\n<p>{escape(table.note)}</p>" if table.note else ""
    whole = _wide(table.title, f"{text}<tbody>{rows}</tbody></table>")
    return f"<figure>{whole}{note}</figure>"


def _cell(text: str) -> str:
    length = "short" if len(text) <= _SHORT else "long" if len(text) > _LONG else ""
    kind = "number" if _NUMBER.fullmatch(text) else length
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"


def _wide(label: str, inner: str) -> str:
    """What may be wider than the page; the keyboard scrolls it too."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{escape(label)}">{inner}</div>'
