"""What operators say of a source: epochs, retired partitions, dead letters, imported schemas, rebuilds. Each
is a record of the ops log (or a silver batch of its own), so that a rebuild from silver sees it too.
"""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import read
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.schema import TableSchema
from lakehouse.sources.kafka_offsets import told_loss
from lakehouse.spark.bronze.claim_checks import land_named
from lakehouse.spark.bronze.epochs import begin_epoch, bronze_ends
from lakehouse.spark.change_log.dead_letters import LOST, closing, is_open, open_losses
from lakehouse.spark.change_log.watermark import counting_partitions
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.requeue import decode_again, ranges_of
from lakehouse.spark.ops.gold_names import named, the_one
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.readers.show import Reader, parse_position
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.done_record import WHOLE_SOURCE
from lakehouse.spark.silver.run import read_silver
from lakehouse.spark.source import silver_feed_of


def opened(root: str, source: str) -> tuple[SparkSession, Lake, OpsLog, dict[str, Any]]:
    """A source's log and settings; LakehouseError where the lake has no such source."""
    spark, lake = get_session(), Lake(root)
    known = sources(spark, lake)
    if source not in known:
        raise LakehouseError(
            f"{source}: expected a source of {root}, which has {', '.join(sorted(known)) or 'none'}"
        )
    return spark, lake, OpsLog(spark, lake, source).load(), known[source]


def raise_epoch(root: str, source: str, why: str, restored_to: int | None) -> dict[str, Any]:
    """What bronze lands from now on belongs to a new epoch, above everything before it.

    With `restored_to` T the older changes above T are void; without it every table is incomplete until it is
    snapshotted.
    """
    spark, lake, log, _ = opened(root, source)
    floor = max((place[1] for place in floors_of(log).values()), default=None)
    if floor is not None and restored_to is not None and restored_to < floor:
        raise LakehouseError(
            f"--restored-to {restored_to}: expected a moment at or above silver's floor {floor}"
        )
    with layer_lock(spark, lake, source, ["silver"]):
        return {
            "source": source,
            **begin_epoch(log.load(), bronze_ends(spark, lake, source), why, restored_to),
        }


def retire_partition(root: str, source: str, topic: str, partition: int, why: str) -> dict[str, Any]:
    """The watermark no longer waits for a partition."""
    _, _, log, _ = opened(root, source)
    counting = counting_partitions(log.last("done") or {"marks": [], "next": []}, log)
    if (topic, partition) not in counting:
        known = ", ".join(f"{name}/{number}" for name, number in counting if number != WHOLE_SOURCE)
        raise LakehouseError(
            f"{topic}/{partition}: expected a partition that the watermark waits for, which are "
            f"{known or 'none'}"
        )
    log.add("retired", {"topic": topic, "partitions": [partition], "why": why})
    return {"source": source, "retired": f"{topic}/{partition}"}


def list_dead_letters(root: str, source: str | None, code: str | None) -> list[dict[str, Any]]:
    """Dead letters with their reason and the place of their bytes, losses of the topics among them; `open`:
    not dismissed or requeued.
    """
    spark, lake = get_session(), Lake(root)
    names = (
        [opened(root, source)[1:3]]
        if source
        else [(lake, OpsLog(spark, lake, name).load()) for name in sources(spark, lake)]
    )
    return [letter for _, log in names for letter in letters_of(spark, lake, log, code)]


def letters_of(spark: SparkSession, lake: Lake, log: OpsLog, code: str | None) -> list[dict[str, Any]]:
    """The dead letters of one source."""
    frame = read_silver(spark, lake, log.source, "dead_letters").withColumn("open", is_open(log))
    rows = (frame.where(F.col("code") == code) if code else frame).orderBy("batch", "origin").collect()
    found = [
        {
            "source": log.source,
            "code": row.code,
            "message": row.message,
            "table": row.table and f"{row.database}.{row.table}",
            "origin": {key: value for key, value in row.origin.asDict().items() if value is not None},
            "batch": row.batch,
            "open": row.open,
        }
        for row in rows
    ]
    lost = open_losses(log)
    for number, gap in enumerate(log.all("gap") if code in (None, LOST) else ()):
        origin = {
            name: gap[name] for name in ("topic", "incarnation", "partition", "first", "last") if name in gap
        }
        found.append(
            {
                "source": log.source,
                "code": LOST,
                "message": told_loss(gap),
                "table": None,
                "origin": origin,
                "batch": None,
                "open": number >= len(log.all("gap")) - len(lost),
            }
        )
    return found


def dismiss_dead_letters(root: str, source: str, code: str | None, why: str) -> dict[str, Any]:
    """They no longer keep a table from being exact. Their bytes and rows stay."""
    spark, lake, log, _ = opened(root, source)
    letters = [letter for letter in letters_of(spark, lake, log, code) if letter["open"]]
    if letters:
        batch = (log.last("done") or {"batch": 0})["batch"]
        log.add("dismissed", {**closing(code, batch, len(log.all("gap"))), "why": why})
    return {"source": source, "dismissed": len(letters)}


def requeue_dead_letters(root: str, source: str, code: str | None) -> dict[str, Any]:
    """Decode the messages of open dead letters again, as silver batches of their own; what fails again is a
    dead letter again.

    The batch that is done closes them, so that a crash before it leaves them open.
    """
    spark, lake, log, settings = opened(root, source)
    with layer_lock(spark, lake, source, ["silver"]):
        last, done = log.load().last("planned"), log.last("done")
        if last is None or done is None or done["batch"] < last["batch"]:
            raise LakehouseError(f"{source}: a silver batch is not done yet; `lakehouse run silver` first")
        letters = [
            letter
            for letter in letters_of(spark, lake, log, code)
            if letter["open"] and letter["code"] != LOST
        ]
        ranges = ranges_of(letter["origin"] for letter in letters)
        land_named(spark, lake, source, settings["format"], settings["options"], ranges)
        feed = silver_feed_of(source, settings)
        counts = decode_again(spark, lake, feed, log, ranges, code)
    return {"source": source, "requeued": len(letters), **counts}


def import_schema(root: str, source: str, text: str, at: str) -> list[dict[str, Any]]:
    """Supply CREATE TABLE statements as schema records at a position; gold folds those tables again at its
    next run.
    """
    _, _, log, _ = opened(root, source)
    manifest = log.last("manifest")
    if manifest is None:
        raise LakehouseError(f"{source}: gold has published nothing yet; `lakehouse run gold` first")
    position = parse_position(at, tuple(manifest["watermark"]))
    records = [_schema_record(statement, position) for statement in read(text)]
    known = log.all("imported")
    for record in records:
        if record not in known:
            log.add("imported", record)
    return [
        {"imported": f"{record['database']}.{record['table']}", "new": record not in known}
        for record in records
    ]


def _schema_record(statement: E.Statement, position: Any) -> dict[str, Any]:
    if not isinstance(statement, E.CreateTable) or statement.database is None:
        raise ConfigError("schema import: expected CREATE TABLE `db`.`table` statements only")
    schema = create(statement)
    key = [column.name for column_id in schema.primary_key if (column := schema.by_id(column_id)) is not None]
    return {
        "database": statement.database,
        "table": statement.table,
        "position": list(position),
        "columns": _columns(schema),
        "key": key,
    }


def _columns(schema: TableSchema) -> list[dict[str, Any]]:
    return [
        {
            "name": c.name,
            "type": str(c.type),
            "not_null": c.not_null,
            "default": c.default,
            "generated": c.generated,
        }
        for c in schema.columns
    ]


def schema_history(root: str, table: str) -> list[dict[str, Any]]:
    """A table's DDL in order, with what each statement did to rows."""
    spark, lake = get_session(), Lake(root)
    known, name = named(spark, lake, table)
    found = {}
    for source, settings in known.items():
        reader = Reader(spark, lake, source, settings)
        lineages = reader.history.lineages if reader.done else ()
        mine = [
            lineage
            for lineage in lineages
            if any(".".join(interval.name) == name for interval in lineage.intervals)
        ]
        if mine:
            found[source] = mine
    return [
        {
            "lineage": lineage.id,
            "position": list(step.position),
            "ddl": step.ddl,
            "effects": [repr(effect) for effect in step.effects],
            "columns": {column.name: str(column.type) for column in step.schema.columns},
        }
        for lineage in the_one(found, table, root)
        for step in lineage.steps
    ]
