"""The two sides of a comparison as frames: sums of buckets, and rows as digests. Workers read the server,
range by range, and gold; the driver sees sums alone.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import DecodeError, LakehouseError
from lakehouse.gold.columns import GoldColumn
from lakehouse.gold.own_columns import CURRENT, DELETED
from lakehouse.sources.database import SESSION, DatabaseSettings, connect
from lakehouse.spark.lake import quote
from lakehouse.verification.cells import Cell
from lakehouse.verification.rows import CHECKSUMMED, READ, Comparison, Sums

Canonical = list[Any]
Batches = Iterator[pa.RecordBatch]
SUMS = "kind INT, bucket BIGINT, rows BIGINT, first STRING, second STRING"
ROWS = "bucket BIGINT, key STRING, cells ARRAY<STRING>"
_SUMS = pa.schema(
    [
        ("kind", pa.int32()),
        ("bucket", pa.int64()),
        ("rows", pa.int64()),
        ("first", pa.string()),
        ("second", pa.string()),
    ]
)
_ROWS = pa.schema([("bucket", pa.int64()), ("key", pa.string()), ("cells", pa.list_(pa.string()))])
_KEYS = pa.schema([("key", pa.string()), ("cells", pa.string())])
# rows that a worker gives at once
_BATCH = 2000


class Access(NamedTuple):
    """How workers reach the server: the account, further statements of their sessions, and how many of them
    read at one time.
    """

    settings: DatabaseSettings
    session: tuple[str, ...] = ()
    parallel: int = 2

    @property
    def statements(self) -> tuple[str, ...]:
        return (*SESSION, *self.session)


# --- gold


def gold_frame(table: DataFrame, cells: Sequence[Cell], own: Sequence[GoldColumn]) -> DataFrame:
    """The live rows of a gold table: the cells c0… and their raw companions r0…"""
    marks = {column.column.id: column.name for column in own}
    if CURRENT in marks:
        table = table.where(F.col(quote(marks[CURRENT])))
    if DELETED in marks:
        table = table.where(~F.col(quote(marks[DELETED])))
    held = set(table.columns)
    nothing = F.lit(None).cast("string")
    chosen = [
        (F.col(quote(cell.gold.name)) if cell.gold.name in held else nothing).alias(f"c{place}")
        for place, cell in enumerate(cells)
    ]
    raws = [F.col(quote(cell.companion)) if cell.companion in held else nothing for cell in cells]
    return table.select(*chosen, *[raw.alias(f"r{place}") for place, raw in enumerate(raws)])


def gold_sums(frame: DataFrame, comparison: Comparison) -> DataFrame:
    """The sums of gold's buckets."""

    def sums(batches: Batches) -> Batches:
        yield _sums(comparison, _gold_rows(batches, comparison), read_only=False)

    return frame.mapInArrow(sums, SUMS)


def gold_rows(frame: DataFrame, comparison: Comparison, buckets: Sequence[int] | None) -> DataFrame:
    """Gold's rows of some buckets (None: of all) as digests."""

    def rows(batches: Batches) -> Batches:
        yield from _rows(comparison, _gold_rows(batches, comparison), buckets)

    return frame.mapInArrow(rows, ROWS)


def gold_keys(frame: DataFrame, comparison: Comparison, wanted: frozenset[str]) -> dict[str, list[Any]]:
    """The canonical values of the keys that gold has, of those with one of these hashes; the frame has the
    key's cells alone, as the comparison does.
    """

    def keys(batches: Batches) -> Batches:
        rows = ((comparison.key_of(row), row) for row in _gold_rows(batches, comparison))
        found = [(key, json.dumps(row)) for key, row in rows if key in wanted]
        columns = [pa.array([row[place] for row in found], pa.string()) for place in range(2)]
        yield pa.RecordBatch.from_arrays(columns, schema=_KEYS)

    rows = frame.mapInArrow(keys, "key STRING, cells STRING").collect()
    return {row.key: json.loads(row.cells) for row in rows}


def _gold_rows(batches: Batches, comparison: Comparison) -> Iterator[Canonical]:
    reads = [cell.from_gold() for cell in comparison.cells]
    for batch in batches:
        columns = [
            list(map(read, batch.column(place).to_pylist(), batch.column(len(reads) + place).to_pylist()))
            for place, read in enumerate(reads)
        ]
        yield from ([*row] for row in zip(*columns, strict=True))


# --- the server


def server_sums(
    spark: SparkSession, access: Access, comparison: Comparison, ranges: Iterable[str]
) -> DataFrame:
    """The sums of the server's buckets: by the server itself, and of the values that it has to be asked
    for.
    """

    def sums(batches: Batches) -> Batches:
        with connect(access.settings, access.statements) as server:
            for condition in _conditions(batches):
                found = server.ask(comparison.sums_sql(condition))
                yield _told_sums((int(cell or 0) for cell in row) for row in found)
                if comparison.read:
                    read = _server_rows(server.stream(comparison.read_sql(condition)), comparison)
                    yield _sums(comparison, read, read_only=True)

    return _by_range(spark, ranges, access.parallel).mapInArrow(sums, SUMS)


def server_rows(
    spark: SparkSession,
    access: Access,
    comparison: Comparison,
    ranges: Iterable[str],
    buckets: Sequence[int] | None,
) -> DataFrame:
    """The server's rows of some buckets (None: of all) as digests."""

    def rows(batches: Batches) -> Batches:
        with connect(access.settings, access.statements) as server:
            for condition in _conditions(batches):
                read = server.stream(comparison.rows_sql(condition, buckets))
                yield from _rows(comparison, _server_rows(read, comparison), buckets)

    return _by_range(spark, ranges, access.parallel).mapInArrow(rows, ROWS)


def _by_range(spark: SparkSession, ranges: Iterable[str], parallel: int) -> DataFrame:
    table = pa.table({"condition": pa.array(list(ranges), pa.string())})
    return spark.createDataFrame(table).repartition(parallel)


def _conditions(batches: Batches) -> Iterator[str]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _server_rows(
    streamed: Iterator[Sequence[Sequence[bytes | None]]], comparison: Comparison
) -> Iterator[Canonical]:
    reads = [cell.from_server() for cell in comparison.cells]
    for rows in streamed:
        for row in rows:
            yield [
                _read(read, value, comparison, place)
                for place, (read, value) in enumerate(zip(reads, row, strict=True))
            ]


def _read(
    read: Callable[[bytes | None], Any], value: bytes | None, comparison: Comparison, place: int
) -> Any:
    try:
        return read(value)
    except (ValueError, DecodeError):
        name = f"{comparison.database}.{comparison.table}, column {comparison.cells[place].name}"
        raise LakehouseError(
            f"{name}: expected a value of its type as the server prints it, got another"
        ) from None


# --- both


def _told_sums(rows: Iterable[Iterable[int]]) -> pa.RecordBatch:
    found = [list(row) for row in rows]
    return _sums_batch([(CHECKSUMMED, bucket, Sums(*sums)) for bucket, *sums in found])


def _sums(comparison: Comparison, rows: Iterable[Canonical], *, read_only: bool) -> pa.RecordBatch:
    told: dict[int, Sums] = defaultdict(Sums)
    read: dict[int, Sums] = defaultdict(Sums)
    for row in rows:
        bucket = comparison.bucket(row)
        if not comparison.has(bucket):
            continue
        if not read_only:
            told[bucket] = told[bucket].plus(comparison.checksum(row) if comparison.checksummed else "")
        if comparison.read:
            read[bucket] = read[bucket].plus(comparison.read_digest(row))
    return _sums_batch(
        [(CHECKSUMMED, bucket, sums) for bucket, sums in told.items()]
        + [(READ, bucket, sums) for bucket, sums in read.items()]
    )


def _sums_batch(rows: list[tuple[int, int, Sums]]) -> pa.RecordBatch:
    columns = (
        [kind for kind, _, _ in rows],
        [bucket for _, bucket, _ in rows],
        [sums.rows for _, _, sums in rows],
        [str(sums.first) for _, _, sums in rows],
        [str(sums.second) for _, _, sums in rows],
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _SUMS, strict=True)], schema=_SUMS
    )


def _rows(comparison: Comparison, rows: Iterable[Canonical], buckets: Sequence[int] | None) -> Batches:
    wanted = None if buckets is None else frozenset(buckets)
    found: list[tuple[int, str, list[str | None]]] = []
    for row in rows:
        bucket = comparison.bucket(row)
        if comparison.has(bucket) if wanted is None else bucket in wanted:
            found.append((bucket, comparison.key(row), comparison.shown(row)))
            if len(found) >= _BATCH:
                yield _rows_batch(found)
                found = []
    if found:
        yield _rows_batch(found)


def _rows_batch(rows: list[tuple[int, str, list[str | None]]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, _ROWS, strict=True)],
        schema=_ROWS,
    )


def differing_buckets(gold: DataFrame, source: DataFrame) -> list[int]:
    """The buckets whose sums are not the same on both sides."""

    def summed(frame: DataFrame, side: str) -> DataFrame:
        number = "decimal(38,0)"
        sums = [
            F.sum(F.col(name).cast(number)).alias(f"{side}_{name}") for name in ("rows", "first", "second")
        ]
        return frame.groupBy("kind", "bucket").agg(*sums)

    both = summed(gold, "gold").join(summed(source, "source"), ["kind", "bucket"], "full")
    same = F.lit(True)
    for name in ("rows", "first", "second"):
        same = same & F.col(f"gold_{name}").eqNullSafe(F.col(f"source_{name}"))
    return sorted(row.bucket for row in both.where(~same).select("bucket").distinct().collect())


def differing_rows(gold: DataFrame, source: DataFrame) -> DataFrame:
    """The keys whose rows are not the same on both sides: `bucket`, and all rows of a key as `gold` and
    `source`.
    """
    both = gold.withColumn("side", F.lit(0)).unionByName(source.withColumn("side", F.lit(1)))

    def of(side: int, name: str) -> Any:
        return F.sort_array(F.collect_list(F.when(F.col("side") == side, F.col("cells")))).alias(name)

    grouped = both.groupBy("key").agg(F.max("bucket").alias("bucket"), of(0, "gold"), of(1, "source"))
    return grouped.where(F.col("gold") != F.col("source"))
