"""MERGE without Spark, held to Delta's own: the same batches merged into two tables leave the same rows, and
both say the same of them. And what is left to Delta.
"""

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.fold.row_edits import image_text
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import GoldColumn, Typed, gold_columns, type_rows
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.spark import limits
from lakehouse.spark.commit_files import live_files
from lakehouse.spark.gold import merge as write_gold
from lakehouse.spark.gold.layout import PROPERTIES
from lakehouse.spark.gold.merge import (
    Equal,
    equal_rows,
    known_rows,
    merge_frame,
    merge_here,
    replace_frame,
    typed_frame,
)
from lakehouse.spark.lake import Lake
from lakehouse.spark.plain import append
from lakehouse.spark.plain import merge as plain_merge
from lakehouse.spark.plain.deletion_vectors import counts_of
from lakehouse.spark.table_versions import version_of
from tests.support.feeds import TiCDC

CREATE = """CREATE TABLE t (id INT, part VARCHAR(9), b VARBINARY(9), d DATE, n DECIMAL(10,2), small TINYINT,
`a.b` BIGINT, `un``s` BIGINT UNSIGNED, deep DECIMAL(38,10), f FLOAT, g DOUBLE, w TEXT, x BLOB, day DATE,
at DATETIME(6), ts TIMESTAMP(3), v VECTOR(2), j JSON, e ENUM('x','y'), PRIMARY KEY ({}))"""
VALUES: dict[str, list[Any]] = {
    "TINYINT": [-128, 0, 127],
    "SMALLINT": [-32768, 7],
    "INT": [-(2**31), 0, 1, 2**31 - 1],
    "BIGINT": [-(2**63), 0, 2**63 - 1],
    "FLOAT": [0.0, -0.0, 1.5, float("inf"), float("nan")],
    "DOUBLE": [0.0, -0.0, 1e300, float("nan")],
    "STRING": ["", "x", "ü\U0001f600", "a\x00b", "y" * 99, 'q"\\\n'],
    "BINARY": [b"", b"\x00\xff", b"z" * 50],
    "DATE": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(2026, 2, 28), dt.date(9999, 12, 31)],
    "TIMESTAMP_NTZ": [
        dt.datetime(1, 1, 1),
        dt.datetime(1582, 10, 10, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    ],
    "TIMESTAMP": [
        dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        dt.datetime(2038, 1, 19, 3, tzinfo=dt.UTC),
    ],
    "ARRAY<FLOAT>": [[], [1.5, -0.0], [float("inf")]],
}
pytestmark = pytest.mark.usefixtures("merges_here")
KEYS = ("id", "part, id", "b", "d, id", "n", "`un``s`", "at, id")


@pytest.fixture
def merges_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GOLD_MERGE_BYTES", 4 * limits.MIB)


def pool(column: GoldColumn) -> list[Any]:
    if column.spark.startswith("DECIMAL"):
        scale = int(column.spark.partition(",")[2].strip(" )") or 0)
        return [Decimal(one).scaleb(-scale) for one in (-12345, 0, 7, 99999999)]
    return VALUES[column.spark]


def columns_of(key: str) -> tuple[list[GoldColumn], list[GoldColumn]]:
    lineage = TiCDC().ddl(1, CREATE.format(key)).lineage()
    schema = lineage.steps[0].schema
    columns = gold_columns(schema, virtual=False)
    return columns, [one for id_ in schema.primary_key for one in columns if one.column.id == id_]


def batch(
    chance: random.Random, columns: list[GoldColumn], keys: list[GoldColumn]
) -> tuple[Typed, list[bool]]:
    """Random rows of different keys, some of them to be deleted; a key may have a text beside it."""
    found: dict[str, tuple[dict[str, Any], str | None]] = {}
    companion = chance.random() < 0.3
    for _ in range(chance.randint(1, 6)):
        row = {one.name: chance.choice([None, *pool(one)]) for one in columns}
        for key in keys:
            row[key.name] = chance.choice(pool(key))
        raw = chance.choice([None, "0000-00-00", "0000-01-00"]) if companion else None
        if raw is not None:
            row[keys[0].name] = None
        found[repr([row[key.name] for key in keys] + [raw])] = (row, raw)
    rows = list(found.values())
    told = {keys[0].companion: [raw for _, raw in rows]} if companion else {}
    typed = Typed({one.name: [row[one.name] for row, _ in rows] for one in columns}, told, len(rows))
    return typed, [chance.random() < 0.3 for _ in rows]


def shown(spark: Any, lake: Lake, table: str) -> list[str]:
    rows = lake.read(spark, "gold", table).collect()
    return sorted(json.dumps(one.asDict(), default=repr, sort_keys=True) for one in rows)


@pytest.mark.parametrize("key", KEYS)
def test_merges_leave_what_those_of_delta_leave(spark: Any, tmp_path: Path, key: str) -> None:
    chance, lake = random.Random(key), Lake(str(tmp_path))
    columns, keys = columns_of(key)
    assert all(len(pool(column)) > 1 for column in columns)
    first, _ = batch(chance, columns, keys)
    first = first if not first.raw else Typed(first.columns, {}, 0)
    for name in ("theirs", "ours"):
        replace_frame(spark, lake, name, typed_frame(spark, first, columns), create=True)
    own = 0
    for number in range(5):
        typed, deleted = batch(chance, columns, keys)
        frame = typed_frame(spark, typed, columns, ["delete" if gone else "put" for gone in deleted])
        theirs = merge_frame(spark, lake, "theirs", frame, keys=keys, options=PLAIN, rows=9)
        ours = merge_here(spark, lake, "ours", typed, deleted=deleted, columns=columns, keys=keys)
        own += ours is not None
        if ours is None:
            # the first one that has texts beside a key, for which the table has no column, or a checkpoint
            assert typed.raw or theirs.version in (9, 10)
            ours = merge_frame(spark, lake, "ours", frame, keys=keys, options=PLAIN, rows=9)
        assert (ours.matched, ours.written) == (theirs.matched, theirs.written)
        assert shown(spark, lake, "ours") == shown(spark, lake, "theirs"), number
        if number == 2:
            for name in ("theirs", "ours"):
                spark.sql(f"ALTER TABLE {lake.ref('gold', name)} ALTER COLUMN small TYPE INT").collect()
                spark.sql(f"ALTER TABLE {lake.ref('gold', name)} ALTER COLUMN w COMMENT 'words'").collect()
                spark.sql(f"ALTER TABLE {lake.ref('gold', name)} RENAME COLUMN x TO y").collect()
            told = CREATE.replace("small TINYINT", "small INT").replace("x BLOB", "y BLOB")
            lineage = TiCDC().ddl(1, told.format(key)).lineage()
            columns = gold_columns(lineage.steps[0].schema, virtual=False)
    assert own >= 2
    last = spark.sql(f"DESCRIBE HISTORY {lake.ref('gold', 'ours')} LIMIT 1").first()
    assert last.operation == "MERGE"
    spark.sql(f"OPTIMIZE {lake.ref('gold', 'ours')}").collect()
    spark.sql(f"VACUUM {lake.ref('gold', 'ours')}").collect()
    assert shown(spark, lake, "ours") == shown(spark, lake, "theirs")


@pytest.mark.parametrize(
    "property",
    ["delta.enableChangeDataFeed=true", "delta.appendOnly=true"],
)
def test_a_table_that_asks_for_more_is_left_to_delta(spark: Any, tmp_path: Path, property: str) -> None:
    lake, (name, value) = Lake(str(tmp_path)), property.split("=")
    columns, keys = columns_of("id")
    typed, deleted = batch(random.Random(1), columns, keys)
    typed = Typed(typed.columns, {}, typed.count)
    frame = typed_frame(spark, typed, columns)
    lake.overwrite(frame, "gold", "t", PROPERTIES)
    spark.sql(f"ALTER TABLE {lake.ref('gold', 't')} SET TBLPROPERTIES ('{name}' = '{value}')").collect()
    assert merge_here(spark, lake, "t", typed, deleted=deleted, columns=columns, keys=keys) is None
    lake.overwrite(frame, "gold", "u", PROPERTIES)
    assert merge_here(spark, lake, "u", typed, deleted=deleted, columns=columns, keys=keys) is not None


def test_rows_that_have_one_key_are_left_to_delta(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    row = {one.name: [pool(one)[1]] for one in columns}
    twice = Typed({name: values * 2 for name, values in row.items()}, {}, 2)
    replace_frame(spark, lake, "t", typed_frame(spark, twice, columns), create=True)
    once = Typed(row, {}, 1)
    assert merge_here(spark, lake, "t", once, deleted=[False], columns=columns, keys=keys) is None
    replace_frame(spark, lake, "t", typed_frame(spark, once, columns), create=False)
    assert merge_here(spark, lake, "t", twice, deleted=[False, False], columns=columns, keys=keys) is None
    gone = merge_here(spark, lake, "t", once, deleted=[True], columns=columns, keys=keys)
    assert gone is not None and (gone.matched, gone.written) == (1, 0)
    assert lake.read(spark, "gold", "t").count() == 0


def rows_of(columns: list[GoldColumn], *rows: dict[str, Any]) -> Typed:
    """Rows that have these cells, and others of each column's pool."""
    cells = {one.name: [row.get(one.name, pool(one)[1]) for row in rows] for one in columns}
    return Typed(cells, {}, len(rows))


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("STRUCT<a: INT>", "named_struct('a', 1)"),
        ("ARRAY<STRUCT<a: INT>>", "array(named_struct('a', 1))"),
        ("MAP<STRING, INT>", "map('a', 1)"),
    ],
)
def test_a_column_with_members_that_somebody_has_added_is_left_to_delta(
    spark: Any, tmp_path: Path, type: str, value: str
) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    base = typed_frame(spark, rows_of(columns, {"id": 1}, {"id": 2}), columns)
    replace_frame(spark, lake, "t", base, create=True)
    spark.sql(f"ALTER TABLE {lake.ref('gold', 't')} ADD COLUMNS (h {type})").collect()
    spark.sql(f"UPDATE {lake.ref('gold', 't')} SET h = {value}").collect()
    row = rows_of(columns, {"id": 2})
    assert merge_here(spark, lake, "t", row, deleted=[False], columns=columns, keys=keys) is None


def test_dates_of_another_calendar_are_left_to_delta(spark: Any, tmp_path: Path) -> None:
    lake, rebase = Lake(str(tmp_path)), "spark.sql.parquet.datetimeRebaseModeInWrite"
    columns, keys = columns_of("id")
    day, before = dt.date(1, 1, 1), spark.conf.get(rebase)
    spark.conf.set(rebase, "LEGACY")
    try:
        base = typed_frame(spark, rows_of(columns, {"id": 1, "day": day}, {"id": 2}), columns)
        replace_frame(spark, lake, "t", base, create=True)
    finally:
        spark.conf.set(rebase, before)
    row = rows_of(columns, {"id": 2})
    assert merge_here(spark, lake, "t", row, deleted=[False], columns=columns, keys=keys) is None
    assert lake.read(spark, "gold", "t").where("id = 1").first().day == day


def test_spark_finds_nan_above_all_numbers(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    replace_frame(spark, lake, "t", typed_frame(spark, rows_of(columns, {"id": 1}), columns), create=True)
    rows = rows_of(columns, {"id": 2, "g": 1.5}, {"id": 3, "g": float("nan")})
    done = merge_here(spark, lake, "t", rows, deleted=[False, False], columns=columns, keys=keys)
    assert done is not None and done.written == 2
    assert [row.id for row in lake.read(spark, "gold", "t").where("g > 1.5").collect()] == [3]


def test_many_bytes_in_a_small_file_are_left_to_delta(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    rows = rows_of(columns, *({"id": number, "w": "x" * 1000} for number in range(5000)))
    replace_frame(spark, lake, "t", typed_frame(spark, rows, columns), create=True)
    monkeypatch.setattr(plain_merge, "_MOST", 1_000_000)
    assert sum(file.stat().st_size for file in (tmp_path / "gold/t").glob("*.parquet")) < 400_000
    row = rows_of(columns, {"id": 2})
    assert merge_here(spark, lake, "t", row, deleted=[False], columns=columns, keys=keys) is None


MARKS = "delta.enableDeletionVectors"


def marked_table(spark: Any, lake: Lake, name: str, typed: Typed, columns: list[GoldColumn]) -> None:
    """A table that marks the rows that it loses, as gold's large ones do."""
    replace_frame(spark, lake, name, typed_frame(spark, typed, columns), create=True)
    spark.sql(f"ALTER TABLE {lake.ref('gold', name)} SET TBLPROPERTIES ('{MARKS}' = 'true')").collect()


def last_commit(folder: Path) -> list[dict[str, Any]]:
    newest = max((folder / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


@pytest.mark.parametrize("key", KEYS)
def test_rows_that_are_marked_are_those_that_delta_marks(spark: Any, tmp_path: Path, key: str) -> None:
    chance, lake = random.Random(f"marks {key}"), Lake(str(tmp_path))
    columns, keys = columns_of(key)
    first, _ = batch(chance, columns, keys)
    first = first if not first.raw else Typed(first.columns, {}, 0)
    for name in ("theirs", "ours"):
        marked_table(spark, lake, name, first, columns)
    own = 0
    for number in range(8):
        typed, deleted = batch(chance, columns, keys)
        frame = typed_frame(spark, typed, columns, ["delete" if gone else "put" for gone in deleted])
        theirs = merge_frame(spark, lake, "theirs", frame, keys=keys, options=PLAIN, rows=9)
        ours = None
        if number != 4:  # one of Delta's among ours
            ours = merge_here(spark, lake, "ours", typed, deleted=deleted, columns=columns, keys=keys)
        own += ours is not None
        if ours is None:
            assert number == 4 or typed.raw or theirs.version in (9, 10, 11)
            ours = merge_frame(spark, lake, "ours", frame, keys=keys, options=PLAIN, rows=9)
        assert (ours.matched, ours.written) == (theirs.matched, theirs.written)
        assert shown(spark, lake, "ours") == shown(spark, lake, "theirs"), number
    assert own >= 4
    assert sorted(live_files(tmp_path / "gold/ours") or ()) == sorted(
        path.rpartition("/")[2] for path in lake.read(spark, "gold", "ours").inputFiles()
    )
    ref = lake.ref("gold", "ours")
    spark.sql(f"OPTIMIZE {ref}").collect()
    spark.sql(f"REORG TABLE {ref} APPLY (PURGE)").collect()
    spark.sql(f"VACUUM {ref}").collect()
    assert shown(spark, lake, "ours") == shown(spark, lake, "theirs")


@pytest.mark.parametrize("key", KEYS)
def test_rows_of_keys_are_found_as_by_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    chance, lake = random.Random(f"rows {key}"), Lake(str(tmp_path))
    columns, keys = columns_of(key)
    first, _ = batch(chance, columns, keys)
    marked_table(spark, lake, "t", Typed(first.columns, {}, first.count), columns)
    ref = lake.ref("gold", "t")
    for number in range(3):
        typed, deleted = batch(chance, columns, keys)
        frame = typed_frame(spark, typed, columns, ["delete" if gone else "put" for gone in deleted])
        if merge_here(spark, lake, "t", typed, deleted=deleted, columns=columns, keys=keys) is None:
            merge_frame(spark, lake, "t", frame, keys=keys, options=PLAIN, rows=9)
        if number == 1:
            spark.sql(f"ALTER TABLE {ref} ADD COLUMNS (late STRING)").collect()
            spark.sql(f"ALTER TABLE {ref} ALTER COLUMN small TYPE INT").collect()
    sql = CREATE.replace("small TINYINT", "small INT").replace("at DATETIME(6)", "at DATETIME(6), late TEXT")
    columns = gold_columns(TiCDC().ddl(1, sql.format(key)).lineage().steps[0].schema, virtual=False)
    keys = [one for key_ in keys for one in columns if one.name == key_.name]
    ids = tuple(one.column.id for one in keys)
    asked = {tuple(one.to_canonical(chance.choice(pool(one))) for one in keys) for _ in range(9)}
    late = next(one.column.id for one in columns if one.name == "late")
    for tag in ({}, {late: "x"}):
        found = []
        for most in (limits.GOLD_MERGE_BYTES, 0):
            with monkeypatch.context() as patch:
                patch.setattr(limits, "GOLD_MERGE_BYTES", most)
                if most:
                    patch.setattr(write_gold, "_of_keys", None)  # Spark does not look
                mode: Any = SimpleNamespace(ids=ids, tag=tag, word="upsert")
                version = version_of(spark, lake, "t")
                told = known_rows(spark, lake, "t", version, mode=mode, columns=columns, keys=asked)
                found.append((sorted(map(repr, told.rows)), told.exact))
        assert found[0] == found[1]
        assert bool(found[0][0]) is not bool(tag)


ROWS = "CREATE TABLE t (id INT, n DECIMAL(10,2), g DOUBLE, f FLOAT, w TEXT, day DATE, at DATETIME(6), x BLOB)"


def images(chance: random.Random, columns: list[GoldColumn], count: int) -> list[Row]:
    """Rows of few values, so that many are equal, some with a date that gold can't hold."""
    found = []
    for _ in range(count):
        cells = {one.column.id: chance.choice([None, *pool(one)[:2]]) for one in columns}
        row = {one.column.id: one.to_canonical(cells[one.column.id]) for one in columns}
        day = next(one.column.id for one in columns if one.name == "day")
        found.append(row | {day: chance.choice([row[day], row[day], "0000-00-00", "0000-01-00"])})
    return found


@pytest.mark.parametrize("marks", [True, False])
def test_rows_without_a_key_are_counted_and_merged_as_by_delta(
    spark: Any, tmp_path: Path, marks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, lake = random.Random(f"keyless {marks}"), Lake(str(tmp_path))
    columns = gold_columns(TiCDC().ddl(1, ROWS).lineage().steps[0].schema, virtual=False)
    rows = images(chance, columns, 1000)
    for name in ("theirs", "ours"):
        frame = typed_frame(spark, type_rows(rows, columns), columns).repartition(3)
        lake.overwrite(frame, "gold", name, {**PROPERTIES, MARKS: str(marks).lower()})
    own, met = 0, 0
    for number in range(8):
        taken = [*chance.sample(rows, 9), *images(chance, columns, 9)] if number % 4 else []
        gone = list({image_text(row): row for row in taken}.values())
        put = images(chance, columns, chance.randint(1, 5)) + gone[:2]
        with monkeypatch.context() as patch:
            version, counts = version_of(spark, lake, "ours"), []
            for most in (limits.GOLD_MERGE_BYTES, 0):
                patch.setattr(limits, "GOLD_MERGE_BYTES", most)
                counts.append(equal_rows(spark, lake, "ours", version, columns=columns, rows=gone))
        equal, spark_says = counts
        assert equal is not None and equal.hits is not None
        assert spark_says == Equal(equal.counts)
        typed, deleted = type_rows([*put, *gone], columns), [False] * len(put) + [True] * len(gone)
        frame = typed_frame(spark, typed, columns, ["delete" if one else "put" for one in deleted])
        theirs = merge_frame(spark, lake, "theirs", frame, keys=columns, options=PLAIN, rows=9, keyless=True)
        known = equal.hits if number % 2 else None
        ours = merge_here(
            spark,
            lake,
            "ours",
            typed,
            deleted=deleted,
            columns=columns,
            keys=columns,
            keyless=True,
            known=known,
        )
        own += ours is not None
        if ours is None:
            assert theirs.version in (9, 10, 11)
            ours = merge_frame(spark, lake, "ours", frame, keys=columns, options=PLAIN, rows=9, keyless=True)
        assert (ours.matched, ours.written) == (theirs.matched, theirs.written)
        assert ours.matched == sum(equal.counts)
        met += ours.matched or 0
        assert shown(spark, lake, "ours") == shown(spark, lake, "theirs"), number
    assert own >= 6 and met >= 40


def test_rows_in_many_files_are_marked_and_those_files_stay(spark: Any, tmp_path: Path) -> None:
    lake, chance = Lake(str(tmp_path)), random.Random(5)
    columns, keys = columns_of("id")
    rows = rows_of(columns, *({"id": number, "w": f"w{number}"} for number in range(3000)))
    for name in ("theirs", "ours"):
        frame = typed_frame(spark, rows, columns).repartitionByRange(4, "id").sortWithinPartitions("id")
        lake.overwrite(frame, "gold", name, {**PROPERTIES, MARKS: "true"})
    before = live_files(tmp_path / "gold/ours")
    assert before is not None and len(before) == 4
    for number in range(4):
        ids = chance.sample(range(1500 if number < 2 else 3500), 200)
        ids = list(range(900)) if number == 3 else ids  # all that the first file has
        typed = rows_of(columns, *({"id": one, "w": f"{number}"} for one in ids))
        deleted = [number == 3 or chance.random() < 0.3 for _ in ids]
        ours = merge_here(spark, lake, "ours", typed, deleted=deleted, columns=columns, keys=keys)
        frame = typed_frame(spark, typed, columns, ["delete" if gone else "put" for gone in deleted])
        theirs = merge_frame(spark, lake, "theirs", frame, keys=keys, options=PLAIN, rows=9)
        assert ours is not None and (ours.matched, ours.written) == (theirs.matched, theirs.written)
        assert shown(spark, lake, "ours") == shown(spark, lake, "theirs"), number
        told = json.loads((tmp_path / f"gold/ours/_delta_log/{ours.version:020d}.crc").read_text())
        files = live_files(tmp_path / "gold/ours") or {}
        gone = sum((file.get("deletionVector") or {}).get("cardinality", 0) for file in files.values())
        records = sum(json.loads(file["stats"])["numRecords"] for file in files.values())
        assert records - gone == lake.read(spark, "gold", "ours").count()
        assert (told["numFiles"], told["numDeletedRecordsOpt"]) == (len(files), gone)
        assert told["tableSizeBytes"] == sum(file["size"] for file in files.values())
        touched = {action["add"]["path"] for action in last_commit(tmp_path / "gold/ours") if "add" in action}
        if number < 2:  # rows of the lower half
            assert 0 < len(touched & before.keys()) < 4
    assert len(before.keys() & files.keys()) < 4


def test_where_delta_is_to_make_a_checkpoint_it_makes_one_of_no_rows(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    marked_table(spark, lake, "t", rows_of(columns, {"id": 1}), columns)
    for number in range(9):
        row = rows_of(columns, {"id": 1, "w": f"w{number}"})
        done = merge_here(spark, lake, "t", row, deleted=[False], columns=columns, keys=keys)
        assert done is not None and done.matched == 1
    told = spark.sql(f"DESCRIBE HISTORY {lake.ref('gold', 't')}").collect()
    operations = [row.operation for row in sorted(told, key=lambda row: row.version)]
    assert operations[1:] == ["SET TBLPROPERTIES", *["MERGE"] * 8, "SET TBLPROPERTIES", "MERGE"]
    assert {path.name for path in tmp_path.glob("gold/t/_delta_log/*checkpoint*")} >= {
        "00000000000000000010.checkpoint.parquet"
    }
    assert lake.read(spark, "gold", "t").first().w == "w8"


def test_a_vector_that_is_not_as_told_is_left_to_delta(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    marked_table(spark, lake, "t", rows_of(columns, {"id": 1}, {"id": 2}, {"id": 3}), columns)
    rows = rows_of(columns, {"id": 2})
    assert merge_here(spark, lake, "t", rows, deleted=[False], columns=columns, keys=keys) is not None
    (file,) = (tmp_path / "gold/t").glob("deletion_vector_*.bin")
    data = file.read_bytes()
    for broken in (data[:-6], data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]):
        file.write_bytes(broken)
        assert merge_here(spark, lake, "t", rows, deleted=[False], columns=columns, keys=keys) is None
    file.write_bytes(data)
    assert merge_here(spark, lake, "t", rows, deleted=[False], columns=columns, keys=keys) is not None
    assert lake.read(spark, "gold", "t").count() == 3


def test_what_breaks_off_behind_a_commit_leaves_the_table_its_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    marked_table(spark, lake, "t", rows_of(columns, {"id": 1}, {"id": 2}, {"id": 3}), columns)
    rows = rows_of(columns, {"id": 2, "w": "new"}, {"id": 4, "w": "new"})

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(append, "_checksum", interrupted)
        with pytest.raises(KeyboardInterrupt):
            merge_here(spark, lake, "t", rows, deleted=[False, False], columns=columns, keys=keys)
    assert [action for action in last_commit(tmp_path / "gold/t") if "add" in action]
    held = {row.id: row.w for row in lake.read(spark, "gold", "t").collect()}
    assert held.keys() == {1, 2, 3, 4} and held[2] == held[4] == "new"


def test_of_another_commit_in_between_nothing_is_done_and_no_file_is_left(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    marked_table(spark, lake, "t", rows_of(columns, {"id": 1}, {"id": 2}, {"id": 3}), columns)
    before, row = sorted(tmp_path.glob("gold/t/*.*")), rows_of(columns, {"id": 2})
    monkeypatch.setattr(append, "_put", lambda *_: False)
    assert merge_here(spark, lake, "t", row, deleted=[False], columns=columns, keys=keys) is None
    assert sorted(tmp_path.glob("gold/t/*.*")) == before


@pytest.mark.parametrize("marks", [True, False])
def test_no_rows_are_merged_as_delta_merges_them(spark: Any, tmp_path: Path, marks: bool) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    frame = typed_frame(spark, rows_of(columns, {"id": 1}), columns)
    lake.overwrite(frame, "gold", "t", {**PROPERTIES, MARKS: str(marks).lower()})
    none = Typed({one.name: [] for one in columns}, {}, 0)
    done = merge_here(spark, lake, "t", none, deleted=[], columns=columns, keys=keys)
    assert done is not None and (done.version, done.matched, done.written) == (0, 0, 0)


def test_no_rows_are_marked_where_the_yaml_says_so(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_gold, "ORDERED_ROWS", 2)
    lake, without = Lake(str(tmp_path)), GoldOptions(deletion_vectors=False)
    columns, keys = columns_of("id")
    marked_table(spark, lake, "t", rows_of(columns, {"id": 1}, {"id": 2}, {"id": 3}), columns)
    row = rows_of(columns, {"id": 2})
    assert (
        merge_here(spark, lake, "t", row, deleted=[False], columns=columns, keys=keys, options=without)
        is None
    )
    frame = typed_frame(spark, row, columns, ["put"])
    merge_frame(spark, lake, "t", frame, keys=keys, options=without, rows=3, here=True)
    files = (live_files(tmp_path / "gold/t") or {}).values()
    assert files and not any(file.get("deletionVector") for file in files)


def test_bounds_of_a_marked_file_stay_as_exact_as_delta_wrote_them(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns, keys = columns_of("id")
    low, high = Decimal("12345678901234567.8900000000"), Decimal("98765432109876543.2100000000")
    held = ({"id": 1, "deep": low}, {"id": 2, "deep": high}, {"id": 3, "deep": high})
    frame = typed_frame(spark, rows_of(columns, *held), columns).coalesce(1)
    lake.overwrite(frame, "gold", "t", {**PROPERTIES, MARKS: "true"})
    row = rows_of(columns, {"id": 2, "deep": None})
    assert merge_here(spark, lake, "t", row, deleted=[False], columns=columns, keys=keys) is not None
    gold = lake.read(spark, "gold", "t")
    assert [gold.where(f"deep = {value}BD").count() for value in (low, high)] == [1, 1]


def test_files_are_counted_by_lost_rows_in_the_bins_of_delta() -> None:
    # what DeletedRecordCountsHistogram of Delta 4.0 makes of the same numbers
    rows = (0, 1, 9, 10, 10**8 - 1, 10**8, 10**9 - 1, 2**31 - 2, 2**31 - 1)
    told = counts_of([{}, *({"deletionVector": {"cardinality": number}} for number in rows[1:])])
    assert told["deletedRecordCountsHistogramOpt"] == {"deletedRecordCounts": [1, 2, 1, 0, 0, 0, 0, 0, 4, 1]}
