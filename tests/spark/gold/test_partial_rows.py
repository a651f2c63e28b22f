"""Rows of which messages tell a part: every way of making a table gives the same rows and says the same of
what is not known (docs/decisions/0007-steps-that-exist-twice.md).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.spark import limits
from lakehouse.spark.gold import window
from lakehouse.spark.pipeline.run import run
from tests.support.feeds import Canal, Values
from tests.support.lakes import quiet, shown, write_recording

TYPES = {"id": "int", "a": "int", "b": "text"}
RANGES = (
    " PARTITION BY RANGE COLUMNS (a)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"
)
MODES = {"upsert": "{}", "history": "{mode: history}", "append": "{mode: append}"}
WAYS: dict[str, dict[str, int]] = {
    "whole on the driver": {},
    "in jobs": {"GOLD_TABLE_CHANGES": 1, "GOLD_WINDOW_CHANGES": 0},
}


class Shop:
    """A Canal feed of a source with binlog_row_image=NOBLOB: a message has the columns that are named."""

    def __init__(self) -> None:
        self.feed, self.now = Canal(), 0

    def ddl(self, table: str, sql: str) -> None:
        self.now += 1
        self.feed.ddl(self.now, sql.format(table=f"`{table}`"), table=table)

    def row(self, table: str, kind: str, new: Values, old: Values | None = None, key: bool = False) -> None:
        self.now += 1
        types = {name: TYPES[name] for name in new}
        self.feed.row(self.now, kind, new, old, types=types, key=("id",) if key else (), table=table)


def replaced(shop: Shop, table: str) -> None:
    """An update of a row without a key leaves out a TEXT that has not changed."""
    shop.ddl(table, "CREATE TABLE {table} (id INT, a INT, b TEXT)")
    shop.row(table, "INSERT", {"id": 1, "a": 1, "b": "hello"})
    shop.row(table, "INSERT", {"id": 2, "a": 1, "b": "other"})
    shop.row(table, "UPDATE", {"id": 1, "a": 5}, {"a": 1})
    shop.row(table, "UPDATE", {"id": 1, "a": 6}, {"a": 5})


def one_of_several(shop: Shop, table: str) -> None:
    """Two rows agree with what the update tells of the row before it."""
    shop.ddl(table, "CREATE TABLE {table} (id INT, a INT, b TEXT)")
    shop.row(table, "INSERT", {"id": 1, "a": 1, "b": "hello"})
    shop.row(table, "INSERT", {"id": 1, "a": 1, "b": "other"})
    shop.row(table, "UPDATE", {"id": 1, "a": 5}, {"a": 1})


def in_its_partition(shop: Shop, table: str) -> None:
    """A row of the upper partition, of which an update does not tell the partition."""
    shop.ddl(table, "CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b TEXT)" + RANGES)
    shop.row(table, "INSERT", {"id": 1, "a": 15, "b": "x"}, key=True)
    shop.row(table, "INSERT", {"id": 2, "a": 5, "b": "x"}, key=True)
    shop.row(table, "UPDATE", {"id": 1, "b": "y"}, {"b": "x"}, key=True)
    shop.ddl(table, "ALTER TABLE {table} TRUNCATE PARTITION p0")


def in_no_known_partition(shop: Shop, table: str) -> None:
    """A row of which no message has told the partition when the lowest one goes."""
    shop.ddl(table, "CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b TEXT)" + RANGES)
    shop.row(table, "UPDATE", {"id": 1, "b": "y"}, {"b": "x"}, key=True)
    shop.ddl(table, "ALTER TABLE {table} TRUNCATE PARTITION p0")
    shop.row(table, "UPDATE", {"id": 1, "a": 15, "b": "z"}, {"a": 5, "b": "y"}, key=True)


def never_sent(shop: Shop, table: str) -> None:
    """A column that no message carries."""
    shop.ddl(table, "CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b TEXT)")
    shop.row(table, "INSERT", {"id": 1, "a": 1}, key=True)


Case = Callable[[Shop, str], None]
CASES: dict[str, tuple[Case, str]] = {
    "replaced": (replaced, ""),
    "one_of_several": (one_of_several, "several rows agree with it"),
    "in_its_partition": (in_its_partition, ""),
    "in_no_known_partition": (in_no_known_partition, "whether some rows were in it"),
    "never_sent": (never_sent, "column b: no message tells its value in some rows"),
}
UPSERTS = {
    "replaced": [{"id": 1, "a": 6, "b": "hello"}, {"id": 2, "a": 1, "b": "other"}],
    "in_its_partition": [{"id": 1, "a": 15, "b": "y"}],
    "in_no_known_partition": [{"id": 1, "a": 15, "b": "z"}],
    "never_sent": [{"id": 1, "a": 1, "b": None}],
}


def made(folder: Path, way: str) -> dict[str, Any]:
    """What a lake shows of each table: its rows, state and reason."""
    shop = Shop()
    tables = [f"{case}__{mode}" for case in CASES for mode in MODES]
    for table in tables:
        CASES[table.partition("__")[0]][0](shop, table)
    for name in ("sources", "tables"):
        (folder / "configs" / name).mkdir(parents=True)
    feed, lake = write_recording(folder / "feed.jsonl", shop.feed.messages), folder / "lake"
    source = (
        f"format: canal\nrecording: {feed}\nlake: {lake}\ntime_zone: UTC\ntables: auto\naccept: [replays]\n"
    )
    (folder / "configs/sources/s.yml").write_text(source)
    for table in tables:
        text = f"source: s\ngold: {MODES[table.partition('__')[2]]}\n"
        (folder / f"configs/tables/d.{table}.yml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WAYS[way].items():
            patch.setattr(limits, name, value)
        came = run(load(folder / "configs"), ("bronze", "silver", "gold"), True, (), None, quiet)[0]
    rows = shown(lake, folder / "out")
    return {
        entry["table"].removeprefix("d."): (rows[entry["table"]], entry["state"], entry["why"])
        for entry in came["tables"]
    }


def test_every_way_completes_rows_alike_and_says_the_same(spark: Any, tmp_path: Path) -> None:
    found = {way: made(tmp_path / str(number), way) for number, way in enumerate(WAYS)}

    assert found["in jobs"] == found["whole on the driver"]
    for table, (rows, state, why) in found["in jobs"].items():
        case, _, mode = table.partition("__")
        assert (state, why) == ("exact", None) if not CASES[case][1] else state == "incomplete", table
        assert CASES[case][1] in (why or ""), table
        if mode == "upsert" and case in UPSERTS:
            assert sorted(rows, key=lambda row: row["id"]) == UPSERTS[case]


def test_an_update_in_part_of_a_large_table_is_completed_by_golds_own_row(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silver is not looked through: its log may be a hundred times as long as the table."""
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 1)
    shop = Shop()
    shop.ddl("t", "CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b TEXT)")
    for number in range(4):
        shop.row("t", "INSERT", {"id": number, "a": None, "b": f"text {number}"}, key=True)
    config = tmp_path / "configs/sources/s.yml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f"format: canal\nrecording: {tmp_path}/feed.jsonl\nlake: {tmp_path}/lake\ntime_zone: UTC\n"
        "tables: auto\naccept: [replays]\n"
    )

    def passed() -> Any:
        write_recording(tmp_path / "feed.jsonl", shop.feed.messages)
        return run(load(tmp_path / "configs"), ("bronze", "silver", "gold"), True, (), None, quiet)[0]

    passed()
    shop.row("t", "UPDATE", {"id": 1, "a": 5}, {"a": None}, key=True)
    shop.row("t", "UPDATE", {"id": 2, "b": None}, {"b": "text 2"}, key=True)
    monkeypatch.setattr(window, "key_changes", None)
    (told,) = passed()["tables"]

    assert (told["state"], told["why"]) == ("exact", None)
    assert sorted(shown(tmp_path / "lake", tmp_path / "out")["d.t"], key=lambda row: row["id"]) == [
        {"id": 0, "a": None, "b": "text 0"},
        {"id": 1, "a": 5, "b": "text 1"},
        {"id": 2, "a": None, "b": None},
        {"id": 3, "a": None, "b": "text 3"},
    ]
