"""The partitions that rows lie in: what was found is kept, and later runs group the rows of newer batches
alone.
"""

import random
from typing import Any

from pyspark.sql import DataFrame

from lakehouse.ops.progress import Counts
from lakehouse.ops.records.gold import Spreads, TableSpread
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Done
from lakehouse.spark.change_log.spread import spreading
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog

ROWS = (
    """database string, `table` string, key string, origin struct<topic:string,partition:int>, batch bigint"""
)
Row = tuple[str, str, str, tuple[str, int], int]


def row(table: str, key: int | None, partition: int, batch: int) -> Row:
    return "d", table, "[]" if key is None else f"[{key}]", ("t", partition), batch


def done(batch: int) -> Done:
    return Done(batch=batch, counts=Counts(), top=None, reach=None, next=(), marks=(), dead=(), tables=())


def log_of(spark: Any, *records: Record) -> OpsLog:
    log = OpsLog(spark, Lake("lake"), "shop")
    for record in records:
        log.records.append(log._logged(record, len(log.records) + 1))
    return log


def found(spark: Any, rows: DataFrame, batch: int, *kept: Record) -> tuple[TableSpread, ...]:
    return spreading(log_of(spark, *kept), done(batch), rows.where(f"batch <= {batch}")).found


def test_batch_by_batch_the_same_is_found_as_in_all_rows(spark: Any) -> None:
    drawn = random.Random(7)
    rows = [
        row(drawn.choice("abc"), drawn.choice([None, *range(12)]), drawn.randrange(2), batch)
        for batch in range(1, 5)
        for _ in range(10)
    ]
    rows += [row("one", key, 0, batch) for key in range(3) for batch in (1, 2, 4)]
    frame = spark.createDataFrame(rows, ROWS)
    kept: list[Record] = []
    for batch in range(1, 5):
        log = log_of(spark, *kept)
        now = spreading(log, done(batch), frame.where(f"batch <= {batch}"))
        assert now.found == expected(rows, batch)
        log.depth = 1  # nothing is appended
        now.record(log, done(batch))
        kept = list(log.all(Spreads))
    assert found(spark, frame, 4) == expected(rows, 4)


def expected(rows: list[Row], batch: int) -> tuple[TableSpread, ...]:
    places: dict[str, set[tuple[str, int]]] = {}
    keys: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for _, table, key, place, of in rows:
        if of <= batch:
            places.setdefault(table, set()).add(place)
            keys.setdefault((table, key), set()).add(place)
    return tuple(
        TableSpread(
            "d",
            table,
            tuple(sorted(places[table])),
            sum(len(where) > 1 for (one, key), where in keys.items() if one == table and key != "[]"),
        )
        for table in sorted(places)
    )


def test_older_rows_are_looked_at_for_new_keys_of_tables_in_several_partitions_alone(spark: Any) -> None:
    before = Spreads(
        batch=3,
        under=spreading(log_of(spark), done(0), spark.createDataFrame([], ROWS)).kept.under,
        tables=(TableSpread("d", "a", (("t", 0),), 0), TableSpread("d", "b", (("t", 0), ("t", 1)), 5)),
    )
    # what was looked at before is gone: nothing of it is asked for
    newer = spark.createDataFrame([row("a", 1, 0, 4), row("b", 7, 1, 4), row("b", 8, 1, 3)], ROWS)

    assert found(spark, newer, 4, before) == before.tables
    assert found(spark, newer.where("false"), 3, before) == before.tables

    moves = spark.createDataFrame([row("a", 1, 0, 3), row("a", 1, 1, 4), row("a", 2, 1, 4)], ROWS)
    assert found(spark, moves, 4, before) == (
        TableSpread("d", "a", (("t", 0), ("t", 1)), 1),
        before.tables[1],
    )


def test_thousands_of_tables_in_several_partitions_are_looked_at_together(spark: Any) -> None:
    """A condition for each of them, one behind the other, overflows the planner's stack."""
    count = 3_000
    rows = [row(f"t{number}", 1, partition, 1) for number in range(count) for partition in (0, 1)]

    spreads = found(spark, spark.createDataFrame(rows, ROWS), 1)

    assert [one.moved for one in spreads] == [1] * count
