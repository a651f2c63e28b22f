"""PARTITION BY and the partition clauses of ALTER TABLE.

A RANGE or LIST rule over plain columns with literal bounds is kept whole, for it decides which rows a
partition held; of any other rule only the method is kept.
"""

from lakehouse.ddl.definitions import Partitioning
from lakehouse.ddl.edits import (
    AddPartition,
    DropFirstPartitions,
    DropPartition,
    Edit,
    ExchangePartition,
    NoEffect,
    ReorganizePartition,
    Repartition,
    ReplaceRows,
    TruncatePartition,
)
from lakehouse.ddl.parse.tokens import Cursor

Bounds = tuple[str | None, ...]
Partitions = tuple[tuple[str, Bounds], ...]
_NO_LITERAL: Bounds = ("?",)


def read_partitioning(cursor: Cursor) -> Partitioning:
    """What follows PARTITION BY."""
    cursor.take("LINEAR")
    method = cursor.need_one("RANGE", "LIST", "HASH", "KEY", "SYSTEM_TIME").lower()
    columns = _columns(cursor, method)
    partitions = _tail(cursor)
    if (
        method in ("range", "list")
        and columns
        and partitions
        and not any(bounds == _NO_LITERAL for _, bounds in partitions)
    ):
        return Partitioning(method, columns, partitions)
    return Partitioning(method)


def _columns(cursor: Cursor, method: str) -> tuple[str, ...]:
    """The plain columns of a RANGE or LIST rule; none for anything else."""
    cursor.take_one("COLUMNS", "FIELDS")
    _key_algorithm(cursor)
    if method == "system_time":
        return ()
    if cursor.take("(", ")"):
        return ()
    names, plain, start = [], True, cursor.at
    cursor.need("(")
    while plain:
        plain = cursor.kind in ("name", "word")
        names.append(cursor.token.text if cursor.token else "")
        cursor.at += 1
        while cursor.take("."):
            names[-1] = cursor.token.text if cursor.token else ""
            cursor.at += 1
        if not cursor.take(","):
            break
    if plain and cursor.take(")"):
        return tuple(names)
    cursor.at = start
    cursor.group()
    return ()


def _tail(cursor: Cursor) -> Partitions:
    found: Partitions = ()
    while True:
        if cursor.take_one("PARTITIONS", "SUBPARTITIONS"):
            cursor.number("a number of partitions")
        elif cursor.upper == "(":
            found = definitions(cursor)
        elif cursor.take("SUBPARTITION", "BY"):
            _subpartition(cursor)
        elif cursor.take("INTERVAL"):
            _interval(cursor)
        elif cursor.take("LIMIT"):
            cursor.take("+")
            cursor.number("a number of rows")
        elif cursor.take("FIRST", "PARTITION") or cursor.take("LAST", "PARTITION"):
            cursor.need("LESS")
            cursor.need("THAN")
            cursor.group()
        elif cursor.take("UPDATE", "INDEXES"):
            cursor.group()
        elif not (
            cursor.take("NULL", "PARTITION") or cursor.take("MAXVALUE", "PARTITION") or cursor.take("AUTO")
        ):
            return found


def _subpartition(cursor: Cursor) -> None:
    cursor.take("LINEAR")
    cursor.need_one("HASH", "KEY")
    _key_algorithm(cursor)
    cursor.group()


def _key_algorithm(cursor: Cursor) -> None:
    """ALGORITHM = 1 or 2, in MariaDB from 12.3 on also CRC32C, XXH32 …"""
    if cursor.take("ALGORITHM"):
        cursor.need("=")
        if cursor.kind not in ("number", "word"):
            cursor.fail("an algorithm")
        cursor.at += 1


def _interval(cursor: Cursor) -> None:
    if cursor.upper == "(":
        cursor.group()
        return
    if cursor.kind not in ("number", "string"):
        cursor.fail("an interval")
    cursor.at += 1
    cursor.name("a unit of time")
    if cursor.take("STARTS"):
        cursor.take_one("TIMESTAMP", "DATE")
        cursor.at += 1
    cursor.take("AUTO")


def definitions(cursor: Cursor) -> Partitions:
    """`(PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB, …)`. MariaDB needs no PARTITION there."""
    found = []
    cursor.need("(")
    while True:
        cursor.take("PARTITION")
        found.append((cursor.name("a partition's name"), _bounds(cursor)))
        _definition_options(cursor)
        if not cursor.take(","):
            break
    cursor.need(")")
    return tuple(found)


def _bounds(cursor: Cursor) -> Bounds:
    if cursor.take("VALUES", "LESS", "THAN"):
        return (None,) if cursor.take("MAXVALUE") else _literals(cursor)
    if cursor.take("VALUES", "IN") or cursor.ahead("VALUES", "("):
        cursor.take("VALUES")
        return _literals(cursor)
    if cursor.take("DEFAULT"):
        return ("DEFAULT",)
    cursor.take_one("HISTORY", "CURRENT")
    return _NO_LITERAL


def _literals(cursor: Cursor, nested: bool = False) -> Bounds:
    """The bounds in brackets as SQL text, MAXVALUE as None; `_NO_LITERAL` where one must be computed."""
    start = cursor.at
    found: list[str | None] = []
    cursor.need("(")
    while True:
        first = cursor.at
        if cursor.take("MAXVALUE"):
            found.append(None)
        elif not _literal(cursor, nested):
            cursor.at = start
            cursor.group()
            return _NO_LITERAL
        else:
            found.append(cursor.source(first, cursor.at))
        if not cursor.take(","):
            break
    if not cursor.take(")"):
        cursor.at = start
        cursor.group()
        return _NO_LITERAL
    return tuple(found)


def _literal(cursor: Cursor, nested: bool) -> bool:
    """Move over one literal, or over one tuple of them."""
    if cursor.upper == "(":
        return not nested and _literals(cursor, nested=True) != _NO_LITERAL
    if cursor.take_one("+", "-"):
        return cursor.kind == "number" and bool(cursor.number("a number") + 1)
    if cursor.take_one("NULL", "DEFAULT"):
        return True
    if cursor.take_one("DATE", "TIME", "TIMESTAMP") and cursor.kind != "string":
        return False
    if cursor.kind == "word" and cursor.upper.startswith("_"):
        cursor.at += 1
    if cursor.kind not in ("string", "number", "literal"):
        return False
    cursor.at += 1
    return True


def _definition_options(cursor: Cursor) -> None:
    """ENGINE = InnoDB COMMENT = 'x' (SUBPARTITION s0, …): words, values and groups up to the next comma."""
    while cursor.upper not in (",", ")") and cursor.kind != "end":
        if cursor.upper == "(":
            cursor.group()
        elif cursor.kind == "symbol" and cursor.upper != "=":
            cursor.fail("a partition's option")
        else:
            cursor.at += 1


# --- clauses of ALTER TABLE


def add_partition(cursor: Cursor) -> Edit:
    """What follows ADD PARTITION."""
    condition = cursor.take("IF", "NOT", "EXISTS")
    cursor.take_one("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.take("PARTITIONS"):
        cursor.number("a number of partitions")
        return NoEffect("ADD PARTITION")
    if cursor.kind == "end" or cursor.upper == ",":
        return NoEffect("ADD PARTITION")
    return AddPartition(definitions(cursor), condition)


def drop_partition(cursor: Cursor) -> Edit:
    condition = cursor.take("IF", "EXISTS")
    return DropPartition(names(cursor), condition)


def truncate_partition(cursor: Cursor) -> Edit:
    """What follows TRUNCATE."""
    cursor.need("PARTITION")
    return TruncatePartition((), all=True) if cursor.take("ALL") else TruncatePartition(names(cursor))


def exchange_partition(cursor: Cursor) -> Edit:
    cursor.need("PARTITION")
    partition = cursor.name("a partition's name")
    cursor.need("WITH")
    cursor.need("TABLE")
    edit = ExchangePartition(partition, cursor.table())
    if not cursor.take("WITH", "VALIDATION"):
        cursor.take("WITHOUT", "VALIDATION")
    return edit


def reorganize_partition(cursor: Cursor) -> Edit:
    cursor.need("PARTITION")
    cursor.take_one("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.kind == "end" or cursor.upper == ",":
        return NoEffect("REORGANIZE PARTITION")
    found = names(cursor)
    cursor.need("INTO")
    return ReorganizePartition(found, definitions(cursor))


def coalesce_partition(cursor: Cursor) -> Edit:
    cursor.need("PARTITION")
    cursor.take_one("NO_WRITE_TO_BINLOG", "LOCAL")
    cursor.number("a number of partitions")
    return NoEffect("COALESCE PARTITION")


def maintain_partition(cursor: Cursor) -> Edit:
    """What follows ANALYZE, CHECK, OPTIMIZE, REBUILD or REPAIR."""
    cursor.need("PARTITION")
    cursor.take_one("NO_WRITE_TO_BINLOG", "LOCAL")
    if not cursor.take("ALL"):
        names(cursor)
    while cursor.take_one("FOR", "UPGRADE", "QUICK", "FAST", "MEDIUM", "EXTENDED", "CHANGED", "USE_FRM"):
        pass
    _analyze_options(cursor)
    return NoEffect("partition maintenance")


def _analyze_options(cursor: Cursor) -> None:
    """TiDB's INDEX a, b and WITH 4 BUCKETS, 2 TOPN."""
    if cursor.take("INDEX") and cursor.kind in ("name", "word"):
        names(cursor)
    if cursor.take("WITH"):
        while cursor.kind == "number":
            cursor.at += 1
            cursor.name("an option")
            cursor.take(",")


def tablespace(cursor: Cursor) -> Edit:
    """What follows DISCARD or IMPORT."""
    if cursor.take("PARTITION") and not cursor.take("ALL"):
        names(cursor)
    cursor.need("TABLESPACE")
    return ReplaceRows()


def one_partition(cursor: Cursor) -> Edit:
    """What follows PARTITION at the head of a clause: BY, or the options of one partition."""
    if cursor.take("BY"):
        return Repartition(read_partitioning(cursor))
    cursor.name("a partition's name")
    if cursor.take("PLACEMENT", "POLICY", "SET", "DEFAULT"):
        return NoEffect("partition options")
    if cursor.take("PLACEMENT"):
        cursor.need("POLICY")
    else:
        cursor.need_one("ATTRIBUTES", "STATS_OPTIONS")
    cursor.take("=")
    if cursor.kind not in ("name", "word", "string"):
        cursor.fail("a value")
    cursor.at += 1
    return NoEffect("partition options")


# --- TiDB's interval partitions, and regions


def first_partition(cursor: Cursor) -> Edit:
    """What follows FIRST: the partitions below a bound are dropped."""
    _less_than(cursor)
    cursor.take("IF", "EXISTS")
    return DropFirstPartitions()


def last_partition(cursor: Cursor) -> Edit:
    """What follows LAST: partitions up to a bound are added, under names that TiDB gives."""
    _less_than(cursor)
    cursor.take_one("NO_WRITE_TO_BINLOG", "LOCAL")
    return _OTHER_PARTITIONS


def merge_partitions(cursor: Cursor) -> Edit:
    """What follows MERGE: FIRST PARTITION LESS THAN, the partitions below a bound become one."""
    cursor.need("FIRST")
    _less_than(cursor)
    return _OTHER_PARTITIONS


def split_partition(cursor: Cursor) -> Edit:
    """What follows SPLIT: the partition MAXVALUE at a bound, or regions, which are below SQL."""
    if cursor.take("MAXVALUE"):
        _less_than(cursor)
        return _OTHER_PARTITIONS
    split_regions(cursor)
    return NoEffect("SPLIT REGIONS")


# the same rows, in partitions whose names and bounds the clause does not have
_OTHER_PARTITIONS = Repartition(Partitioning("range"))


def _less_than(cursor: Cursor) -> None:
    for word in ("PARTITION", "LESS", "THAN"):
        cursor.need(word)
    cursor.group()


def split_regions(cursor: Cursor) -> None:
    """What follows SPLIT: [INDEX name | PRIMARY KEY [name]] BETWEEN (…) AND (…) REGIONS n."""
    if cursor.take("INDEX"):
        cursor.name("an index name")
    elif cursor.take("PRIMARY"):
        cursor.need("KEY")
        if cursor.kind == "name":
            cursor.name("an index name")
    cursor.need("BETWEEN")
    cursor.group()
    cursor.need("AND")
    cursor.group()
    cursor.need("REGIONS")
    cursor.number("a number of regions")


def names(cursor: Cursor) -> tuple[str, ...]:
    found = [cursor.name("a partition's name")]
    while cursor.take(","):
        found.append(cursor.name("a partition's name"))
    return tuple(found)
