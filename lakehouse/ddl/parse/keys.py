"""Keys, checks and foreign keys, in CREATE TABLE, after ADD in ALTER TABLE, and in CREATE INDEX."""

from typing import NamedTuple

from lakehouse.ddl.definitions import IndexDef
from lakehouse.ddl.parse.tokens import Cursor

PrimaryKey = tuple[str, ...]


class Period(NamedTuple):
    """PERIOD FOR name (start, end). Its columns are NOT NULL, whatever their definitions say."""

    name: str
    columns: tuple[str, str]


def at_constraint(cursor: Cursor) -> bool:
    """Whether a key, check or period is at the cursor, and not a column. Quoted names are always columns."""
    if cursor.upper in (
        "CONSTRAINT",
        "PRIMARY",
        "UNIQUE",
        "KEY",
        "INDEX",
        "FULLTEXT",
        "SPATIAL",
        "FOREIGN",
        "CHECK",
    ):
        return True
    return any(cursor.ahead(cursor.upper, behind) for behind in _TWO_WORDS.get(cursor.upper, ()))


_TWO_WORDS = {
    "PERIOD": ("FOR", "IF"),
    "VECTOR": ("INDEX", "KEY", "("),
    "COLUMNAR": ("INDEX",),
    "HYBRID": ("INDEX",),
}


def constraint(cursor: Cursor) -> tuple[PrimaryKey | IndexDef | Period | None, bool]:
    """A key as names or as an index, a period, None for a check or foreign key; and whether it said IF NOT
    EXISTS.
    """
    name = None
    condition = False
    if cursor.take("CONSTRAINT"):
        condition = cursor.take("IF", "NOT", "EXISTS")
        name = (
            cursor.name("a constraint's name")
            if cursor.upper not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
            else None
        )
    word = cursor.upper
    cursor.at += 1
    if word == "CHECK":
        read_check(cursor)
        return None, condition
    if word == "PERIOD":
        return _period(cursor), condition
    if word == "FOREIGN":
        return _foreign(cursor, condition)
    if name is not None and word not in ("PRIMARY", "UNIQUE"):
        cursor.at -= 1
        cursor.fail("PRIMARY KEY, UNIQUE, FOREIGN KEY or CHECK")
    return _index(cursor, word, name, condition)


def _index(
    cursor: Cursor, word: str, name: str | None, condition: bool
) -> tuple[PrimaryKey | IndexDef, bool]:
    if word == "PRIMARY":
        cursor.need("KEY")
    elif word in ("VECTOR", "COLUMNAR", "HYBRID", "UNIQUE", "FULLTEXT", "SPATIAL"):
        cursor.take_one("INDEX", "KEY")
    condition = cursor.take("IF", "NOT", "EXISTS") or condition
    if cursor.upper not in ("(", "USING"):  # TYPE needs a name before it: `KEY type (a)` names the index so
        name = cursor.name("an index name or its columns")
    index_type(cursor)
    names, plain = key_parts(cursor)
    has_period = cursor.tokens[cursor.at - 2].upper == "OVERLAPS"
    plain = index_options(cursor) and plain
    if word == "PRIMARY" and has_period:
        return names, condition
    if word != "PRIMARY":
        return IndexDef(name, names, word == "UNIQUE" and plain), condition
    if not plain:
        cursor.fail("a primary key of columns before it")
    return names, condition


def index_type(cursor: Cursor) -> None:
    if cursor.take_one("USING", "TYPE"):
        cursor.need_one("BTREE", "HASH", "RTREE", "HNSW", "INVERTED", "HYPO")


def key_parts(cursor: Cursor) -> tuple[tuple[str, ...], bool]:
    """`(a, b(10) DESC, (lower(c)), d WITHOUT OVERLAPS)`: the columns' names, and whether there is nothing but
    columns.
    """
    names = []
    plain = True
    cursor.need("(")
    while True:
        if cursor.upper == "(":
            cursor.group()
            plain = False
        else:
            names.append(cursor.name("a column name"))
            cursor.numbers(1)
            plain = not cursor.take("WITHOUT", "OVERLAPS") and plain
        cursor.take_one("ASC", "DESC")
        if not cursor.take(","):
            break
    cursor.need(")")
    return tuple(names), plain


def index_options(cursor: Cursor) -> bool:
    """USING, COMMENT, VISIBLE, CLUSTERED … of which only WHERE means anything here: whether the index is over
    all rows.
    """
    whole = True
    while True:
        if cursor.upper in ("USING", "TYPE"):
            index_type(cursor)
        elif cursor.take_one("COMMENT", "PARAMETER"):  # the latter of TiDB's HYBRID
            cursor.take("=")
            cursor.string("a text in quotes")
        elif cursor.take("WITH", "PARSER"):
            cursor.name("a parser")
        elif cursor.take("WHERE"):
            _condition(cursor)
            whole = False
        elif cursor.take("PRE_SPLIT_REGIONS"):
            _split_regions(cursor)
        elif _at_setting(cursor):
            _setting(cursor)
        elif not _index_word(cursor):
            return whole


def _at_setting(cursor: Cursor) -> bool:
    """A value behind a name: engines of MariaDB have names of their own, and take none without `=`."""
    if cursor.upper in ("KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        return True
    following = [token.upper for token in cursor.tokens[cursor.at + 1 : cursor.at + 2]]
    return (
        cursor.kind in ("word", "name") and following == ["="] and cursor.upper not in ("ALGORITHM", "LOCK")
    )


def _setting(cursor: Cursor) -> None:
    cursor.at += 1
    cursor.take("=")
    if cursor.kind not in ("word", "string", "number"):
        cursor.fail("a value")
    cursor.at += 1


def _condition(cursor: Cursor) -> None:
    """An expression: all up to the next clause, the list's end or the statement's."""
    start = cursor.at
    while cursor.upper not in (",", ")") and cursor.kind != "end":
        if cursor.upper == "(":
            cursor.group()
        else:
            cursor.at += 1
    if cursor.at == start:
        cursor.fail("a condition")


def _split_regions(cursor: Cursor) -> None:
    """TiDB's PRE_SPLIT_REGIONS = 4, or = (BETWEEN (1) AND (9) REGIONS 4)."""
    cursor.take("=")
    if cursor.upper == "(":
        cursor.group()
    else:
        cursor.number("a number of regions")


_INDEX_WORDS = (
    "VISIBLE",
    "INVISIBLE",
    "CLUSTERED",
    "NONCLUSTERED",
    "GLOBAL",
    "LOCAL",
    "IGNORED",
    "ADD_COLUMNAR_REPLICA_ON_DEMAND",
)


def _index_word(cursor: Cursor) -> bool:
    return cursor.take("NOT", "IGNORED") or bool(cursor.take_one(*_INDEX_WORDS))


def _period(cursor: Cursor) -> Period:
    cursor.take("IF", "NOT", "EXISTS")
    cursor.need("FOR")
    name = cursor.name("a period's name")
    cursor.need("(")
    start = cursor.name("a column name")
    cursor.need(",")
    end = cursor.name("a column name")
    cursor.need(")")
    return Period(name, (start, end))


def _foreign(cursor: Cursor, condition: bool) -> tuple[None, bool]:
    cursor.need("KEY")
    condition = cursor.take("IF", "NOT", "EXISTS") or condition
    if cursor.upper != "(":
        cursor.name("a key's name or its columns")
    key_parts(cursor)
    cursor.need("REFERENCES")
    read_references(cursor)
    return None, condition


def read_check(cursor: Cursor) -> None:
    """What follows the word CHECK."""
    cursor.group()
    if not cursor.take("NOT", "ENFORCED"):
        cursor.take("ENFORCED")


def read_references(cursor: Cursor) -> None:
    """What follows the word REFERENCES."""
    cursor.table()
    if cursor.upper == "(":
        key_parts(cursor)
    if cursor.take("MATCH"):
        cursor.need_one("FULL", "PARTIAL", "SIMPLE")
    while cursor.upper == "ON" and cursor.tokens[cursor.at + 1 : cursor.at + 2]:
        if not (cursor.take("ON", "DELETE") or cursor.take("ON", "UPDATE")):
            return
        if not (cursor.take("SET", "NULL") or cursor.take("SET", "DEFAULT") or cursor.take("NO", "ACTION")):
            cursor.need_one("CASCADE", "RESTRICT")
