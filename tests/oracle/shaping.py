"""Random DDL on the tables that there are: each maker gives one step, or None where it has nothing to do."""

import random
import re
from collections.abc import Callable
from typing import Any

from tests.oracle.database import Column, Name, Table, quoted, word
from tests.oracle.dialects import MARIADB, Dialect
from tests.oracle.program import Step
from tests.oracle.values import any_type, literals, text

NAMES = ("t", "u", "v", "orders", "T2", "o d", "点", "a.b", "select")
COLUMNS = ("a", "b", "c", "d", "e", "Val", "k", "key", "é", "t", "x y", "_meta")
UNKNOWN_DEFAULTS = (
    ("datetime", "CURRENT_TIMESTAMP"),
    ("timestamp(3)", "CURRENT_TIMESTAMP(3)"),
    ("varchar(40)", "(uuid())"),
    ("double", "(rand())"),
    ("timestamp", "CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"),
)
COMMENTS = (
    "",
    "",
    "",
    " COMMENT 'it''s, a \"comment\"; -- x'",
    " /*T![clustered_index] CLUSTERED */",
    " /* DROP TABLE t */",
)
TIMED = ("date", "datetime", "timestamp")
Clause = tuple[str, dict[str, Any]]


class Shaper:
    def __init__(
        self, chance: random.Random, *, strict: bool, keyless: bool, dialect: Dialect = MARIADB
    ) -> None:
        self.chance, self.strict, self.keyless, self.dialect = chance, strict, keyless, dialect

    # --- tables that come and go

    def create(self, name: Name, *, condition: bool = False) -> Step:
        parts, keys = self._columns()
        kind = self.chance.random()
        if keys and kind < 0.85:
            parts.append(f"PRIMARY KEY ({', '.join(map(word, keys))}){self.clustering()}")
        elif keys:
            parts += [
                f"UNIQUE KEY `uk{n}` ({', '.join(map(word, names))})"
                for n, names in enumerate((keys, keys[:1]))
            ]
        options = self.chance.choice(
            (
                "",
                "",
                " COMMENT='t'",
                " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
                " DEFAULT CHARACTER SET latin1",
            )
        )
        exists = "IF NOT EXISTS " if condition or self.chance.random() < 0.2 else ""
        return {
            "ddl": f"CREATE TABLE {exists}{self.named(name)} ({', '.join(parts)}){options}",
            "table": list(name),
        }

    def clustering(self) -> str:
        """TiDB drops no primary key that the rows are stored by, as most are by default."""
        loose = self.dialect.is_tidb and self.chance.random() < 0.4
        return " /*T![clustered_index] NONCLUSTERED */" if loose else ""

    def _columns(self) -> tuple[list[str], list[str]]:
        names = self.chance.sample(COLUMNS, k=self.chance.randint(2, 6))
        count = self.chance.choice((0, 1, 1, 2)) if self.keyless else self.chance.choice((1, 1, 1, 2))
        keys, parts, kind = names[:count], [], ""
        for name in names:
            kind = self.any_type(key=name in keys)
            rest = " NOT NULL" if name in keys else self.attributes(kind)
            parts.append(f"{word(name)} {kind}{rest}")
        self.chance.shuffle(parts)
        if self.joins(kind) and self.chance.random() < 0.1 and len(names) > count:
            parts.append(
                f"`g` varchar(60) AS (concat({word(names[-1])}, '!')) "
                f"{self.chance.choice(('VIRTUAL', 'STORED'))}"
            )
        return parts, keys

    def joins(self, kind: str) -> bool:
        """Whether a generated column may be made of one of this type. TiDB makes text of bytes that are
        none.
        """
        bytes_ = re.search(r"bit|binary|blob", kind) is not None
        return self.dialect.generated and not (self.dialect.is_tidb and bytes_)

    def any_type(self, *, key: bool = False) -> str:
        return any_type(self.chance, key=key, documents=self.dialect.documents)

    def attributes(self, kind: str) -> str:
        """NOT NULL, a DEFAULT, a COMMENT of a plain column."""
        if kind.startswith("timestamp"):
            return " NULL" + self.chance.choice(COMMENTS[:4])
        not_null = self.chance.random() < 0.2
        able = kind != "json" and (self.dialect.expressions or not _is_long(kind))
        default = f" DEFAULT {self.default(kind)}" if able and self.chance.random() < 0.35 else ""
        return (
            (" NOT NULL" if not_null else self.chance.choice(("", " NULL")))
            + default
            + self.chance.choice(COMMENTS[:4])
        )

    def default(self, kind: str) -> str:
        able = literals(kind, strict=True)
        if self.dialect.is_tidb:  # beside a MODIFY it may fill with U+FFFD for bytes that are no text
            able = [value for value in able if value != "x'00ff'"]
        value = self.chance.choice(able)
        if _is_long(kind):
            return f"({value})"
        if value.startswith("'") and value.isascii() and "\\" not in value and self.chance.random() < 0.5:
            return f"_UTF8MB4{value}"
        if re.fullmatch(r"-?[\d.]+", value) and self.chance.random() < 0.4:
            return f"'{value}'" if not kind.startswith(("bit", "enum", "set")) else value
        return value

    def named(self, name: Name, tables: Any = ()) -> str:
        return quoted(name) if name[0].endswith("_2") or self.chance.random() < 0.6 else word(name[1])

    def drop(self, names: list[Name]) -> Step:
        exists = self.chance.choice(("", "IF EXISTS "))
        feed = [[*name, f"DROP TABLE {exists}{quoted(name)}"] for name in names]
        return {
            "ddl": f"DROP TABLE {exists}{', '.join(map(quoted, names))}",
            "table": list(names[0]),
            "feed": feed,
        }

    def truncate(self, name: Name) -> Step:
        return {"ddl": f"TRUNCATE TABLE {self.named(name)}", "table": list(name), "clears": True}

    def like(self, name: Name, new: Name) -> Step:
        return {
            "ddl": f"CREATE TABLE {self.named(new)} LIKE {quoted(name)}",
            "table": list(new),
            "like": [list(name), list(new)],
        }

    def select(self, name: Name, table: Table, new: Name) -> Step:
        """Without bytes: a DEFAULT of bytes that are no text is not told as text."""
        able = [
            column for column in table.columns if "binary" not in column.base and "blob" not in column.base
        ]
        names = [word(column.name) for column in able if self.chance.random() < 0.8] or ["1 AS `one`"]
        return {
            "ddl": f"CREATE TABLE {quoted(new)} AS SELECT {', '.join(names)} FROM {quoted(name)}",
            "table": list(new),
            "select": True,
        }

    # --- names

    def rename(self, pairs: list[tuple[Name, Name]]) -> Step:
        """One statement; a feed sends each pair on its own, in any order."""
        feed = [[*new, f"RENAME TABLE {quoted(old)} TO {quoted(new)}"] for old, new in pairs]
        if self.chance.random() < 0.5:
            self.chance.shuffle(feed)
        if len(pairs) == 1 and self.chance.random() < 0.5:
            feed = [
                [
                    *pairs[0][1],
                    (
                        f"ALTER TABLE {quoted(pairs[0][0])} RENAME "
                        f"{self.chance.choice(('AS ', 'TO ', ''))}{quoted(pairs[0][1])}"
                    ),
                ]
            ]
        sql = f"RENAME TABLE {', '.join(f'{quoted(old)} TO {quoted(new)}' for old, new in pairs)}"
        return {
            "ddl": sql,
            "table": list(pairs[-1][1]),
            "renamed": [[list(old), list(new)] for old, new in pairs],
            "feed": feed,
        }

    # --- ALTER

    def alter(self, name: Name, table: Table) -> Step | None:
        """One to four clauses; what one says of a column the others leave alone, mostly."""
        makers = self._makers(table)
        count = self.chance.choice((1, 1, 1, 2, 2, 3, 4))
        clauses = [
            clause for maker in self.chance.choices(makers, k=count) if (clause := maker(table)) is not None
        ]
        changed = [
            name
            for sql, _ in clauses
            for name in re.findall(r"^(?:MODIFY|CHANGE) (?:COLUMN )?(`(?:[^`]|``)+`)", sql)
        ]
        if not clauses or len(set(changed)) < len(changed):
            return None  # MariaDB may take two clauses that change one column, and do something of its own
        step: Step = {
            "ddl": f"ALTER TABLE {self.named(name)} {', '.join(sql for sql, _ in clauses)}",
            "table": list(name),
        }
        for _, told in clauses:
            step["columns"] = {**step.get("columns", {}), **told.get("columns", {})}
            step["unknown"] = [*step.get("unknown", []), *told.get("unknown", [])]
            step["maybe"] = step.get("maybe", False) or told.get("maybe", False)
        return {key: value for key, value in step.items() if value}

    def _makers(self, table: Table) -> list[Callable[[Table], Clause | None]]:
        makers = [
            self.add,
            self.add,
            self.add,
            self.drop_column,
            self.rename_column,
            self.exchange,
            self.modify,
            self.modify,
            self.modify,
            self.change,
        ]
        makers += [
            self.labels,
            self.attribute,
            self.set_default,
            self.index,
            self.unique,
            self.primary,
            self.primary,
            self.drop_index,
            self.charset,
        ]
        return [*makers, self.add_unknown, self.table_option, self.recase, self.convert_same]

    def free_column(self, table: Table) -> str | None:
        taken = {column.name.casefold() for column in table.columns}
        free = [name for name in (*COLUMNS, "n1", "n2", "n3") if name.casefold() not in taken]
        return self.chance.choice(free) if free else None

    def place(self, table: Table, own: str | None = None) -> str:
        others = [column.name for column in table.columns if column.name != own]
        kind = self.chance.random()
        if kind < 0.6 or not others:
            return ""
        return " FIRST" if kind < 0.75 else f" AFTER {word(self.chance.choice(others))}"

    def condition(self, words: str) -> str:
        return words if self.dialect.conditions and self.chance.random() < 0.1 else ""

    def add(self, table: Table) -> Clause | None:
        name = (
            self.free_column(table) if self.chance.random() < 0.95 else self.chance.choice(table.columns).name
        )
        if name is None:
            return None
        kind = self.any_type()
        attributes = self.attributes(kind)
        condition = self.condition("IF NOT EXISTS ")
        maybe = kind.startswith("timestamp") and "DEFAULT" in attributes
        return (
            (
                f"ADD {self.chance.choice(('COLUMN ', ''))}{condition}{word(name)} "
                f"{kind}{attributes}{self.place(table)}"
            ),
            {"maybe": maybe},
        )

    def add_unknown(self, table: Table) -> Clause | None:
        """A column whose values for existing rows the server computes."""
        name = self.free_column(table)
        if name is None or self.chance.random() < 0.5:
            return None
        column = self.chance.choice(table.columns)
        if self.joins(column.type) and self.chance.random() < 0.3:
            kind = self.chance.choice(("VIRTUAL", "STORED"))
            unknown = [name] if kind == "STORED" else []
            return f"ADD COLUMN {word(name)} varchar(90) AS (concat({word(column.name)}, '?')) {kind}", {
                "unknown": unknown
            }
        computed = [pair for pair in UNKNOWN_DEFAULTS if self.dialect.expressions or pair[1][0] != "("]
        type_, default = self.chance.choice(computed)
        return f"ADD COLUMN {word(name)} {type_} NULL DEFAULT {default}", {"unknown": [name]}

    def plain(self, table: Table) -> list[Column]:
        return [column for column in table.columns if not column.generated]

    def drop_column(self, table: Table) -> Clause | None:
        condition = self.condition("IF EXISTS ")
        return (
            (
                f"DROP {self.chance.choice(('COLUMN ', ''))}"
                f"{condition}{word(self.chance.choice(table.columns).name)}"
            ),
            {},
        )

    def rename_column(self, table: Table) -> Clause | None:
        new = self.free_column(table)
        old = self.chance.choice(table.columns)
        return (self.renamed(old, new), {"columns": {old.name: new}}) if new else None

    def renamed(self, column: Column, new: str) -> str:
        """RENAME COLUMN, or CHANGE with the column's own type where the server has no other."""
        if self.dialect.renames:
            return f"RENAME COLUMN {word(column.name)} TO {word(new)}"
        charset = f" CHARACTER SET {column.charset}" if column.charset else ""
        null = " NOT NULL" if column.not_null else " NULL"
        return f"CHANGE {word(column.name)} {word(new)} {column.type}{charset}{null}"

    def recase(self, table: Table) -> Clause | None:
        old = self.chance.choice(table.columns)
        new = old.name.swapcase()
        return (self.renamed(old, new), {"columns": {old.name: new}}) if new != old.name else None

    def exchange(self, table: Table) -> Clause | None:
        if len(table.columns) < 2 or not self.dialect.exchanges:
            return None
        one, other = self.chance.sample(table.columns, 2)
        sql = f"{self.renamed(one, other.name)}, {self.renamed(other, one.name)}"
        return sql, {"columns": {one.name: other.name, other.name: one.name}}

    def retyped(self, column: Column, kind: str, rest: str) -> dict[str, Any]:
        """What a change of type leaves open: the day of a TIME's date, the zone of a TIMESTAMP, and in a lax
        MariaDB whether NULLs become the DEFAULT or the type's zero.
        """
        new = re.split(r"\W", kind)[0]
        if column.base == "time" and new in TIMED:
            return {"unknown": [column.name]}
        zoned = (column.base == "timestamp") != (new == "timestamp")
        fills = " NOT NULL" in rest and " DEFAULT " in rest and not column.not_null
        return {"maybe": zoned or (fills and self.dialect.is_mariadb)}

    def modify(self, table: Table) -> Clause | None:
        able = self.plain(table)
        if not able:
            return None
        column = self.chance.choice(able)
        key = column.name in table.primary or any(column.name in names for _, names, _ in table.indexes)
        kind = self.any_type(key=key)
        if _is_unruled(column, kind):
            return None
        rest = " NOT NULL" if column.name in table.primary else self.attributes(kind)
        sql = (
            f"MODIFY {self.chance.choice(('COLUMN ', ''))}{word(column.name)} "
            f"{kind}{rest}{self.place(table, column.name)}"
        )
        return sql, self.retyped(column, kind, rest)

    def change(self, table: Table) -> Clause | None:
        able, new = self.plain(table), self.free_column(table)
        if not able or new is None:
            return None
        column = self.chance.choice(able)
        kind = self.any_type(key=column.name in table.handle())
        if _is_unruled(column, kind):
            return None
        rest = " NOT NULL" if column.name in table.primary else self.attributes(kind)
        told = self.retyped(column, kind, rest)
        told["columns"] = {column.name: new}
        if told.get("unknown"):
            told["unknown"] = [new]
        return (
            f"CHANGE COLUMN {word(column.name)} {word(new)} {kind}{rest}{self.place(table, column.name)}",
            told,
        )

    def convert_same(self, table: Table) -> Clause | None:
        """The same type again, with another length or nullability."""
        able = [
            column
            for column in self.plain(table)
            if column.base in ("varchar", "decimal", "char", "varbinary")
        ]
        if not able:
            return None
        column = self.chance.choice(able)
        size = "(12,3)" if column.base == "decimal" else f"({self.chance.choice((1, 2, 6, 30, 60))})"
        charset = f" CHARACTER SET {column.charset}" if column.charset else ""
        return (
            (
                f"MODIFY {word(column.name)} "
                f"{column.base}{size}{charset}{' NOT NULL' if column.not_null else ''}"
            ),
            {},
        )

    def labels(self, table: Table) -> Clause | None:
        """Members appended, moved, dropped."""
        able = [column for column in self.plain(table) if column.base in ("enum", "set")]
        if not able:
            return None
        column = self.chance.choice(able)
        members = [found.replace("''", "'") for found in re.findall(r"'((?:[^']|'')*)'", column.type)]
        extra = [
            member
            for member in ("a", "z", "new", "1")
            if member.casefold() not in {m.casefold() for m in members}
        ]
        kind = self.chance.choice(("append", "append", "move", "drop", "front"))
        if kind == "append":
            members += extra[:1]
        elif kind == "front":
            members = extra[:1] + members
        elif kind == "move":
            self.chance.shuffle(members)
        elif len(members) > 1:
            members.remove(self.chance.choice(members))
        null = " NOT NULL" if column.not_null else ""
        charset = f" CHARACTER SET {column.charset}" if column.charset else ""
        return (
            f"MODIFY COLUMN {word(column.name)} {column.base}({','.join(map(text, members))}){charset}{null}",
            {},
        )

    def attribute(self, table: Table) -> Clause | None:
        able = self.plain(table)
        if not able:
            return None
        column = self.chance.choice(able)
        charset = f" CHARACTER SET {column.charset}" if column.charset and column.base != "json" else ""
        null = self.chance.choice((" NULL", " NOT NULL")) if self.fills(column) else " NULL"
        return f"MODIFY {word(column.name)} {column.type}{charset}{null} COMMENT 'c'", {}

    def fills(self, column: Column) -> bool:
        """Whether a rule tells what NULL becomes under NOT NULL: in a TIMESTAMP it is the time of the
        statement.
        """
        return column.not_null or column.base != "timestamp"

    def set_default(self, table: Table) -> Clause | None:
        able = [
            column
            for column in self.plain(table)
            if column.base != "json" and (self.dialect.expressions or not _is_long(column.base))
        ]
        if not able:
            return None
        column = self.chance.choice(able)
        if self.chance.random() < 0.4:
            return f"ALTER COLUMN {word(column.name)} DROP DEFAULT", {}
        return f"ALTER {word(column.name)} SET DEFAULT {self.default(column.type)}", {}

    def index(self, table: Table) -> Clause | None:
        return (
            (
                f"ADD {self.chance.choice(('INDEX', 'KEY'))} `i{self.chance.randint(1, 9)}` "
                f"({word(self.chance.choice(table.columns).name)})"
            ),
            {},
        )

    def unique(self, table: Table) -> Clause | None:
        names = self.chance.sample(
            [column.name for column in table.columns],
            k=min(len(table.columns), self.chance.choice((1, 1, 2))),
        )
        return (
            (
                f"ADD UNIQUE {self.chance.choice(('KEY ', 'INDEX ', ''))}`q{self.chance.randint(1, 5)}` "
                f"({', '.join(map(word, names))})"
            ),
            {},
        )

    def primary(self, table: Table) -> Clause | None:
        """A key added, dropped, extended or moved."""
        if not all(map(self.fills, table.columns)):
            return None  # another clause may give such a column the name of one that is in the key
        names = [column.name for column in table.columns if column.not_null or self.chance.random() < 0.2]
        if not names or (not self.keyless and not table.primary):
            return None
        new = self.chance.sample(names, k=min(len(names), self.chance.choice((1, 1, 2))))
        add = f"ADD PRIMARY KEY ({', '.join(map(word, new))})"
        if not table.primary:
            return add, {}
        extended = (
            "DROP PRIMARY KEY, ADD PRIMARY KEY "
            f"({', '.join(map(word, dict.fromkeys((*table.primary, *new))))})"
        )
        choices = [extended, f"DROP PRIMARY KEY, {add}"]
        return self.chance.choice([*choices, "DROP PRIMARY KEY"] if self.keyless else choices), {}

    def drop_index(self, table: Table) -> Clause | None:
        if not table.indexes or (not self.keyless and not table.primary):
            return None
        name = self.chance.choice(table.indexes)[0]
        return (
            f"DROP INDEX {word(name)}"
            if self.chance.random() < 0.7 or not self.dialect.renames
            else f"RENAME INDEX {word(name)} TO {word(name + '_r')}"
        ), {}

    def charset(self, table: Table) -> Clause | None:
        if any(column.base in ("enum", "set") and not column.type.isascii() for column in table.columns):
            return None  # MariaDB may take the bytes of a label for text of the new charset
        charset = self.chance.choice(("utf8mb4", "latin1", "utf8mb3"))
        return self.chance.choice(
            (
                f"CONVERT TO CHARACTER SET {charset}",
                f"DEFAULT CHARACTER SET {charset}",
                f"DEFAULT CHARSET = {charset}",
            )
        ), {}

    def table_option(self, table: Table) -> Clause | None:
        return self.chance.choice(
            (
                "COMMENT='again'",
                "ENGINE=InnoDB",
                "AUTO_INCREMENT=50",
                "ALGORITHM=COPY",
                "FORCE",
                "ROW_FORMAT=DYNAMIC",
            )
        ), {}


def _is_long(kind: str) -> bool:
    """Whether a column of the type has no DEFAULT but an expression."""
    return re.search(r"text|blob", kind) is not None


def _is_unruled(column: Column, kind: str) -> bool:
    """What MariaDB makes of a double beyond 9999999 as a TIME is no one's rule but its own."""
    return column.base in ("float", "double") and kind.startswith("time") and not kind.startswith("timestamp")
