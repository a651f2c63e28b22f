"""What a batch holds, from one pass over its events, and the `done` record that it leaves: progress, bounds and books."""

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.transactions import Told, advance

# the partition of a watermark that speaks of all of the source
WHOLE_SOURCE = -1


@dataclass(slots=True)
class Summary:
    """What one batch holds, from one pass over its events."""

    counts: dict[str, int]
    tables: dict[tuple[str, str], dict[str, Any]]
    low: tuple[int, ...] | None
    high: tuple[int, ...] | None
    reach: tuple[int, ...] | None
    keyless: bool
    marks: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    dead: dict[tuple[str | None, str | None], int] = field(default_factory=dict)
    resume: dict[tuple[Any, ...], int] = field(default_factory=dict)
    told: Told | None = None
    settled: bool = False


def summarise(events: DataFrame) -> Summary:
    rows = (
        events.groupBy("kind", "database", "table")
        .agg(
            F.count("*").alias("n"), F.min("position").alias("low"), F.max("position").alias("high"), F.count("half").alias("halves"),
            F.first(F.when(F.size("key_names") > 0, F.col("key_names")), ignorenulls=True).alias("keys"),
            F.sum(F.coalesce(F.length("before"), F.lit(0)) + F.coalesce(F.length("after"), F.lit(0))).alias("bytes"),
            F.sum("messages").alias("messages"), F.sum("silent").alias("silent"),
        )
        .collect()
    )  # fmt: skip
    changes = [row for row in rows if row.kind == "change"]
    counts = {kind: sum(row.n for row in rows if row.kind == kind) for kind in ("change", "schema_change", "watermark", "dead_letter")}
    books = [row for row in rows if row.kind == "book"]
    tables = {
        (row.database, row.table): {"low": list(row.low), "high": list(row.high), "n": row.n, "bytes": row.bytes, "keys": row.keys}
        for row in changes
    }
    named = {"messages": sum(row.messages for row in books), "control": sum(row.silent for row in books), "decoded": counts["change"],
             "ddl": counts["schema_change"], "watermarks": counts["watermark"], "dead": counts["dead_letter"]}  # fmt: skip
    return Summary(
        counts=named,
        tables=tables,
        low=min((tuple(row.low) for row in changes), default=None),
        high=max((tuple(row.high) for row in changes), default=None),
        reach=max((tuple(row.high) for row in rows if row.kind in ("change", "schema_change")), default=None),
        keyless=any(row.halves for row in changes),
        marks=_marks(events) if counts["watermark"] else {},
        dead={(row.database, row.table): row.n for row in rows if row.kind == "dead_letter"},
        resume=_resumes(events) if any(row.kind == "resume" for row in rows) else {},
    )


def _marks(events: DataFrame) -> dict[tuple[str, int], tuple[int, ...]]:
    rows = events.where(F.col("kind") == "watermark").groupBy("topic", "partition").agg(F.max("position").alias("position")).collect()
    return {(row.topic, row.partition): tuple(row.position) for row in rows}


def _resumes(events: DataFrame) -> dict[tuple[Any, ...], int]:
    rows = events.where(F.col("kind") == "resume").select("topic", "incarnation", "partition", "offset").collect()
    return {(row.topic, row.incarnation, row.partition): row.offset for row in rows}


def transactions_told(events: DataFrame) -> Told:
    """What a batch of a Debezium feed tells of transactions and snapshots."""
    told = Told()
    ends = events.where(F.col("kind") == "transaction").orderBy("topic", "partition", "offset").select("key", "physical_table")
    told.ends = [(row.key, row.physical_table) for row in ends.collect()]
    flagged = events.where(F.col("kind") == "change").select("position", F.explode("flags").alias("flag"))
    for row in flagged.where("flag = 'snapshot=last'").select("position").distinct().collect():
        told.row(["snapshot=last"], tuple(row.position))
    parts = [F.regexp_extract("flag", "^tx=(.*);([0-9]+)$", group) for group in (1, 2)]
    numbered = flagged.where("flag like 'tx=%'").select("position", parts[0].alias("id"), parts[1].cast("bigint").alias("n"))
    grouped = numbered.groupBy("id").agg(F.collect_set("n").alias("numbers"), F.max("position").alias("position"))
    for row in grouped.toLocalIterator():
        told.rows[row.id] = (set(row.numbers), tuple(row.position))
    ddls = events.where((F.col("kind") == "schema_change") & (F.col("schema_kind") == "ddl")).select("position").distinct()
    told.ddls = {tuple(row.position) for row in ddls.collect()}
    return told


def done_record(
    plan: dict[str, Any], done: dict[str, Any] | None, summary: Summary, runs: dict[str, Any], counts: dict[str, int]
) -> dict[str, Any]:
    """The batch's last write: progress, what silver now holds of every table, and the books."""
    following = {(e["topic"], e["incarnation"], e["partition"]): e["offset"] for e in (done["next"] if done else [])}
    for entry in plan["ranges"]:
        place = (entry["topic"], entry["incarnation"], entry["partition"])
        following[place] = max(following.get(place, 0), entry["last"] + 1)  # a requeued batch reads what is long done
    tables = {tuple(entry["name"]): entry for entry in (done["tables"] if done else [])}
    for name, seen in summary.tables.items():
        old = tables.get(name)
        tables[name] = {
            "name": list(name),
            "low": min(old["low"], seen["low"]) if old else seen["low"],
            "high": max(old["high"], seen["high"]) if old else seen["high"],
            "n": seen["n"] + (old["n"] if old else 0),
            "bytes": seen["bytes"] + (old["bytes"] if old else 0),
            "keys": (old and old.get("keys")) or seen["keys"],
        }
    resume = {(e["topic"], e["incarnation"], e["partition"]): e["offset"] for e in (done or {}).get("resume", [])}
    for r in plan["ranges"]:
        resume.pop((r["topic"], r["incarnation"], r["partition"]), None)
    resume.update(summary.resume)
    marks = _highest_marks(done, summary)
    transactions = None
    if summary.told is not None:
        transactions = advance((done or {}).get("transactions"), summary.told, settled=summary.settled)
        if transactions["whole"]:
            marks = [{"topic": "", "partition": WHOLE_SOURCE, "position": transactions["whole"]}]
    return {
        "transactions": transactions,
        "batch": plan["batch"],
        "runs": runs,
        "resume": [{"topic": t, "incarnation": i, "partition": p, "offset": o} for (t, i, p), o in sorted(resume.items())],
        "bytes": sum(seen["bytes"] for seen in summary.tables.values()),
        "counts": counts, "top": _higher(done, "top", summary.high), "reach": _higher(done, "reach", summary.reach),
        "next": [{"topic": t, "incarnation": i, "partition": p, "offset": o} for (t, i, p), o in sorted(following.items())],
        "marks": marks, "dead": _dead_counts(done, summary), "tables": list(tables.values()),
    }  # fmt: skip


def _highest_marks(done: dict[str, Any] | None, summary: Summary) -> list[dict[str, Any]]:
    marks = {(entry["topic"], entry["partition"]): tuple(entry["position"]) for entry in (done["marks"] if done else [])}
    for place, position in summary.marks.items():
        marks[place] = max(marks.get(place, position), position)
    return [{"topic": topic, "partition": partition, "position": list(position)} for (topic, partition), position in sorted(marks.items())]


def _dead_counts(done: dict[str, Any] | None, summary: Summary) -> list[dict[str, Any]]:
    counts = {tuple(entry["name"]): entry["n"] for entry in (done["dead"] if done else [])}
    for name, number in summary.dead.items():
        counts[name] = counts.get(name, 0) + number
    return [{"name": list(name), "n": number} for name, number in counts.items()]


def _higher(done: dict[str, Any] | None, name: str, position: tuple[int, ...] | None) -> list[int] | None:
    known = [done[name]] if done and done[name] else []
    return max(known + ([list(position)] if position else []), default=None)
