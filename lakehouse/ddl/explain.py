"""The meaning of statements as JSON: `lakehouse ddl [FILE|-] --json`.

One object per statement, `{"kind": "alter_table", "table": "db.t", "edits": [{"edit": "add_column", …}]}`.
What has no effect on the data is `no_effect`, an index or charset clause too; what is refused is `{"kind":
"error", "error": …}`. A table is written `db.t`, so here, and only here, a name with a dot looks like two.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import chain
from typing import Any

from lakehouse.ddl import edits as e
from lakehouse.ddl.definitions import ColumnDef
from lakehouse.ddl.parse.splitting import split
from lakehouse.ddl.parse.statements import read, read_statement
from lakehouse.ddl.parse.tokens import tokenize
from lakehouse.errors import DdlError
from lakehouse.schema import ColumnType

Meaning = dict[str, Any]
_NOW = re.compile(r"(?i)(?:now|localtime|localtimestamp)\b")
_DELIMITER = re.compile(r"(?im)^[ \t]*delimiter[ \t]+(\S+)[ \t]*$")


def answers(lines: Iterable[str]) -> Iterator[Meaning]:
    """Answers to JSON lines `{"name"?, "sql", …}`, or to plain SQL text, statement by statement."""
    source = iter(lines)
    first = next((line for line in source if line.strip()), "")
    everything = chain([first], source)
    if first.lstrip().startswith("{"):
        yield from (_record(line) for line in everything if line.strip())
    else:
        yield from _text("".join(line if line.endswith("\n") else line + "\n" for line in everything))


def _record(line: str) -> Meaning:
    try:
        record = json.loads(line)
        sql = record["sql"]
    except (ValueError, KeyError, TypeError):
        sql, record = None, {}
    if not isinstance(sql, str):
        return {
            "sql": "",
            "expect": [_error(DdlError('expected a JSON object with "sql", got something else'))],
        }
    name = {"name": record["name"]} if "name" in record else {}
    try:
        return {**name, "sql": sql, "expect": [expect_form(statement) for statement in read(sql)]}
    except DdlError as error:
        return {**name, "sql": sql, "expect": [_error(error)]}


def _text(sql: str) -> Iterator[Meaning]:
    sql = _undelimited(sql)
    try:
        statements = list(split(tokenize(sql)))
    except DdlError as error:
        yield {"sql": sql, "expect": [_error(error)]}
        return
    for tokens in statements:
        written = sql[tokens[0].start : tokens[-1].end]
        try:
            yield {"sql": written, "expect": [expect_form(read_statement(sql, tokens))]}
        except DdlError as error:
            yield {"sql": written, "expect": [_error(error)]}


def _undelimited(sql: str) -> str:
    """The mysql client's DELIMITER lines left out; blocks are found by their BEGIN and END."""
    parts = _DELIMITER.split(sql)
    text = parts[0]
    for delimiter, part in zip(parts[1::2], parts[2::2], strict=True):
        text += part if set(delimiter) == {";"} else part.replace(delimiter, ";")
    return text


def _error(error: DdlError) -> Meaning:
    return {"kind": "error", "error": str(error)}


# --- statements


def expect_form(statement: e.Statement) -> Meaning:
    """A statement's meaning in the form of the test data, and its conditions under `if_exists` and
    `if_not_exists`.
    """
    match statement:
        case e.CreateTable():
            return _create(statement)
        case e.CreateTableLike():
            return _with(
                {"kind": "create_table_like", "table": _table(statement), "like": _name(statement.like)},
                if_not_exists=statement.if_not_exists,
                replace=statement.or_replace,
            )
        case e.AlterTable(index_statement=False):
            edits = [_edit(edit) for edit in statement.edits if not isinstance(edit, e.DropDuplicates)]
            return _with(
                {"kind": "alter_table", "table": _table(statement), "edits": edits},
                if_exists=statement.if_exists,
            )
        case e.RenameTable(pairs, condition):
            named = [[_name(old), _name(new)] for old, new in pairs]
            return _with({"kind": "rename_table", "pairs": named}, if_exists=condition)
        case e.DropTable(tables, condition):
            return _with(
                {"kind": "drop_table", "tables": [_name(table) for table in tables]}, if_exists=condition
            )
        case e.TruncateTable():
            return {"kind": "truncate_table", "table": _table(statement)}
        case e.DropDatabase(database, condition):
            return _with({"kind": "drop_database", "database": database}, if_exists=condition)
        case e.RecoverTable():
            return _with({"kind": "recover_table", "table": _table(statement)}, to=statement.to)
        case e.RecoverDatabase(database, to):
            return _with({"kind": "recover_database", "database": database}, to=to)
        case _:
            return {"kind": "no_effect"}


def _create(statement: e.CreateTable) -> Meaning:
    return _with(
        {
            "kind": "create_table",
            "table": _table(statement),
            "columns": [_column(column) for column in statement.columns],
            "primary_key": list(statement.primary_key),
        },
        if_not_exists=statement.if_not_exists,
        replace=statement.or_replace,
        as_select=statement.as_select,
    )


def _table(
    statement: e.CreateTable | e.CreateTableLike | e.AlterTable | e.TruncateTable | e.RecoverTable,
) -> str:
    return _name((statement.database, statement.table))


def _name(name: e.Name) -> str:
    return f"{name[0]}.{name[1]}" if name[0] else name[1]


def _with(meaning: Meaning, **members: object) -> Meaning:
    """Members that are false or absent are left out."""
    return meaning | {name: value for name, value in members.items() if value not in (None, False)}


# --- edits


def _edit(edit: e.Edit) -> Meaning:
    """The edit's word, and its members by their names."""
    if edit.word == "no_effect":
        return {"edit": edit.word}
    if isinstance(edit, e.ExchangePartition):
        return {"edit": edit.word, "partitions": [edit.partition]}
    members = {field.name: _member(field.name, getattr(edit, field.name)) for field in fields(edit)}
    return _with({"edit": edit.word}, **members)


def _member(name: str, value: Any) -> object:
    match value:
        case ColumnDef():
            return _column(value)
        case (_, _) if name == "to":
            return _name(value)
        case tuple():
            return list(value)
        case _:
            return _default(value) if name == "default" else value


def _column(column: ColumnDef) -> Meaning:
    return _with(
        {"name": column.name, "type": _type(column.type)},
        not_null=column.not_null,
        primary_key=column.primary_key,
        unique=column.unique,
        default=_default(column.default),
        generated=column.generated,
    )


def _type(column_type: ColumnType) -> str:
    """TiDB's parser, whose spelling the test data has, writes a YEAR without a width so, no charset of ENUM
    and SET, no length of TEXT and BLOB, which chooses among them, and utf8 for utf8mb3.
    """
    if column_type.charset == "utf8mb3":
        column_type = replace(column_type, charset="utf8")
    if column_type.base == "year" and column_type.length is None:
        return "year(-1)"
    if column_type.base in ("text", "blob"):
        return str(replace(column_type, length=None))
    if column_type.charset and column_type.family != "text":
        return str(column_type).removesuffix(f" character set {column_type.charset}")
    return str(column_type)


def _default(sql: str | None) -> str | None:
    return None if sql is None else _NOW.sub("CURRENT_TIMESTAMP", sql, count=1) if _NOW.match(sql) else sql
