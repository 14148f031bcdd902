"""The report's HTML: well formed, of one piece, legible in light and dark, and for who cannot see."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing.job import plots, report
from pulsar_sizing.job.document import STYLE, Table, document
from pulsar_sizing.job.overload import Minutes
from pulsar_sizing.job.palette import DARK, LIGHT, Palette, contrast
from tests.unit.sizing.test_job_report import COVERAGE, HOSTILE, TODAY, result

VOID = {"meta", "br", "img", "hr", "link", "input"}
LOADS = {"script", "link", "iframe", "object", "embed", "img", "image", "video", "audio", "source", "form", "base"}
HOURS = [float(hour) for hour in range(24)]
NAMES = [HOSTILE, r"persistent://acme/shop/$\frac{1}$", "persistent://acme/shop/<!-- - --> &amp; \"'"]


class Outline(HTMLParser):
    """What is in a document; every element must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute twice: {tag} {names}"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def every(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    minutes = Minutes(60.0, {"a:8080": 12.0}, {"a:8080": 0.0})
    found = report.Details(TODAY, dict.fromkeys(NAMES, HOURS), minutes, COVERAGE)
    return report.write(tmp_path_factory.mktemp("report"), result(), found)


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return written.read_text(encoding="utf-8")


def test_the_folder_has_the_report_the_plots_and_the_result(written: Path) -> None:
    names = {path.name for path in written.parent.iterdir()}
    plotted = {"load-per-broker", "bundle-weights", "cuts", "hot-topics", "coverage"}
    assert names == {"report.html", "result.json", *(f"{name}.png" for name in plotted)}
    stored = (written.parent / "result.json").read_text(encoding="utf-8")
    assert SizingResult.model_validate_json(stored) == result()


def test_it_is_well_formed(page: str) -> None:
    outline = Outline(page)
    assert page.startswith("<!doctype html>\n<html lang=")
    assert len(outline.every("h1")) == len(outline.every("main")) == len(outline.every("title")) == 1
    ids = Counter(each["id"] for _, each in outline.elements if "id" in each)
    assert [name for name, count in ids.items() if count > 1] == []
    used = set(re.findall(r"url\(#([^)]+)\)", page)) | {each["href"][1:] for each in outline.every("use")}
    assert used
    assert used <= set(ids), "what a drawing refers to is in it"


def test_nothing_comes_from_elsewhere(page: str) -> None:
    outline = Outline(page)
    assert {tag for tag, _ in outline.elements} & LOADS == set()
    assert "://" not in "".join(value for _, each in outline.elements for value in each.values())
    assert "@import" not in page and not re.search(r"url\((?!#)", page)
    assert not re.search(r"\bhttps?:", page)


def test_names_from_the_cluster_are_texts(page: str) -> None:
    outline = Outline(page)
    said = "".join(outline.text)
    for name in NAMES:
        assert name in said, "as it is"
    assert "<!--" not in page
    assert not outline.every("script")


def test_who_cannot_see_is_told(page: str) -> None:
    outline = Outline(page)
    drawings, tables = outline.every("svg"), outline.every("table")
    assert len(drawings) == 5
    assert all(each["role"] == "img" and each["aria-label"] for each in drawings)
    assert len(outline.every("caption")) == len(tables) > 3
    assert {each["scope"] for each in outline.every("th")} == {"col", "row"}
    scrolled = [each for each in outline.every("div") if each["class"] == "wide"]
    assert len(scrolled) == len(drawings) + len(tables)
    assert all(each["tabindex"] == "0" and each["role"] == "region" and each["aria-label"] for each in scrolled)


def test_what_is_wide_scrolls_by_itself(page: str) -> None:
    """A page of 360 pixels: nothing but what is inside of a scrolling element may be wider."""
    (viewport,) = (each for each in Outline(page).every("meta") if each.get("name") == "viewport")
    assert viewport["content"].startswith("width=device-width")
    assert ".wide{overflow-x:auto}" in STYLE
    rules = dict(re.findall(r"^([a-z0-9]+)\{(.*)\}$", STYLE, re.MULTILINE))
    assert [name for name, rule in rules.items() if re.search(r"(?<![a-z-])(min-)?width:\d", rule)] == ["svg"]
    assert all("width" not in each and "height" not in each for each in Outline(page).every("svg"))


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_bars_stand_out(palette: Palette) -> None:
    for name in ("ink", "muted", "now", "recommended"):
        assert contrast(getattr(palette, name), palette.page) >= 4.5, name
    assert len(set(asdict(palette).values())) == len(asdict(palette))


def test_contrast_is_that_of_the_guidelines() -> None:
    """Values of the published formula."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#123456", "#123456") == 1


def test_every_colour_is_one_of_the_palettes(page: str) -> None:
    """A colour that is none of the variables would be the same in light and dark."""
    plain = [each for each in re.findall(r"#[0-9a-fA-F]{6}\b", page) if each not in STYLE]
    assert plain == []
    dark = STYLE.index("prefers-color-scheme:dark")
    assert LIGHT.variables() in STYLE[:dark] and DARK.variables() in STYLE[dark:]
    styles = [each["style"] for _, each in Outline(page).elements if "style" in each]
    assert not [each for each in styles if re.search(r"black|white|rgb", each)]
    # Text that is black has no colour in the drawing at all.
    texts = re.findall(r'id="[^"]*-text_\d+">\s*<g([^>]*)>', page)
    assert len(texts) > 20
    assert [each for each in texts if "fill: var(--" not in each] == []


def test_tables_without_numbers_and_notes() -> None:
    text = document("t", "first\nword  more words\n", [], [Table("x", ("a", "b"), [("1 < 2", "3.5")], "a & b")])
    assert '<th scope="row">1 &lt; 2</th><td class="number">3.5</td>' in text
    assert "<p>a &amp; b</p>" in text and "<dt>word</dt><dd>more words</dd>" in text
    Outline(text)


def test_columns_of_numbers_have_their_heads_above_them_and_long_texts_have_room() -> None:
    """A head at the left above numbers at the right is above the numbers of its neighbour."""
    rows = [("a", "1.5", "not known", "why " * 20), ("b", "-", "2", "since " * 20)]
    text = document("t", "first\n", [], [Table("x", ("name", "weight", "minutes", "why"), rows)])
    heads = [each.get("class", "") for each in Outline(text).every("th") if each["scope"] == "col"]
    assert heads == ["", "number", "", ""]
    assert '<td class="short">not known</td>' in text and text.count('<td class="long">') == 2
    assert "td.short{white-space:nowrap}" in STYLE and "td.long{min-width:min(" in STYLE


def test_the_words_above_a_line_are_inside_of_their_plot() -> None:
    """Also where the line is the highest there is; and a plot of nothing is one."""
    for weights, fair in (([1e6, 2e6], 9e6), ([9e6], 1e6), ([], 0.0)):
        figure = plots.bundles(weights, weights, fair).figure
        low, high = figure.axes[0].get_ylim()
        assert low == 0 and high >= 1.1 * max([*weights, fair]) / 1e6 and high > 0


def test_topics_far_below_the_hottest_are_seen_too() -> None:
    plot = plots.heat(["persistent://a/b/hot", "persistent://a/b/next"], [[100.0] * 24, [4.0] * 24])
    boxes = plot.figure.axes[0].patches
    assert boxes[0].get_alpha() == 1 and boxes[-1].get_alpha() == pytest.approx(0.2)


def test_brokers_of_one_cluster_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    """The plot's names are those that the table has; the picture is not empty."""
    hosts = [f"east-broker-{n}.east-broker-headless.pulsar.svc.cluster.local:8080" for n in range(3)]
    plot = plots.loads({host: plots.Bars(1e6 * n, 1e6, 1e6) for n, host in enumerate(hosts, 1)}, 1.0)
    labels = [label.get_text() for label in plot.figure.axes[0].get_yticklabels()]
    assert labels == ["east-broker-0", "east-broker-1", "east-broker-2"]
    path = tmp_path / "plot.png"
    path.write_bytes(plot.png())
    with Image.open(path) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 3


def test_the_hash_ring_shows_where_the_weight_is_the_boundaries_and_the_cuts() -> None:
    quarter = 1 << 30
    rings = [
        plots.Ring("acme/shop", [(0, 4e6), (5, 5e6), (3 * quarter, 1e6)], [2 * quarter], [quarter]),
        plots.Ring("acme/till", [((1 << 32) - 1, 1.0)], [], []),
    ]
    plot = plots.cuts(rings, 5)
    axes = plot.figure.axes[0]
    boxes = [(box.get_x(), box.get_y(), box.get_alpha()) for box in axes.patches]
    assert [(x, y) for x, y, _ in boxes] == [(0, 0), (96, 0), (127, 1)]
    assert boxes[0][2] == boxes[2][2] == pytest.approx(3 * boxes[1][2])
    lines = {lines.get_label(): [each[:, 0].tolist() for each in lines.get_segments()] for lines in axes.collections}
    assert (lines["boundary now"], lines["recommended cut"]) == ([[64, 64]], [[32, 32]])
    assert "Shown are 2 of 5 namespaces." in plot.words


def test_hours_that_are_covered_differ_from_others_in_height_too() -> None:
    days = {"2026-03-02": [1.0, 0.5, 0.0, 0.8, *[0.0] * 20]}
    boxes = [(box.get_x(), box.get_height()) for box in plots.coverage(days, 0.8).figure.axes[0].patches]
    assert boxes == [(0, 1.0), (1, 0.25), (3, 1.0)]
