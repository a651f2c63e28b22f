"""What a retention floor leaves behind, beside rows."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.api import open_lake
from lakehouse.errors import LakehouseError
from lakehouse.events import POSITION_PARTS, SNAPSHOT_TOPIC, Message, Position
from lakehouse.gold.options import GoldOptions, to_plain
from lakehouse.lineage import Interval, Lineage, Step
from lakehouse.ops.progress import Counts, NextOffset, TableSize, TableSnapshot
from lakehouse.ops.records.bronze import MissingFile
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.operators import Epoch
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.schema import make_schema
from lakehouse.spark import limits
from lakehouse.spark.bronze.recordings import land_messages
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations import retention
from lakehouse.spark.operations.rebuild import rebuild_table
from lakehouse.spark.operations.retention import (
    Awaited,
    incoming,
    not_void_at,
    raise_floor,
    reason,
    refuse_unread_snapshot,
    silver_rows,
    taken_by_gold,
    time_at,
    unfinished,
    unpromised,
    unread,
)
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.readers.pages import LakePages
from lakehouse.spark.silver.tables import silver_schema
from tests.spark.gold.test_new_changes import canal_json, ddl, insert, numbered, watermark
from tests.support.lakes import quiet, shown, write_recording
from tests.support.records import log_of, manifest, table_entry


def test_a_floor_does_not_stand_where_a_restore_has_made_changes_void() -> None:
    """Its rows would be void too, and those that it stands for are gone. Needs no session."""

    def epoch(number: int, restored_to: int | None) -> Epoch:
        return Epoch(epoch=number, places=(), restored_to=restored_to, why="restored")

    epochs = [epoch(1, 300), epoch(2, None), epoch(3, 200)]

    assert not_void_at((0, 350, 2, 0, 0, 0), epochs[:2]) == (0, 300, 2, 0, 0, 0)
    assert not_void_at((0, 350, 2, 0, 0, 0), epochs) == (0, 200, 2, 0, 0, 0)
    assert not_void_at((1, 350, 2, 0, 0, 0), epochs[:2]) == (1, 350, 2, 0, 0, 0)
    assert not_void_at((1, 150, 2, 0, 0, 0), epochs) == (1, 150, 2, 0, 0, 0)
    assert not_void_at((3, 350, 2, 0, 0, 0), epochs) == (3, 350, 2, 0, 0, 0)


def test_a_table_that_gold_has_not_folded_up_to_the_floor_keeps_its_log() -> None:
    """What its changes lack is in no manifest yet. Needs no session."""
    low, place = (0, 10, 0, 0, 0, 0), (0, 200, 0, 0, 0, 0)
    lineage = Lineage("t@10", [Step(low, make_schema([]))], [Interval(("d", "t"), low, None)])

    def entry(state: str, since: Position | None) -> TableEntry:
        return table_entry(lineage="t@10", state=state, since=since)

    assert unread(lineage, place, None) is not None
    assert unread(lineage, place, entry("behind", (0, 150, 0, 0, 0, 0))) == "gold is behind the floor"
    assert unread(lineage, place, entry("behind", (0, 250, 0, 0, 0, 0))) is None
    history = msgspec.structs.replace(entry("exact", None), options=to_plain(GoldOptions(mode="history")))
    assert unread(lineage, place, history) == "gold shows more of it than its live rows"
    assert unread(lineage, place, entry("exact", None)) is None
    assert unread(lineage, (0, 5, 0, 0, 0, 0), None) is None


def test_no_floor_is_raised_while_a_batch_of_silver_is_not_done() -> None:
    """Late changes that it has written would go with the log. Needs no session."""
    done = Done(batch=1, counts=Counts(), top=None, reach=None, next=(), marks=(), dead=(), tables=())
    told = [done, manifest(batch=1)]
    assert taken_by_gold(log_of(*told)) == (done, told[1])

    with pytest.raises(LakehouseError, match="a silver batch is not done yet"):
        taken_by_gold(log_of(*told, Planned(batch=2, generation="g", small=True, ranges=())))


def test_no_floor_is_raised_while_tables_are_snapshotted_or_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows would be refused. Needs no session."""
    no_session: Any = None
    monkeypatch.setattr(retention, "get_session", lambda: no_session)
    monkeypatch.setattr(retention, "sources", lambda *_: {"shop": object()})
    monkeypatch.setattr(OpsLog, "load", lambda log: log)

    def raised() -> None:
        raise_floor(str(tmp_path), "shop", "1", None, True, "")

    with (
        layer_lock(no_session, Lake(str(tmp_path)), "shop", ["import"]),
        pytest.raises(LakehouseError, match="import run is going on already"),
    ):
        raised()
    with pytest.raises(LakehouseError, match="gold has not taken all"):
        raised()


def test_no_floor_is_raised_while_a_snapshot_that_has_landed_is_unread(spark: Any, tmp_path: Path) -> None:
    """Its rows would be refused; what the feed itself has landed may come late."""
    done = Done(batch=1, counts=Counts(), top=None, reach=None, next=(), marks=(), dead=(), tables=())
    context = RunContext(OpsLog(spark, Lake(str(tmp_path)), "feed"), quiet)
    refuse_unread_snapshot(context.log, done)
    land_messages(context, [Message("feed", 0, 0, None, b"unread")])
    refuse_unread_snapshot(context.log, done)
    land_messages(
        context, [Message(SNAPSHOT_TOPIC, 0, offset, None, b"row", incarnation="a") for offset in (0, 1)]
    )

    with pytest.raises(LakehouseError, match="rows of a table's snapshot or import have landed that silver"):
        refuse_unread_snapshot(context.log, done)
    half = msgspec.structs.replace(done, next=(NextOffset(SNAPSHOT_TOPIC, "a", 0, offset=1),))
    with pytest.raises(LakehouseError, match="`lakehouse run` first"):
        refuse_unread_snapshot(context.log, half)
    refuse_unread_snapshot(
        context.log, msgspec.structs.replace(done, next=(NextOffset(SNAPSHOT_TOPIC, "a", 0, offset=2),))
    )


@pytest.mark.parametrize(
    ("said", "keeps"),
    [
        (GoldOptions(), False),
        (GoldOptions(mode="history"), True),
        (GoldOptions(mode="append"), True),
        (GoldOptions(deletes="soft"), True),
        (GoldOptions(merged="d.all"), True),
    ],
)
def test_a_table_that_shows_more_than_its_live_rows_keeps_its_log(said: GoldOptions, keeps: bool) -> None:
    """Needs no session."""
    low = (0, 10, 0, 0, 0, 0)
    lineage = Lineage("t@10", [Step(low, make_schema([]))], [Interval(("d", "t"), low, None)])
    settings = SourceSettings(
        format="ticdc-open",
        order="tidb",
        options={},
        virtual=False,
        tables=((("d", "t"), to_plain(said)),),
    )

    why = "gold shows more of it than its live rows"
    assert reason(lineage, (0, 200, 0, 0, 0, 0), settings) == (why if keeps else None)


def test_a_table_whose_snapshot_has_arrived_in_part_keeps_its_log() -> None:
    """Its rows count for nothing yet, and the rest would be refused. Needs no session."""
    low, at, place = (0, 10, 0, 0, 0, 0), (0, 50, 3, 0, 0, 0), (0, 200, 0, 0, 0, 0)
    lineage = Lineage("t@10", [Step(low, make_schema([]))], [Interval(("d", "t"), low, None)])

    assert unfinished(lineage, place, [TableSnapshot("d", "t", at)]) is not None
    assert unfinished(lineage, at, [TableSnapshot("d", "t", place)]) is None
    assert unfinished(lineage, place, [TableSnapshot("d", "o", at)]) is None


def test_a_table_of_which_changes_may_still_come_keeps_its_log() -> None:
    """They would be refused below the floor, as if they were copies. Needs no session."""
    low = (0, 10, 0, 0, 0, 0)
    lineage = Lineage("t@10", [Step(low, make_schema([]))], [Interval(("d", "t"), low, None)])

    def lacks(table: tuple[str, str] | None) -> Awaited:
        return Awaited(files=(MissingFile("d/t/1/CDC2.csv", table, low),))

    for comes in (Awaited({("d", "t"): 1}), Awaited({None: 2}), lacks(("d", "t")), lacks(None)):
        assert incoming(lineage, comes) is not None
    for none in (Awaited(), Awaited({("d", "o"): 1}), lacks(("d", "o"))):
        assert incoming(lineage, none) is None


def test_a_table_of_a_feed_without_watermarks_keeps_its_log_where_more_may_come_from_below() -> None:
    """Partitions of such a feed lag behind each other, or do not compare. Needs no session."""
    low, place = (0, 10, 0, 0, 0, 0), (0, 200, 0, 0, 0, 0)
    lineage = Lineage("t@10", [Step(low, make_schema([]))], [Interval(("d", "t"), low, None)])

    def keeps(*places: tuple[str, int], order: str | None = "arrival", **highs: int) -> bool:
        tables = tuple(
            TableSize(("d", name), low, (0, high, 0, 0, 0, 0), 1, topics=(places[0][0],))
            for name, high in highs.items()
        )
        following = tuple(NextOffset(topic, "", partition, 900) for topic, partition in places)
        done = Done(
            batch=1,
            counts=Counts(),
            top=None,
            reach=None,
            next=(*following, NextOffset("another", "", 0, 9), NextOffset(SNAPSHOT_TOPIC, "", 0, 9)),
            marks=(),
            dead=(),
            tables=(*tables, TableSize(("d", "other"), low, (0, 900, 0, 0, 0, 0), 1, topics=("another",))),
        )
        return unpromised(lineage, place, done, order) is not None

    assert keeps(("all", 0), ("all", 1), t=300), "partition 1 may be at 100"
    assert not keeps(("all", 0), ("all", 1), t=300, order=None)
    assert not keeps(("all", 0), t=300)
    assert not keeps(("all", 0), t=50, beside=300), "the partition is beyond the floor"
    assert not keeps(("all", 0), t=50, beside=300, order="binlog")
    for order in ("tidb", "files"):
        assert keeps(("all", 0), t=50, beside=300, order=order), "each table has an order of its own"
        assert not keeps(("all", 0), t=300, order=order)
    assert keeps(("all", 0), t=50), "and another topic says nothing of it"
    assert keeps(("all", 0), beside=300), "nothing is known of it"


def test_the_rows_of_a_floor_have_a_commit_time_where_positions_are_none(spark: Any) -> None:
    """Else a moment long before the floor would find its rows."""
    low, place = (0, 3, 4, 0, 0, 0), (0, 3, 650, 1, 1, 1)
    lineage, schema = (
        Lineage("t@4", [Step(low, make_schema([]))], [Interval(("d", "t"), low, None)]),
        silver_schema("changes"),
    )
    told = {(0, 3, 600, 1, 1, 1): 9_000, (0, 3, 650, 1, 1, 1): 8_000, (0, 3, 700, 1, 1, 1): 10_000}
    rows = [
        {"position": dict(zip(POSITION_PARTS, position, strict=True)), "commit_ts": time}
        for position, time in told.items()
    ]
    changes = spark.createDataFrame(pa.Table.from_pylist(rows, schema=to_arrow_schema(schema)), schema)
    images = spark.createDataFrame([("{}",)], "after string")

    time = time_at(changes, place, "binlog")
    found = silver_rows(images, lineage, ("d", "t"), place, source="s", batch=1, commit_ts=time)

    assert [row.commit_ts for row in found.collect()] == [9_000]
    assert time_at(changes, place, "tidb") == place[1]
    assert time_at(changes, low, "arrival") is None


@pytest.mark.parametrize("action", ["reject", "stop", "warn"])
def test_a_table_whose_expectations_keep_rows_out_keeps_its_log(action: str) -> None:
    """Of a row that was refused gold shows what it was before, which a floor's row does not tell. Needs no
    session.
    """
    low, place = (0, 10, 0, 0, 0, 0), (0, 200, 0, 0, 0, 0)
    lineage = Lineage("t@10", [Step(low, make_schema([]))], [Interval(("d", "t"), low, None)])
    check: dict[str, object] = {"expect": "expect_column_values_to_not_be_null", "args": {"column": "v"}}
    check["action"] = action

    def why(table: str) -> str | None:
        settings = SourceSettings(
            format="ticdc-open", order="tidb", options={}, virtual=False, suites=(("d", table, (check,)),)
        )
        return reason(lineage, place, settings)

    assert (why("t") is None) == (action == "warn")
    assert why("other") is None


def change(kind: str, at: int, value: str) -> dict[str, Any]:
    types = {"sqlType": {"v": 12}, "mysqlType": {"v": "varchar"}, "pkNames": []}
    return canal_json(kind, "t", at, data=[{"v": value}], **types)


def test_what_changes_below_a_floor_lacked_is_not_forgotten_when_the_table_is_folded_again(
    spark: Any, tmp_path: Path
) -> None:
    create = canal_json("CREATE", "t", 100, isDdl=True, sql="CREATE TABLE `t` (`v` VARCHAR(20))")
    told = [create, change("INSERT", 110, "a"), change("UPDATE", 120, "b"), watermark(200)]
    lake = str(tmp_path / "lake")

    def state(messages: list[dict[str, Any]]) -> tuple[str, str]:
        path = write_recording(tmp_path / "feed.jsonl", numbered(messages))
        (entry,) = try_recording(path, "ticdc-canal-json", {}, lake, "resolved", quiet)["tables"]
        return entry["state"], entry["why"]

    found = state(told)
    assert found[0] == "incomplete"
    assert "which row was before it" in found[1]

    raise_floor(lake, "feed", "200", None, yes=True, why="a test")
    rebuild_table(lake, "d.t", None, yes=True, why="a test")

    assert state([*told, change("INSERT", 210, "c"), watermark(300)]) == found


def test_a_large_table_without_a_key_has_the_same_rows_at_a_floor(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message tells what the new column has in the row that was there, and a full image deletes it."""
    types = {"sqlType": {"v": 12, "c": 93}, "mysqlType": {"v": "varchar", "c": "datetime"}, "pkNames": []}
    told = [
        canal_json("CREATE", "t", 100, isDdl=True, sql="CREATE TABLE `t` (`v` VARCHAR(20))"),
        change("INSERT", 110, "a"),
        change("INSERT", 111, "b"),
        canal_json(
            "ALTER", "t", 120, isDdl=True, sql="ALTER TABLE `t` ADD `c` DATETIME DEFAULT CURRENT_TIMESTAMP"
        ),
        canal_json("DELETE", "t", 130, data=[{"v": "a", "c": "2026-11-21 10:00:00"}], **types),
        watermark(200),
    ]
    lake = str(tmp_path / "lake")
    path = write_recording(tmp_path / "feed.jsonl", numbered(told))
    try_recording(path, "ticdc-canal-json", {}, lake, "resolved", quiet)
    before = shown(tmp_path / "lake", tmp_path / "out")
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 1)

    raise_floor(lake, "feed", "200", None, yes=True, why="a test")
    rebuild_table(lake, "d.t", None, yes=True, why="a test")

    assert shown(tmp_path / "lake", tmp_path / "out") == before == {"d.t": [{"v": "b", "c": None}]}


def test_the_history_of_a_row_begins_with_what_it_was_at_the_floor(spark: Any, tmp_path: Path) -> None:
    told = [ddl("t", 100), insert("t", 1, 110), insert("t", 2, 120), watermark(200)]
    lake, path = str(tmp_path / "lake"), write_recording(tmp_path / "feed.jsonl", numbered(told))
    try_recording(path, "ticdc-canal-json", {}, lake, "resolved", quiet)

    raise_floor(lake, "feed", "200", None, yes=True, why="a test")
    rows = open_lake(lake, spark=spark).history_of("d.t", 1).select("op", "after.v").collect()
    shown_row = LakePages(None, lake).row("feed", "d.t", ("1",), None)

    assert [tuple(row) for row in rows] == [("snapshot", "t-1")]
    assert [(one.op, one.after, one.origin) for one in shown_row.changes] == [
        ("snapshot", {"id": 1, "v": "t-1"}, "")
    ]


def test_statements_that_arrive_below_a_floor_are_refused_and_told(spark: Any, tmp_path: Path) -> None:
    create = canal_json("CREATE", "t", 100, isDdl=True, sql="CREATE TABLE `t` (`v` VARCHAR(20))")
    told = [create, change("INSERT", 110, "a"), watermark(200)]
    lake = str(tmp_path / "lake")

    def state(messages: list[dict[str, Any]]) -> tuple[str, str | None, Position | None]:
        path = write_recording(tmp_path / "feed.jsonl", numbered(messages))
        try_recording(path, "ticdc-canal-json", {}, lake, "resolved", quiet)
        manifest = OpsLog(spark, Lake(lake), "feed").load().last(Manifest)
        assert manifest is not None
        (entry,) = manifest.tables
        return entry.state, entry.why, entry.since

    assert state(told)[0] == "exact"
    raise_floor(lake, "feed", "200", None, yes=True, why="a test")
    told += [create, change("INSERT", 210, "b"), watermark(300)]
    assert state(told)[0] == "exact"

    told += [
        canal_json("TRUNCATE", "t", 150, isDdl=True, sql="TRUNCATE TABLE `t`"),
        canal_json("ALTER", "t", 160, isDdl=True, sql="ALTER TABLE `t` ADD `c` INT DEFAULT 5"),
        watermark(400),
    ]
    why = "below the retention floor: 2 statements that arrived late were refused"
    found = state(told)

    assert found[:2] == ("incomplete", why)
    assert list(found[2] or ())[:2] == [0, 150]
    assert shown(tmp_path / "lake", tmp_path / "out") == {"d.t": [{"v": "a"}, {"v": "b"}]}
