"""Records what a MariaDB makes of values at MODIFY COLUMN and of defaults at ADD COLUMN, for
tests/values/test_convert.py and tests/values/test_defaults.py.

    python -m tests.support.record_conversions --port 3306 [--user root] --to tests/data

It needs a server of one's own: it makes and drops a database `conversions`. conversions.jsonl has one line
per pair of types, {"old", "new", "cases": [[value, result], …]}: canonical values, those that the change
alters and two that it does not. The session is in UTC and its sql_mode lax: a strict one refuses the ALTER
where data would be clipped. defaults.jsonl has {"type", "default", "not_null", "value"}.
"""

import argparse
import base64
import json
import sys
from pathlib import Path
from typing import Any

import pymysql

from lakehouse.schema import ColumnType, parse_type
from lakehouse.values.normal_form import single

VALUES = {
    "tinyint": ["0", "1", "-1", "127", "-128", "70"],
    "int": [
        "0",
        "5",
        "-5",
        "2147483647",
        "-2147483648",
        "101",
        "1112",
        "240102",
        "20240102",
        "20240230",
        "1170",
        "9999999",
        "2024",
    ],
    "bigint": [
        "9223372036854775807",
        "-9223372036854775808",
        "20240102030405",
        "240102030405",
        "9007199254740993",
    ],
    "bigint unsigned": ["18446744073709551615", "9223372036854775808", "3"],
    "decimal(10,2)": ["0", "2.50", "-2.50", "3.49", "99999999.99", "-0.01", "24.60", "20240102.55"],
    "decimal(30,10)": ["12345678901234567890.1234567890", "20240102030405.5", "-0.0000000001"],
    "float": ["0", "0.1", "-2.5", "16777216", "1e20", "1e-20", "3.4028234e38", "123456.7"],
    "double": [
        "0",
        "0.1",
        "2.5",
        "3.5",
        "-2.5",
        "1e30",
        "-1e300",
        "1e15",
        "123456789012345",
        "1e-5",
        "1e-16",
        "0.30000000000000004",
        "24.6",
    ],
    "bit(8)": ["0", "65", "200", "255"],
    "bit(64)": ["9223372036854775807", "1", "9223372036854775808", "18446744073709551615"],
    "year": ["0", "1901", "2024", "2155"],
    "varchar(40)": [
        "''",
        "'12'",
        "'12abc'",
        "'1.5'",
        "'-1.5'",
        "'1.9'",
        "' 2.5e1 '",
        "'abc'",
        "'99999999999'",
        "'-1'",
        "'1e400'",
        "'.5'",
        "'b'",
        "'B'",
        "'a,c'",
        "'zz'",
        "'2'",
        "'b  '",
        "'é€'",
        "'[1, 2]'",
        "'2024-01-02'",
        "'2024-1-2 3:4:5.678'",
        "'24/1/2'",
        "'20240102'",
        "'240102030405'",
        "'2024-02-30'",
        "'2024-00-00'",
        "'2024-01-02T03:04:05'",
        "'2024-01-02 03:04:05.9999999'",
        "'2024-01-02xyz'",
        "'11:12'",
        "'1 02:03:04'",
        "'-838:59:59.5'",
        "'900:00:00'",
        "'1112'",
        "'11:60:00'",
        "'0'",
        "'00'",
        "'0000'",
        "'70'",
        "'1999'",
        "'2024-01-02 23:59:59.999999'",
    ],
    "char(10)": ["'a  '", "'a'", "''", "'2024-01-02'"],
    "text": ["'long text of more than ten'", "'1'", "'a,b'"],
    "varbinary(10)": ["x''", "x'3132'", "x'6162'", "x'C3A9'", "x'00FF'", "x'313200'"],
    "binary(4)": ["x'3132'", "x'61626364'"],
    "blob": ["x'323032342D30312D3032'", "x'33'"],
    "date": ["'2024-05-06'", "'0000-00-00'", "'2024-00-00'", "'1999-12-31'", "'9999-12-31'"],
    "datetime": [
        "'2024-05-06 07:08:09'",
        "'0000-00-00 00:00:00'",
        "'1969-12-31 23:59:59'",
        "'2044-01-01 00:00:00'",
    ],
    "datetime(3)": ["'2024-05-06 23:59:59.999'", "'2024-05-06 00:00:00.500'", "'1999-12-31 23:59:59.400'"],
    "timestamp": ["'2024-05-06 07:08:09'", "'0000-00-00 00:00:00'"],
    "timestamp(6)": ["'2024-05-06 23:59:59.999999'"],
    "time": ["'11:12:13'", "'-11:12:13'", "'838:59:59'", "'00:00:24'", "'100:00:00'"],
    "time(3)": ["'11:12:13.999'", "'-00:00:00.500'", "'838:59:58.999'"],
    "enum('a','b','C')": ["'a'", "'b'", "'C'", "0"],
    "enum('2024-01-02','7','x')": ["'2024-01-02'", "'7'"],
    "set('a','b','c')": ["'a'", "'a,c'", "''", "'a,b,c'"],
}
TARGETS = [
    "tinyint",
    "tinyint unsigned",
    "int",
    "int unsigned",
    "bigint",
    "bigint unsigned",
    "decimal(5,2)",
    "decimal(20,0)",
    "decimal(20,4)",
    "decimal(10,1) unsigned",
    "float",
    "double",
    "double(7,3)",
    "double unsigned",
    "bit(4)",
    "bit(64)",
    "year",
    "char(3)",
    "varchar(5)",
    "varchar(40)",
    "tinytext",
    "varchar(40) character set latin1",
    "binary(4)",
    "binary(12)",
    "varbinary(5)",
    "blob",
    "date",
    "datetime",
    "datetime(2)",
    "timestamp",
    "timestamp(4)",
    "time",
    "time(2)",
    "enum('b','a')",
    "enum('2','7','C')",
    "set('c','a')",
]
# types that MariaDB alone has, and pairs that few columns change between: to these types alone
ADDRESSES = ["inet4", "inet6", "uuid"]
FEW = {
    "varchar(60)": (
        [
            *(
                "'::1'",
                "'::FFFF:1.2.3.4'",
                "'2001:0db8:0:0:1:0:0:1'",
                "'2001:db8:0:1:1:1:1:1'",
                "'::1.2.3.4'",
            ),
            *("'fe80::'", "'0:0:1::'", "'1.2.3.4'", "'01.2.3.4'", "'256.1.1.1'", "'1.2.3'", "'bad'", "''"),
            *("' ::2 '", "'::2 '", "'::ffff:0:1'", "'1:0:0:2:0:0:0:3'", "'1::2:0:0:3:4:5'", "'::'", "'A::'"),
            *("'::5:1.2.3.4'", "'00001::'", "'1:2:3:4:5:6:7::'", "'::2:3:4:5:6:7:8'", "'1::2::3'", "'1:2'"),
            *("'1:2:3:4:5:6:1.2.3.4'", "'0:0:0:0:0:0:1:0'", "'::ffff:0:1.2.3.4'", "'1:2:3:4:5:6:7:8:9'"),
            *("'1:2:3:4:5:6:7:8::'", "':1:2:3:4:5:6:7:8'", "'1.2.3.4::'", "'::1.2.3.4:1'", "'::01.2.3.4'"),
            *("'123E4567-e89b-12d3-a456-426655440000'", "'123e4567e89b12d3a456426655440000'"),
            *("'1-2-3e4567e89b12d3a456426655440000'", "'123e4567--e89b12d3a456426655440000'"),
            *("'-123e4567e89b12d3a456426655440000'", "'123e4567e89b12d3a456426655440000-'"),
            *("'123e4567---e89b12d3a456426655440000'", "'123e4567e89b12d3a45642665544000'"),
        ],
        ADDRESSES,
    ),
    "char(40)": (["'::1'", "'1.2.3.4'", "'123e4567-e89b-12d3-a456-426655440000'"], ADDRESSES),
    "enum('::1','x')": (["'::1'", "'x'"], ["inet6"]),
    "varbinary(16)": (["x'00000000000000000000000000000001'", "x'01020304'", "'::1'", "''"], ADDRESSES),
    "inet6": (
        ["'::1'", "'::ffff:1.2.3.4'", "'2001:db8::1'"],
        ["varbinary(16)", "varbinary(4)", "binary(20)", "blob", "text", "varchar(60)", "char(3)"],
    ),
    "inet4": (["'1.2.3.4'", "'0.0.0.0'"], ["inet6", "varbinary(16)", "blob", "varchar(5)", "text"]),
    "uuid": (["'123e4567-e89b-12d3-a456-426655440000'"], ["binary(16)", "char(36)", "char(8)", "longtext"]),
    "json": (
        ['\'{"b":1, "a":[1,2]}\'', "'5'"],
        ["longtext", "varchar(9)", "longblob", "varbinary(3)", "int"],
    ),
    "int(5) zerofill": (["42", "123456"], ["varchar(12)", "text", "varbinary(8)"]),
    "int zerofill": (["42"], ["varchar(12)"]),
    "enum('','a')": (["''", "'a'"], ["int", "varchar(9)", "enum('a','')", "enum('a')"]),
}
DEFAULTS = {
    "int": ["5", "'5'", "-1", "1.5", "'-7'", "TRUE", "0x41", "b'101'", "(7)", "NULL", "1e2"],
    "int unsigned": ["7"],
    "bigint unsigned": ["18446744073709551615"],
    "decimal(10,2)": ["5", "'5.5'", "-0.125", "1e1", "'0'"],
    "decimal(8,0)": ["1.5", "-1.5"],
    "float": ["0.1", "'1.5'", "1"],
    "double": ["-1", "1e300"],
    "bit(9)": ["b'101'", "5", "0b11", "x'41'", "'a'"],
    "year": ["2024", "'24'", "0", "70"],
    "varchar(20)": [
        "'a''b'",
        "'it\\'s \\\\ \\n'",
        '"dq""x"',
        "''",
        "_utf8mb4'none'",
        "x'4142'",
        "5",
        "1.50",
        "'a' 'b'",
        "0x4142",
        "N'n'",
    ],
    "char(5)": ["'a  '"],
    "text": ["'t'"],
    "varbinary(5)": ["'ab'", "x'00FF'"],
    "binary(4)": ["'ab'", "0x01"],
    "date": ["'2024-05-06'", "20240506", "'24/5/6'", "DATE '2024-05-06'", "'0000-00-00'"],
    "datetime(3)": [
        "'2024-05-06 07:08:09.5'",
        "'2024-05-06'",
        "20240506070809",
        "TIMESTAMP '2024-05-06 07:08:09'",
    ],
    "timestamp": ["'2024-05-06 07:08:09'"],
    "time(1)": ["'11:12'", "111213", "'-1:02:03.5'"],
    "enum('a','b','2')": ["'b'", "'B'", "2", "'2'"],
    "set('x','y','z')": ["'x,z'", "5", "''", "'Z,x'"],
    "json": ["'{\"a\": 1}'"],
    "inet6": ["'::FFFF:1.2.3.4'"],
    "uuid": ["'123E4567e89b12d3a456426655440000'"],
}
IMPLICIT = [
    "int",
    "decimal(10,2)",
    "float",
    "double",
    "bit(9)",
    "year",
    "varchar(9)",
    "char(3)",
    "text",
    "binary(3)",
    "varbinary(3)",
    "blob",
    "date",
    "datetime(2)",
    "time(1)",
    "enum('q','b')",
    "set('x')",
    *ADDRESSES,
    "json",
]
CLOCK_DEPENDENT = {("time", target) for target in ("date", "datetime", "timestamp")}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=3306)
    arguments.add_argument("--user", default="root")
    arguments.add_argument("--to", type=Path, required=True)
    options = arguments.parse_args()
    connection = pymysql.connect(
        host="127.0.0.1", port=options.port, user=options.user, charset="utf8mb4", autocommit=True, conv={}
    )
    with connection.cursor() as cursor:
        for statement in (
            "create database if not exists conversions",
            "use conversions",
            "set time_zone='+00:00', sql_mode=''",
        ):
            cursor.execute(statement)
        conversions = [record(cursor, old, new) for old in VALUES for new in TARGETS]
        conversions += [record(cursor, old, new) for old in FEW for new in FEW[old][1]]
        defaults = [
            record_default(cursor, column, default) for column in DEFAULTS for default in DEFAULTS[column]
        ]
        implicit = [record_default(cursor, column, None) for column in IMPLICIT]
        cursor.execute("drop database conversions")
    write(options.to / "conversions.jsonl", conversions)
    write(options.to / "defaults.jsonl", defaults + implicit)


def write(path: Path, lines: list[dict[str, Any] | None]) -> None:
    path.write_text(
        "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines if line)
    )


def record_default(cursor: Any, column: str, default: str | None) -> dict[str, Any] | None:
    """Add a column to a row that exists, tell its value; None for a default that the server refuses."""
    cursor.execute("create or replace table t (id int primary key) character set utf8mb4")
    cursor.execute("insert into t values (1)")
    try:
        cursor.execute(
            f"alter table t add v {column} " + ("not null" if default is None else f"null default {default}")
        )
    except pymysql.err.MySQLError as error:
        print(column, default, error, file=sys.stderr)
        return None
    (value,) = read(cursor, parse_type(column))
    return {"type": column, "default": default, "not_null": default is None, "value": value}


def record(cursor: Any, old: str, new: str) -> dict[str, Any] | None:
    """Store the values, change the column's type, tell what became of each."""
    old_type, new_type = parse_type(old), parse_type(new)
    if (old_type.family, new_type.family) in CLOCK_DEPENDENT or old == new:
        return None
    cursor.execute(f"create or replace table t (id int primary key, v {old} null) character set utf8mb4")
    for number, value in enumerate(VALUES[old] if old in VALUES else FEW[old][0]):
        cursor.execute(f"insert into t values ({number}, {value})")
    before = read(cursor, old_type)
    try:
        cursor.execute(f"alter table t modify v {new} null")
    except pymysql.err.MySQLError as error:
        print(old, new, error, file=sys.stderr)
        return None
    pairs = [[value, result] for value, result in zip(before, read(cursor, new_type), strict=True)]
    same = [pair for pair in pairs if pair[0] == pair[1]]
    cases = [pair for pair in pairs if pair not in same[2:]]
    return {"old": old, "new": new, "cases": cases}


def read(cursor: Any, column_type: ColumnType) -> list[Any]:
    expression = {"bit": "v+0", "float": "cast(v as double)", "binary": "hex(v)"}.get(column_type.family, "v")
    cursor.execute(f"select {expression} from t order by id")
    return [canonical(column_type, text) for (text,) in cursor.fetchall()]


def canonical(column_type: ColumnType, text: str | None) -> Any:
    """The canonical value of a server's text."""
    match column_type.family:
        case _ if text is None:
            return None
        case "integer" | "bit" | "year":
            return int(text)
        case "float":
            return single(float(text))
        case "double":
            return float(text)
        case "binary":
            return base64.b64encode(bytes.fromhex(text)).decode()
        case "timestamp":
            return text if text.startswith("0000-") else f"{text}Z"
        case _:
            return text


if __name__ == "__main__":
    main()
