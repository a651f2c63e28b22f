"""What operators say of a source: epochs, retired partitions, dead letters, imported schemas, rebuilds. Each is a record of
the ops log (or a silver batch of its own), so that a rebuild from silver sees it too."""

import json
from collections import Counter
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply import create
from lakehouse.ddl.reader import read
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.run_lock import run_lock
from lakehouse.schema import TableSchema
from lakehouse.spark.gold import run_gold
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops_log import OpsLog
from lakehouse.spark.registry import sources
from lakehouse.spark.session import get_session
from lakehouse.spark.show import Reader, parse_position
from lakehouse.spark.silver import Feed, read_silver, run_batch, silver_schema
from lakehouse.spark.sources import feed_of

PLACE = ["topic", "incarnation", "partition"]


def opened(root: str, source: str) -> tuple[SparkSession, Lake, OpsLog, dict[str, Any]]:
    """A source's log and settings; LakehouseError where the lake has no such source."""
    spark, lake = get_session(), Lake(root)
    known = sources(spark, lake)
    if source not in known:
        raise LakehouseError(f"{source}: expected a source of {root}, which has {', '.join(sorted(known)) or 'none'}")
    return spark, lake, OpsLog(spark, lake, source).load(), known[source]


def raise_epoch(root: str, source: str, why: str, restored_to: int | None) -> dict[str, Any]:
    """What bronze lands from now on belongs to a new epoch, above everything before it.

    With `restored_to` T the older changes above T are void; without it every table is incomplete until it is snapshotted.
    """
    spark, lake, log, _ = opened(root, source)
    with run_lock(root, source, "silver"):
        ends = lake.read(spark, "bronze", source).groupBy(*PLACE).agg(F.max("offset").alias("last")).collect()
        number = max((record["epoch"] for record in log.all("epoch")), default=0) + 1
        places = [
            {"topic": row.topic, "incarnation": row.incarnation, "partition": row.partition, "offset": row["last"] + 1} for row in ends
        ]
        log.add("epoch", {"epoch": number, "from": places, "restored_to": restored_to, "why": why})
    return {"source": source, "epoch": number, "from": places, "restored_to": restored_to}


def retire_partition(root: str, source: str, topic: str, partition: int, why: str) -> dict[str, Any]:
    """The watermark no longer waits for a partition."""
    _, _, log, _ = opened(root, source)
    log.add("retired", {"topic": topic, "partitions": [partition], "why": why})
    return {"source": source, "retired": f"{topic}/{partition}"}


def list_dead_letters(root: str, source: str | None, code: str | None) -> list[dict[str, Any]]:
    """Dead letters with their reason and the place of their bytes."""
    spark, lake = get_session(), Lake(root)
    found = []
    for name in [source] if source else sources(spark, lake):
        frame = read_silver(spark, lake, name, "dead_letters")
        rows = (frame.where(F.col("code") == code) if code else frame).orderBy("batch").collect()
        found += [
            {"source": name, "code": row.code, "message": row.message, "table": row.table and f"{row.database}.{row.table}",
             "origin": {key: value for key, value in row.origin.asDict().items() if value is not None}, "batch": row.batch}
            for row in rows
        ]  # fmt: skip
    return found


def dismiss_dead_letters(root: str, source: str, code: str | None, why: str) -> dict[str, Any]:
    """They no longer keep a table from being exact. Their bytes and rows stay."""
    _, _, log, _ = opened(root, source)
    letters = list_dead_letters(root, source, code)
    counts = Counter(_name_of(letter) for letter in letters)
    earlier = {tuple(entry["name"]): entry["n"] for record in log.all("dismissed") for entry in record["dead"]}
    total = {name: max(number, earlier.get(name, 0)) for name, number in counts.items()}
    log.add("dismissed", {"dead": [{"name": list(name), "n": number} for name, number in total.items()], "code": code, "why": why})
    return {"source": source, "dismissed": len(letters)}


def _name_of(letter: dict[str, Any]) -> tuple[str | None, str | None]:
    return tuple(letter["table"].split(".", 1)) if letter["table"] else (None, None)


def requeue_dead_letters(root: str, source: str, code: str | None) -> dict[str, Any]:
    """Decode the messages of dead letters again, as a silver batch of their own; what fails again is a dead letter again."""
    spark, lake, log, settings = opened(root, source)
    letters = list_dead_letters(root, source, code)
    places = {(o["topic"], o.get("incarnation", ""), o["partition"], o["offset"]) for o in (letter["origin"] for letter in letters)}
    if not places:
        return {"source": source, "requeued": 0}
    with run_lock(root, source, "silver"):
        log.load()
        last = log.last("planned")
        done = log.last("done")
        if last is None or done is None or done["batch"] < last["batch"]:
            raise LakehouseError(f"{source}: a silver batch is not done yet; `lakehouse run silver` first")
        ranges = [{"topic": t, "incarnation": i, "partition": p, "first": o, "last": o} for t, i, p, o in sorted(places)]
        dismiss_dead_letters(root, source, code, "requeued")
        log.load()
        plan = {"batch": done["batch"] + 1, "generation": last["generation"], "small": True, "ranges": ranges, "requeue": True}
        log.add("planned", plan)
        feed = Feed(source, settings["format"], settings["order"], settings["options"])
        counts = run_batch(spark, lake, feed, log, plan)
    return {"source": source, "requeued": len(places), **counts}


def import_schema(root: str, source: str, text: str, at: str) -> list[dict[str, Any]]:
    """Supply CREATE TABLE statements as schema records at a position; gold folds those tables again at its next run."""
    spark, lake, log, _ = opened(root, source)
    manifest = log.last("manifest")
    if manifest is None:
        raise LakehouseError(f"{source}: gold has published nothing yet; `lakehouse run gold` first")
    position = parse_position(at, tuple(manifest["watermark"]))
    rows = [_schema_row(source, statement, position) for statement in read(text)]
    schema = silver_schema("schema_changes")
    table = pa.Table.from_pylist([{**row, "batch": 0} for row in rows], schema=to_arrow_schema(schema))
    lake.append(spark.createDataFrame(table, schema).coalesce(1), "silver", f"{source}_schema_changes")
    log.add("imported", {"tables": [f"{row['database']}.{row['table']}" for row in rows], "at": list(position)})
    return [{"imported": f"{row['database']}.{row['table']}"} for row in rows]


def _schema_row(source: str, statement: E.Statement, position: Any) -> dict[str, Any]:
    if not isinstance(statement, E.CreateTable) or statement.database is None:
        raise ConfigError("schema import: expected CREATE TABLE `db`.`table` statements only")
    schema = create(statement)
    names = ("epoch", "p1", "p2", "p3", "p4", "p5")
    return {
        "source": source, "kind": "schema", "database": statement.database, "table": statement.table, "commit_ts": position[1],
        "position": dict(zip(names, position, strict=True)), "ddl": None, "columns": json.dumps(_columns(schema)),
        "primary_key": [column.name for key in schema.primary_key if (column := schema.by_id(key)) is not None],
    }  # fmt: skip


def _columns(schema: TableSchema) -> list[dict[str, Any]]:
    return [
        {"name": c.name, "type": str(c.type), "not_null": c.not_null, "default": c.default, "generated": c.generated}
        for c in schema.columns
    ]


def schema_history(root: str, table: str) -> list[dict[str, Any]]:
    """A table's DDL in order, with what each statement did to rows."""
    spark, lake = get_session(), Lake(root)
    for source, settings in sources(spark, lake).items():
        history = Reader(spark, lake, source, settings).history
        mine = [lineage for lineage in history.lineages if any(".".join(i.name) == table for i in lineage.intervals)]
        if mine:
            return [
                {
                    "lineage": lineage.id,
                    "position": list(step.position),
                    "ddl": step.ddl,
                    "effects": [repr(effect) for effect in step.effects],
                    "columns": {column.name: str(column.type) for column in step.schema.columns},
                }
                for lineage in mine
                for step in lineage.steps
            ]
    raise LakehouseError(f"{table}: expected a table that a source of {root} has sent, found none")


def rebuild_table(root: str, table: str, at: str | None, yes: bool) -> dict[str, Any]:
    """Fold a table anew from silver, say how it differs from the live one, and with `yes` replace it in one commit."""
    spark, lake = get_session(), Lake(root)
    for source, settings in sources(spark, lake).items():
        reader = Reader(spark, lake, source, settings)
        name = next((name for name in reader.entries() if ".".join(name) == table), None)
        if name is None or reader.manifest is None:
            continue
        live = Counter(reader.live(name))
        rebuilt = Counter(next(lines for found, lines in reader.at(at or json.dumps(reader.manifest["watermark"])) if found == name))
        outcome = {
            "table": table,
            "only_live": (live - rebuilt).total(),
            "only_rebuilt": (rebuilt - live).total(),
            "equal": (live & rebuilt).total(),
        }
        if not yes or at is not None:
            return {**outcome, "replaced": False}
        feed = feed_of(source, settings, reader.manifest["consistency"])
        with run_lock(root, source, "gold"):
            run_gold(spark, lake, feed, reader.log, lambda _: None, again=frozenset([reader.entries()[name]["lineage"]]))
        return {**outcome, "replaced": True}
    raise LakehouseError(f"{table}: expected a gold table of {root}, found none; `lakehouse status` lists them")
