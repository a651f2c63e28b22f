"""A small source database that does random things, says what it did, and knows its true state after every
commit.

    History(seed, steps) → events (as tests/support/encode_open.py takes them)
                           and states [(commit_ts, {(database, table): Snapshot})]

Steps come one after another from the seed, so a history of fewer steps is the beginning of the longer one:
hypothesis shrinks by dropping steps. The model knows rows by identities of its own, as TiDB knows them by
handle.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse import schema
from lakehouse.schema import TableSchema, make_schema, parse_type

Row = dict[str, str | None]
Event = dict[str, Any]
Name = tuple[str, str]
DATABASE = "d"
LABELS = ("x", "y", "z")
TYPES = (
    "int",
    "bigint unsigned",
    "varchar(20)",
    "decimal(8,2)",
    "datetime",
    "enum('x','y','z')",
    "text",
    "varbinary(8)",
    "timestamp",
)
MORE_TYPES = (
    *TYPES,
    "tinyint",
    "mediumint unsigned",
    "float",
    "double",
    "bit(12)",
    "date",
    "time(3)",
    "year",
    "set('x','y','z')",
    "json",
    "datetime(6)",
    "timestamp(3)",
    "blob",
    "char(5)",
    "decimal(38,10)",
)
KEY_TYPES = ("int", "varchar(20)", "bigint unsigned", "datetime")
VALUES = {
    "int": ("-1", "0", "1", "2", "7"),
    "bigint unsigned": ("0", "1", "9223372036854775808", "18446744073709551615"),
    "varchar(20)": ("", "a", "A", "b", "é", "1", "0"),
    "varchar(40)": ("", "a", "A", "long enough to be seen"),
    "decimal(8,2)": ("0.00", "1.50", "-7.25"),
    "decimal(10,4)": ("0.0000", "1.5000"),
    "datetime": ("2024-01-01 00:00:00", "1970-01-01 00:00:01", "9999-12-31 23:59:59"),
    "timestamp": ("2024-01-01 00:00:00", "2024-07-01 12:00:00"),
    "enum('x','y','z')": LABELS,
    "text": ("", "a", "longer"),
    "varbinary(8)": ("0x", "0x00ff", "0x61"),
    "bigint": ("-1", "0", "5000000000"),
    "tinyint": ("-128", "0", "127"),
    "mediumint unsigned": ("0", "16777215"),
    "float": ("0", "1.5", "-0.25", "16777216"),
    "double": ("0", "0.1", "-123456.789"),
    "bit(12)": ("0", "1", "4095"),
    "date": ("1970-01-01", "2024-02-29", "9999-12-31", "1000-01-01"),
    "time(3)": ("00:00:00.000", "-838:59:59.000", "12:34:56.789"),
    "year": ("1901", "2024", "2155"),
    "set('x','y','z')": ("", "x", "x,z", "x,y,z"),
    "json": ("null", "[]", '{"a": [1, "é"]}', "1.5"),
    "datetime(6)": ("2024-01-01 00:00:00.000001", "2024-01-01 00:00:00.500000"),
    "timestamp(3)": ("2024-01-01 00:00:00.000", "2024-07-01 12:00:00.125"),
    "blob": ("0x", "0x00", "0xfffe6100"),
    "char(5)": ("", "a", "日本"),
    "decimal(38,10)": ("0.0000000000", "-1.5000000000", "9999999999999999999999999999.9999999999"),
}
# what MODIFY COLUMN may make of a type, and what it makes of a value
WIDER = {
    "int": (("bigint", lambda text: text), ("varchar(20)", lambda text: text)),
    "varchar(20)": (("varchar(40)", lambda text: text), ("text", lambda text: text)),
    "decimal(8,2)": (("decimal(10,4)", lambda text: text + "00"), ("varchar(20)", lambda text: text)),
    "datetime": (("varchar(40)", lambda text: text),),
}
ZERO = {"int": "0", "bigint": "0", "bigint unsigned": "0", "decimal(8,2)": "0.00", "varchar(20)": ""}


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    not_null: bool = False

    def sql(self) -> str:
        return f"`{self.name}` {self.type}{' NOT NULL' if self.not_null else ''}"


@dataclass
class Table:
    """A live table: rows by the model's own identity."""

    columns: list[Column]
    key: tuple[str, ...]
    rows: dict[int, Row] = field(default_factory=dict)

    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def shape(self) -> TableSchema:
        """The schema, as far as a row's message tells it."""
        columns = [
            schema.Column(0, column.name, parse_type(column.type), column.not_null) for column in self.columns
        ]
        return make_schema(columns, self.key)

    def cells(self, row: Row) -> dict[str, Any]:
        return {column.name: cell(column.type, row[column.name]) for column in self.columns}


@dataclass(frozen=True)
class Snapshot:
    """A table's true state: columns in order, rows as cells."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]


def cell(type_: str, value: str | None) -> dict[str, Any]:
    if type_.startswith("enum") and value is not None:
        return {"type": type_, "value": value, "num": LABELS.index(value) + 1}
    if type_.startswith("set") and value is not None:
        return {
            "type": type_,
            "value": value,
            "num": sum(1 << LABELS.index(label) for label in value.split(",") if label),
        }
    return {"type": type_, "value": value}


class History:
    """What happened. `raw_updates` leaves key changes in one piece, as old releases and
    output-raw-change-event do; without `creates` the first tables were there, empty, before anybody listened.
    """

    def __init__(
        self,
        seed: int,
        steps: int,
        *,
        keyless: bool = True,
        raw_updates: bool = False,
        creates: bool = True,
        types: tuple[str, ...] = TYPES,
    ) -> None:
        self.random = random.Random(seed)
        self.keyless, self.raw_updates = keyless, raw_updates
        self.tables: dict[Name, Table] = {}
        self.events: list[Event] = []
        self.states: list[tuple[int, dict[Name, Snapshot]]] = [(0, {})]
        self.ts = 400000000000000000
        self.identity = 0
        self.types = types if creates else tuple(text for text in TYPES if not text.startswith("enum"))
        for _ in range(2):
            self._create()
        if not creates:
            self.events.clear()
            self.states = [(0, self.states[-1][1])]
        self.unheard = set() if creates else set(self.tables)  # nothing in the feed has told that they exist
        self.types = types
        for _ in range(steps):
            self._step()

    # --- steps ---

    def _step(self) -> None:
        if self.random.random() < 0.65 and self.tables:
            self._transaction()
        else:
            self._ddl()

    def _tick(self) -> int:
        self.ts += self.random.choice((1, 2, 262144))
        return self.ts

    def _done(self) -> None:
        """What is true after the commit at self.ts."""
        state = {
            name: Snapshot(tuple(table.names()), tuple(table.cells(row) for row in table.rows.values()))
            for name, table in self.tables.items()
        }
        for event in self.events[-4:]:
            name = (event["schema"], event["table"])
            if event["kind"] == "ddl" and event["commit_ts"] == self.ts and name in self.tables:
                event["shape"] = self.tables[name].shape()
        if self.states[-1][0] == self.ts:
            self.states.pop()
        self.states.append((self.ts, state))

    # --- rows ---

    def _transaction(self) -> None:
        self._tick()
        chosen = self.random.sample(
            sorted(self.tables), k=min(len(self.tables), self.random.choice((1, 1, 2)))
        )
        for name in chosen:
            table = self.tables[name]
            before = {identity: dict(row) for identity, row in table.rows.items()}
            for _ in range(self.random.choice((1, 2, 3, 5))):
                self._operate(table)
            changes = list(self._changes(name, table, before))
            self.events += changes
            self.unheard -= {name} if changes else set()
        self._done()

    def _operate(self, table: Table) -> None:
        what = self.random.choice(("insert", "insert", "update", "update", "delete", "move", "swap"))
        identities = sorted(table.rows)
        if what == "insert" or not identities:
            self._insert(table)
        elif what == "delete":
            del table.rows[self.random.choice(identities)]
        elif what == "swap" and table.key and len(identities) > 1:
            self._swap(table, *self.random.sample(identities, 2))
        else:
            self._update(table, self.random.choice(identities), move=what == "move")

    def _insert(self, table: Table) -> None:
        row = {column.name: self._value(column) for column in table.columns}
        if not table.key and table.rows and self.random.random() < 0.5:
            row = dict(self.random.choice(list(table.rows.values())))
        if self._free(table, row):
            self.identity += 1
            table.rows[self.identity] = row

    def _update(self, table: Table, identity: int, *, move: bool) -> None:
        old = table.rows[identity]
        changing = {
            name
            for name in table.names()
            if (name in table.key) == (move and bool(table.key)) and self.random.random() < 0.7
        }
        row = {
            column.name: self._value(column) if column.name in changing else old[column.name]
            for column in table.columns
        }
        if self._free(table, row, besides=identity):
            table.rows[identity] = row

    def _swap(self, table: Table, one: int, other: int) -> None:
        """Two rows exchange their keys."""
        a, b = table.rows[one], table.rows[other]
        table.rows[one] = {**a, **{name: b[name] for name in table.key}}
        table.rows[other] = {**b, **{name: a[name] for name in table.key}}

    def _value(self, column: Column) -> str | None:
        if not column.not_null and self.random.random() < 0.2:
            return None
        return self.random.choice(VALUES[column.type])

    def _free(self, table: Table, row: Row, besides: int | None = None) -> bool:
        if not table.key:
            return True
        key = _key(table, row)
        return all(_key(table, other) != key for identity, other in table.rows.items() if identity != besides)

    def _changes(self, name: Name, table: Table, before: dict[int, Row]) -> Iterator[Event]:
        """The net changes of one table in one transaction, as TiCDC sends them: split, deletes first, or in
        one piece.
        """
        deletes: list[Any] = []
        updates: list[Any] = []
        inserts: list[Any] = []
        for identity in sorted(before.keys() | table.rows.keys()):
            old, new = before.get(identity), table.rows.get(identity)
            if old == new:
                continue
            if old is None or new is None:
                (inserts if old is None else deletes).append((identity, old, new))
            elif self._in_one_piece(table, old, new):
                updates.append((identity, old, new))
            else:
                deletes.append((identity, old, None))
                inserts.append((identity, None, new))
        yield from (self._row(name, table, *change) for change in [*deletes, *updates, *inserts])

    def _in_one_piece(self, table: Table, old: Row, new: Row) -> bool:
        """An update whose key, or other unique key, changes is split, unless the changefeed was
        told not to.
        """
        if not table.key:
            return True
        return self.random.random() < 0.8 if _key(table, old) == _key(table, new) else self.raw_updates

    def _row(self, name: Name, table: Table, identity: int, old: Row | None, new: Row | None) -> Event:
        event: Event = {
            "kind": "row",
            "schema": name[0],
            "table": name[1],
            "commit_ts": self.ts,
            "row_id": identity,
            "shape": table.shape(),
        }
        if old is not None:
            event["before"] = table.cells(old)
        if new is not None:
            event["after"] = table.cells(new)
        return event

    # --- DDL ---

    def _ddl(self) -> None:
        kinds = (
            "create",
            "like",
            "add",
            "add",
            "drop column",
            "rename column",
            "exchange",
            "modify",
            "truncate",
            "rename",
            "swap",
            "drop",
        )
        keys = ("again", "index", "add key", "drop key", "several")
        kind = self.random.choice((*kinds, *keys))
        if kind == "create" or not self.tables:
            self._create()
            return
        name = self.random.choice(sorted(self.tables))
        actions = {
            "add": self._add,
            "drop column": self._drop_column,
            "rename column": self._rename_column,
            "modify": self._modify,
            "truncate": self._truncate,
            "rename": self._rename,
            "swap": self._swap_names,
            "drop": self._drop,
            "again": self._again,
            "index": self._index,
            "like": self._like,
            "exchange": self._exchange,
            "add key": self._add_key,
            "drop key": self._drop_key,
            "several": self._several,
        }
        actions[kind](name)

    def _at_ddl(self) -> None:
        """A DDL may share its commit_ts with the rows right before it: those belong to the schema before."""
        last = self.events[-1] if self.events else None
        if (
            last is None
            or last["kind"] != "row"
            or last["commit_ts"] != self.ts
            or self.random.random() < 0.8
        ):
            self._tick()

    def _record(self, name: Name, query: str) -> None:
        self.events.append(
            {"kind": "ddl", "schema": name[0], "table": name[1], "commit_ts": self.ts, "query": query}
        )

    def _free_name(self) -> Name:
        return (
            DATABASE,
            next(
                text
                for text in ("t", "u", "v", "w", "T2", "o d", "点")
                if (DATABASE, text) not in self.tables
            ),
        )

    def _create(self, name: Name | None = None) -> None:
        if len(self.tables) > 4:
            return
        self._at_ddl()
        name = name or self._free_name()
        count = 0 if self.keyless and self.random.random() < 0.3 else self.random.choice((1, 1, 2))
        key = tuple(f"k{number}" for number in range(count))
        columns = [Column(text, self.random.choice(KEY_TYPES), True) for text in key]
        columns += [
            Column(text, self.random.choice(self.types), self.random.random() < 0.2)
            for text in ("a", "b")[: self.random.choice((1, 2))]
        ]
        self.random.shuffle(columns)
        self.tables[name] = Table(columns, key)
        parts = [column.sql() for column in columns] + (
            [f"PRIMARY KEY({','.join(f'`{text}`' for text in key)})"] if key else []
        )
        self._record(name, f"CREATE TABLE {sql(name)} ({','.join(parts)})")
        self._done()

    def _add(self, name: Name) -> None:
        table = self.tables[name]
        free = [
            text for text in ("a", "b", "c", "e") if text not in {held.casefold() for held in table.names()}
        ]
        if not free:
            return
        self._at_ddl()
        type_ = self.random.choice(("int", "varchar(20)", "decimal(8,2)", "bigint unsigned", "text"))
        not_null = type_ in ZERO and self.random.random() < 0.4
        default = (
            self.random.choice(VALUES[type_]) if type_ != "text" and self.random.random() < 0.5 else None
        )
        column = Column(free[0], type_, not_null)
        place = self.random.choice(["", " FIRST", *(f" AFTER `{text}`" for text in table.names())])
        text = "" if default is None else f" DEFAULT _UTF8MB4'{default}'"
        self._record(name, f"ALTER TABLE {sql(name)} ADD COLUMN {column.sql()}{text}{place}")
        self._place(table, column, place)
        filled = default if default is not None else ZERO[type_] if not_null else None
        for row in table.rows.values():
            row[column.name] = filled
        self._done()

    def _place(self, table: Table, column: Column, place: str) -> None:
        if place == " FIRST":
            table.columns.insert(0, column)
        elif place:
            table.columns.insert(
                table.names().index(place.removeprefix(" AFTER `").removesuffix("`")) + 1, column
            )
        else:
            table.columns.append(column)

    def _drop_column(self, name: Name) -> None:
        table = self.tables[name]
        plain = [text for text in table.names() if text not in table.key]
        if len(plain) < 2:
            return
        self._at_ddl()
        gone = self.random.choice(plain)
        table.columns = [column for column in table.columns if column.name != gone]
        for row in table.rows.values():
            del row[gone]
        self._record(name, f"ALTER TABLE {sql(name)} DROP COLUMN `{gone}`")
        self._done()

    def _rename_column(self, name: Name) -> None:
        table = self.tables[name]
        self._at_ddl()
        old = self.random.choice(table.names())
        held = {text.casefold() for text in table.names() if text != old}
        new = self.random.choice(
            [
                text
                for text in ("r", "a", "b", "k9", "é", old.swapcase())
                if text.casefold() not in held and text != old
            ]
        )
        table.columns = [
            replace(column, name=new) if column.name == old else column for column in table.columns
        ]
        table.key = tuple(new if text == old else text for text in table.key)
        table.rows = {
            identity: {new if text == old else text: value for text, value in row.items()}
            for identity, row in table.rows.items()
        }
        self._record(name, f"ALTER TABLE {sql(name)} RENAME COLUMN `{old}` TO `{new}`")
        self._done()

    def _exchange(self, name: Name) -> None:
        """Two columns exchange their names in one statement."""
        table = self.tables[name]
        if len(table.columns) < 2:
            return
        self._at_ddl()
        one, other = self.random.sample(table.names(), 2)
        names = {one: other, other: one}
        table.columns = [
            replace(column, name=names.get(column.name, column.name)) for column in table.columns
        ]
        table.key = tuple(names.get(text, text) for text in table.key)
        table.rows = {
            identity: {names.get(text, text): value for text, value in row.items()}
            for identity, row in table.rows.items()
        }
        self._record(
            name,
            f"ALTER TABLE {sql(name)} RENAME COLUMN `{one}` TO `{other}`, RENAME COLUMN `{other}` TO `{one}`",
        )
        self._done()

    def _several(self, name: Name) -> None:
        """A column goes and two come, in one statement; one of them may have the old one's name."""
        table = self.tables[name]
        plain = [text for text in table.names() if text not in table.key]
        if len(plain) < 2:
            return
        self._at_ddl()
        gone, held = self.random.choice(plain), {text.casefold() for text in table.names()}
        new = [text for text in ("m", "n", "o") if text not in held][:2]
        table.columns = [column for column in table.columns if column.name != gone] + [
            Column(text, "int") for text in new
        ]
        for row in table.rows.values():
            del row[gone]
            row.update(dict.fromkeys(new))
        added = ", ".join(f"ADD COLUMN `{text}` INT" for text in new)
        self._record(name, f"ALTER TABLE {sql(name)} DROP COLUMN `{gone}`, {added}")
        self._done()

    def _add_key(self, name: Name) -> None:
        """A table without a key gets one, where its rows allow it."""
        table = self.tables[name]
        able = [column.name for column in table.columns if column.not_null and column.type in KEY_TYPES]
        able = [text for text in able if len({row[text] for row in table.rows.values()}) == len(table.rows)]
        if table.key or not able:
            return
        self._at_ddl()
        table.key = (self.random.choice(able),)
        self._record(
            name,
            (
                f"ALTER TABLE {sql(name)} ADD PRIMARY KEY(`{table.key[0]}`) /*T![clustered_index] "
                "NONCLUSTERED */"
            ),
        )
        self._done()

    def _drop_key(self, name: Name) -> None:
        if not self.keyless or not self.tables[name].key:
            return
        self._at_ddl()
        self.tables[name].key = ()
        self._record(name, f"ALTER TABLE {sql(name)} DROP PRIMARY KEY")
        self._done()

    def _like(self, name: Name) -> None:
        if len(self.tables) > 4:
            return
        self._at_ddl()
        new, table = self._free_name(), self.tables[name]
        self.tables[new] = Table(list(table.columns), table.key)
        self._record(new, f"CREATE TABLE {sql(new)} LIKE {sql(name)}")
        self._done()

    def _modify(self, name: Name) -> None:
        table = self.tables[name]
        able = [column for column in table.columns if column.type in WIDER]
        if not able:
            return
        self._at_ddl()
        column = self.random.choice(able)
        kinds = [kind for kind in WIDER[column.type] if column.name not in table.key or kind[0] != "text"]
        type_, convert = self.random.choice(kinds)
        wider = replace(column, type=type_)
        place = self.random.choice(
            ["", "", " FIRST", *(f" AFTER `{text}`" for text in table.names() if text != column.name)]
        )
        self._record(name, f"ALTER TABLE {sql(name)} MODIFY COLUMN {wider.sql()}{place}")
        if place:
            table.columns.remove(column)
            self._place(table, wider, place)
        else:
            table.columns = [wider if other is column else other for other in table.columns]
        for row in table.rows.values():
            value = row[column.name]
            row[column.name] = None if value is None else convert(value)
        self._done()

    def _index(self, name: Name) -> None:
        self._at_ddl()
        column = self.random.choice(self.tables[name].columns)
        if column.type in ("text", "varbinary(8)"):
            return
        self._record(name, f"ALTER TABLE {sql(name)} ADD INDEX `i{self.ts}`(`{column.name}`)")
        self._done()

    def _truncate(self, name: Name) -> None:
        self._at_ddl()
        self.tables[name].rows.clear()
        self._record(name, f"TRUNCATE TABLE {sql(name)}")
        self._done()

    def _rename(self, name: Name) -> None:
        self._at_ddl()
        self._rename_to(name, self._free_name())
        self._done()

    def _rename_to(self, old: Name, new: Name) -> None:
        self.tables[new] = self.tables.pop(old)
        self.unheard.discard(old)
        self._record(new, f"RENAME TABLE {sql(old)} TO {sql(new)}")

    def _swap_names(self, name: Name) -> None:
        """One statement that swaps two tables' names, which TiCDC sends as one event per table, all of one
        commit_ts.
        """
        others = sorted(self.tables.keys() - {name})
        if not others or {name, *others} & self.unheard:
            return  # which of the names existed, only the order of the events could tell
        self._tick()
        other, between = self.random.choice(others), (DATABASE, "tmp")
        for old, new in ((name, between), (other, name), (between, other)):
            self._rename_to(old, new)
        self._done()

    def _drop(self, name: Name) -> None:
        self._at_ddl()
        del self.tables[name]
        self._record(name, f"DROP TABLE {sql(name)}")
        self._done()

    def _again(self, name: Name) -> None:
        """Dropped and created anew under its old name, in another shape, often at once."""
        self._drop(name)
        self._create(name)


def _key(table: Table, row: Row) -> tuple[str | None, ...]:
    return tuple(row[name] for name in table.key)


def sql(name: Name) -> str:
    return f"`{name[0]}`.`{name[1]}`"
