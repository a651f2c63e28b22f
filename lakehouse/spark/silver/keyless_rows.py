"""Numbers the halves of keyless rows (lakehouse/silver/identity.py) across the records of a partition, in
arrival order.
"""

from collections.abc import Callable

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import WRITTEN_AGAIN
from lakehouse.ops.progress import OpenRun, OpenRuns, run_place
from lakehouse.spark.session import kept
from lakehouse.spark.silver.columns import PLACE

_RUNS = msgspec.json.Decoder(dict[str, OpenRun])
OUT = (
    "topic string, incarnation string, partition int, offset bigint, index int, rank bigint, n "
    "bigint, again boolean, runs string"
)
_ARROW = pa.schema(  # the same in Arrow's words; a row without one of the columns has null there
    [
        ("topic", pa.string()),
        ("incarnation", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("index", pa.int32()),
        ("rank", pa.int64()),
        ("n", pa.int64()),
        ("again", pa.bool_()),
        ("runs", pa.string()),
    ]
)


def number_halves(
    changes: DataFrame, others: DataFrame, runs: OpenRuns, *, files: bool = False
) -> tuple[DataFrame, OpenRuns]:
    """The changes of a batch with `row_id` set on keyless halves, and the runs that are open at its end.

    `runs` are those that the batch before left open, by partition: a run goes on across batches. `files`:
    records are files.
    """
    table = F.concat_ws(
        "\x00", "database", "table", F.coalesce(F.col("physical_table").cast("string"), F.lit(""))
    )
    halves = changes.where("half is not null").select(
        *PLACE,
        "offset",
        "index",
        "commit_ts",
        "half",
        table.alias("name"),
        F.col("position.p2").alias("rank"),
    )
    resolved = others.where("kind = 'watermark'").select(*PLACE, "offset", "index", "resolved_ts")
    rows = halves.unionByName(resolved, allowMissingColumns=True)
    numbered = kept(rows.groupBy(*PLACE).applyInArrow(_number(runs, files), OUT))
    state = {
        run_place(row.topic, row.incarnation, row.partition): _RUNS.decode(row.runs)
        for row in numbered.where("runs is not null").collect()
    }
    numbers = numbered.where("runs is null").drop("runs")
    joined = (
        changes.withColumn("rank", F.col("position.p2"))
        .join(numbers, [*PLACE, "offset", "index", "rank"], "left")
        .drop("rank")
    )
    row_id = F.when(F.col("half").isNotNull(), F.concat_ws(":", "half", F.col("n").cast("string"))).otherwise(
        F.col("row_id")
    )
    flags = F.when(F.col("again"), F.array_append(F.coalesce("flags", F.array()), F.lit(WRITTEN_AGAIN)))
    flagged = joined.withColumn("flags", flags.otherwise(F.col("flags")))
    return flagged.withColumn("row_id", row_id).drop("n", "again"), {**runs, **state}


def _number(runs: OpenRuns, files: bool) -> Callable[[pa.Table], pa.Table]:
    def number(group: pa.Table) -> pa.Table:
        from lakehouse.silver.identity import RunCounter

        rows = sorted(group.to_pylist(), key=lambda row: (row["offset"], row["index"], row["rank"] or 0))
        place = {name: rows[0][name] for name in PLACE}
        counter = RunCounter(runs.get(run_place(**place)))
        out = []
        for row in rows:
            if row["half"] is None:
                counter.resolved(row["resolved_ts"])
                continue
            half, file = f"{row['rank']}:{row['half']}", row["offset"] if files else None
            n, again = counter.number(row["name"], row["commit_ts"], half, file)
            at = {name: row[name] for name in ("offset", "index", "rank")}
            out.append({**place, **at, "n": n, "again": again})
        out.append({**place, "runs": msgspec.json.encode(counter.runs).decode()})
        return pa.Table.from_pylist(out, schema=_ARROW)

    return number
