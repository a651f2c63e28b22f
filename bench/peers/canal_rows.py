"""Canal's flat messages in plain PySpark, of version 3.5 and 4.0: what the notebook and Hudi's job have in
common.

Imports nothing of the project, since it runs in Hudi's environment too.
"""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

# name, type; the first is the key
COLUMNS = (
    ("id", "bigint"),
    ("customer", "string"),
    ("amount", "decimal(12,2)"),
    ("quantity", "int"),
    ("at", "timestamp_ntz"),
)
_ROW = ", ".join(f"{name}: string" for name, _ in COLUMNS)
_MESSAGE = f"type string, isDdl boolean, data array<struct<{_ROW}>>"


def each_batch(
    spark: SparkSession, bootstrap: str, topic: str, checkpoint: Path, work: Callable[[DataFrame, int], None]
) -> None:
    """All that the topic has, given to foreachBatch; ends at its end."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    stream = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writer = stream.writeStream.foreachBatch(work).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def changes(batch: DataFrame, kinds: dict[str, str] | None = None) -> DataFrame:
    """A row for each change: the table's columns, `deleted`, and `place`, which orders the changes of the one
    partition: `es` can't, for it runs backwards. `kinds` are other types of columns.
    """
    message = F.from_json(F.col("value").cast("string"), _MESSAGE)
    rows = batch.select(message.alias("m"), "offset").where("NOT m.isDdl")
    each = rows.select("offset", F.col("m.type").alias("type"), F.posexplode("m.data"))
    typed = [F.col(f"col.{name}").cast((kinds or {}).get(name, kind)).alias(name) for name, kind in COLUMNS]
    place = F.col("offset") * 10_000 + F.col("pos")  # Canal puts no more rows into a message
    return each.select(*typed, (F.col("type") == "DELETE").alias("deleted"), place.alias("place"))


def write_rows(rows: DataFrame, folder: Path) -> None:
    """The table's rows as lines of JSON, all values as text."""
    rows.select(*(F.col(name).cast("string").alias(name) for name, _ in COLUMNS)).write.json(str(folder))
