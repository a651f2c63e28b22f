"""The texts of cells: what a real MariaDB computes by SQL is what this side computes from the value."""

from collections.abc import Iterator

import pytest

from lakehouse.schema import Column, parse_type
from lakehouse.sources.database import Database, DatabaseSettings, connect
from lakehouse.verification.cells import Cell, ServerColumn, checksum_sql, compared_text, read_sql
from lakehouse.verification.rows import Comparison, Sums
from lakehouse.verification.server import columns_of, place_of, ranges
from tests.oracle.values import TYPES, literals
from tests.servers.mariadb import start_mariadb

NO_PAD = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
BY_VALUE = {"float", "double", "json", "geometry", "vector"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("mariadb")
    with (
        start_mariadb(folder, "--log-bin=mysql-bin", "--server-id=1") as running,
        connect(DatabaseSettings("127.0.0.1", "root", running.port, tls="off")) as database,
    ):
        database.execute("CREATE DATABASE t CHARACTER SET utf8mb4")
        database.execute("USE t")
        yield database


def cell_of(name: str, kind: str, server_type: str) -> Cell:
    return Cell(name, Column(1, name, parse_type(kind)), f"_raw_{name}", ServerColumn(name, server_type))


@pytest.mark.parametrize("kind", dict.fromkeys(TYPES))
def test_the_server_computes_the_checksum_text_of_every_value(server: Database, kind: str) -> None:
    server.execute(f"CREATE OR REPLACE TABLE one (id int AUTO_INCREMENT PRIMARY KEY, c {kind})")
    for value in (*literals(kind, strict=False), "NULL"):
        server.execute(f"INSERT INTO one (c) VALUES ({value})")
    column = columns_of(server, ("t", "one"))[1]
    cell = cell_of("c", kind, column.type)
    rows = server.ask(f"SELECT {read_sql(cell)}, {checksum_sql(cell)} FROM one")

    read, checksum = cell.from_server(), cell.checksum

    assert (checksum is None) == (parse_type(kind).family in BY_VALUE)
    if checksum is not None:
        theirs = [(text or b"").decode() for _, text in rows]
        values = [read(value) for value, _ in rows]
        assert ["N" if value is None else checksum(value) for value in values] == theirs


def test_types_that_do_not_print_alike_are_compared_by_their_values() -> None:
    pairs = {
        ("int", "int(11)"): True,
        ("varchar(20)", "text"): True,
        ("decimal(10,2)", "decimal(12,2)"): True,
        ("decimal(10,2)", "decimal(10,3)"): False,
        ("datetime", "datetime(3)"): False,
        ("varchar(20)", "int(11)"): False,
        ("uuid", "uuid"): False,
    }

    assert {pair: cell_of("c", *pair).checksum is not None for pair in pairs} == pairs


@pytest.mark.parametrize(
    ("kind", "one", "other", "equal"),
    [
        ("json", '{"a": 1, "b": [1.50]}', '{"b":[1.5],"a":1}', True),
        ("json", '{"a": 1}', '{"a": "1"}', False),
        ("json", '{"a": 18446744073709551615}', '{"a": 18446744073709551616}', False),
        ("json", f"[{'1' * 40}]", f"[{'1' * 39}2]", False),
        ("json", "[-0.0, 0e5, 1e3]", "[0, -0, 1000]", True),
        ("json", '{"a": 1, "a": 2}', '{"a": 2}', False),
        ("json", '{"a": 1, "a": 2}', '{"a":1,"a":2}', True),
        ("json", "no json", "no json ", False),
        ("double", 0.0, -0.0, True),
        ("double", 0.1, 0.2, False),
        ("inet6", "::1", "AAAAAAAAAAAAAAAAAAAAAQ==", True),
        ("uuid", "00000000-0000-0000-0000-000000000001", "AAAAAAAAAAAAAAAAAAAAAQ==", True),
        ("varchar(20)", "a", "A", False),
        ("varchar(20)", "a", "a ", False),
    ],
)
def test_cells_are_equal_by_their_compared_texts(kind: str, one: object, other: object, equal: bool) -> None:
    text = compared_text(parse_type(kind))

    assert (text(one) == text(other)) is equal


@pytest.mark.parametrize(
    ("kinds", "keys", "rows"),
    [
        (("int", "double", "json"), (0,), [(1, 1.5, "1"), (2, 2.5, "2")]),
        (("int", "double", "int"), (), [(1, 1.5, 7), (2, 2.5, 8)]),
        (("uuid", "int", "int"), (0,), [(f"{n}0000000-0000-1000-8000-000000000001", n, n) for n in (1, 2)]),
        (("double", "int", "json"), (0, 1), [(1.5, 1, "1"), (2.5, 2, "2")]),
    ],
)
def test_sums_tell_which_values_are_of_one_row(
    server: Database, kinds: tuple[str, ...], keys: tuple[int, ...], rows: list[tuple[object, ...]]
) -> None:
    cells = tuple(cell_of(f"c{place}", kind, kind) for place, kind in enumerate(kinds))
    compared = Comparison("t", "wide", cells=cells, keys=keys)
    server.execute(
        f"CREATE OR REPLACE TABLE wide ({', '.join(f'c{n} {kind}' for n, kind in enumerate(kinds))})"
    )
    for row in rows:
        server.execute(f"INSERT INTO wide VALUES ({', '.join(map(repr, row))})")

    def sums(rows: list[tuple[object, ...]]) -> list[Sums]:
        both = [Sums(), Sums()]
        for row in rows:
            both = [
                both[0].plus(compared.checksum(row) if compared.checksummed else ""),
                both[1].plus(compared.read_digest(row)),
            ]
        return both

    one, other = rows
    for place in range(len(kinds)):
        swapped = [
            tuple({**dict(enumerate(a)), place: b[place]}.values()) for a, b in ((one, other), (other, one))
        ]
        assert sums(swapped) != sums(rows)
    readers = [cell.from_server() for cell in cells]
    told = [
        tuple(read(cell) for read, cell in zip(readers, row, strict=True))
        for row in server.ask(compared.read_sql("1 = 1"))
    ]
    assert sorted(map(compared.read_digest, told)) == sorted(map(compared.read_digest, rows))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", [f"({number})" for number in range(23)]),
        (
            "varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
            ["('')", "('b')", "('A')", "('Ä')", "('ß')"],
        ),
        ("varbinary(3)", ["('')", "(x'00')", "(x'ff')", "(x'27')"]),
        ("decimal(30,3)", ["(-1.5)", "(123456789012345678901234567.125)", "(0)"]),
        ("timestamp(6)", ["('2024-01-01 00:00:00.000001')", "('2024-01-01 00:00:00')", "('2025-01-01')"]),
        ("enum('z','a')", ["('z')", "('a')"]),
        (f"char(6) {NO_PAD}", ["('a')", "('a\t')", "('')", "('\t')"]),
        (f"varchar(6) {NO_PAD}", ["('a')", "('a\t')", "('a ')", "('')", "('\t')"]),
    ],
)
def test_ranges_of_a_key_have_every_row_once(server: Database, kind: str, values: list[str]) -> None:
    server.execute("CREATE OR REPLACE DATABASE `odd ``name%s`")
    name = ("odd `name%s", "t `%")
    server.execute(f"CREATE TABLE `odd ``name%s`.`t ``%` (`k %` {kind} PRIMARY KEY)")
    server.execute(f"INSERT INTO `odd ``name%s`.`t ``%` VALUES {', '.join(values)}")
    columns = columns_of(server, name)
    cells = (cell_of("k %", kind, columns[0].type),)
    compared = Comparison(*name, cells=cells, keys=(0,), buckets=5)

    conditions = list(ranges(server, name, columns, 2))
    rows = [row for condition in conditions for row in server.ask(compared.rows_sql(condition))]
    told = [row for condition in conditions for row in server.ask(compared.sums_sql(condition))]

    assert len(conditions) > 1 or kind.startswith(("enum", "char"))
    assert len(rows) == len(set(rows)) == len(values)
    ours: dict[int, Sums] = {}
    for value in (cells[0].from_server()(row[0]) for row in rows):
        bucket = compared.bucket([value])
        ours[bucket] = ours.get(bucket, Sums()).plus(compared.checksum([value]))
    theirs: dict[int, Sums] = {}
    for bucket, *sums in ((int(cell or 0) for cell in row) for row in told):
        before = theirs.get(bucket, Sums())
        theirs[bucket] = Sums(*(one + other for one, other in zip(before, sums, strict=True)))
    assert ours == theirs


def test_a_server_tells_its_place_and_the_feed_passes_it(server: Database) -> None:
    before = place_of(server)
    server.execute("CREATE OR REPLACE TABLE moved (id int)")
    after = place_of(server)

    assert after.position(0) > before.position(0)
    assert after.passed_by(after.position(3))
    assert not after.passed_by(before.position(3))


def test_a_table_that_is_not_there_has_no_columns(server: Database) -> None:
    assert columns_of(server, ("t", "no'such")) == []
