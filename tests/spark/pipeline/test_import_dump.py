"""A dump imported into a source whose feed began before it, through the command's own functions."""

import json
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET

from lakehouse.config.load import load
from lakehouse.errors import LakehouseError
from lakehouse.events import SNAPSHOT_TOPIC, Message
from lakehouse.formats.snapshot.records import Place as RecordPlace
from lakehouse.ops.progress import BinlogNames, NextOffset, Servers
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Epoch
from lakehouse.ops.records.silver import Done
from lakehouse.sources.dumps.snapshot import Found, TableFound, checked, snapshot_messages
from lakehouse.spark import limits
from lakehouse.spark.bronze import snapshots
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import rebuild_silver, rebuild_table
from lakehouse.spark.operations.retention import raise_floor
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline import import_dump as command
from lakehouse.spark.pipeline.run import runs
from lakehouse.spark.readers.views import open_views
from lakehouse.spark.source import Source, source_of
from tests.support.lakes import quiet, shown, write_recording
from tests.support.open_feed import OpenFeed, T
from tests.support.records import log_of

READS = "lakehouse.spark.pipeline.import_dump.snapshot_messages"
ITEM = "CREATE TABLE `item` (`id` int NOT NULL, `v` varchar(20), `w` int DEFAULT 7, PRIMARY KEY (`id`));\n"
TABLES = (
    ITEM + "INSERT INTO `item` VALUES (1,'one',1),(2,'two',NULL),(3,'three',3);\n"
    "CREATE TABLE `bag` (`a` int, `ts` timestamp NULL);\n"
    "INSERT INTO `bag` VALUES (1,'2024-01-01 08:00:00'),(1,'2024-01-01 08:00:00');\n"
    "CREATE TABLE `empty` (`a` int);\n-- Dumping data for table `empty`\n"
)
ITEMS = [
    {"id": 1, "v": "one", "w": 1},
    {"id": 2, "v": "new", "w": 2},
    {"id": 4, "v": "four", "w": 4},
]
BAG = [{"a": 1, "ts": "2024-01-01 00:00:00Z"}] * 2


def dumped(path: Path, at: str) -> str:
    file, _, position = at.rpartition(":")
    path.write_text(
        "-- MySQL dump 10.13\n-- Host: x    Database: shop\n"
        f"-- CHANGE MASTER TO MASTER_LOG_FILE='{file or 'tidb-binlog'}', MASTER_LOG_POS={position};\n"
        f"SET NAMES utf8mb4;\nSET TIME_ZONE='+08:00';\n{TABLES}-- Dump completed\n"
    )
    return str(path)


class Place:
    """A configured source of a recording, its lake, and how its layers are run."""

    def __init__(self, folder: Path, format_: str) -> None:
        self.folder, self.recording = folder, folder / "recording.jsonl"
        (folder / "sources").mkdir(parents=True)
        (folder / "tables").mkdir()
        text = f"format: {format_}\nrecording: {self.recording}\ntables: auto\ntime_zone: UTC\n"
        (folder / "sources/shop.yml").write_text(
            text if format_ != "debezium" else text.replace("time_zone: UTC\n", "")
        )
        self.lake = folder / "lake"

    def source(self) -> Source:
        return source_of(load(self.folder), "shop", str(self.lake))

    def run(self, messages: list[Message]) -> None:
        write_recording(self.recording, messages)
        every = ("bronze", "silver", "gold")
        list(runs(load(self.folder), every, True, (), lake=str(self.lake), progress=quiet))

    def bring(self, dump: str, at: str | None = None) -> dict[str, Any]:
        return command.import_dump(self.source(), command.Given(dump, at), quiet)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return shown(self.lake, self.folder / "shown")

    def log(self, spark: Any) -> OpsLog:
        return OpsLog(spark, Lake(str(self.lake)), "shop").load()


def feed() -> OpenFeed:
    """Changes before and behind the dump of T + 50, and a watermark below it."""
    told = OpenFeed()
    told.row(10, "item", 9, v="gone", w=1)
    told.row(20, "item", 2, v="old", w=1)
    told.row(60, "item", 2, v="new", w=2)
    told.row(70, "item", 3, what="d", v="three", w=3)
    told.row(80, "item", 4, v="four", w=4)
    told.resolved(30)
    return told


@pytest.mark.parametrize("small", (True, False))
def test_a_dump_joins_a_feed_of_ticdc_at_its_tso(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", 0)
        monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 0)
    place, told = Place(tmp_path, "ticdc-open"), feed()
    dump = dumped(tmp_path / "dump.sql", str(T + 50))
    place.run(told.messages)
    before = place.tables()

    first = place.bring(dump)
    place.run(told.messages)
    below = place.tables()
    told.resolved(100)
    place.run(told.messages)

    assert (first["tables"], first["rows"]) == (3, 5)
    assert below == before == {"shop.item": [{"id": 2, "v": "old", "w": 1}, {"id": 9, "v": "gone", "w": 1}]}
    assert place.tables() == {"shop.bag": BAG, "shop.empty": [], "shop.item": ITEMS}
    manifest = place.log(spark).last(Manifest)
    assert manifest is not None
    assert {entry.state for entry in manifest.tables} == {"exact"}


def test_a_dump_that_comes_when_the_feed_is_past_it_is_folded_in_and_once(spark: Any, tmp_path: Path) -> None:
    place, told = Place(tmp_path, "ticdc-open"), feed()
    dump = dumped(tmp_path / "dump.sql", str(T + 50))
    told.resolved(100)
    place.run(told.messages)

    place.bring(dump)
    place.run(told.messages)
    again = place.bring(dump)
    place.run(told.messages)
    rebuild_silver(str(place.lake), "shop", True, "to see that bronze tells all")
    place.run(told.messages)

    assert again["landed"] == "nothing new: it had been imported"
    assert place.tables() == {"shop.bag": BAG, "shop.empty": [], "shop.item": ITEMS}


def test_an_import_that_died_shows_nothing_and_goes_on(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, told = Place(tmp_path, "ticdc-open"), feed()
    dump = dumped(tmp_path / "dump.sql", str(T + 50))
    told.resolved(100)
    place.run(told.messages)
    before = place.tables()
    monkeypatch.setattr(snapshots, "COMMIT_BYTES", 1)
    monkeypatch.setattr(READS, lambda *told: islice(snapshot_messages(*told), 1))

    place.bring(dump)
    place.run(told.messages)
    after_death = place.tables()
    told_after_death = open_views(spark, Lake(str(place.lake)))["silver_shop__item"].collect()
    done = place.log(spark).last(Done)
    monkeypatch.setattr(READS, snapshot_messages)
    place.bring(dump)
    place.run(told.messages)

    assert after_death == before
    assert told_after_death and "snapshot" not in {row.op for row in told_after_death}
    assert done is not None
    assert done.snapshots is not UNSET
    assert [one.table for one in done.snapshots.unfinished] == ["item"]
    assert place.tables() == {"shop.bag": BAG, "shop.empty": [], "shop.item": ITEMS}


def test_a_floor_makes_no_row_of_an_import_that_died_and_lets_it_go_on(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, told = Place(tmp_path, "ticdc-open"), OpenFeed()
    dump = dumped(tmp_path / "dump.sql", str(T + 50))
    told.ddl(5, "item", ITEM.rstrip().rstrip(";"))
    told.row(10, "item", 9, v="gone", w=1)
    told.resolved(100)
    place.run(told.messages)
    before = place.tables()
    monkeypatch.setattr(snapshots, "COMMIT_BYTES", 1)
    monkeypatch.setattr(READS, lambda *told: islice(snapshot_messages(*told), 1))
    place.bring(dump)
    place.run(told.messages)

    found = raise_floor(str(place.lake), "shop", str(T + 100), None, yes=True, why="a test")
    rebuild_table(str(place.lake), "shop.item", None, yes=True, why="a test")
    after_floor = place.tables()
    monkeypatch.setattr(READS, snapshot_messages)
    place.bring(dump)
    place.run(told.messages)

    assert list(found["keeps_its_log"].values()) == [
        "a snapshot of it from below the floor has not arrived as a whole"
    ]
    assert after_floor == before == {"shop.item": [{"id": 9, "v": "gone", "w": 1}]}
    assert [row["id"] for row in place.tables()["shop.item"]] == [1, 2, 3]


def test_a_dump_joins_a_feed_of_debezium_at_its_binlog_position(spark: Any, tmp_path: Path) -> None:
    place = Place(tmp_path, "debezium")
    dump = dumped(tmp_path / "dump.sql", "mysql-bin.000003:500")
    told = [
        *transaction(1, [("c", 400, None, {"id": 9, "v": "gone", "w": 1})]),
        *transaction(2, [("u", 600, {"id": 2, "v": "two", "w": None}, ITEMS[1])]),
    ]
    last = transaction(3, [("d", 700, {"id": 3, "v": "three", "w": 3}, None), ("c", 700, None, ITEMS[2])])
    place.run(numbered(told[:3]))

    place.bring(dump)
    place.run(numbered(told[:3]))
    below = place.tables()
    place.run(numbered([*told, *last]))

    # no message has told a type yet
    assert below == {"shop.item": [{"id": "9", "v": "gone", "w": "1"}]}
    assert place.tables() == {"shop.bag": BAG, "shop.empty": [], "shop.item": ITEMS}
    manifest = place.log(spark).last(Manifest)
    assert manifest is not None
    assert manifest.watermark[:3] == (0, 3, 700)
    assert {entry.state for entry in manifest.tables} == {"exact"}


def test_a_dump_without_a_place_in_the_feed_is_refused_and_lands_nothing(spark: Any, tmp_path: Path) -> None:
    place = Place(tmp_path, "ticdc-open")
    dump = dumped(tmp_path / "dump.sql", "mysql-bin.000003:500")
    place.run(feed().messages)

    with pytest.raises(LakehouseError, match="expected a TSO, as the source's feed has"):
        place.bring(dump)

    checked = command.check_dump(place.source(), command.Given(dump, str(T + 50)), quiet)
    assert checked[0] == {"position": f"TSO {T + 50}"}
    assert [(one["table"], one["rows"]) for one in checked[1:]] == [
        ("shop.item", 3),
        ("shop.bag", 2),
        ("shop.empty", 0),
    ]
    assert place.bring(dump, str(T + 50))["rows"] == 5


def test_that_there_is_no_dump_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needs no session: a name that was typed wrongly took as long as Spark's start."""
    monkeypatch.setattr(command, "get_session", lambda: pytest.fail("Spark is started"))

    with pytest.raises(LakehouseError, match="expected the folder or the file of a dump, got nothing there"):
        command.import_dump(None, command.Given(str(tmp_path / "none")), quiet)  # type: ignore[arg-type]


def test_a_dump_of_before_the_feed_s_first_message_is_told_as_a_gap(spark: Any, tmp_path: Path) -> None:
    place, told = Place(tmp_path, "ticdc-open"), list[str]()
    dump = dumped(tmp_path / "dump.sql", str(T + 5))
    place.run(feed().messages)

    command.import_dump(place.source(), command.Given(dump), told.append)

    assert any("the feed's first message is behind it" in line for line in told)


@pytest.mark.parametrize(
    ("epochs", "file", "refused"),
    (
        ((), "binlog.000012", False),
        ((), "replica-bin.000012", True),
        ((), "", False),
        # of the server that the new epoch reads nothing is known yet
        ((1,), "replica-bin.000012", False),
    ),
)
def test_a_dump_of_another_server_s_binlog_is_refused(
    epochs: tuple[int, ...], file: str, refused: bool
) -> None:
    done = SimpleNamespace(servers=Servers(names=(BinlogNames(0, "", ("binlog",)),)))
    log: Any = SimpleNamespace(
        source="shop", last=lambda kind: done, all=lambda kind: [SimpleNamespace(epoch=one) for one in epochs]
    )
    place = RecordPlace(file=file, offset=4) if file else RecordPlace(tso=T)
    told = r"whose binlog the feed reads \(binlog\), got one that writes replica-bin"

    with pytest.raises(LakehouseError, match=told) if refused else nullcontext():
        command.refuse_other_server(log, place)


@pytest.mark.parametrize(
    ("places", "refused"),
    (
        ([], False),
        # all of it, or its first records, had landed when the epoch began
        ([(SNAPSHOT_TOPIC, "a dump", 0, 1)], True),
        ([(SNAPSHOT_TOPIC, "another dump", 0, 1), ("shop", "", 0, 7)], False),
    ),
)
def test_a_dump_that_had_landed_in_part_is_not_gone_on_with_in_another_epoch(
    places: list[tuple[str, str, int, int]], refused: bool
) -> None:
    """Its table would be complete without the rows of before."""
    raised = Epoch(epoch=1, places=tuple(NextOffset(*one) for one in places), why="failover")
    told = "a dump that was taken since the epoch began"

    command.refuse_earlier_epoch(log_of(), "a dump")
    with pytest.raises(LakehouseError, match=told) if refused else nullcontext():
        command.refuse_earlier_epoch(log_of(raised), "a dump")


def test_a_snapshot_before_anything_of_the_feed_has_arrived_is_told_as_a_gap() -> None:
    told = list[str]()

    command.warn_of_gap(log_of(), RecordPlace(tso=T), told.append)

    assert ["nothing of the feed has arrived: if it begins behind TSO" in line for line in told] == [True]


def test_progress_tells_the_rate_and_how_long_the_rest_takes(tmp_path: Path) -> None:
    dump, found = command.dump_of(command.Given(dumped(tmp_path / "dump.sql", str(T)))), Found()
    told = command._Told("shop", dump, found, quiet)

    assert told.line(20) == "import  shop: 0 rows of 0 tables read"
    found.tables.append(TableFound(("shop", "item"), rows=400))
    dump.files.read = dump.size // 4
    assert told.line(5) == "import  shop: 400 rows of 1 table read"
    assert told.line(20).startswith("import  shop: 400 rows of 1 table read, 20 a second, about 60")
    for _ in checked(dump, Found()):
        pass
    assert dump.files.read > dump.size // 4


def transaction(number: int, rows: list[Any]) -> list[Message]:
    """BEGIN, rows and END, as Debezium sends them: op, offset in the binlog, old and new row."""
    id_ = f"0-1-{number}"
    source = {"db": "shop", "table": "item", "server_id": 1, "file": "mysql-bin.000003", "ts_ms": number}
    told = [record("s.transaction", {"id": id_}, {"status": "BEGIN", "id": id_, "ts_ms": 1})]
    for order, (op, offset, old, new) in enumerate(rows, 1):
        value = {
            "op": op,
            "before": old,
            "after": new,
            "source": {**source, "pos": offset, "row": order, "snapshot": "false"},
            "transaction": {"id": id_, "total_order": order, "data_collection_order": order},
        }
        told.append(record("s.shop.item", {"id": (new or old)["id"]}, value))
    counts = [{"data_collection": "shop.item", "event_count": len(rows)}]
    end = {"status": "END", "id": id_, "event_count": len(rows), "data_collections": counts, "ts_ms": 1}
    return [*told, record("s.transaction", {"id": id_}, end)]


def record(topic: str, key: Any, value: Any) -> Message:
    return Message(topic, 0, 0, json.dumps(key).encode(), json.dumps(value).encode())


def numbered(told: list[Message]) -> list[Message]:
    counts: dict[str, int] = {}
    found = []
    for message in told:
        counts[message.topic] = counts.get(message.topic, -1) + 1
        found.append(Message(message.topic, 0, counts[message.topic], key=message.key, value=message.value))
    return found
