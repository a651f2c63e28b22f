"""Silver's tables: schemas, how a source's silver is read and appended to, and how it is decoded
(`SilverSettings`).

A plan's append to a table happens once, however often a run of it dies: Delta skips a transaction whose
version is not above the last one of the same application id. The version is the plan's own number (`txn`), so
that the append of another plan for the same batch is not taken for it. The number is a moment, as two plans
that do not know of each other (a log that was put back from a copy, a fence that failed) would count to the
same number; and it exceeds that of the plan before it, whatever the clock says. So a plan that a newer one
has overtaken is skipped as well, as it may not be done any more. An id for each plan would do the same, but
Delta keeps every application id in each checkpoint of the table for ever; this is one id for each table of a
generation.

A plan of an older lakehouse has no number. What is left of it is appended under the id and version that its
first appends had: its generation, and its batch.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.silver.read_as import Reading, differences, read_as
from lakehouse.spark.column_types import columns
from lakehouse.spark.lake import Lake, Txn
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.plain.files import Added
from lakehouse.spark.silver.columns import POSITION

ORIGIN = "struct<topic:string,incarnation:string,partition:int,offset:bigint,index:int,path:string>"


CHANGES = f"""source string, database string, `table` string, key string, op string, commit_ts bigint,
position {POSITION},
  before string, after string, types string, encoding string, flags array<string>, key_names array<string>,
  row_id string,
  physical_table bigint, origin {ORIGIN}, batch bigint"""


SCHEMA_CHANGES = f"""source string, kind string, database string, `table` string, commit_ts bigint, position
{POSITION}, ddl string,
  columns string, primary_key array<string>, origin {ORIGIN}, batch bigint"""


WATERMARKS = (
    f"source string, topic string, incarnation string, partition int, position {POSITION}, "
    "resolved_ts bigint, batch bigint"
)


DEAD_LETTERS = (
    "source string, code string, message string, database string, `table` string, origin "
    f"{ORIGIN}, batch bigint"
)


# The lowest and highest values in each file are kept of what readers look for. Those of texts, images above
# all, cost a quarter of what writing a change costs; each number costs a little.
INDEXED = "database, `table`, commit_ts, position.epoch, position.p1, batch, origin.partition, origin.offset"
PROPERTIES = {"changes": {"delta.dataSkippingStatsColumns": INDEXED}}

SCHEMAS = {
    "changes": CHANGES,
    "schema_changes": SCHEMA_CHANGES,
    "watermarks": WATERMARKS,
    "dead_letters": DEAD_LETTERS,
}


@dataclass(frozen=True, slots=True)
class SilverSettings:
    """What silver needs to know of a source. `settled`: bronze has all there will be, nothing is on
    its way.
    """

    name: str
    format: str
    order: str
    options: dict[str, str] = field(default_factory=dict)
    row_ids: bool = False
    max_records: int = 1_000_000
    max_bytes: int = 256 * 1024 * 1024
    settled: bool = False

    @property
    def read_as(self) -> Reading:
        """What the source's events depend on besides its bytes."""
        return read_as(self.format, self.order, self.options, row_ids=self.row_ids)


def refuse_other_reading(log: OpsLog, reading: Reading) -> None:
    """LakehouseError where the last batch was decoded under other options: one table would have two readings
    of the same text. Silver without any change has nothing to mix.
    """
    last, done = log.last(Planned), log.last(Done)
    is_empty = last is None or (done is not None and done.batch == last.batch and not done.tables)
    changed = differences(last.read_as, reading) if last is not None and not is_empty else []
    if changed:
        raise LakehouseError(
            f"{log.source}: expected the decoder's options that silver was decoded with, got others "
            f"({'; '.join(changed)}); set them back, or decode everything again: "
            f"`lakehouse rebuild silver {log.source} --yes`"
        )


def next_txn(log: OpsLog) -> int:
    """The number of a new plan: the moment in microseconds, or the one above the last plan's."""
    last = log.last(Planned)
    return max(time.time_ns() // 1000, last.txn + 1 if last is not None else 0)


def transaction_of(source: str, plan: Planned, name: str) -> Txn:
    """The Delta transaction of a plan's append to one of silver's tables."""
    series = f"silver:{source}:{name}:{plan.generation}"
    return (f"{series}:plans", plan.txn) if plan.txn else (series, plan.batch)


def append_once(lake: Lake, frame: DataFrame, feed: SilverSettings, plan: Planned, *, name: str) -> None:
    """Append what a plan writes to one of silver's tables, unless a run of the same plan has done so."""
    properties = PROPERTIES.get(name, {})
    lake.append(frame, "silver", f"{feed.name}_{name}", transaction_of(feed.name, plan, name), **properties)


def append_files_once(log: OpsLog, added: Sequence[Added], feed: SilverSettings, plan: Planned) -> bool:
    """The same for changes that lie in files of the table's folder; False where nothing was done."""
    return log.lake.append_files(
        log.spark,
        "silver",
        f"{feed.name}_changes",
        added,
        schema=silver_schema("changes"),
        txn=transaction_of(feed.name, plan, "changes"),
        properties=PROPERTIES["changes"],
    )


def silver_schema(name: str) -> StructType:
    return columns(SCHEMAS[name])


def read_silver(spark: SparkSession, lake: Lake, source: str, name: str) -> DataFrame:
    """A silver table of a source, empty where it does not exist yet."""
    return lake.read_or_empty(spark, "silver", f"{source}_{name}", silver_schema(name))


def read_schema_changes(spark: SparkSession, lake: Lake, source: str) -> DataFrame:
    """A source's schema changes, which mostly are few."""
    return lake.read_small(spark, "silver", f"{source}_schema_changes", silver_schema("schema_changes"))


def count_by_table(rows: DataFrame) -> dict[tuple[str, str], int]:
    """The number of rows of each table."""
    counts = rows.groupBy("database", "table").count().collect()
    return {(row["database"], row["table"]): row["count"] for row in counts}
