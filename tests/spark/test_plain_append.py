"""Appends without Spark, held to Delta's own: what Delta reads of a table to which both append in turn, and
which tables and versions are left to Delta.
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.spark.column_types import columns
from lakehouse.spark.commit_files import row_count, small_table
from lakehouse.spark.lake import Lake
from lakehouse.spark.plain import append as plain_append
from lakehouse.spark.plain.append import append_plain
from lakehouse.spark.silver.tables import PROPERTIES, silver_schema

FLAT = columns("id bigint, word string, data binary, parts array<struct<a:int,b:string>>")

EACH_TEN: dict[str, Any] = {"delta.checkpointInterval": "10"}


def row(chance: random.Random, number: int) -> dict[str, Any]:
    words = [None, "", "ü", "x" * 32, "y" * 33, 'quote " and \\ and \n', "\U0001f600", "a\x00b"]
    return {
        "id": number if chance.random() < 0.9 else None,
        "word": chance.choice(words),
        "data": chance.choice([None, b"", b"\xff\x00"]),
        "parts": chance.choice([None, [], [{"a": None, "b": "z"}, {"a": 1, "b": None}]]),
    }


def as_told(rows: Any) -> list[str]:
    return sorted(json.dumps(one.asDict(recursive=True), default=repr, sort_keys=True) for one in rows)


@pytest.mark.parametrize("seed", range(3))
def test_appends_in_turn(spark: Any, tmp_path: Path, seed: int) -> None:
    chance, lake = random.Random(seed), Lake(str(tmp_path))
    expected, last, folder = [], -1, tmp_path / "ops/t"
    own = 0
    for number in range(24):
        rows = [row(chance, 100 * number + one) for one in range(chance.randint(1, 4))]
        txn = chance.choice([None, ("app", last + 1), ("app", max(last, 0)), ("other", number)])
        is_skipped = txn == ("app", last)
        if txn is not None and txn[0] == "app":
            last = max(last, txn[1])
        frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=to_arrow_schema(FLAT)), FLAT)
        if chance.random() < 0.4:
            lake.append(frame, "ops", "t", txn, **EACH_TEN)
        else:
            before = engines(folder)
            lake.append_rows(
                spark, "ops", "t", rows, schema=FLAT, txn=txn, mark=f"m{number}", properties=EACH_TEN
            )
            new = engines(folder)[len(before) :]
            own += any(one.startswith("lakehouse/") for one in new)
        if not is_skipped:
            expected += frame.collect()
    assert own > 5
    held = lake.read(spark, "ops", "t")
    assert as_told(held.collect()) == as_told(expected)
    assert row_count(folder) == len(expected) == held.count()
    some = chance.choice([one for one in expected if one.id is not None])
    assert held.where(f"id = {some.id}").count() == 1
    assert held.where("word >= 'y'").count() == sum((one.word or "") >= "y" for one in expected)
    assert held.where("id IS NULL").count() == sum(one.id is None for one in expected)
    read = small_table(folder, ("id",))
    assert read is not None and read.num_rows == len(expected)
    history = spark.sql(f"DESCRIBE HISTORY {lake.ref('ops', 't')}").collect()
    assert [one.version for one in history] == list(range(len(history) - 1, -1, -1))
    written = sum(int(one.operationMetrics["numOutputRows"]) for one in history)
    assert written == len(expected)
    assert (folder / "_delta_log/00000000000000000010.checkpoint.parquet").exists()
    assert not list((folder / "_delta_log").glob(".*.tmp"))


def engines(folder: Path) -> list[str]:
    """Which engine made each commit."""
    files = sorted((folder / "_delta_log").glob("*.json")) if folder.exists() else []
    return [json.loads(file.read_text().splitlines()[0])["commitInfo"]["engineInfo"] for file in files]


def test_the_checksum_file_is_the_one_that_delta_makes(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.append(spark.createDataFrame([(0, "", b"", [])], FLAT), "ops", "t", ("app", 0))
    for number in range(1, 4):
        lake.append_rows(spark, "ops", "t", [{"id": number}], schema=FLAT, txn=("app", number))
    folder = tmp_path / "ops/t"
    assert [one.startswith("lakehouse/") for one in engines(folder)] == [False, True, True, True]
    file = folder / "_delta_log/00000000000000000003.crc"
    told = json.loads(file.read_text())
    snapshot = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
        spark._jsparkSession, str(folder)
    ).update(False, spark._jvm.scala.Option.empty(), spark._jvm.scala.Option.empty())
    assert snapshot.version() == 3
    assert (snapshot.sizeInBytes(), snapshot.numOfFiles()) == (told["tableSizeBytes"], told["numFiles"])
    assert snapshot.transactions().apply("app") == 3
    # the next commit of Delta goes on from it
    lake.append(spark.createDataFrame([(9,)], "id bigint"), "ops", "t", ("app", 4))
    assert json.loads((folder / "_delta_log/00000000000000000004.crc").read_text())["numFiles"] == 5


@pytest.mark.parametrize("name", ["changes", "watermarks"])
def test_a_new_table_is_as_delta_makes_it(spark: Any, tmp_path: Path, name: str) -> None:
    lake, schema, properties = Lake(str(tmp_path)), silver_schema(name), PROPERTIES.get(name, {})
    rows = [{"source": "s", "batch": 7}]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=to_arrow_schema(schema)), schema)
    lake.append(frame, "silver", "theirs", ("app", 3), **properties)
    lake.append_rows(spark, "silver", "ours", rows, schema=schema, txn=("app", 3), properties=properties)
    ours, theirs = (tmp_path / "silver" / one for one in ("ours", "theirs"))
    assert engines(ours)[0].startswith("lakehouse/") and not engines(theirs)[0].startswith("lakehouse/")
    assert checksum(ours) == checksum(theirs)
    assert [action.keys() for action in actions(ours)] == [action.keys() for action in actions(theirs)]
    held = [lake.read(spark, "silver", one) for one in ("ours", "theirs")]
    assert held[0].schema == held[1].schema and as_told(held[0].collect()) == as_told(held[1].collect())
    # the same transaction once more is nothing, and Delta goes on with the next
    lake.append_rows(spark, "silver", "ours", rows, schema=schema, txn=("app", 3))
    lake.append(frame, "silver", "ours", ("app", 3))
    lake.append(frame, "silver", "ours", ("app", 4))
    assert lake.read(spark, "silver", "ours").count() == 2


def actions(table: Path) -> list[dict[str, Any]]:
    text = (table / "_delta_log/00000000000000000000.json").read_text()
    return sorted(map(json.loads, text.splitlines()), key=lambda action: sorted(action))


def checksum(table: Path) -> dict[str, Any]:
    """What the checksum file of the first version tells, without what is of this commit alone."""
    told = json.loads((table / "_delta_log/00000000000000000000.crc").read_text())
    for member in ("txnId", "tableSizeBytes", "inCommitTimestampOpt", "histogramOpt", "allFiles"):
        told.pop(member, None)
    for one in told["setTransactions"]:
        one.pop("lastUpdated")
    for one in ("id", "createdTime"):
        told["metadata"].pop(one)
    told["metadata"]["schemaString"] = json.loads(told["metadata"]["schemaString"])
    return dict(told)


def test_silver_has_the_statistics_that_its_readers_look_for(spark: Any, tmp_path: Path) -> None:
    lake, schema = Lake(str(tmp_path)), silver_schema("changes")
    for number in range(3):
        change = {
            "database": "d",
            "table": f"t{number}",
            "commit_ts": number,
            "position": dict.fromkeys(schema["position"].dataType.names, number),
            "origin": {"topic": "x", "incarnation": "", "partition": 0, "offset": number, "index": 0},
            "before": "{}",
            "batch": number,
        }
        lake.append_rows(
            spark, "silver", "s", [change], schema=schema, txn=("a", number), properties=PROPERTIES["changes"]
        )
    files = sorted((tmp_path / "silver/s/_delta_log").glob("*.json"))
    told = [
        json.loads(action["add"]["stats"])
        for file in files
        for action in map(json.loads, file.read_text().splitlines())
        if "add" in action
    ]
    assert engines(tmp_path / "silver/s")[1:] == [engines(tmp_path / "silver/s")[1]] * 2
    for number, stats in enumerate(told):
        assert stats["minValues"] == stats["maxValues"]
        assert {key: value for key, value in stats.items() if key != "nullCount"} == {
            "numRecords": 1,
            "minValues": stats["minValues"],
            "maxValues": stats["minValues"],
        }
        assert stats["minValues"]["origin"] == {"partition": 0, "offset": number}
        assert stats["minValues"]["table"] == f"t{number}"
    assert told[0]["minValues"].keys() == told[1]["minValues"].keys()
    assert told[0]["nullCount"].keys() == told[1]["nullCount"].keys()
    assert lake.read(spark, "silver", "s").where("`table` = 't1' AND position.p1 >= 1").count() == 1


def test_statistics_of_a_table_without_the_property_are_of_all_columns(spark: Any, tmp_path: Path) -> None:
    """Silver of an older lake."""
    schema = silver_schema("watermarks")
    mark = {"partition": 3, "position": dict.fromkeys(schema["position"].dataType.names, 7)}
    lake = Lake(str(tmp_path))
    for _ in range(2):
        lake.append_rows(spark, "silver", "w", [mark], schema=schema)
    assert engines(tmp_path / "silver/w")[1].startswith("lakehouse/")
    text = (tmp_path / "silver/w/_delta_log/00000000000000000001.json").read_text()
    stats = json.loads(json.loads(text.splitlines()[-1])["add"]["stats"])
    assert stats["minValues"]["partition"] == 3 and stats["maxValues"]["position"]["p1"] == 7
    assert stats["nullCount"]["topic"] == 1


@pytest.mark.parametrize(
    "property",
    ["delta.columnMapping.mode=name", "delta.enableDeletionVectors=true", "delta.enableChangeDataFeed=true"],
)
def test_a_table_that_is_not_plain_is_left_to_delta(spark: Any, tmp_path: Path, property: str) -> None:
    lake, (name, value) = Lake(str(tmp_path)), property.split("=")
    lake.append(spark.createDataFrame([(1,)], "id bigint"), "ops", "t", None, **{name: value})
    rows = pa.table({"id": pa.array([2], pa.int64())})
    assert not append_plain(tmp_path / "ops/t", rows)
    assert len(engines(tmp_path / "ops/t")) == 1


def test_a_checksum_of_an_older_log_is_none_of_a_new_commit(spark: Any, tmp_path: Path) -> None:
    lake, log = Lake(str(tmp_path)), tmp_path / "ops/t/_delta_log"
    lake.append(spark.createDataFrame([(1,)], "id bigint"), "ops", "t")
    for suffix in ("json", "crc"):
        held = log / f".{0:020d}.{suffix}.crc"
        (log / f".{1:020d}.{suffix}.crc").write_bytes(held.read_bytes())
    assert append_plain(tmp_path / "ops/t", pa.table({"id": pa.array([2], pa.int64())}))
    assert lake.read(spark, "ops", "t").count() == 2


def test_what_is_left_to_delta(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, folder = Lake(str(tmp_path)), tmp_path / "ops/t"
    rows = pa.table({"id": pa.array([2], pa.int64())})
    assert not append_plain(folder, rows)  # no table
    frame = spark.createDataFrame([(1,)], "id bigint")
    lake.append(frame, "ops", "t")
    assert not append_plain(folder, rows.rename_columns(["other"]))
    assert not append_plain(folder, pa.table({"id": pa.array([2], pa.int32())}))
    assert append_plain(folder, rows)
    (folder / "_delta_log/00000000000000000001.crc").rename(folder / "crc")
    assert not append_plain(folder, rows)
    (folder / "crc").rename(folder / "_delta_log/00000000000000000001.crc")
    # the disk is full once the commit stands
    put = plain_append._put

    def full(path: Path, lines: list[dict[str, Any]]) -> bool:
        if path.suffix == ".crc":
            raise OSError("no space left")
        return put(path, lines)

    monkeypatch.setattr(plain_append, "_put", full)
    assert append_plain(folder, rows)
    monkeypatch.undo()
    assert lake.read(spark, "ops", "t").count() == 3 and not append_plain(folder, rows)
    lake.append(frame, "ops", "t")
    # another process has written over the newest commit
    file = max((folder / "_delta_log").glob("*.json"))
    text = file.read_text()
    told = json.loads(file.with_suffix(".crc").read_text())
    assert told["txnId"] in text
    file.write_text(text.replace(told["txnId"], "another"))
    assert not append_plain(folder, rows)
    file.write_text(text)
    link = os.link

    def unanswered(source: Path, target: Path) -> None:
        link(source, target)
        raise OSError("the mount is gone")

    monkeypatch.setattr("os.link", unanswered)
    assert append_plain(folder, rows)
    monkeypatch.undo()
    assert lake.read(spark, "ops", "t").count() == 5
    # another process was quicker
    files = sorted(folder.glob("*.parquet"))

    def late(source: Path, target: Path) -> None:
        if target.suffix == ".json":
            target.write_text(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n")
        link(source, target)

    monkeypatch.setattr("os.link", late)
    assert not append_plain(folder, rows)
    assert sorted(folder.glob("*.parquet")) == files
    monkeypatch.undo()

    def refused(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refused)
    assert not append_plain(folder, rows)
    assert sorted(folder.glob("*.parquet")) == files and not list((folder / "_delta_log").glob(".*.tmp"))
    partitioned = spark.createDataFrame([(1, 2)], "id bigint, p bigint")
    partitioned.write.format("delta").partitionBy("p").save(str(tmp_path / "ops/p"))
    both = pa.table({"id": pa.array([2], pa.int64()), "p": pa.array([2], pa.int64())})
    assert not append_plain(tmp_path / "ops/p", both)
