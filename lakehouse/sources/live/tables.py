"""A server's tables, and how each is read: the columns as SQL expressions, the key by which it is cut into
chunks.
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakehouse.ddl import edits
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import read
from lakehouse.errors import DdlError, LakehouseError
from lakehouse.lineage import Name
from lakehouse.schema import Column, TableSchema
from lakehouse.sources.dumps.records import TRANSACTIONAL
from lakehouse.sources.server_sql import NO_PAD, Asks, literal, printed, table_name, text, word
from lakehouse.values.charsets import charset_codec

SYSTEM = ("information_schema", "metrics_schema", "mysql", "performance_schema", "sys")
# families whose values can be compared with a literal of the server's own text, in the order of the key
_NUMBERS = frozenset({"integer", "year", "decimal", "bit"})
_TIMES = frozenset({"date", "datetime", "timestamp", "time"})
# a key's values as a connection reads them
Key = Sequence[bytes | None]
_COUNTER = re.compile(r"\b(?:AUTO_INCREMENT|AUTO_RANDOM_BASE)=\d+ ?", re.I)
_IS_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?", re.A)


@dataclass(frozen=True, slots=True)
class Listed:
    """A table that the server has, its engine, and about how many rows and bytes."""

    name: Name
    engine: str
    rows: int
    size: int

    @property
    def is_transactional(self) -> bool:
        return self.engine.lower() in TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table as it is now. `state` is what of it must not change while it is read; `key` the columns whose
    order cuts it into chunks, empty where it is read in one; `charset` that of all text as it is sent, None:
    each column's own; `index` that of the key, where the server has to be told to read by it.
    """

    listed: Listed
    create: str
    state: str
    schema: TableSchema
    key: tuple[Column, ...]
    charset: str | None
    index: str | None = None

    @property
    def has_key(self) -> bool:
        """Whether rows can be told from each other."""
        return bool(self.schema.handle_key)

    def rows_after(self, after: Key | None, limit: int) -> str:
        """The statement that reads the rows behind a key's values, in key order; all rows where there is no
        key.
        """
        return self._select(self.schema.columns, self._range(after), f" LIMIT {limit}")

    def rows_between(self, after: Key | None, last: Key) -> str:
        """The statement that reads the rows behind a key's values, up to those of the last one."""
        return self._select(self.schema.columns, self._range(after, last))

    def rows_where(self, condition: str) -> str:
        """The statement that reads the rows of a condition, in any order."""
        return f"{self._all_rows(self.schema.columns)} WHERE {condition}"

    def key_after(self, after: Key | None, rows: int) -> str:
        """The statement that reads the key of the last of so many rows behind a key's values; none where
        there are fewer.
        """
        return self._select(self.key, self._range(after), f" LIMIT 1 OFFSET {rows - 1}")

    def _select(self, columns: Iterable[Column], where: str, limit: str = "") -> str:
        statement = self._all_rows(columns)
        if not self.key:
            return statement
        index = "" if self.index is None else f" FORCE INDEX ({word(self.index)})"
        order = ", ".join(word(column.name) for column in self.key)
        return f"{statement}{index}{where} ORDER BY {order}{limit}"

    def _all_rows(self, columns: Iterable[Column]) -> str:
        return f"SELECT {', '.join(map(_expression, columns))} FROM {table_name(self.listed.name)}"

    def _range(self, after: Key | None, last: Key | None = None) -> str:
        if after is not None and last is not None:
            return f" WHERE {self._inside(after, last)}"
        key, sign = (after, ">") if last is None else (last, "<=")
        return "" if key is None else f" WHERE {self._beside(key, sign)}"

    def key_of(self, row: Sequence[bytes | None]) -> list[bytes | None]:
        """The key's values in a row."""
        names = [column.name for column in self.schema.columns]
        return [row[names.index(column.name)] for column in self.key]

    def _beside(self, key: Key, sign: str) -> str:
        """`a >= 1 AND (a > 1 OR (a = 1 AND b > 2))`, which servers read as a range of the key; `sign`: > or
        <=.
        """
        names, values = [word(column.name) for column in self.key], self._literals(key)
        condition = _beyond(names, values, sign)
        return condition if len(names) == 1 else f"{names[0]} {sign[0]}= {values[0]} AND {condition}"

    def _inside(self, after: Key, last: Key) -> str:
        """The rows behind a key's values, up to those of another one, as one OR of ranges: of two conditions
        joined by AND, TiDB takes the first column's values alone for a range, and reads all rows of these.
        """
        names, low, high = [word(column.name) for column in self.key], *map(self._literals, (after, last))
        same = next((place for place, value in enumerate(low) if value != high[place]), 0)
        equal = [f"{name} = {value}" for name, value in zip(names[:same], low[:same], strict=True)]
        return " AND ".join([*equal, _within(names[same:], low[same:], high[same:])])

    def _literals(self, key: Key) -> list[str]:
        return [self._literal(column, cell) for column, cell in zip(self.key, key, strict=True)]

    def _literal(self, column: Column, cell: bytes | None) -> str:
        if cell is None:
            raise LakehouseError(f"{_dotted(self.listed.name)}: expected a key without NULL, got one")
        family = column.type.family
        if family == "bit":
            return str(int.from_bytes(cell, "big"))
        if family in _NUMBERS:
            if not _IS_NUMBER.fullmatch(cell):
                raise LakehouseError(f"{_dotted(self.listed.name)}: expected a number as key, got another")
            return cell.decode()
        if family == "binary":
            return f"x'{cell.hex()}'"
        charset = "utf8mb4" if family in _TIMES else self.charset or column.type.charset or "utf8mb4"
        return f"_{charset} x'{cell.hex()}'"


def _beyond(names: Sequence[str], values: Sequence[str], sign: str) -> str:
    """`(a > 1 OR (a = 1 AND b > 2))`: the keys on one side of another one; `sign`: > or <=."""
    condition = f"{names[-1]} {sign} {values[-1]}"
    for name, value in list(zip(names, values, strict=True))[-2::-1]:
        condition = f"({name} {sign[0]} {value} OR ({name} = {value} AND {condition}))"
    return condition


def _within(names: Sequence[str], low: Sequence[str], high: Sequence[str]) -> str:
    """The keys behind `low`, up to `high`. The first values may be other texts and equal to the server, as
    'a' and 'A' are.
    """
    name, least, most = names[0], low[0], high[0]
    if len(names) == 1:
        return f"{name} > {least} AND {name} <= {most}"
    behind, upto = _beyond(names[1:], low[1:], ">"), _beyond(names[1:], high[1:], "<=")
    parts = (
        f"{name} = {least} AND {name} < {most} AND {behind}",
        f"{name} > {least} AND {name} < {most}",
        f"{name} > {least} AND {name} = {most} AND {upto}",
        f"{name} = {least} AND {name} = {most} AND {behind} AND {upto}",
    )
    return f"({' OR '.join(f'({part})' for part in parts)})"


def listed(database: Asks) -> list[Listed]:
    """The tables of all databases but the server's own, by name."""
    system = ", ".join(f"'{name}'" for name in SYSTEM)
    rows = database.ask(
        "SELECT table_schema, table_name, engine, table_rows, data_length FROM information_schema.tables "
        f"WHERE table_type = 'BASE TABLE' AND LOWER(table_schema) NOT IN ({system}) ORDER BY 1, 2"
    )
    return [
        Listed((text(schema), text(table)), text(engine), int(count or 0), size=int(size or 0))
        for schema, table, engine, count, size in rows
    ]


def without_temporary(database: Asks, tables: Iterable[Listed]) -> list[Listed]:
    """The tables of a TiDB, without the global temporary ones, which it lists as if they were others. Their
    rows are a session's own.
    """
    return [table for table in tables if not _create_of(database, table).startswith("CREATE GLOBAL TEMP")]


def _create_of(database: Asks, table: Listed) -> str:
    return text(database.ask(f"SHOW CREATE TABLE {table_name(table.name)}")[0][1])


def chosen(tables: Iterable[Listed], patterns: Iterable[str]) -> list[Listed]:
    """The tables that names such as `shop.orders` or patterns such as `shop.*` choose. LakehouseError where
    one chooses none.
    """
    every, found = list(tables), dict[Name, Listed]()
    for pattern in patterns:
        mine = [table for table in every if fnmatch.fnmatchcase(_dotted(table.name), pattern)]
        if not mine:
            raise LakehouseError(
                f"{pattern}: expected a table of the database, got none of that name; is the account allowed "
                "to SELECT from it?"
            )
        found |= {table.name: table for table in mine}
    return sorted(found.values(), key=lambda table: table.name)


def described(database: Asks, table: Listed, *, tidb: bool) -> LiveTable:
    """A table as it is now. Text is sent in its column's own charset, at TiDB in utf8mb4."""
    create_text = _create_of(database, table)
    made = database.ask(
        "SELECT create_time FROM information_schema.tables "
        f"WHERE table_schema = {literal(table.name[0])} AND table_name = {literal(table.name[1])}"
    )
    try:
        statement = read(create_text)[0]
        if not isinstance(statement, edits.CreateTable):
            raise DdlError("expected CREATE TABLE with columns, got another statement")
        schema = create(statement)
    except DdlError as error:
        raise LakehouseError(f"{_dotted(table.name)}: {error}; leave it out with --tables") from error
    own = not tidb and all(
        charset_codec(column.type.charset) for column in schema.columns if column.type.family in _TEXTS
    )
    key = _chunk_key(schema, has_no_pad=NO_PAD in create_text.lower())
    return LiveTable(
        listed=table,
        create=create_text,
        state=_COUNTER.sub("", create_text) + text(made[0][0] if made else None),
        schema=schema,
        key=key,
        charset=None if own else "utf8mb4",
        index=_index_of(database, table.name, key) if tidb and key else None,
    )


def _index_of(database: Asks, name: Name, key: Sequence[Column]) -> str | None:
    """The index that has the whole values of the key's columns and no other column. TiDB would sort a table
    whose rows are stored apart from it for each chunk, rather than look them up.
    """
    found, unfit = dict[str, list[str]](), set[str]()
    for row in database.ask(f"SHOW INDEX FROM {table_name(name)}"):
        index, column, part, visible = (row[place] for place in (2, 4, 7, 13))
        found.setdefault(text(index), []).append(text(column).lower())
        if part is not None or text(visible) != "YES":
            unfit.add(text(index))
    wanted = [column.name.lower() for column in key]
    fit = (index for index, columns in found.items() if columns == wanted and index not in unfit)
    return min(fit, key=lambda index: index != "PRIMARY", default=None)


_TEXTS = frozenset({"text", "enum", "set", "json"})


def _chunk_key(schema: TableSchema, *, has_no_pad: bool) -> tuple[Column, ...]:
    """The columns of the key in its order; none where one of them has an order that no literal of its text
    has (ENUM, FLOAT and others), or is a TEXT or BLOB, by which each chunk would have to be sorted.
    `has_no_pad`: a column may be of one of MariaDB's NO PAD collations.
    """
    columns = {column.id: column for column in schema.columns}
    key = tuple(columns[number] for number in schema.handle_key)
    fits = all(
        one.type.family in _NUMBERS | _TIMES | {"text", "binary"}
        and not one.type.base.endswith(("text", "blob"))
        and not (has_no_pad and one.type.base == "char")
        for one in key
    )
    return key if fits else ()


def _expression(column: Column) -> str:
    """A FLOAT is printed with six digits; as a double it has all."""
    return printed(column.name, column.type.family)


def _dotted(name: Name) -> str:
    return ".".join(name)
