"""Silver's tables: schemas, how a source's silver is read, and how it is decoded (`SilverSettings`)."""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.silver.read_as import Reading, read_as
from lakehouse.spark.column_types import columns
from lakehouse.spark.lake import Lake
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
