"""The report as a page: well-formed, self-contained, and as a real browser lays it out."""

import copy
import re
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ops.records.bronze import OffsetsLost
from lakehouse.reporting.text.tables import View
from lakehouse.reporting.web.charts import (
    Bar,
    Mark,
    Series,
    bar_chart,
    clock,
    count,
    lanes_chart,
    line_chart,
    seconds,
)
from lakehouse.reporting.web.report import page, write_page
from tests.support.browser import NO_BROWSER, Tab, opened, program

BEGUN = 1_790_000_000_000


def observed() -> dict[str, Any]:
    """A busy source: forty batches with a stall, DDL in four tables, every kind of trouble."""
    batches = [
        {
            "batch": n + 1,
            "at": BEGUN + n * 60_000,
            "seconds": 4 + n % 5,
            "bytes": 10_000,
            "messages": 900 + 37 * n % 400,
            "inserted": 850,
            "duplicate": n % 7,
            "conflict": 0,
            "ddl": n % 3,
            "dead": n % 2,
            "fresh": None if n == 0 else BEGUN + (n if not 15 < n < 25 else 15) * 60_000 - 5_000,
        }
        for n in range(40)
    ]
    tables = [
        {"table": "shop.orders", "state": "exact", "why": None, "notes": [], "version": 12},
        {
            "table": "shop.items",
            "state": "incomplete",
            "why": "a dead letter",
            "notes": ["inferred schema"],
            "version": 3,
        },
        {
            "table": "shop.log",
            "state": "behind",
            "why": "ALTER TABLE shop.log ENGINE = x can't be applied",
            "notes": [],
            "version": 1,
        },
        {"table": "shop.old", "state": "retired", "why": None, "notes": [], "version": 7},
    ]
    return {
        "source": "shop",
        "format": "ticdc-open",
        "now": BEGUN + 2_400_000,
        "batches": batches,
        "manifests": [],
        "order": "tidb",
        "status": {
            "source": "shop",
            "gaps": ["12 offsets of shop/1 from 30 on were deleted before they were read"],
            "lag_seconds": 61,
            "lag_messages": 1234,
            "dead_letters": 20,
            "books": "closed",
            "tables": tables,
            "broker": "it is gone",
            "no_watermark_seen": ["shop/3"],
            "counts_again": ["shop/4"],
            "problems": ["shop.log: held"],
            "not_configured": ["shop.new"],
        },
        "totals": {"messages": 41_234_567, "decoded": 34_117, "inserted": 34_000, "duplicate": 117},
        "runs": [
            {
                "begun": BEGUN,
                "ended": BEGUN + 8_500,
                "layers": ["bronze", "silver", "gold"],
                "landed": 900,
                "batches": 1,
                "published": 1,
                "error": None,
            },
            {
                "begun": BEGUN + 60_000,
                "ended": BEGUN + 61_000,
                "layers": ["gold"],
                "landed": 0,
                "batches": 0,
                "published": 0,
                "error": "shop: the broker is gone",
            },
        ],
        "ddl": [
            {
                "table": f"shop.t{n % 4}",
                "at": BEGUN + n * 300_000,
                "ddl": f"ALTER TABLE t ADD COLUMN c{n} INT",
            }
            for n in range(9)
        ],
        "dead_letters": {
            "counts": [{"code": "frame", "table": "", "number": 20}],
            "latest": [
                {
                    "code": "frame",
                    "message": "message: expected a frame",
                    "table": "",
                    "origin": "shop/2@7[0]",
                    "place": {"topic": "shop", "incarnation": "a-1", "partition": 2, "offset": 7},
                }
            ],
        },
        "gaps": [
            OffsetsLost(
                topic="shop", incarnation="a", partition=1, first=30, last=41, missing=12, seen_at=BEGUN
            )
        ],
        "epochs": [{"epoch": 1, "why": "restored", "at": BEGUN}],
    }


def html_of(*sources: dict[str, Any], where: str = "./lake", served: bool = False) -> str:
    views = {source["source"]: View("tidb", now=BEGUN / 1000) for source in sources}
    return page(sources, views, where, version="0.1.0", served=served)


def parsed(html: str) -> ElementTree.Element:
    """Strictly: a tag that is not closed, or a sign that is not escaped, is an error."""
    return ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>\n"))


def words(html: str) -> str:
    """The text of a page, as people read it."""
    root = parsed(html)
    for hidden in ("style", "script"):
        for element in root.iter(hidden):
            element.text = ""
    return " ".join(" ".join(root.itertext()).split())


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    html = html_of(observed())

    root = parsed(html)
    assert re.findall(r"https?:|//|@import|url\(|<script|<link|<img|<iframe|src=", html) == []
    assert {element.tag for element in root.iter()} >= {"svg", "table", "style", "circle", "path", "rect"}
    assert len([element for element in root.iter("svg") if element.get("aria-label")]) == 4


def test_the_page_says_what_needs_attention() -> None:
    said = words(html_of(observed()))

    for what in (
        "shop ticdc-open",
        "fail broker: it is gone",
        "fail 12 offsets of shop/1 from 30 on were deleted before they were read lakehouse verify shop",
        "lakehouse dead-letters dismiss shop --code lost --why … then say so",
        "warn 20 dead letters lakehouse dead-letters list --source shop",
        "warn shop/3 has sent no watermark, and holds it lakehouse partitions retire shop shop 3 --why …",
        "warn shop/4 was retired, and counts again: something has arrived",
        "warn not in gold, since no YAML names them: shop.new",
        "warn epoch 1 was raised 2026-09-21 14:13:20 UTC: restored",
        "behind shop.log: ALTER TABLE shop.log ENGINE = x can't be applied lakehouse schema history shop.log",
        "41.2 M messages read",
        "61 s lag of the watermark",
        "1 of 3 tables exact",
        "shop.items incomplete a dead letter inferred schema 3",
        "shop: the broker is gone",
        "frame 20",
        "shop/2@7[0]",
    ):
        assert what in said


def test_the_balance_says_when_changes_are_not_accounted_for() -> None:
    lost = copy.deepcopy(observed())
    lost["totals"]["decoded"] += 3

    assert "Every decoded change is accounted for." in words(html_of(observed()))
    assert "3 changes are not accounted for." in words(html_of(lost))


def test_a_quiet_source_needs_no_attention_and_a_new_one_has_nothing_to_show() -> None:
    quiet = {**observed(), "status": {"source": "shop", "books": "closed"}, "gaps": [], "epochs": []}
    new = {
        **quiet,
        "batches": [],
        "ddl": [],
        "runs": [],
        "totals": {},
        "dead_letters": {"counts": [], "latest": []},
    }

    assert "Nothing needs attention." in words(html_of(quiet))
    assert "messages a second by batch: nothing to show yet" in words(html_of(new))
    assert "This lake has no source yet: nothing has run." in words(html_of())


names = st.text(max_size=30)
times = st.integers(-(2**62), 2**62)


@given(
    names,
    names,
    st.lists(st.tuples(times, st.none() | times, st.integers(0, 2**40)), max_size=6),
    st.lists(names, max_size=4),
)
def test_whatever_names_errors_and_times_there_are_the_page_is_well_formed(
    name: str, error: str, moments: list[tuple[int, int | None, int]], tables: list[str]
) -> None:
    source = copy.deepcopy(observed())
    source["source"] = source["status"]["source"] = name
    source["runs"][1]["error"] = error
    source["batches"] = [
        {
            **source["batches"][0],
            "batch": number,
            "at": at,
            "fresh": fresh,
            "messages": messages,
            "seconds": messages % 7,
        }
        for number, (at, fresh, messages) in enumerate(moments)
    ]
    source["ddl"] = [
        {"table": table, "at": number * 10**9, "ddl": error} for number, table in enumerate(tables)
    ]
    source["dead_letters"]["latest"][0]["message"] = error

    html = html_of(source, where=name)

    assert all(
        svg.find("rect") is not None or svg.find("path") is not None or svg.find("circle") is not None
        for svg in parsed(html).iter("svg")
    )


def test_charts_put_every_mark_inside_their_frame() -> None:
    drawn = [
        line_chart(
            "l", [Series("a", "a", [(BEGUN + n * 1000.0, n * n) for n in range(50)], [""] * 50)], count
        ),
        bar_chart("b", [Bar(str(n), n * 1e5, "") for n in range(100)], count),
        lanes_chart("d", [Mark(f"t{n % 5}", BEGUN + n, "") for n in range(30)]),
    ]

    for chart in drawn:
        root = parsed(chart)
        _, _, width, height = map(float, root.get("viewBox", "").split())
        for circle in root.iter("circle"):
            assert 0 <= float(circle.get("cx", "")) <= width
            assert 0 <= float(circle.get("cy", "")) <= height
        for rect in root.iter("rect"):
            assert float(rect.get("x", "")) + float(rect.get("width", "")) <= width
            assert float(rect.get("height", "")) >= 0


@pytest.mark.parametrize(("value", "said"), [(0, "0"), (1234, "1,234"), (2.5, "2.5"), (41_234_567, "41.2 M")])
def test_numbers_are_short(value: float, said: str) -> None:
    assert count(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0.25, "0.25 s"), (90, "90 s"), (600, "10 min"), (36_000, "10 h"), (864_000, "10 d")]
)
def test_lengths_of_time_have_the_unit_that_fits(value: float, said: str) -> None:
    assert seconds(value) == said


def test_times_are_in_utc_and_as_exact_as_their_span() -> None:
    assert (clock(BEGUN), clock(BEGUN, 1000), clock(BEGUN, 10**7), clock(BEGUN, 10**9)) == (
        "2026-09-21 14:13:20",
        "14:13:20",
        "14:13",
        "09-21",
    )


# --- in a real browser


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    found = program()
    if found is None:
        pytest.skip(NO_BROWSER)
    with opened(found) as one:
        yield one


BOXES = """(selector) => [...document.querySelectorAll(selector)].map((e) => e.getBoundingClientRect())
  .map((r) => [Math.round(r.width), Math.round(r.height)])"""
OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"


def boxes(tab: Tab, selector: str) -> list[tuple[int, int]]:
    """The width and height of each element, as they are laid out."""
    return [(width, height) for width, height in tab.ask(f"({BOXES})('{selector}')")]


def style_of(tab: Tab, selector: str, name: str) -> str:
    return str(tab.ask(f"getComputedStyle(document.querySelector('{selector}')).{name}"))


def saved(folder: Path) -> str:
    """The address of the report of a busy source, in a file."""
    file = folder / "report.html"
    write_page(html_of(observed()), file)
    return file.as_uri()


@pytest.mark.parametrize(
    ("dark", "background", "line"),
    [(False, "rgb(255, 255, 255)", "rgb(9, 105, 218)"), (True, "rgb(13, 17, 23)", "rgb(68, 147, 248)")],
)
def test_a_browser_shows_the_page_in_light_and_dark(
    dark: bool, background: str, line: str, tab: Tab, tmp_path: Path
) -> None:
    tab.show(dark=dark)
    tab.open(saved(tmp_path))

    charts = boxes(tab, "svg")
    assert len(charts) == 4
    assert all(width > 400 and height > 60 for width, height in charts)
    assert len(boxes(tab, ".tile")) == 8
    assert tab.ask(OVERFLOW) <= 0
    assert (style_of(tab, "body", "backgroundColor"), style_of(tab, ".line", "stroke")) == (background, line)
    assert len(rows(tab.picture(tmp_path / "report.png"))) > 300
    assert tab.problems == []


def test_a_narrow_browser_has_nothing_outside_its_window(tab: Tab, tmp_path: Path) -> None:
    tab.show(width=500)
    tab.open(saved(tmp_path))

    assert tab.ask(OVERFLOW) <= 0
    assert all(width <= 500 for width, _ in boxes(tab, "svg") + boxes(tab, ".tile"))


def rows(png: Path) -> set[bytes]:
    """The distinct rows of a picture of 8-bit RGB or RGBA pixels, as they lie in the file: those of an empty
    page are alike.
    """
    data = png.read_bytes()
    stride = int.from_bytes(data[16:20]) * {2: 3, 6: 4}[data[25]] + 1
    raw = zlib.decompress(b"".join(chunk for name, chunk in chunks(data) if name == b"IDAT"))
    return {raw[start : start + stride] for start in range(0, len(raw), stride)}


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found, place = [], 8
    while place < len(data):
        length = int.from_bytes(data[place : place + 4])
        found.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    return found
