"""Schema files of the TiCDC storage sink: the DDL that made a table's version, and its columns.

    {"Table", "Schema", "TableVersion", "Query", "Type", "TableColumns": [{"ColumnName", "ColumnType", …}], …}

Numbers and booleans may be text; unknown members are tolerated. An empty Query is a snapshot of the schema,
no DDL to run. The file lists VIRTUAL generated columns, which no row carries, and does not mark them: the
statements of the table's history tell them (lakehouse.formats.ticdc.storage_history).
"""

import functools
from collections.abc import Container
from typing import Annotated, Any

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.schema import parse_type


def is_hidden(name: str) -> bool:
    """Whether TiDB gives this name to the hidden VIRTUAL column of an expression in an index."""
    return name.startswith("_V$_") and name.rpartition("_")[2].isdecimal()


class TableColumn(msgspec.Struct, rename="pascal"):
    """One column, as the file spells it."""

    column_name: str
    column_type: str
    column_precision: int | None = None
    column_scale: int | None = None
    column_nullable: bool = True
    column_is_pk: bool = False
    column_default: Any = None
    column_elems: list[str] | None = None


class TableDefinition(msgspec.Struct, rename="pascal"):
    """One schema file."""

    table: str = ""
    schema: str = ""
    table_version: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    query: str = ""
    table_columns: list[TableColumn] | None = None

    @property
    def columns(self) -> list[TableColumn]:
        return self.table_columns or []

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The primary key in table order, since the file does not have the order of the key."""
        return tuple(column.column_name for column in self.columns if column.column_is_pk)


_DECODER = msgspec.json.Decoder(TableDefinition, strict=False)


@functools.lru_cache(maxsize=1024)
def read_definition(data: bytes) -> TableDefinition:
    """The content of a schema file."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DecodeError(
            "schema",
            (
                "schema file: expected a JSON object with TableVersion, Query and TableColumns, got "
                "something else"
            ),
        ) from None


def type_text(column: TableColumn) -> str:
    """The column's type as SQL spells it: display widths left out (but tinyint(1)'s), members quoted where
    they were sent.
    """
    base, *words = column.column_type.lower().split() or [""]
    precision, scale = column.column_precision, column.column_scale
    unsigned = " unsigned" if "unsigned" in words and base not in ("bit", "year") else ""
    family = parse_type(base).family
    if column.column_elems:
        return (
            base
            + "("
            + ",".join(
                "'" + member.replace("\\", "\\\\").replace("'", "''") + "'" for member in column.column_elems
            )
            + ")"
        )
    if family in ("datetime", "timestamp", "time"):
        return f"{base}({scale})" if scale else base
    if family in ("float", "double") and scale is None:
        return base + unsigned
    if family in ("decimal", "float", "double") and precision is not None:
        return f"{base}({precision},{scale or 0}){unsigned}"
    sized = base in ("char", "varchar", "binary", "varbinary", "bit", "vector") or (base, precision) == (
        "tinyint",
        1,
    )
    return (f"{base}({precision})" if sized and precision is not None and precision >= 0 else base) + unsigned


def column_record(column: TableColumn, virtual: Container[str]) -> dict[str, Any]:
    """The column as a schema record of silver; a default is the value's text, as the file gives it. The names
    of those that are VIRTUAL are not in the file.
    """
    record: dict[str, Any] = {
        "name": column.column_name,
        "type": type_text(column),
        "not_null": not column.column_nullable,
    }
    if column.column_default is not None:
        record["default"] = column.column_default
    if column.column_name in virtual:
        record["generated"] = "virtual"
    return record
