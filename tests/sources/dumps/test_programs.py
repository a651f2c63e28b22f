"""Dumps as mariadb-dump and mydumper write them of one real database, decoded: the same rows from all of
them, and the server's own.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.events import DDL, RowChange
from lakehouse.formats import decode_message
from lakehouse.sources.database import DatabaseSettings, connect
from lakehouse.sources.dumps.files import LocalDump
from lakehouse.sources.dumps.read import find_dump
from lakehouse.sources.dumps.records import BinlogPlace, Tso
from lakehouse.sources.dumps.snapshot import Found, _is_cut, place_in, snapshot_messages
from tests.servers.mariadb import MariaDb, run_program, start_mariadb
from tests.support.engine import Memory
from tests.support.paths import DATA

TSO = 449583647234560001
DATABASES = ("o.dd db", "plain")
SETUP = r"""
SET NAMES utf8mb4; SET time_zone='+08:00'; SET sql_mode='ALLOW_INVALID_DATES';
CREATE DATABASE `o.dd db` CHARACTER SET latin1; CREATE DATABASE plain; USE `o.dd db`;
CREATE TABLE `a.b c` (
  `id` bigint unsigned, `k` varbinary(9),
  `bits` bit(64), `small` tinyint unsigned zerofill, `d` decimal(65,30),
  `dbl` double, `dt` datetime(6), `day` date, `t` time(3),
  `ts` timestamp(3) NULL, `y` year, `c` char(9), `b` binary(4),
  `l` varchar(99), `g` varchar(99) CHARACTER SET gbk, `u` varchar(99) CHARACTER SET utf16, `j` json,
  `geo` geometry,
  `e` enum('a','b\\c','d''e','f,g'), `s` set('x','y z'), `blob``s` longblob, `ip` inet6,
  `un` uuid, PRIMARY KEY (`id`, `k`));
INSERT INTO `a.b c` VALUES
(18446744073709551615, x'00275c220a0d1a25', x'ffffffffffffffff', 7,
 '-12345678901234567890123456789012345.123456789012345678901234567890', -1.7976931348623157e308,
 '9999-12-31 23:59:59.999999', '0000-00-00', '-838:59:59.000', '2024-01-01 08:00:00.125', 0, ' x ', x'00ff',
 'é\'"\\\n\r\t\0;-- /* `', '中文\\', '中\\''', '{"a": "\\n\\"é😀"}', ST_GeomFromText('POINT(1 2)'),
 'b\\c', 'x,y z', x'00010203275c22', '::1', '123e4567-e89b-12d3-a456-426614174000'),
(0, '', 0, NULL, 0, 1e-300, '2024-02-30', '2024-02-30', '00:00:00', NULL, 2155, '', '', '', '', '', '1',
 NULL,  'd''e', '', '', NULL, NULL),
(1, x'ff', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'NULL', '\\N', '),(', '"),("',
 NULL, 'f,g', NULL, NULL, NULL, NULL);
UPDATE `a.b c` SET e = '' WHERE id = 1;
CREATE TABLE `equal rows` (`a` int, `b` text); INSERT INTO `equal rows` VALUES (1,'x'),(1,'x'),(NULL,NULL);
CREATE TABLE `empty` (`a` int); CREATE VIEW `v` AS SELECT 1 AS `a`; CREATE SEQUENCE `seq`;
CREATE TABLE plain.`ünï` (`ä` int PRIMARY KEY, `long` mediumtext);
INSERT INTO plain.`ünï` VALUES (1, REPEAT('a''\\b', 400000)), (2, '');
CREATE TABLE plain.gen (`id` int PRIMARY KEY, `st` int AS (`id` + 1) STORED, `vi` int AS (`id` + 2) VIRTUAL);
INSERT INTO plain.gen (`id`) VALUES (1), (2);
"""
TRIGGER = b"CREATE TRIGGER plain.tr BEFORE INSERT ON plain.gen FOR EACH ROW BEGIN SET @a = ';--'; END"
# a compact dump does not say that it is in UTC
ZONES = {"compact": "+00:00", "no-tz": "+08:00"}
WAYS = {
    "plain": (),
    "hex": ("--hex-blob", "--skip-extended-insert"),
    "complete": ("--complete-insert", "--triggers", "--routines", "--events"),
    "compact": ("--compact", "--skip-comments"),
    "no-tz": ("--skip-tz-utc", "--skip-opt", "--single-transaction"),
}

DUMPLING = {
    "sql": (),
    "locked": ("--consistency=lock", "--complete-insert", "--statement-size=1"),
    "split": ("--rows=1", "--filesize=1KiB", "--compress=gzip"),
    "zstd": ("--compress=zstd", "--consistency=flush"),
    "csv": ("--filetype=csv",),
    "csv-split": ("--filetype=csv", "--rows=1", "--no-header", "--compress=zstd"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--default-time-zone=+08:00")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *options) as server:
        run_program("mariadb", server, "--default-character-set=utf8mb4", given=SETUP.encode())
        run_program("mariadb", server, "--delimiter=//", given=TRIGGER)
        yield server


@pytest.fixture(scope="module")
def expected(server: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, list[Any]]:
    return rows_of(mariadb_dump(server, tmp_path_factory.mktemp("first") / "dump.sql", ()))


def mariadb_dump(server: MariaDb, path: Path, way: tuple[str, ...]) -> Path:
    path.write_bytes(run_program("mariadb-dump", server, "--master-data=2", *way, "--databases", *DATABASES))
    return path


def rows_of(path: Path, zone: str | None = None) -> dict[Any, list[Any]]:
    """The canonical rows of each table of a MariaDB."""
    dump = replace(find_dump(LocalDump(path)), zone=zone)
    place = place_in("debezium", "binlog", BinlogPlace("b.000001", 4), "shop")
    found: dict[Any, list[Any]] = {}
    for message in snapshot_messages(dump, place, Found()):
        for event in decode_message("debezium", message, {"time_zone": "Asia/Tokyo"}):
            rows = found.setdefault((event.database, event.table), [])  # type: ignore[union-attr]
            if isinstance(event, RowChange):
                rows.append(event.after)
            else:
                assert getattr(event, "kind", event) == "table"
    return found


def test_the_rows_are_the_servers_own(server: MariaDb, expected: dict[Any, list[Any]]) -> None:
    first = next(row for row in expected["o.dd db", "a.b c"] if row["id"] == 2**64 - 1)

    assert first == {
        "id": 18446744073709551615,
        "k": "ACdcIgoNGiU=",
        "bits": 2**64 - 1,
        "small": 7,
        "d": "-12345678901234567890123456789012345.123456789012345678901234567890",
        "dbl": -1.7976931348623157e308,
        "dt": "9999-12-31 23:59:59.999999",
        "day": "0000-00-00",
        "t": "-838:59:59.000",
        "ts": "2024-01-01 00:00:00.125Z",
        "y": 0,
        "c": " x",
        "b": "AP8AAA==",
        "l": "é'\"\\\n\r\t\0;-- /* `",
        "g": "中文\\",
        "u": "中\\'",
        "j": '{"a": "\\n\\"é😀"}',
        "geo": "AAAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA==",
        "e": "b\\c",
        "s": "x,y z",
        "blob`s": "AAECAydcIg==",
        "ip": "::1",
        "un": "123e4567-e89b-12d3-a456-426614174000",
    }
    assert expected["o.dd db", "equal rows"].count({"a": 1, "b": "x"}) == 2
    assert expected["o.dd db", "empty"] == []
    assert expected["plain", "ünï"][0]["long"] == "a'\\b" * 400000
    assert expected["plain", "gen"] == [{"id": 1, "st": 2, "vi": 3}, {"id": 2, "st": 3, "vi": 4}]
    assert len(expected) == 5


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_dump_has_the_same_rows(
    server: MariaDb, expected: dict[Any, list[Any]], tmp_path: Path, way: str
) -> None:
    path = mariadb_dump(server, tmp_path / "dump.sql", WAYS[way])
    place = find_dump(LocalDump(path)).place

    assert rows_of(path, ZONES.get(way)) == expected
    assert isinstance(place, BinlogPlace)
    assert place.file == "binlog.000001"


@pytest.mark.skipif(
    shutil.which("mydumper") is None, reason="mydumper is not installed (apt-get install mydumper)"
)
def test_mydumper_has_the_same_rows_without_those_that_the_server_computes(
    server: MariaDb, expected: dict[Any, list[Any]], tmp_path: Path
) -> None:
    """Of one thread: those of 0.10 may wait for each other for ever."""
    path = tmp_path / "dump"
    where = ("--host=127.0.0.1", f"--port={server.port}", "--user=root", f"--outputdir={path}")
    subprocess.run(
        ["mydumper", *where, "--regex=^(o.dd db|plain)\\.", "--compress", "--threads=1"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    without = {**expected, ("plain", "gen"): [{"id": 1}, {"id": 2}]}

    found = rows_of(path)

    assert {name: in_order(rows) for name, rows in found.items()} == {
        name: in_order(rows) for name, rows in without.items()
    }
    assert isinstance(find_dump(LocalDump(path)).place, BinlogPlace)


@pytest.mark.parametrize("recorded", ("csv-1.0", "load-data-0.16"))
def test_rows_of_later_releases_of_mydumper_are_the_same(
    expected: dict[Any, list[Any]], recorded: str
) -> None:
    """Written by 1.0.1 (`--format=CSV --include-header`) and 0.16.9 (`--load-data --hex-blob`) of SETUP."""
    path = DATA / "mydumper" / recorded
    without = {**expected, ("plain", "gen"): [{"id": 1}, {"id": 2}]}

    found = rows_of(path)

    assert {name: in_order(rows) for name, rows in found.items()} == {
        name: in_order(rows) for name, rows in without.items()
    }
    assert isinstance(find_dump(LocalDump(path)).place, BinlogPlace)


@pytest.mark.skipif(shutil.which("dumpling") is None, reason="Dumpling is not installed")
@pytest.mark.parametrize("way", DUMPLING)
def test_dumpling_has_the_same_rows_without_those_that_the_server_computes(
    server: MariaDb, expected: dict[Any, list[Any]], tmp_path: Path, way: str
) -> None:
    path = tmp_path / "dump"
    where = ("--host=127.0.0.1", f"--port={server.port}", "--user=root", f"--output={path}")
    tables = ("--database=o.dd db,plain", "--status-addr=127.0.0.1:0")
    done = subprocess.run(
        ["dumpling", *where, *tables, *DUMPLING[way]], check=False, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stdout[-1500:]
    without = {**expected, ("plain", "gen"): [{"id": 1}, {"id": 2}]}

    found = rows_of(path, "+08:00")

    assert {name: in_order(rows) for name, rows in found.items()} == {
        name: in_order(rows) for name, rows in without.items()
    }
    assert isinstance(find_dump(LocalDump(path)).place, BinlogPlace)


@pytest.mark.parametrize("format_", ("ticdc-open", "debezium"))
def test_a_table_whose_stored_columns_no_dump_tells_is_not_called_exact(tmp_path: Path, format_: str) -> None:
    path = tmp_path / "d.sql"
    path.write_text(
        "USE `d`;\nCREATE TABLE `g` (`id` int PRIMARY KEY, `st` int AS (`id` + 1) STORED);\n"
        "INSERT INTO `g` (`id`) VALUES (1);\n"
    )
    tidb = format_ == "ticdc-open"
    place = Tso(TSO) if tidb else BinlogPlace("b.000001", 4)
    told = snapshot_messages(
        find_dump(LocalDump(path)), place_in(format_, "tidb" if tidb else "binlog", place, "shop"), Found()
    )
    silver = Memory(format_, tidb=tidb).add(told)
    at = (0, TSO + 1, DDL, 0, 0, 0) if tidb else (0, 1, 5, 1, 0, 0)

    assert silver.tables(at) == {"d.g": [{"id": 1, "st": None}]}
    assert silver.problems == {"d.g": {"column st: no message tells its value in some rows"}}


@pytest.mark.parametrize(
    ("column", "cells", "cut"),
    [
        ("float", ("3.14159",), True),
        ("float", ("1.5", "-1.17549e-38"), True),
        ("float", ("16777200",), True),
        ("float unsigned", ("NULL", "0.000333333"), True),
        ("float", ("0", "1"), True),
        ("float", ("0.1",), True),
        ("float", ("1e10",), True),
        ("float", ("0", "-0", "NULL"), False),
        ("float(12,2)", ("1234567.88",), False),
        ("float(20,2)", ("1.23457e15",), False),
        ("double", ("3.14159",), False),
    ],
)
def test_a_table_whose_floats_have_lost_digits_is_not_called_exact(
    tmp_path: Path, column: str, cells: tuple[str, ...], cut: bool
) -> None:
    path = tmp_path / "d.sql"
    rows = ",".join(f"({number},{cell})" for number, cell in enumerate(cells))
    path.write_text(
        f"USE `d`;\nCREATE TABLE `g` (`id` int PRIMARY KEY, `f` {column});\nINSERT INTO `g` VALUES {rows};\n"
    )

    def incomplete(format_: str, place: Tso | BinlogPlace) -> list[str]:
        tidb = isinstance(place, Tso)
        at = place_in(format_, "tidb" if tidb else "binlog", place, "shop")
        silver = Memory(format_, tidb=tidb).add(snapshot_messages(find_dump(LocalDump(path)), at, Found()))
        (lineage,) = silver.lineages().lineages
        found = lineage.incomplete_at((0, TSO + 1, DDL, 0, 0, 0))
        return [] if found is None else [found[1]]

    assert incomplete("debezium", BinlogPlace("b.000001", 4)) == (
        ["column f: the dump has six digits of each FLOAT"] if cut else []
    )
    # TiDB prints all digits without an exponent, and of FLOAT(M,D) no more with one
    short = ["column f: the dump has six digits of each FLOAT"]
    assert incomplete("ticdc-open", Tso(TSO)) == (short if any("e" in cell for cell in cells) else [])


def test_a_server_prints_the_same_text_of_several_floats(server: MariaDb) -> None:
    """Why no text of a FLOAT but 0 is taken for the value that it has."""
    floats = ("1.0000001", "0.10000001", "10000001", "1e-45", "0")
    with connect(DatabaseSettings("127.0.0.1", "root", port=server.port, tls="off")) as database:
        database.execute("CREATE OR REPLACE DATABASE floats")
        database.execute("CREATE TABLE floats.f (id int PRIMARY KEY, f float)")
        for number, text in enumerate(floats):
            database.execute(f"INSERT INTO floats.f VALUES ({number}, {text})")
        printed = [row[0] for row in database.ask("SELECT f FROM floats.f ORDER BY id")]
        whole = [row[0] for row in database.ask("SELECT f * 1e0 FROM floats.f ORDER BY id")]
        database.execute("DROP DATABASE floats")

    assert printed == [b"1", b"0.1", b"10000000", b"1.4013e-45", b"0"]
    assert whole[:3] == [b"1.0000001192092896", b"0.10000000894069672", b"10000001"]
    assert [_is_cut(text) for text in printed] == [True, True, True, True, False]


@pytest.mark.parametrize("way", ZONES)
def test_a_dump_that_does_not_tell_the_zone_of_its_timestamps_is_refused_without_it(
    server: MariaDb, tmp_path: Path, way: str
) -> None:
    path = mariadb_dump(server, tmp_path / "dump.sql", WAYS[way])

    with pytest.raises(LakehouseError, match="expected a dump that tells the zone of TIMESTAMP text"):
        rows_of(path)


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)
