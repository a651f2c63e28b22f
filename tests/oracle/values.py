"""Column types and the values that are worth storing in them, as SQL."""

import random
import re
from typing import Any

from lakehouse.schema import ColumnType, parse_type

INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
TEXT = (
    "''",
    "'a'",
    "'A'",
    "'b'",
    "'é'",
    "'1'",
    "'0'",
    "'12abc'",
    "' x '",
    "'ß点😀'",
    "'it''s'",
    "'back\\\\slash'",
    "'\\n\\t'",
    "'2024-05-06'",
    "'-1.5'",
    "'1e2'",
    "'null'",
    "'\"q\"'",
    "'a,b'",
    "'\\0'",
    "'11:12:13'",
    "'zz'",
)
LATIN = ("''", "'a'", "'Ä'", "'é'", "'12'", "'z'")
BYTES = ("x''", "x'00'", "x'61'", "x'00ff'", "x'c3a9'", "x'5c22'", "x'31'", "x'efbfbd'", "x'0a'")
DATES = ("'2024-02-29'", "'1970-01-01'", "'1000-01-01'", "'9999-12-31'", "'1969-12-31'", "'2024-05-06'")
ZERO_DATES = ("'0000-00-00'", "'2024-00-00'", "'2024-05-00'")
MOMENTS = (
    "'2024-02-29 23:59:59.999999'",
    "'1970-01-01 00:00:01'",
    "'1000-01-01 00:00:00'",
    "'9999-12-31 23:59:59'",
    "'2024-05-06 07:08:09.5'",
)
INSTANTS = (
    "'2024-02-29 23:59:59.999999'",
    "'1970-01-02 00:00:01'",
    "'2037-12-31 23:59:59'",
    "'2024-05-06 07:08:09.25'",
)
TIMES = ("'00:00:00'", "'-00:00:01.5'", "'838:59:59'", "'-838:59:59'", "'11:12:13.999999'", "'25:00:00'")
DECIMALS = ("0", "1.5", "-1.5", "2.45", "-0.01", "7", "99.99", "12345.678", "-3")
DOUBLES = ("0", "0.1", "-2.5", "1e10", "-1e-5", "3", "1e100", "123456.789", "0.30000000000000004")
DOCUMENTS = (
    "'{}'",
    "'[]'",
    "'null'",
    "'1'",
    "'{\"a\": 1}'",
    "'[1, \"x\", null]'",
    "'\"é\"'",
    '\'{"b": 1.50, "a": 18446744073709551615}\'',
)
TYPES = (
    "tinyint",
    "tinyint unsigned",
    "smallint",
    "smallint unsigned",
    "mediumint",
    "mediumint unsigned",
    "int",
    "int",
    "int unsigned",
    "bigint",
    "bigint unsigned",
    "tinyint(1)",
    "int(8) unsigned zerofill",
    "decimal(5,2)",
    "decimal(10,0)",
    "decimal(20,4)",
    "decimal(38,10)",
    "decimal(65,30)",
    "decimal(8,2) unsigned",
    "float",
    "double",
    "double unsigned",
    "float(7,3)",
    "double(9,2)",
    "bit(1)",
    "bit(8)",
    "bit(33)",
    "bit(64)",
    "year",
    "char(5)",
    "char(1)",
    "varchar(20)",
    "varchar(20)",
    "varchar(40)",
    "varchar(3)",
    "varchar(20) CHARACTER SET latin1",
    "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "char(10) CHARACTER SET ascii",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "text CHARACTER SET latin1",
    "binary(4)",
    "binary(1)",
    "varbinary(10)",
    "varbinary(3)",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "date",
    "datetime",
    "datetime(3)",
    "datetime(6)",
    "timestamp",
    "timestamp(3)",
    "timestamp(6)",
    "time",
    "time(2)",
    "time(6)",
    "enum('a','b','c')",
    "enum('x','y')",
    "enum('it''s','é','1','2')",
    "set('a','b','c')",
    "set('x','y','1')",
    "json",
)
KEYS = (
    "int",
    "int",
    "int",
    "int",
    "bigint",
    "bigint unsigned",
    "smallint",
    "varchar(20)",
    "varchar(20)",
    "char(5)",
    "decimal(10,2)",
    "datetime",
    "date",
    "binary(4)",
    "varbinary(10)",
    "enum('a','b','c')",
    "timestamp",
    "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "year",
    "bit(8)",
    "time(2)",
)
MEMBERS = ("a", "b", "c", "x", "y", "1", "2", "it's", "é", "B b")
DOCUMENTED_DATES = ("date", "datetime", "timestamp")


def enum_type(chance: random.Random, word: str = "enum") -> str:
    members = chance.sample(MEMBERS, k=chance.randint(1, 5))
    return f"{word}({','.join(text(member) for member in members)})"


def any_type(chance: random.Random, *, key: bool = False, documents: bool = True) -> str:
    """A column's type; `documents`: whether the server has JSON."""
    if not key and chance.random() < 0.08:
        return enum_type(chance, chance.choice(("enum", "set")))
    types = KEYS if key else TYPES
    return chance.choice(types if documents else [kind for kind in types if kind != "json"])


def literals(type_text: str, *, strict: bool) -> list[str]:
    """SQL literals of values for a column, most of which it accepts."""
    kind = parse_type(re.sub(r"(?i) character set.*", "", type_text))
    if kind.base in INTEGERS:
        return _integers(kind)
    if kind.members:
        return _labels(kind)
    if kind.base == "bit":
        return [str(number) for number in (0, 1, 65, 200, (1 << (kind.length or 1)) - 1)]
    if kind.base in DOCUMENTED_DATES:
        found = {"date": DATES, "datetime": MOMENTS, "timestamp": INSTANTS}[kind.base]
        zero = ZERO_DATES[: 1 if kind.base == "timestamp" else 3]
        return list(found) if strict else [*found, *zero]
    if "latin1" in type_text.lower() or "ascii" in type_text.lower():
        return list(LATIN)
    return list(_PLAIN[kind.base])


def _integers(kind: ColumnType) -> list[str]:
    bits = BITS[kind.base]
    low, high = (0, (1 << bits) - 1) if kind.unsigned else (-1 << (bits - 1), (1 << (bits - 1)) - 1)
    return [str(number) for number in (0, 1, 2, 3, 4, 7, -1 if low else 5, low, high, 70, 101)]


def _labels(kind: ColumnType) -> list[str]:
    found = [text(member) for member in kind.members]
    if kind.base == "set":
        found += ["''", text(",".join(kind.members)), text(",".join(kind.members[:2]))]
    return found


_PLAIN = {
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), TEXT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), BYTES),
    "decimal": DECIMALS,
    "float": DOUBLES,
    "double": DOUBLES,
    "time": TIMES,
    "json": DOCUMENTS,
    "year": ("0", "1901", "2024", "2155", "1970"),
}


def text(value: str) -> str:
    """A string as SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


def literal(cell: dict[str, Any]) -> str:
    """A stored value as SQL."""
    kind, value = parse_type(cell["type"]), cell["value"]
    if value is None:
        return "NULL"
    if kind.base in ("decimal", "bit", "float", "double", "year", *INTEGERS):
        return str(value)
    return f"x'{value[2:]}'" if kind.family == "binary" else text(value)
