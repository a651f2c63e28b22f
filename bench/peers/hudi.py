"""One run of Hudi: `python -m bench.peers.hudi load|rows …`, in the environment of its own Spark.

Upserts in foreachBatch into a table that is copied on write, with deletes marked in `_hoodie_is_deleted`, in
a session of the settings that ours has. Imports nothing of the project but what needs PySpark alone.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.peers.canal_rows import changes, each_batch, write_rows

# Spark 3.5 and Hudi have no TIMESTAMP_NTZ in common; the session's zone is UTC
KINDS = {"at": "timestamp"}
TABLE = {
    "hoodie.table.name": "t0",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "place",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}


def main(settings: str, verb: str, *words: str) -> None:
    spark = session(json.loads(settings))
    if verb == "rows":
        folder, target = map(Path, words)
        write_rows(spark.read.format("hudi").load(str(folder / "t0")), target)
    else:
        load(spark, *words)
    spark.stop()


def session(settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master("local[*]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def load(spark: SparkSession, bootstrap: str, topic: str, folder: str) -> None:
    table = f"{folder}/t0"

    def upsert(batch: DataFrame, _: int) -> None:
        rows = changes(batch, KINDS).withColumn("_hoodie_is_deleted", F.col("deleted")).drop("deleted")
        rows.write.format("hudi").options(**TABLE).mode("append").save(table)

    each_batch(spark, bootstrap, topic, Path(folder) / "checkpoint", upsert)


if __name__ == "__main__":
    main(*sys.argv[1:])
