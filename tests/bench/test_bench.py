"""The benchmark's messages are what they claim to be: seeded, decodable, complete."""

import argparse
import os
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from bench import parts
from bench.formats import FORMATS, OPTIONS, messages_of, place_figures, repeated
from bench.generate import NARROW, PARTITIONS, WIDE, generate
from bench.growth import TITLES, Feed, command, read_sections, row_lines, write_page
from bench.measure import Cost, by_program
from bench.parts import Spent
from bench.report import write
from lakehouse.events import RowChange, SchemaChange, Watermark
from lakehouse.formats import order_of
from lakehouse.formats.ticdc.open_protocol import decode
from lakehouse.spark.silver.decode import decode_all
from tests.support.engine import Memory


def test_the_same_seed_gives_the_same_messages() -> None:
    one, other, third = (list(generate(50, 2, NARROW, seed)) for seed in (1, 1, 2))

    assert one == other
    assert one != third


def test_every_message_decodes_and_every_partition_is_resolved_at_the_end() -> None:
    for fields in (NARROW, WIDE):
        messages = list(generate(600, 3, fields))

        events = [event for message in messages for event in decode(message, {})]

        kinds = Counter(type(event) for event in events)
        assert kinds == {RowChange: 600, SchemaChange: 3 * PARTITIONS, Watermark: 2 * PARTITIONS}
        assert {len(event.after) for event in events if isinstance(event, RowChange) and event.after} == {
            len(fields)
        }
        assert all(isinstance(event, Watermark) for event in events[-PARTITIONS:])


@pytest.mark.parametrize("format_", FORMATS)
def test_the_messages_of_every_format_are_decoded_whole(format_: str) -> None:
    messages = messages_of(format_, 1, 200)
    settings = {"format": format_, "options": OPTIONS, "order": order_of(format_, OPTIONS)}

    taken = decode_all(repeated(messages, len(messages) + 100), settings)

    assert taken.messages == len(messages) + 100
    assert len(taken.changes["key"]) > taken.messages / 3
    assert [row for row in taken.others if "dead_letter" in row[:1]] == []


def test_figures_of_formats_take_their_place_in_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# What\n\n<!-- figures -->\nold\n<!-- end -->\n\nbehind\n")
    costs = {"floor": [Cost(1, 2.0, 3)], "decode": [Cost(1, 4.0, 3)]}

    place_figures(
        argparse.Namespace(report=page, messages=6, rounds=1), {("wide", "canal"): (1000, 5000, costs)}
    )

    text = page.read_text()
    assert "| canal | 5 | 2.0 | 4.0 | 4000 | 2.00 × |\n<!-- end -->\n\nbehind" in text
    assert "old" not in text


class Layer:
    def write(self) -> str:
        self.record()
        return "written"

    def record(self) -> None:
        raise NotImplementedError


def test_what_a_part_calls_is_not_counted_twice_and_the_layers_get_their_functions_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, originals = count(), (Layer.write, Layer.record)
    monkeypatch.setattr(parts, "now", lambda _: Spent(*[float(next(clock))] * 3))
    monkeypatch.setattr(parts, "PARTS", (("silver: write", Layer, "write"), ("record", Layer, "record")))
    spent: dict[str, Spent] = {}

    with pytest.raises(NotImplementedError), parts.watched("silver", spent.update):
        Layer().write()
    assert (Layer.write, Layer.record, spent) == (*originals, {})

    monkeypatch.setattr(Layer, "record", lambda self: None)
    with parts.watched("silver", spent.update):
        assert Layer().write() == "written"

    # the clock is read around the block, the write and the record within it
    assert {name: one.wall for name, one in spent.items()} == {
        "silver: record": 1,
        "silver: write": 2,
        "silver: everything else": 2,
    }


def test_the_parts_of_the_layers_are_functions() -> None:
    assert [name for _, owner, name in parts.PARTS if not callable(getattr(owner, name))] == []


def test_what_a_process_had_spent_stays_counted_when_it_has_ended() -> None:
    def spent() -> float:
        return sum(by_program(os.getpid(), frozenset()).values())

    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        before = spent()
        assert child.stdout is not None
        child.stdout.readline()
        seen = spent()
        child.kill()
        child.wait()

        assert seen >= before + 0.2
        assert spent() >= seen


def test_a_size_is_written_anew_and_what_else_stands_on_the_page_stays(tmp_path: Path) -> None:
    page, about = (
        tmp_path / "bench.md",
        dict.fromkeys(("command", "rounds", "input", "machine", "load", "date"), "x"),
    )
    page.write_text("# Benchmark\n\n## What the figures say\n\nMuch.\n\n## 1 table\n\nold\n")
    costs = {"copy of the topic": Cost(1.0, 2.0, 3.0), "bronze": Cost(1.0, 3.0, 3.0)}

    for title in ("1 table", "2 tables"):
        write(
            page,
            {**about, "title": title},
            costs,
            10,
            10**6,
            {"bronze: the stream": Spent(1.0, 2.5, 0.2), "bronze: little": Spent(0.1, 0.0, 0.0)},
        )

    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## What the figures say",
        "## 1 table",
        "## 2 tables",
    ]
    assert "Much." in text
    assert "old" not in text
    assert (
        text.count("| bronze | 1.0 | 3.0 | 10 | 1.00 | 3 | 1.50 × |")
        == text.count("| bronze: the stream | 1.0 | 2.5 | 0.2 |")
        == 2
    )
    assert "bronze: little" not in text
    assert text.count("![CPU seconds per step](") == len(list(tmp_path.glob("*.png")))


def test_growths_feed_tells_rows_whose_old_images_are_what_they_were() -> None:
    feed = Feed("t", 3, 1)
    told = [*feed.created(), *feed.inserts(50), *feed.changes(60, "scattered"), *feed.changes(60, "recent")]

    silver = Memory("ticdc-open").add(told)

    assert silver.dead == []
    tables = silver.tables(silver.watermark)
    assert {row["id"] for rows in tables.values() for row in rows} == set(range(1, feed.count + 1))
    assert set(tables) == {"bench.t0", "bench.t1", "bench.t2"}
    rows: dict[int, dict[str, object]] = {}
    for change in sorted(silver.changes.values(), key=lambda change: change.position):
        assert change.before == rows.get(change.key[0])
        rows[change.key[0]] = change.after or {}


def test_growths_page_keeps_the_other_section(tmp_path: Path) -> None:
    page = tmp_path / "growth.md"
    page.write_text(f"# x\n\n## {TITLES['tables']}\n\nkept\n")
    costs: dict[tuple[str, ...], list[Cost]] = {
        (*kind, size, layer): [Cost(1.0, 2.0, 3.0)]
        for kind in (("load",), ("recent",), ("scattered",))
        for size in ("5", "50")
        for layer in ("bronze", "silver", "gold")
    }
    given = argparse.Namespace(part="rows", sizes=[5, 50], changes=7, rounds=1, report=page)

    write_page(given.report, given.part, command(given), row_lines(given, costs))

    assert read_sections(page)["tables"].strip() == "kept"
    assert "| recent | all | 6.0 | 6.0 | 1.00 |" in page.read_text()
    assert "python -m bench.growth rows --changes 7 --sizes 5 50 --rounds 1" in page.read_text()
