"""A change that a feed never delivered, in every format: what the fold finds by the changes around it, and
what the format can't show (docs/continuity.md).
"""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.fold.continuity import ANOTHER_ROW, INSERTED_TWICE, NOT_THERE
from lakehouse.formats import FORMATS
from lakehouse.schema import Column, make_schema, parse_type
from lakehouse.sources.storage_tree import read_tree
from tests.fold.test_properties import OPTIONS, ZONE
from tests.support.arrivals import Feed
from tests.support.encode_binlog import binlog, feed
from tests.support.encode_tidb import storage_tree
from tests.support.engine import Memory
from tests.whole_path.test_eight_formats import BINLOG, storage_options, tidb_messages, write_tree

Event = dict[str, Any]
TYPES = {"id": "int", "qty": "int", "note": "varchar(20)"}
SHAPE = make_schema([Column(0, name, parse_type(text)) for name, text in TYPES.items()], ("id",))
CREATE = "CREATE TABLE `t` (`id` int, `qty` int, `note` varchar(20), PRIMARY KEY (`id`))"
ROWS = ["ticdc-open", "ticdc-canal-json", "csv", "canal-json"]
INSERTS = ["ticdc-debezium", "canal-protobuf", "debezium", "tencent-dts"]
LOST_INSERT, LOST_UPDATE, LOST_DELETE, LOST_TRUNCATE = 1, 3, 5, 8


def cells(id_: int, qty: int) -> dict[str, Any]:
    values = {"id": str(id_), "qty": str(qty), "note": f"row {id_}"}
    return {name: {"type": TYPES[name], "value": value} for name, value in values.items()}


def row(**images: tuple[int, int]) -> Event:
    return {"kind": "row", **{side: cells(*values) for side, values in images.items()}}


def ddl(text: str) -> Event:
    return {"kind": "ddl", "query": text}


STORY = [
    ddl(CREATE),
    row(after=(1, 10)),
    row(after=(2, 20)),
    row(before=(1, 10), after=(1, 11)),
    row(before=(1, 11), after=(1, 12)),
    row(before=(2, 20)),
    row(after=(2, 21)),
    row(before=(1, 12), after=(3, 12)),  # the key changes
    ddl("TRUNCATE TABLE `t`"),
    row(after=(2, 22)),
    row(before=(2, 22), after=(2, 23)),
]


def told(lost: int | None) -> list[Event]:
    """The story in which the change with that number is lost."""
    common = {"schema": "d", "table": "t", "shape": SHAPE}
    events = [{**event, **common, "commit_ts": 400000 + 10 * at} for at, event in enumerate(STORY)]
    return [event for at, event in enumerate(events) if at != lost]


def silver(format: str, lost: int | None, folder: Path) -> Memory:
    events, chance = told(lost), random.Random(1)
    if format in ("csv", "canal-json"):
        write_tree(folder, storage_tree(events, format))
        options = storage_options(format)
        return Memory("ticdc-storage", options).add(read_tree(folder, options))
    if format in BINLOG:
        messages: list[Message] = feed(format, binlog(events, chance), chance, ZONE)
        return Memory(format, OPTIONS, tidb=False).add(messages)
    if format == "ticdc-open":
        return Memory(format, OPTIONS).add(Feed(events, chance, 2, "table").arrival(chance))
    return Memory(format, OPTIONS).add(tidb_messages(format, SimpleNamespace(events=events)))  # type: ignore[arg-type]


def found(format: str, lost: int | None, folder: Path) -> str | None:
    memory = silver(format, lost, folder)
    assert memory.dead == []
    memory.tables(memory.reach)
    breaks = memory.breaks.get("d.t")
    return None if breaks is None or breaks.first is None else breaks.first.what


def test_every_format_is_in_the_table_below() -> None:
    names = {"ticdc-storage" if name in ("csv", "canal-json") else name for name in (*ROWS, *INSERTS)}
    assert {*names, "canal"} == set(FORMATS)
    assert {name for name, row in FORMATS.items() if row.tells_inserts} == set(INSERTS)


@pytest.mark.parametrize("format", [*ROWS, *INSERTS, "canal"])
def test_a_feed_that_loses_nothing_is_whole(format: str, tmp_path: Path) -> None:
    assert found(format, None, tmp_path) is None


@pytest.mark.parametrize("format", [*ROWS, *INSERTS])
def test_an_insert_that_is_lost_is_found_by_the_next_change_of_its_row(format: str, tmp_path: Path) -> None:
    assert found_in_part(format, LOST_INSERT, tmp_path) == NOT_THERE


@pytest.mark.parametrize("format", [*ROWS, *INSERTS])
def test_an_update_that_is_lost_is_found_by_the_next_old_image(format: str, tmp_path: Path) -> None:
    assert found_in_part(format, LOST_UPDATE, tmp_path) == ANOTHER_ROW


@pytest.mark.parametrize("format", INSERTS)
def test_a_delete_that_is_lost_is_found_by_the_next_insert(format: str, tmp_path: Path) -> None:
    assert found_in_part(format, LOST_DELETE, tmp_path) == INSERTED_TWICE


@pytest.mark.parametrize("format", INSERTS)
def test_a_truncate_that_is_skipped_is_found_by_the_next_insert(format: str, tmp_path: Path) -> None:
    assert found(format, LOST_TRUNCATE, tmp_path) == INSERTED_TWICE


@pytest.mark.parametrize("format", ROWS)
def test_where_an_insert_may_be_an_update_it_shows_nothing(format: str, tmp_path: Path) -> None:
    assert found_in_part(format, LOST_DELETE, tmp_path) is None
    assert found(format, LOST_TRUNCATE, tmp_path) is None


@pytest.mark.parametrize("lost", [LOST_INSERT, LOST_UPDATE, LOST_DELETE])
def test_a_truncate_mends_what_was_lost_before_it(lost: int, tmp_path: Path) -> None:
    assert found("debezium", lost, tmp_path) is None


@pytest.mark.parametrize("lost", [LOST_INSERT, LOST_UPDATE, LOST_DELETE, LOST_TRUNCATE])
def test_a_feed_in_order_of_arrival_shows_nothing(lost: int, tmp_path: Path) -> None:
    assert found("canal", lost, tmp_path) is None


def found_in_part(format: str, lost: int, folder: Path) -> str | None:
    """The same right before the TRUNCATE."""
    memory = silver(format, lost, folder)
    [lineage] = memory.lineages().lineages
    cleared = lineage.cleared_at(memory.reach)
    memory.tables((*cleared[:5], cleared[5] - 1))
    breaks = memory.breaks.get("d.t")
    return None if breaks is None or breaks.first is None else breaks.first.what
