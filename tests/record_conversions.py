"""Records what a MariaDB makes of values at MODIFY COLUMN, for tests/test_convert.py.

    python tests/record_conversions.py --port 3306 [--user root] > tests/data/conversions.jsonl

It needs a server of one's own: it makes and drops a database `conversions`. One line per pair of types, {"old", "new", "cases":
[[value, result], …]}: canonical values, those that the change alters and two that it does not. The session is in UTC and its
sql_mode lax: a strict one refuses the ALTER where data would be clipped.
"""

import argparse
import base64
import json
import sys
from typing import Any

import pymysql

from lakehouse.normal_form import single
from lakehouse.schema import ColumnType, parse_type

VALUES = {
    "tinyint": ["0", "1", "-1", "127", "-128", "70"],
    "int": ["0", "5", "-5", "2147483647", "-2147483648", "101", "1112", "240102", "20240102", "20240230", "1170", "9999999", "2024"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "20240102030405", "240102030405", "9007199254740993"],
    "bigint unsigned": ["18446744073709551615", "9223372036854775808", "3"],
    "decimal(10,2)": ["0", "2.50", "-2.50", "3.49", "99999999.99", "-0.01", "24.60", "20240102.55"],
    "decimal(30,10)": ["12345678901234567890.1234567890", "20240102030405.5", "-0.0000000001"],
    "float": ["0", "0.1", "-2.5", "16777216", "1e20", "1e-20", "3.4028234e38", "123456.7"],
    "double": [
        "0", "0.1", "2.5", "3.5", "-2.5", "1e30", "-1e300", "1e15", "123456789012345", "1e-5", "1e-16", "0.30000000000000004",
        "24.6",
    ],
    "bit(8)": ["0", "65", "200", "255"],
    "bit(64)": ["9223372036854775807", "1"],
    "year": ["0", "1901", "2024", "2155"],
    "varchar(40)": [
        "''",
        "'12'", "'12abc'", "'1.5'", "'-1.5'", "'1.9'", "' 2.5e1 '", "'abc'", "'99999999999'", "'-1'", "'1e400'", "'.5'", "'b'",
        "'B'",
        "'a,c'", "'zz'", "'2'", "'b  '", "'é€'", "'[1, 2]'", "'2024-01-02'", "'2024-1-2 3:4:5.678'", "'24/1/2'", "'20240102'",
        "'240102030405'", "'2024-02-30'", "'2024-00-00'", "'2024-01-02T03:04:05'", "'2024-01-02 03:04:05.9999999'", "'2024-01-02xyz'", "'11:12'",
        "'1 02:03:04'", "'-838:59:59.5'", "'900:00:00'", "'1112'", "'11:60:00'", "'0'", "'00'", "'0000'", "'70'", "'1999'", "'2024-01-02 23:59:59.999999'",
    ],
    "char(10)": ["'a  '", "'a'", "''", "'2024-01-02'"],
    "text": ["'long text of more than ten'", "'1'", "'a,b'"],
    "varbinary(10)": ["x''", "x'3132'", "x'6162'", "x'C3A9'", "x'00FF'", "x'313200'"],
    "binary(4)": ["x'3132'", "x'61626364'"],
    "blob": ["x'323032342D30312D3032'", "x'33'"],
    "date": ["'2024-05-06'", "'0000-00-00'", "'2024-00-00'", "'1999-12-31'", "'9999-12-31'"],
    "datetime": ["'2024-05-06 07:08:09'", "'0000-00-00 00:00:00'", "'1969-12-31 23:59:59'", "'2044-01-01 00:00:00'"],
    "datetime(3)": ["'2024-05-06 23:59:59.999'", "'2024-05-06 00:00:00.500'", "'1999-12-31 23:59:59.400'"],
    "timestamp": ["'2024-05-06 07:08:09'", "'0000-00-00 00:00:00'"],
    "timestamp(6)": ["'2024-05-06 23:59:59.999999'"],
    "time": ["'11:12:13'", "'-11:12:13'", "'838:59:59'", "'00:00:24'", "'100:00:00'"],
    "time(3)": ["'11:12:13.999'", "'-00:00:00.500'", "'838:59:58.999'"],
    "enum('a','b','C')": ["'a'", "'b'", "'C'", "0"],
    "enum('2024-01-02','7','x')": ["'2024-01-02'", "'7'"],
    "set('a','b','c')": ["'a'", "'a,c'", "''", "'a,b,c'"],
}  # fmt: skip
TARGETS = [
    "tinyint", "tinyint unsigned", "int", "int unsigned", "bigint", "bigint unsigned", "decimal(5,2)", "decimal(20,0)",
    "decimal(20,4)", "decimal(10,1) unsigned", "float", "double", "double(7,3)", "double unsigned", "bit(4)", "bit(64)", "year", "char(3)",
    "varchar(5)", "varchar(40)", "tinytext", "varchar(40) character set latin1", "binary(4)", "binary(12)", "varbinary(5)", "blob", "date",
    "datetime", "datetime(2)", "timestamp", "timestamp(4)", "time", "time(2)", "enum('b','a')", "enum('2','7','C')", "set('c','a')",
]  # fmt: skip
CLOCK_DEPENDENT = {("time", target) for target in ("date", "datetime", "timestamp")}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=3306)
    arguments.add_argument("--user", default="root")
    options = arguments.parse_args()
    connection = pymysql.connect(host="127.0.0.1", port=options.port, user=options.user, charset="utf8mb4", autocommit=True, conv={})
    with connection.cursor() as cursor:
        for statement in ("create database if not exists conversions", "use conversions", "set time_zone='+00:00', sql_mode=''"):
            cursor.execute(statement)
        for old in VALUES:
            for new in TARGETS:
                record(cursor, old, new)
        cursor.execute("drop database conversions")


def record(cursor: Any, old: str, new: str) -> None:
    """Store the values, change the column's type, print what became of each."""
    old_type, new_type = parse_type(old), parse_type(new)
    if (old_type.family, new_type.family) in CLOCK_DEPENDENT or old == new:
        return
    cursor.execute(f"create or replace table t (id int primary key, v {old} null) character set utf8mb4")
    for number, value in enumerate(VALUES[old]):
        cursor.execute(f"insert into t values ({number}, {value})")
    before = read(cursor, old_type)
    try:
        cursor.execute(f"alter table t modify v {new} null")
    except pymysql.err.MySQLError as error:
        print(old, new, error, file=sys.stderr)
        return
    pairs = [[value, result] for value, result in zip(before, read(cursor, new_type), strict=True)]
    same = [pair for pair in pairs if pair[0] == pair[1]]
    cases = [pair for pair in pairs if pair not in same[2:]]
    print(json.dumps({"old": old, "new": new, "cases": cases}, ensure_ascii=False, separators=(",", ":")))


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
