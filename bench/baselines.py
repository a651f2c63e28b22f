"""What the layers are measured against: plain copies of their inputs, and the notebook that most people
write.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.generate import TOPIC, Field, table_names

VALUE = "u map<string, struct<v: string>>, d map<string, struct<v: string>>"


def topic_stream(spark: SparkSession, bootstrap: str) -> DataFrame:
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
    )
    return reader.option("startingOffsets", "earliest").option("includeHeaders", "true").load()


def copy_topic(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    """The floor of bronze: the topic in one Delta table, bytes unchanged."""
    writer = (
        topic_stream(spark, bootstrap)
        .writeStream.format("delta")
        .option("checkpointLocation", str(folder / "_checkpoint"))
    )
    writer.trigger(availableNow=True).start(str(folder / "copy")).awaitTermination()


def copy_table(spark: SparkSession, source: Path, target: Path) -> None:
    """The floor of silver and gold: the layer's input in another Delta table."""
    spark.read.format("delta").load(str(source)).write.format("delta").save(str(target))


def notebook(spark: SparkSession, bootstrap: str, folder: Path, tables: int, fields: Sequence[Field]) -> None:
    """from_json in foreachBatch, row_number to keep each key's last change, one MERGE per table. It sees no
    DDL, keeps no log and waits for no watermark.
    """
    create_tables(spark, folder, tables, fields)
    merge_new(spark, bootstrap, folder, fields, table_names(tables))


def create_tables(spark: SparkSession, folder: Path, tables: int, fields: Sequence[Field]) -> None:
    columns = ", ".join(f"`{field.name}` {field.spark}" for field in fields)
    for name in table_names(tables):
        spark.sql(
            f"CREATE TABLE delta.`{folder / name}` ({columns}) USING delta TBLPROPERTIES "
            "('delta.feature.timestampNtz' = 'supported')"
        )


def merge_new(
    spark: SparkSession,
    bootstrap: str,
    folder: Path,
    fields: Sequence[Field],
    names: Sequence[str] | None = None,
) -> None:
    """What is new in the topic, merged into the tables of these names; by default into those that have
    changes.
    """

    def merge_batch(batch: DataFrame, _: int) -> None:
        rows = last_changes(batch, fields[0].name).persist()
        changed = names or [row.tbl for row in rows.select("tbl").distinct().collect()]
        for name in changed:
            merge_table(rows.where(F.col("tbl") == name), folder / name, fields)
        rows.unpersist()

    writer = (
        topic_stream(spark, bootstrap)
        .writeStream.foreachBatch(merge_batch)
        .option("checkpointLocation", str(folder / "_checkpoint"))
    )
    writer.trigger(availableNow=True).start().awaitTermination()


def last_changes(batch: DataFrame, key: str) -> DataFrame:
    """The last change of each key in a batch; the frames' lengths are skipped as bytes, one event a
    message.
    """
    head = F.from_json(F.expr("cast(substring(key, 17) as string)"), "ts bigint, tbl string, t int")
    body = F.from_json(F.expr("cast(substring(value, 9) as string)"), VALUE)
    rows = batch.select(head.alias("head"), body.alias("body")).where("head.t = 1")
    images = rows.select(
        "head.tbl",
        "head.ts",
        F.coalesce("body.u", "body.d").alias("image"),
        F.col("body.u").isNull().alias("deleted"),
    )
    window = Window.partitionBy("tbl", F.col("image")[key]["v"]).orderBy(F.desc("ts"), "deleted")
    return images.withColumn("rank", F.row_number().over(window)).where("rank = 1")


def merge_table(rows: DataFrame, path: Path, fields: Sequence[Field]) -> None:
    columns = [F.col("image")[field.name]["v"].cast(field.spark).alias(field.name) for field in fields]
    names = [f"`{field.name}`" for field in fields]
    rows.sparkSession.sql(
        f"MERGE INTO delta.`{path}` t USING {{source}} s ON t.{names[0]} = s.{names[0]} WHEN MATCHED AND "
        "s.deleted THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)}"
        f" WHEN NOT MATCHED AND NOT s.deleted THEN INSERT ({', '.join(names)}) VALUES "
        f"({', '.join(f's.{name}' for name in names)})",
        source=rows.select(*columns, "deleted"),
    )
