"""Schemas of CREATE TABLE statements that come beside a feed's own: with a snapshot's records, and from
operators.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from msgspec import UNSET

from lakehouse.ddl import edits as E
from lakehouse.ddl.apply.conditions import indexes_at
from lakehouse.ddl.apply.schema import create
from lakehouse.errors import DdlError
from lakehouse.ops.progress import plain
from lakehouse.ops.records.operators import Imported
from lakehouse.schema import Column, ColumnType, TableSchema, name_key
from lakehouse.schema_history.named_tables import statements_of
from lakehouse.schema_history.schema_records import Record, recorded_schema
from lakehouse.schema_history.table_lives import EMPTY

# what the server shows of a table
_SHOWN = re.compile(r"CREATE TABLE `(?:[^`]|``)*` \(\n")
_SECOND = 1000


def imported_records(imports: Iterable[Imported]) -> list[Record]:
    """The records of the schemas that operators have imported; of a table at one place the one said last."""
    latest = {(one.database, one.table, one.position): one for one in imports}
    return [
        Record(
            "schema",
            one.database,
            one.table,
            one.position,
            ddl=None,
            columns=plain(one.columns),
            primary_key=one.key or None,
            schema=None if one.ddl is UNSET else _created(one.ddl),
        )
        for one in latest.values()
    ]


def with_created_schema(record: Record) -> Record:
    """A snapshot's record with the schema of its CREATE TABLE. A message has columns and a key at most:
    Debezium's MySQL connector sends no columns before 1.5, no labels before 2.0, and never unique keys,
    partitions, generated columns, or whether a table keeps its history.
    """
    if record.kind != "snapshot" or not record.table:
        return record
    created = _created(record.ddl)
    if created is None:
        return record
    schema = created if not record.columns else _of_both(recorded_schema(record), created)
    return replace(record, schema=schema)


def _created(ddl: str | None) -> TableSchema | None:
    """The schema of a CREATE TABLE that has all columns, None for any other text."""
    try:
        statements = statements_of(ddl or "")
        schemas = [create(one) for one in statements if isinstance(one, E.CreateTable) and one.columns]
    except DdlError:
        return None
    return schemas[0] if schemas else None


def _of_both(told: TableSchema, created: TableSchema) -> TableSchema:
    """What a CREATE TABLE says, with the types of the message but for labels that it lacks. Where they have
    other columns, those of the message.
    """
    names = [name_key(column.name) for column in told.columns]
    alike = names == [name_key(column.name) for column in created.columns]
    pairs = [(column, created.column(column.name)) for column in told.columns]
    columns = tuple(
        replace((other if alike else None) or column, name=column.name, type=_labelled(column, other))
        for column, other in pairs
    )
    return replace(created if alike else told, columns=columns, versioned=created.versioned)


def _labelled(column: Column, created: Column | None) -> ColumnType:
    bare = column.type.family in ("enum", "set") and not column.type.members
    return created.type if bare and created is not None else column.type


def with_blocking_snapshots(records: Iterable[Record]) -> list[Record]:
    """The records, with those of a blocking snapshot (of a signal `execute-snapshot`, while a connector
    streams) as a snapshot's, which empty no table.

        a table that the connector has shown before    its record of then again, as it was
        any other one                                  CREATE TABLE, maybe with a DROP TABLE before it at the
                                                       same place, as if they were streamed

    The latter are told from statements by the server's own text and a time that is no whole second, as that
    of a binlog's is (but MySQL's with GTIDs, where such a CREATE makes the table by either way).
    """
    records = list(records)
    shown = {(one.position, one.database, one.table) for one in records if _is_shown(one)}
    return [
        replace(one, kind="snapshot")
        if one.kind == "ddl" and (one.position, one.database, one.table) in shown
        else one
        for one in records
    ]


def _is_shown(record: Record) -> bool:
    is_timed = bool(record.columns) and (record.commit_ts or 0) % _SECOND != 0
    return is_timed and record.kind == "ddl" and _SHOWN.match(record.ddl or "") is not None


def first_schema(told: E.CreateTable | E.CreateTableLike, charset: str | None, server: str) -> TableSchema:
    """The schema of a new table of a database with this charset, empty where the statement does not have all
    of it.
    """
    if isinstance(told, E.CreateTable) and told.columns and not told.as_select:
        return create(replace(told, charset=told.charset or charset, indexes=indexes_at(told, server)))
    return EMPTY
