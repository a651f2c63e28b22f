"""A gold table is made in several ways, by its size and by what gold has of it already
(docs/decisions/0007-steps-that-exist-twice.md). All of them give the same rows and the same state.

One feed with a table for each case is run in every way. What a change does not tell has to be said in all of
them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.spark import limits
from lakehouse.spark.pipeline.run import run
from tests.support.feeds import TiCDC, Values
from tests.support.lakes import quiet, shown, write_recording

ROWS = 6  # per table, before anything happens to it
INTS = {"id": "int", "a": "int"}
MODES = {"upsert": "{}", "history": "{mode: history}", "append": "{mode: append}"}
# The limits that are lowered, and how often the feed is read: of two parts the second is merged into what the
# first has made. A stretch of changes is three at a time.
WAYS: dict[str, tuple[dict[str, int], int]] = {
    "whole on the driver": ({}, 1),
    "merged, read in groups": ({"GOLD_WINDOW_CHANGES": 0}, 2),
    "in jobs": ({"GOLD_TABLE_CHANGES": 3, "GOLD_WINDOW_CHANGES": 0}, 2),
}
REFERENCE = "whole on the driver"


class Shop:
    """A feed of canal-json whose commits are counted; a case writes what happens to its table."""

    def __init__(self) -> None:
        self.feed, self.now = TiCDC(), 0

    def at(self) -> int:
        self.now += 1
        return self.now << 18

    def create(self, table: str, key: str, *, told: bool) -> None:
        self.feed.ddl(self.at(), f"CREATE TABLE `{table}` (`id` INT{key}, `a` INT)", table=table)
        for number in range(ROWS):
            (self.keyed if told else self.row)(table, "INSERT", {"id": number, "a": number})

    def row(self, table: str, kind: str, new: Values, old: Values | None = None) -> None:
        types = {name: INTS.get(name, "datetime") for name in new}
        self.feed.row(self.at(), kind, new, old, types=types, key=(), table=table)

    def keyed(self, table: str, kind: str, new: Values, old: Values | None = None) -> None:
        self.feed.row(self.at(), kind, new, old, types=dict.fromkeys(new, "int"), key=("id",), table=table)

    def resolved(self) -> int:
        """A watermark; how many messages there are up to it."""
        mark = self.at()
        self.feed.put(mark, {"type": "TIDB_WATERMARK", "isDdl": False, "_tidb": {"watermarkTs": mark}})
        return len(self.feed.messages)


def all_is_told(shop: Shop, table: str) -> None:
    shop.keyed(table, "UPDATE", {"id": 1, "a": 70}, {"a": 1})
    shop.keyed(table, "UPDATE", {"id": 20, "a": 2}, {"id": 2})
    shop.keyed(table, "DELETE", {"id": 3, "a": 3})


def a_change_is_lost(shop: Shop, table: str) -> None:
    """Changes of one row that fit, and one of another whose old image is not the row before it."""
    shop.keyed(table, "UPDATE", {"id": 0, "a": 5}, {"a": 0})
    shop.keyed(table, "UPDATE", {"id": 0, "a": 6}, {"a": 5})
    shop.keyed(table, "UPDATE", {"id": 4, "a": 6}, {"a": 77})


def keyless(shop: Shop, table: str) -> None:
    shop.row(table, "INSERT", {"id": 1, "a": 1})
    shop.row(table, "UPDATE", {"id": 1, "a": 70}, {"a": 1})
    shop.row(table, "DELETE", {"id": 3, "a": 3})


def no_old_image(shop: Shop, table: str) -> None:
    """An update of a keyless row does not tell the row before it."""
    shop.row(table, "UPDATE", {"id": 1, "a": 70})


def nobody_inserted_it(shop: Shop, table: str) -> None:
    """A delete of a keyless row that no change has inserted."""
    shop.row(table, "DELETE", {"id": 99, "a": 99})


def no_key_in_image(shop: Shop, table: str) -> None:
    """An image without the key's column."""
    shop.row(table, "UPDATE", {"a": 70})


def unknown_cells(shop: Shop, table: str) -> None:
    """No message tells what the new column has in the rows that were there: they go for full images alike."""
    ddl = f"ALTER TABLE `{table}` ADD COLUMN `c` DATETIME DEFAULT CURRENT_TIMESTAMP"
    shop.feed.ddl(shop.at(), ddl, table=table)
    shop.row(table, "DELETE", {"id": 1, "a": 1, "c": "2026-11-21 10:00:00"})


@dataclass(frozen=True)
class Case:
    """What happens to a table in the feed's first and in its second part. `told`: messages have its key."""

    key: bool
    late: Callable[[Shop, str], None]
    early: Callable[[Shop, str], None] = lambda shop, table: None
    told: bool = False


CASES = {
    "all_is_told": Case(True, all_is_told),
    "key_is_told": Case(True, all_is_told, told=True),
    "a_change_is_lost": Case(True, all_is_told, early=a_change_is_lost, told=True),
    "keyless": Case(False, keyless),
    "no_old_image": Case(False, no_old_image),
    "nobody_inserted_it": Case(False, nobody_inserted_it),
    "no_key_in_image": Case(True, no_key_in_image, told=True),
    "no_key_before": Case(True, all_is_told, early=no_key_in_image),
    "unknown_cells": Case(False, unknown_cells),
}
TABLES = [f"{case}__upsert" for case in CASES] + [
    "all_is_told__history",
    "no_old_image__history",
    "no_key_in_image__history",
    "nobody_inserted_it__append",
]


def case(table: str) -> Case:
    return CASES[table.partition("__")[0]]


def recorded(folder: Path) -> list[Path]:
    """The feed up to its first watermark, and all of it."""
    shop = Shop()
    for table in TABLES:
        shop.create(table, " PRIMARY KEY" if case(table).key else "", told=case(table).told)
        case(table).early(shop, table)
    first = shop.resolved()
    for table in TABLES:
        case(table).late(shop, table)
    parts = (first, shop.resolved())
    return [
        write_recording(folder / f"part{number}.jsonl", shop.feed.messages[:end])
        for number, end in enumerate(parts)
    ]


def configured(folder: Path) -> Path:
    for name in ("sources", "tables"):
        (folder / "configs" / name).mkdir(parents=True, exist_ok=True)
    feed, lake = folder / "feed.jsonl", folder / "lake"
    source = f"format: ticdc-canal-json\nrecording: {feed}\nlake: {lake}\ntime_zone: UTC\ntables: auto\n"
    (folder / "configs/sources/s.yml").write_text(source)
    for table in TABLES:
        text = f"source: s\ngold: {MODES[table.partition('__')[2]]}\n"
        (folder / f"configs/tables/d.{table}.yml").write_text(text)
    return folder / "configs"


@dataclass(frozen=True)
class Lake:
    """What a lake shows of each table: its rows, and the manifest's state and reason."""

    rows: dict[str, list[Values]]
    states: dict[str, tuple[str, str | None]]


def made(folder: Path, way: str) -> Lake:
    lowered, count = WAYS[way]
    configs = configured(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in lowered.items():
            patch.setattr(limits, name, value)
        for part in recorded(folder)[-count:]:
            part.rename(folder / "feed.jsonl")
            came = run(load(configs), ("bronze", "silver", "gold"), True, (), None, quiet)[0]
    states = {entry["table"].removeprefix("d."): (entry["state"], entry["why"]) for entry in came["tables"]}
    rows = {name.removeprefix("d."): rows for name, rows in shown(folder / "lake", folder / "out").items()}
    return Lake(rows, states)


@dataclass
class Lakes:
    """One lake for each way, made when a test asks for it."""

    folder: Path
    found: dict[str, Lake] = field(default_factory=dict)

    def __getitem__(self, way: str) -> Lake:
        if way not in self.found:
            folder = self.folder / str(list(WAYS).index(way))
            folder.mkdir()
            self.found[way] = made(folder, way)
        return self.found[way]


@pytest.fixture(scope="module")
def lakes(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lakes:
    return Lakes(tmp_path_factory.mktemp("same"))


COMPARED = [(way, table) for way in WAYS if way != REFERENCE for table in TABLES]


@pytest.mark.parametrize(("way", "table"), COMPARED)
def test_every_way_gives_the_same_rows(lakes: Lakes, way: str, table: str) -> None:
    assert lakes[way].rows[table] == lakes[REFERENCE].rows[table]


@pytest.mark.parametrize(("way", "table"), COMPARED)
def test_every_way_gives_the_same_state(lakes: Lakes, way: str, table: str) -> None:
    assert lakes[way].states[table] == lakes[REFERENCE].states[table]
