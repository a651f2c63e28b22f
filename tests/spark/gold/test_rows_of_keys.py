"""A change that comes late in a large table: its row is folded again from its own changes, and what comes to
the driver are these.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import named_changes
from lakehouse.spark.gold import table as gold_table
from lakehouse.spark.gold import window
from lakehouse.spark.pipeline.run import run
from tests.support.lakes import quiet, shown, write_recording
from tests.support.open_feed import OpenFeed

ROWS, KEPT = 40, 12
MODES = {"u": "{}", "h": "{mode: history}", "s": "{deletes: soft}"}


def feed_of(tables: Iterable[str]) -> tuple[OpenFeed, set[int]]:
    """A feed, and the places of its messages that come late: an update and a delete of two rows that have
    changed since.
    """
    feed, late, at = OpenFeed(), set[int](), 1
    for table in tables:
        at += 1
        feed.ddl(at, table, f"CREATE TABLE `shop`.`{table}` (id INT PRIMARY KEY, v VARCHAR(20))")
        for number in range(ROWS):
            at += 1
            feed.row(at, table, number, v=f"first {number}")
        for number, what in ((3, "u"), (4, "d"), (5, "u")):
            at += 1
            late.add(len(feed.messages))
            feed.row(at, table, number, what, v="late")
        at += 1
        feed.ddl(at, table, f"ALTER TABLE `shop`.`{table}` ADD COLUMN w INT DEFAULT 7")
        at += 1
        feed.row(at, table, 3, v="last", w=1)
        at += 1
        feed.row(at, table, 9, "d", v="first 9")
    feed.resolved(at + 1)
    return feed, late


def run_in_two(folder: Path, feed: OpenFeed, late: set[int], first: int | None = None) -> Any:
    """The tables once the late messages have come too, with `late` those behind `first` messages."""
    for name in ("sources", "tables"):
        (folder / "configs" / name).mkdir(parents=True)
    path, lake = folder / "feed.jsonl", folder / "lake"
    source = f"format: ticdc-open\nrecording: {path}\nlake: {lake}\ntables: auto\n"
    (folder / "configs/sources/s.yml").write_text(source)
    for table, mode in MODES.items():
        (folder / f"configs/tables/{table}.yml").write_text(f"source: s\ntable: shop.{table}\ngold: {mode}\n")
    if late:
        write_recording(path, [one for one in feed.messages[:first] if one.offset not in late])
        run(load(folder / "configs"), ("bronze", "silver", "gold"), True, (), None, quiet)
    write_recording(path, feed.messages)
    run(load(folder / "configs"), ("bronze", "silver", "gold"), True, (), None, quiet)
    return shown(lake, folder / "shown")


def test_what_comes_late_brings_the_changes_of_its_row_alone_to_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, late = feed_of(MODES)
    at_once = run_in_two(tmp_path / "once", feed, set())
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", KEPT)
    brought, asked = list[int](), set[tuple[str, bool]]()
    key_changes = gold_table.key_changes

    def noted(table: Any, keys: Any, since: Any = None) -> Any:
        asked.add((table.gold, since is not None))
        return key_changes(table, keys, since)

    monkeypatch.setattr(window, "key_changes", noted)

    def counted(rows: Any) -> Any:
        brought.append(rows.num_rows)
        return named_changes(rows)

    monkeypatch.setattr(gold_table, "named_changes", counted)
    monkeypatch.setattr(gold_table, "collect_changes", None)

    in_two = run_in_two(tmp_path / "two", feed, late)

    assert in_two == at_once
    assert len(brought) == len(MODES)
    assert max(brought) <= 8
    # rows that are told whole need nothing of what came before the first late change
    assert asked == {("shop__u", True), ("shop__h", False), ("shop__s", False)}


def test_a_large_window_with_changes_that_came_late_is_merged_too(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that came late as if they were all, the others behind them: no table is folded again."""
    feed, late = feed_of(MODES)
    first, at = len(feed.messages), 1000
    for table in MODES:
        for number in range(3, 3 + KEPT):
            at += 1
            feed.row(at, table, number, v=f"new {number}", w=2)
        at += 1
        feed.row(at, table, 5, "d", v="new 5", w=2)
    feed.resolved(at + 1)
    at_once = run_in_two(tmp_path / "once", feed, set())
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", KEPT)
    monkeypatch.setattr(limits, "GOLD_WINDOW_CHANGES", 0)
    folded = list[str]()
    monkeypatch.setattr(window, "refold", lambda table, exists: folded.append(table.gold))

    in_two = run_in_two(tmp_path / "two", feed, late, first)

    assert folded == []
    assert in_two == at_once


def test_a_held_table_stays_where_it_is_when_a_large_window_has_changes_that_came_late(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = OpenFeed()
    feed.ddl(1, "u", "CREATE TABLE `shop`.`u` (id INT PRIMARY KEY, v VARCHAR(20))")
    for number in range(ROWS):
        feed.row(2 + number, "u", number, v="first")
    feed.row(100, "u", 3, v="late")
    late = {len(feed.messages) - 1}
    feed.ddl(110, "u", "ALTER TABLE `shop`.`u` FROBNICATE v")
    feed.row(120, "u", 3, v="behind the statement")
    feed.resolved(130)
    first = len(feed.messages)
    for number in range(2, 2 + KEPT):
        feed.row(140 + number, "u", number, v="new")
    feed.resolved(200)
    at_once = run_in_two(tmp_path / "once", feed, set())
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", KEPT)
    monkeypatch.setattr(limits, "GOLD_WINDOW_CHANGES", 0)

    in_two = run_in_two(tmp_path / "two", feed, late, first)

    assert in_two == at_once
    assert {"id": 3, "v": "late"} in in_two["shop.u"]
