"""Definitions in CREATE and ALTER TABLE: columns, indexes and partitioning, as plain values.

SQL texts (defaults, expressions, partition bounds) are as the statement wrote them.
"""

from dataclasses import dataclass

from lakehouse.schema import ColumnType


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """One column definition. `default` is SQL text, "NULL" too. `charset` is the one written, or the one its
    COLLATE names. `null`: NULL is written.
    """

    name: str
    type: ColumnType
    not_null: bool = False
    default: str | None = None
    generated: str | None = None
    expression: str | None = None
    comment: str | None = None
    charset: str | None = None
    primary_key: bool = False
    unique: bool = False
    auto_increment: bool = False
    null: bool = False


@dataclass(frozen=True, slots=True)
class IndexDef:
    """An index over columns; one with an expression among its parts never counts as unique, since it can't
    identify rows.
    """

    name: str | None
    columns: tuple[str, ...]
    unique: bool


@dataclass(frozen=True, slots=True)
class Partitioning:
    """PARTITION BY. RANGE and LIST over plain columns with literal bounds carry them, as
    lakehouse.schema.PartitionRule does.
    """

    method: str
    columns: tuple[str, ...] = ()
    partitions: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
