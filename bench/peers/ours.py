"""One run of ours or of the notebook: `python -m bench.peers.ours ours|notebook load|rows …`, in a process of
its own.
"""

import sys
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.peers.canal_rows import COLUMNS, changes, each_batch, write_rows
from lakehouse.config.load import Config
from lakehouse.config.models import KafkaInput, SourceConfig
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.session import get_session, many_rows


def main(who: str, verb: str, *words: str) -> None:
    if verb == "rows":
        folder, target = map(Path, words)
        table = folder / "gold/bench__t0" if who == "ours" else folder / "t0"
        write_rows(get_session(app="bench").read.format("delta").load(str(table)), target)
    elif who == "ours":
        ours(*words)
    else:
        notebook(*words)


def ours(bootstrap: str, topic: str, folder: str) -> None:
    """All three layers, as `lakehouse run` has them."""
    kafka = KafkaInput(bootstrap_servers=bootstrap, topics=[topic])
    source = SourceConfig(format="canal", kafka=kafka, time_zone="UTC", tables="auto", consistency="eventual")
    config = Config(sources={"bench": source}, tables={}, documents={})
    print(run(config, LAYERS, True, (), folder, print))


def notebook(bootstrap: str, topic: str, folder: str) -> None:
    """from_json in foreachBatch, row_number to keep each key's last change, one MERGE."""
    spark = get_session(app="bench")
    with many_rows(spark):
        columns = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS)
        spark.sql(
            f"CREATE TABLE delta.`{folder}/t0` ({columns}) USING delta "
            "TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')"
        )

        def merge(batch: DataFrame, _: int) -> None:
            merge_last(spark, batch, f"{folder}/t0")

        each_batch(spark, bootstrap, topic, Path(folder) / "checkpoint", merge)
    spark.stop()


def merge_last(spark: SparkSession, batch: DataFrame, path: str) -> None:
    window = Window.partitionBy(COLUMNS[0][0]).orderBy(F.desc("place"))
    last = changes(batch).withColumn("rank", F.row_number().over(window)).where("rank = 1")
    values = {f"`{name}`": f"s.`{name}`" for name, _ in COLUMNS}
    merge = DeltaTable.forPath(spark, path).alias("t").merge(last.alias("s"), "t.id = s.id")
    merge.whenMatchedDelete("s.deleted").whenMatchedUpdate(set=values).whenNotMatchedInsert(
        "NOT s.deleted", values=values
    ).execute()


if __name__ == "__main__":
    main(*sys.argv[1:])
