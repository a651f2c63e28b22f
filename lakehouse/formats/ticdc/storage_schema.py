"""What a schema file of the TiCDC storage sink says: the DDL that made a table's version, and its columns.

    {"Table", "Schema", "TableVersion", "Query", "Type", "TableColumns": [{"ColumnName", "ColumnType", …}], …}

Numbers and booleans may be text; unknown members are tolerated. An empty Query is a snapshot of the schema,
no DDL to run. The file lists VIRTUAL generated columns, which no row carries, and does not mark them:
`virtual_columns` reads them out of the statements of the table's history.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.schema import parse_type


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
        """In table order: the file does not tell the order of the key."""
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


def column_record(column: TableColumn) -> dict[str, Any]:
    """The column as a schema record of silver; a default is the value's text, as the file gives it."""
    record: dict[str, Any] = {
        "name": column.column_name,
        "type": type_text(column),
        "not_null": not column.column_nullable,
    }
    if column.column_default is not None:
        record["default"] = column.column_default
    return record


# VIRTUAL columns


Name = tuple[str, str]


class Version(NamedTuple):
    """One schema file of one table: the table's own name, and the content."""

    schema: str
    table: str
    definition: TableDefinition


def virtual_columns(history: Iterable[Version]) -> Iterator[frozenset[str]]:
    """Per version, in the order of TableVersion over all tables, the columns known to be VIRTUAL.

    A table that was there before the feed began has no CREATE in its history: what is VIRTUAL in it is not
    known here. Files of one TableVersion come of one statement, which may rename tables in a circle: each in
    the turn in which its new name is free.
    """
    tables: dict[Name, frozenset[str]] = {}
    for _, found in groupby(history, key=lambda version: version.definition.table_version or object()):
        group = list(found)
        pending = {number: _renamed_from(version) for number, version in enumerate(group)}
        told: dict[int, frozenset[str]] = {}
        while pending:
            turn = min(
                pending,
                key=lambda number: _rank(group[number], pending[number], set(pending.values()), tables),
            )
            told[turn] = _virtual(group[turn], pending.pop(turn), tables)
        yield from (told[number] for number in range(len(group)))


def _rank(
    version: Version, origin: Name | None, origins: set[Name | None], tables: Mapping[Name, Any]
) -> tuple[bool, ...]:
    """What speaks against a rename as the next one; `origins` are the old names of all that are left."""
    name = (version.schema, version.table)
    return () if origin is None else (name in tables, name in origins, origin not in tables)


def _virtual(version: Version, origin: Name | None, tables: dict[Name, frozenset[str]]) -> frozenset[str]:
    """The VIRTUAL columns behind one statement, which `tables` learns of. A file without columns is that of a
    table that goes.
    """
    schema, table, definition = version
    name, known = (schema, table), tables.pop(origin, None) if origin is not None else None
    if known is None:
        known = tables.get(_like(definition.query, schema) or name, frozenset())
    renamed = _renamed(definition.query)
    known = frozenset(renamed.get(column, column) for column in known)
    defined = _defined(definition.query)
    names = {column.column_name for column in definition.columns}
    virtual = frozenset(name for name in names if defined.get(name, name in known))
    if names or origin is not None:
        tables[name] = virtual if names else known
    else:
        tables.pop(name, None)
    return virtual


_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\"|/\*.*?\*/|\w+|\S", re.S)
_NAME = r"(?:`((?:[^`]|``)+)`\s*\.\s*)?`((?:[^`]|``)+)`"
_OF_A_PART = re.compile(r"RENAME\s+(?:COLUMN|INDEX|KEY)\s+`(?:[^`]|``)+`\s+TO\s+`(?:[^`]|``)+`", re.I)
_RENAME = re.compile(rf"{_NAME}\s+(?:TO|RENAME\s+(?:AS\s+|TO\s+)?)\s*{_NAME}", re.I)
_LIKE = re.compile(rf"TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}\s+LIKE\s+{_NAME}", re.I)
_RENAMED_COLUMN = re.compile(r"RENAME\s+COLUMN\s+`((?:[^`]|``)+)`\s+TO\s+`((?:[^`]|``)+)`", re.I)


def _renamed_from(version: Version) -> Name | None:
    """The old name of a table that the statement renames."""
    for old_schema, old, new_schema, new in _RENAME.findall(_OF_A_PART.sub("", version.definition.query)):
        if (_plain(new_schema) or version.schema, _plain(new)) == (version.schema, version.table):
            return (_plain(old_schema) or version.schema, _plain(old))
    return None


def _like(query: str, schema: str) -> Name | None:
    """The table that a new one is made LIKE."""
    found = _LIKE.search(query)
    return (_plain(found[3] or "") or schema, _plain(found[4])) if found else None


def _renamed(query: str) -> dict[str, str]:
    """Columns by their old names; two may exchange theirs."""
    return {_plain(old): _plain(new) for old, new in _RENAMED_COLUMN.findall(query)}


def _plain(name: str) -> str:
    return name.replace("``", "`")


def _defined(query: str) -> dict[str, bool]:
    """The columns that a restored statement defines, and whether each is VIRTUAL."""
    tokens = [token for token in _TOKEN.findall(query) if not token.startswith("/*")]
    defined: dict[str, bool] = {}
    for place in range(1, len(tokens) - 1):
        if (
            tokens[place][0] == "`"
            and _begins_type(tokens[place + 1 : place + 3])
            and tokens[place - 1].upper() not in ("TABLE", "EXISTS", ".")
        ):
            words = _outer_words(tokens, place + 1)
            defined[_plain(tokens[place][1:-1])] = "AS" in words and not words & {"STORED", "PERSISTENT"}
    return defined


def _begins_type(tokens: list[str]) -> bool:
    word = tokens[0].lower()
    if word in ("set", "enum"):
        return tokens[1:] == ["("]
    return word.isidentifier() and parse_type(word).family != "unknown"


def _outer_words(tokens: list[str], start: int) -> set[str]:
    """The words of one column definition that stand in no parentheses."""
    words, depth = set(), 0
    for token in tokens[start:]:
        depth += (token == "(") - (token == ")")
        if depth < 0 or (depth == 0 and token == ","):
            break
        if depth == 0:
            words.add(token.upper())
    return words
