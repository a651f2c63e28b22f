"""Records what a TiDB makes of values at MODIFY COLUMN, for tests/values/test_convert.py.

    python -m tests.support.record_tidb_conversions --port 4000 [--user root] [--strict] --to FILE

It makes and drops a database `conversions`. One line per pair of types, as
tests/support/record_conversions.py has them, with `refused`: how many of the values the ALTER is refused
for. The session is in UTC and its sql_mode lax, or strict.
"""

import argparse
from pathlib import Path
from typing import Any

import pymysql

from lakehouse.schema import parse_type
from tests.oracle.program import STRICT
from tests.support.record_conversions import CLOCK_DEPENDENT, TARGETS, VALUES, canonical, write

MORE = {
    "json": [
        *('\'{"b":1, "a":[1,2]}\'', "'5'", "'\"abc\"'", "'\"2024-05-06\"'", "'null'", "'true'", "'false'"),
        *("'1.5'", "'18446744073709551615'", "'-3'", "'\"12\"'", "'[]'", "'\"a\"'", "'\"11:12:13\"'"),
    ],
    "varchar(20) character set latin1": ["'Ä'", "'12'", "'é'", "''"],
    "varchar(20) character set gbk": ["'中'", "'12'"],
    "varchar(20) character set utf8mb3": ["'点'", "'12'"],
    "mediumint unsigned": ["16777215", "0"],
    "int(5) zerofill": ["42", "123456"],
    "decimal(8,3) zerofill": ["1.5"],
    "float(7,3)": ["1.5", "0.1", "1234.567"],
    "double(9,2)": ["1.5", "0.1", "1234567.89"],
    "enum('','a')": ["''", "'a'"],
    "longtext": ["repeat('x',300)", "'{\"a\":1}'", "'é😀'"],
    "varchar(60)": [
        *("'[1, 2]'", '\'{"bb":1,  "a":2.50, "a":3}\'', "'1'", "'tru'", "'\"x\"'", "'[1e2,1e-7,1e15,-0.0]'"),
        *("'[18446744073709551616]'", "'\"\\\\u00e9\\\\u2028\"'"),
    ],
    "datetime(6)": [
        *("'2024-05-06 07:08:09.123456'", "'9999-12-31 23:59:59.999999'", "'1970-01-01 00:00:00.5'"),
        *("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.9'", "'1901-02-03'"),
    ],
    "time(6)": ["'11:12:13.999999'", "'-838:59:59'", "'24:00:00'", "'-00:00:00.000001'"],
    "bit(33)": ["8589934591", "0", "20240102", "49"],
    "varchar(41)": [
        *("'1e2'", "'0x41'", "'-0'", "'+5'", "'1e-3'", "'3.999999999'", "'12345678901234567890'"),
        *("'-12345678901234567890'", "'1.7976931348623157e309'", "'\\t5'", "'5\\n'", "'1,2'", "'TRUE'"),
        *("'999999'", "'9999999'", "'23:59:59.9999999'", "'1 23:00:00'", "'-1:2:3'", "'2024'"),
        *("'20240102030405.678'", "'2024-01-02 03:04:05+08:00'", "'2024-01-02T03:04:05Z'", "'12:34'"),
        *("'1:2'", "'0000-00-00'", "'2155'", "'2156'", "'1900'", "'99'", "'100'", "'a, c'", "'C,A'"),
        *("'c,a'", "'A'", "' '", "'😀'", "'ß'"),
    ],
}
MORE_TARGETS = [
    *("smallint", "mediumint", "mediumint unsigned", "decimal(65,30)", "float(7,3)", "double(9,2)", "bit(1)"),
    *("bit(33)", "char(10)", "text", "longtext", "varchar(40) character set gbk"),
    *("varchar(40) character set ascii", "varchar(40) character set utf8mb3", "binary(1)", "varbinary(40)"),
    *("tinyblob", "longblob", "datetime(6)", "timestamp(6)", "time(6)", "json", "int(8) zerofill"),
]
Values = list[tuple[int, str]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=4000)
    arguments.add_argument("--user", default="root")
    arguments.add_argument("--strict", action="store_true")
    arguments.add_argument("--to", type=Path, required=True)
    options = arguments.parse_args()
    connection: Any = pymysql.connect(
        host="127.0.0.1", port=options.port, user=options.user, charset="utf8mb4", autocommit=True, conv={}
    )
    values = {**VALUES, **MORE}
    with connection.cursor() as cursor:
        cursor.execute("create database if not exists conversions")
        cursor.execute("use conversions")
        cursor.execute("set time_zone='+00:00'")
        recorder = Recorder(cursor, STRICT if options.strict else "")
        lines = [recorder.pair(old, new, values[old]) for old in values for new in (*TARGETS, *MORE_TARGETS)]
        cursor.execute("drop database conversions")
    write(options.to, lines)


class Recorder:
    def __init__(self, cursor: Any, mode: str) -> None:
        self.cursor, self.mode = cursor, mode

    def pair(self, old: str, new: str, literals: list[str]) -> dict[str, Any] | None:
        """The line of a pair of types, None where the server has no such ALTER."""
        if old == new or (parse_type(old).family, parse_type(new).family) in CLOCK_DEPENDENT:
            return None
        values = list(enumerate(literals))
        self._create(old, values)
        before = dict(zip(range(len(values)), self._read(old), strict=True))
        after = self._converted(old, new, values)
        pairs = [[before[number], after[number]] for number in before if number in after]
        return line(old, new, pairs, refused=len(before) - len(pairs))

    def _converted(self, old: str, new: str, values: Values) -> dict[int, Any]:
        """What each value becomes, halving the values where the ALTER is refused."""
        self._create(old, values)
        try:
            self.cursor.execute(f"set sql_mode='{self.mode}'")
            self.cursor.execute(f"alter table t modify v {new} null")
        except pymysql.err.MySQLError as error:
            if "nsupported" in str(error) or len(values) == 1:
                return {}
            half = len(values) // 2
            return self._converted(old, new, values[:half]) | self._converted(old, new, values[half:])
        return dict(zip((number for number, _ in values), self._read(new), strict=True))

    def _create(self, old: str, values: Values) -> None:
        self.cursor.execute("set sql_mode=''")
        self.cursor.execute("drop table if exists t")
        self.cursor.execute(f"create table t (id int primary key, v {old} null) character set utf8mb4")
        rows = ", ".join(f"({number}, {value})" for number, value in values)
        self.cursor.execute(f"insert into t values {rows}")

    def _read(self, type_: str) -> list[Any]:
        kind = parse_type(type_)
        told = {"bit": "v+0", "float": "cast(v as double)", "binary": "hex(v)", "text": "hex(v)"}
        self.cursor.execute(f"select {told.get(kind.family, 'v')}, v+0 from t order by id")
        return [self._canonical(kind, *row) for row in self.cursor.fetchall()]

    @staticmethod
    def _canonical(kind: Any, text: str | None, number: Any) -> Any:
        if text is not None and kind.family == "text":
            return bytes.fromhex(text).decode("utf-8", "surrogateescape")
        if kind.family == "enum" and text == "" and "" in kind.members and int(number) == 0:
            return 0
        return canonical(kind, text)


def line(old: str, new: str, pairs: list[list[Any]], refused: int) -> dict[str, Any] | None:
    """What the file has: the cases that the change alters and two that it does not."""
    same = [pair for pair in pairs if pair[0] == pair[1]]
    cases = [pair for pair in pairs if pair not in same[2:]]
    return {"old": old, "new": new, "cases": cases, "refused": refused} if pairs else None


if __name__ == "__main__":
    main()
