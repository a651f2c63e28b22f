"""Files of silver and gold that workers write, held to those that Spark writes of the same feed: the same
rows, columns and findings; and no file is left that no commit has added.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.spark import limits
from lakehouse.spark.commit_files import live_files
from lakehouse.spark.fold import by_key
from lakehouse.spark.lake import Lake
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.plain import append as plain_append
from lakehouse.spark.plain import files
from lakehouse.spark.plain.files import FileWriter, discarding
from lakehouse.spark.silver import spark_batch
from lakehouse.spark.silver.packed import _CHANGES, ChangeWriter, Target
from tests.support.lakes import quiet, run, shown, silver_rows, write_recording
from tests.support.open_feed import OpenFeed, T
from tests.support.paths import DATA

RECORDINGS = (
    "ticdc-open/newarch-202606/basictypes.default.jsonl.gz",
    "ticdc-canal-json/newarch-202606/basictypes.tidb-ext.jsonl.gz",
)
BY_WORKERS = {"lakehouse"}
ROWS = [{"id": 1, "v": "v1"}, {"id": 2, "v": "v2"}]


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All batches of silver and all tables of gold are large ones."""
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", 0)
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 0)


def tables_of(lake: Path, layer: str) -> list[Path]:
    return [log.parent for log in sorted((lake / layer).glob("*/_delta_log"))]


def first_engine(table: Path) -> str:
    info = json.loads((table / "_delta_log" / f"{0:020d}.json").read_text().splitlines()[0])["commitInfo"]
    return str(info["engineInfo"]).partition("/")[0]


def unclaimed(table: Path) -> set[str]:
    """The data files with rows that no version of the table has."""
    lines = [
        json.loads(line) for path in table.glob("_delta_log/*.json") for line in path.read_text().splitlines()
    ]
    there = {path.name for path in table.glob("*.parquet") if pq.read_metadata(path).num_rows}
    return there - {line["add"]["path"] for line in lines if "add" in line}


@pytest.mark.parametrize("recording", RECORDINGS)
def test_workers_write_what_spark_writes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: str
) -> None:
    format_ = recording.split("/")[0]
    lakes = {name: tmp_path / name for name in ("workers", "spark")}
    found = {}
    for name, lake in lakes.items():
        if name == "spark":
            monkeypatch.setattr(Lake, "files_folder", lambda *_: None)
        outcome = try_recording(DATA / recording, format_, {}, str(lake), "resolved", quiet)
        found[name] = outcome["gold"]
    source = tables_of(lakes["workers"], "silver")[0].name.rpartition("_changes")[0].removesuffix("_schema")

    assert found["workers"] == found["spark"]
    assert shown(lakes["workers"], tmp_path / "a") == shown(lakes["spark"], tmp_path / "b") != {}
    rows = [silver_rows(spark, lake, source, "changes") for lake in lakes.values()]
    assert rows[0] == rows[1] != []
    made = tables_of(lakes["workers"], "gold")
    assert {first_engine(table) for table in made} == BY_WORKERS
    for table in (*made, lakes["workers"] / f"silver/{source}_changes"):
        mine, theirs = (
            spark.read.format("delta").load(str(lake / table.relative_to(lakes["workers"])))
            for lake in lakes.values()
        )
        assert said(mine.schema) == said(theirs.schema), table.name
        assert sorted(map(str, mine.collect())) == sorted(map(str, theirs.collect()))
        assert not unclaimed(table)


def said(schema: Any) -> list[tuple[str, str, bool, str]]:
    return [
        (field.name, field.dataType.simpleString(), field.nullable, field.metadata.get("comment", ""))
        for field in schema
    ]


def rows_of(feed: OpenFeed, *numbers: int) -> OpenFeed:
    for number in numbers:
        feed.row(20 + number, "t", number, v=f"v{number}")
    return feed


def feed_of(*numbers: int) -> OpenFeed:
    feed = OpenFeed()
    feed.ddl(10, "t", "create table t (id int primary key, v varchar(20))")
    return rows_of(feed, *numbers)


def changes_of(lake: Path) -> Path:
    return lake / "silver/r_changes"


def landed(folder: Path, feed: OpenFeed) -> None:
    folder.mkdir(exist_ok=True)
    run(write_recording(folder / "r.jsonl", feed.messages), folder / "lake")


@pytest.mark.parametrize("name", ["plain", "a [b] {c,d}*?'%20"])
def test_what_comes_twice_is_in_silver_once_and_no_file_of_it_is_left(
    spark: Any, tmp_path: Path, name: str
) -> None:
    tmp_path /= name
    feed = rows_of(feed_of(1, 2, 3), 2, 3, 4)
    feed.resolved(100)

    landed(tmp_path, feed)

    rows = silver_rows(spark, tmp_path / "lake", "r", "changes")
    assert [row["key"] for row in rows] == ["[1]", "[2]", "[3]", "[4]"]
    assert not unclaimed(changes_of(tmp_path / "lake"))


def test_rows_without_a_key_keep_their_numbers(spark: Any, tmp_path: Path) -> None:
    feed = OpenFeed()
    feed.ddl(10, "t", "create table t (v varchar(20))")
    for _ in range(2):
        feed.add(
            {"ts": T + 20, "scm": "shop", "tbl": "t", "t": 1}, {"u": {"v": {"t": 15, "f": 64, "v": "a"}}}
        )
    feed.resolved(100)

    landed(tmp_path, feed)

    assert len({row["row_id"] for row in silver_rows(spark, tmp_path / "lake", "r", "changes")}) == 2
    assert not unclaimed(changes_of(tmp_path / "lake"))


def test_a_run_that_dies_before_its_done_record_leaves_its_rows_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = feed_of(1, 2)
    feed.resolved(100)
    with monkeypatch.context() as broken, pytest.raises(RuntimeError, match="died"):
        broken.setattr(spark_batch.Writer, "schema_changes", dies)
        landed(tmp_path, feed)
    assert live_files(changes_of(tmp_path / "lake"), 0)

    landed(tmp_path, feed)

    assert len(silver_rows(spark, tmp_path / "lake", "r", "changes")) == 2
    assert not unclaimed(changes_of(tmp_path / "lake"))
    assert shown(tmp_path / "lake", tmp_path / "shown")["shop.t"] == [
        {"id": 1, "v": "v1"},
        {"id": 2, "v": "v2"},
    ]


def dies(*_: Any) -> None:
    raise RuntimeError("died")


def test_where_delta_has_to_make_a_version_spark_writes_what_workers_had_written(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, or where a foreign session has changed the table since the workers began."""
    monkeypatch.setattr(plain_append, "_put", lambda *_: False)
    feed = feed_of(1, 2)
    feed.resolved(100)

    landed(tmp_path, feed)

    lake = tmp_path / "lake"
    assert shown(lake, tmp_path / "shown")["shop.t"] == ROWS
    assert {first_engine(table) for table in (*tables_of(lake, "gold"), changes_of(lake))} == {"Apache-Spark"}
    assert not any(map(unclaimed, (*tables_of(lake, "gold"), changes_of(lake))))


def test_files_of_rows_with_a_column_that_no_ddl_has_declared_are_deleted(spark: Any, tmp_path: Path) -> None:
    """The table is folded again with the column."""
    feed = feed_of(1)
    feed.row(30, "t", 2, v="b", w=1)
    feed.resolved(100)

    landed(tmp_path, feed)

    (table,) = tables_of(tmp_path / "lake", "gold")
    assert spark.read.format("delta").load(str(table)).count() == 2
    assert not unclaimed(table)


def test_a_companion_that_later_rows_need_is_a_column_of_all_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_key, "OUT_ROWS", 1)
    feed = OpenFeed()
    feed.ddl(10, "t", "create table t (id int primary key, d date)")
    for number, day in enumerate(("2024-01-01", "0000-00-00", "2024-01-02")):
        key = {"id": {"t": 3, "h": True, "f": 11, "v": number}}
        feed.add(
            {"ts": T + 20 + number, "scm": "shop", "tbl": "t", "t": 1},
            {"u": {**key, "d": {"t": 10, "f": 65, "v": day}}},
        )
    feed.resolved(100)

    landed(tmp_path, feed)

    (table,) = tables_of(tmp_path / "lake", "gold")
    rows = spark.read.format("delta").load(str(table)).orderBy("id").collect()
    assert [(str(row.d), row._raw_d) for row in rows] == [
        ("2024-01-01", None),
        ("None", "0000-00-00"),
        ("2024-01-02", None),
    ]
    assert first_engine(table) in BY_WORKERS and not unclaimed(table)


def test_a_worker_that_fails_leaves_no_file(tmp_path: Path) -> None:
    writer = ChangeWriter(Target(str(tmp_path), "s", 1))
    with pytest.raises(RuntimeError), discarding(writer):
        writer.write(no_changes(3))
        assert writer.close()
        assert list(tmp_path.glob("*.parquet"))
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def no_changes(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in _CHANGES], schema=_CHANGES)


def test_a_files_statistics_are_those_of_all_its_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_GROUP_BYTES", 1)
    members = pa.struct([("n", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("word", pa.string()), ("parts", members), ("other", pa.int64())])
    writer = FileWriter(tmp_path, "id, word, parts.n")
    for low in (5, 1, 9):
        row = {"id": low, "word": None if low == 1 else f"w{low}", "parts": {"n": -low}, "other": 1}
        writer.write(pa.Table.from_pylist([row], schema=schema))
    added = writer.close()

    assert pq.read_metadata(tmp_path / added["path"]).num_row_groups == 3
    assert json.loads(added["stats"]) == {
        "numRecords": 3,
        "minValues": {"id": 1, "word": "w5", "parts": {"n": -9}},
        "maxValues": {"id": 9, "word": "w9", "parts": {"n": -1}},
        "nullCount": {"id": 0, "word": 1, "parts": {"n": 0}},
    }
