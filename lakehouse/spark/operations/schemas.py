"""Operators' commands on schemas: import a CREATE TABLE at a position, print a table's schema history."""

from typing import Any

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.splitting import split
from lakehouse.ddl.parse.statements import read
from lakehouse.ddl.parse.tokens import tokenize
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.events import Position
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Imported, ImportedColumn
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.gold_names import named, the_one
from lakehouse.spark.ops.lake_record import opened
from lakehouse.spark.readers.positions import parse_position
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import get_session


def import_schema(root: str, source: str, text: str, at: str) -> list[dict[str, Any]]:
    """Supply CREATE TABLE statements as schema records at a position; gold folds those tables again at its
    next run.
    """
    log, _ = opened(root, source)
    manifest = log.last(Manifest)
    if manifest is None:
        raise LakehouseError(f"{source}: gold has published nothing yet; `lakehouse run gold` first")
    position = parse_position(log, at, manifest.watermark)
    texts = [text[tokens[0].start : tokens[-1].end] for tokens in split(tokenize(text))]
    records = [_schema_record(one, position) for one in texts]
    known = log.all(Imported)
    for record in records:
        if record not in known:
            log.add(record)
    return [
        {"imported": f"{record.database}.{record.table}", "new": record not in known} for record in records
    ]


def _schema_record(ddl: str, position: Position) -> Imported:
    (statement,) = read(ddl)
    if not isinstance(statement, E.CreateTable) or statement.database is None:
        raise ConfigError("schema import: expected CREATE TABLE `db`.`table` statements only")
    schema = create(statement)
    key = [column.name for column_id in schema.primary_key if (column := schema.by_id(column_id)) is not None]
    return Imported(
        database=statement.database,
        table=statement.table,
        position=position,
        columns=tuple(
            ImportedColumn(one.name, str(one.type), one.not_null, one.default, generated=one.generated)
            for one in schema.columns
        ),
        key=tuple(key),
        ddl=ddl,
    )


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
