"""The `done` record that a batch leaves: progress, bounds and books; and what a Debezium batch tells of its
transactions.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.silver.batch_summary import Summary
from lakehouse.silver.binlog_servers import judged
from lakehouse.silver.transaction_watermark import Told, advance

# the partition of a watermark that speaks of all of the source
WHOLE_SOURCE = -1


def transactions_told(changes: DataFrame, others: DataFrame) -> Told:
    """What a batch of a Debezium feed tells of transactions and snapshots."""
    told = Told()
    ends = (
        others.where(F.col("kind") == "transaction")
        .orderBy("topic", "partition", "offset")
        .select("key", "physical_table")
    )
    told.ends = [(row.key, row.physical_table) for row in ends.collect()]
    flagged = changes.select("position", F.explode("flags").alias("flag"))
    marked = flagged.where("flag in ('snapshot=first', 'snapshot=first_in_data_collection', 'snapshot=last')")
    for row in marked.distinct().collect():
        told.row([row.flag], tuple(row.position))
    parts = [F.regexp_extract("flag", "^tx=(.*);([0-9]+)$", group) for group in (1, 2)]
    numbered = flagged.where("flag like 'tx=%'").select(
        "position", parts[0].alias("id"), parts[1].cast("bigint").alias("n")
    )
    without_change = others.where("kind = 'transaction_row'").selectExpr(
        "position", "key as id", "physical_table as n"
    )
    seen = numbered.unionByName(without_change).groupBy("id")
    grouped = seen.agg(
        F.collect_set("n").alias("numbers"), F.max("position").alias("position"), F.count("*").alias("rows")
    )
    for row in grouped.toLocalIterator():
        if row.id is None:
            told.lost = row.rows
        else:
            told.rows[row.id] = (set(row.numbers), tuple(row.position))
    ddls = (
        others.where((F.col("kind") == "schema_change") & (F.col("schema_kind") == "ddl"))
        .select("position")
        .distinct()
    )
    told.ddls = {tuple(row.position) for row in ddls.collect()}
    return told


def done_record(
    plan: dict[str, Any],
    done: dict[str, Any] | None,
    summary: Summary,
    runs: dict[str, Any],
    counts: dict[str, int],
) -> dict[str, Any]:
    """The batch's last write: progress, what silver now holds of every table, and the books."""
    following = {
        (e["topic"], e["incarnation"], e["partition"]): e["offset"] for e in (done["next"] if done else [])
    }
    for entry in plan["ranges"]:
        place = (entry["topic"], entry["incarnation"], entry["partition"])
        following[place] = max(
            following.get(place, 0), entry["last"] + 1
        )  # a requeued batch reads what is long done
    resume = {
        (e["topic"], e["incarnation"], e["partition"]): e["offset"] for e in (done or {}).get("resume", [])
    }
    for r in plan["ranges"]:
        resume.pop((r["topic"], r["incarnation"], r["partition"]), None)
    resume.update(summary.resume)
    marks = _highest_marks(done, summary)
    transactions = None
    if summary.told is not None:
        known = (done or {}).get("transactions")
        transactions = advance(known, summary.told, settled=summary.settled, again=bool(plan.get("again")))
        if transactions["whole"]:
            marks = [{"topic": "", "partition": WHOLE_SOURCE, "position": transactions["whole"]}]
    return {
        "transactions": transactions,
        "batch": plan["batch"],
        "runs": runs,
        "resume": [
            {"topic": t, "incarnation": i, "partition": p, "offset": o}
            for (t, i, p), o in sorted(resume.items())
        ],
        "bytes": sum(seen["bytes"] for seen in summary.tables.values()),
        "counts": counts,
        "top": _higher(done, "top", summary.high),
        "reach": _higher(done, "reach", summary.reach),
        "next": [
            {"topic": t, "incarnation": i, "partition": p, "offset": o}
            for (t, i, p), o in sorted(following.items())
        ],
        "marks": marks,
        "dead": _dead_counts(done, summary),
        "tables": _tables(done, summary),
        "servers": judged((done or {}).get("servers"), summary.servers),
    }


def _tables(done: dict[str, Any] | None, summary: Summary) -> list[dict[str, Any]]:
    """What silver holds of every table after the batch."""
    tables = {tuple(entry["name"]): entry for entry in (done["tables"] if done else [])}
    for name, seen in summary.tables.items():
        old = tables.get(name)
        tables[name] = {
            "name": list(name),
            "low": min(old["low"], list(seen["low"])) if old else list(seen["low"]),
            "high": max(old["high"], list(seen["high"])) if old else list(seen["high"]),
            "n": seen["n"] + (old["n"] if old else 0),
            "bytes": seen["bytes"] + (old["bytes"] if old else 0),
            "keys": (old and old.get("keys")) or seen["keys"],
        }
    return list(tables.values())


def _highest_marks(done: dict[str, Any] | None, summary: Summary) -> list[dict[str, Any]]:
    marks = {
        (entry["topic"], entry["partition"]): tuple(entry["position"])
        for entry in (done["marks"] if done else [])
    }
    for place, (position, _, _) in summary.marks.items():
        marks[place] = max(marks.get(place, position), position)
    return [
        {"topic": topic, "partition": partition, "position": list(position)}
        for (topic, partition), position in sorted(marks.items())
    ]


def _dead_counts(done: dict[str, Any] | None, summary: Summary) -> list[dict[str, Any]]:
    counts = {tuple(entry["name"]): entry["n"] for entry in (done["dead"] if done else [])}
    for name, number in summary.dead.items():
        counts[name] = counts.get(name, 0) + number
    return [{"name": list(name), "n": number} for name, number in counts.items()]


def _higher(done: dict[str, Any] | None, name: str, position: tuple[int, ...] | None) -> list[int] | None:
    known = [done[name]] if done and done[name] else []
    return max(known + ([list(position)] if position else []), default=None)
