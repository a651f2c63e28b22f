"""Every type, charset and odd name as a live read gives it: the rows that the server's own dump has."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import RowChange
from lakehouse.formats import decode_message
from lakehouse.sources.database import SESSION, DatabaseSettings, connect
from lakehouse.sources.dumps.records import Tso
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.live.ahead import Connections
from lakehouse.sources.live.read import Reading, table_messages
from lakehouse.sources.live.servers import MariaDbServer
from lakehouse.sources.live.servers import TiDbServer as AtOneTso
from lakehouse.sources.live.tables import chosen, listed
from tests.servers.mariadb import MariaDb, run_program, start_mariadb
from tests.sources.dumps.test_programs import SETUP, TSO, in_order, mariadb_dump, rows_of

FLOATS = """
USE plain;
CREATE TABLE floats (f float, u float unsigned, d double, id int PRIMARY KEY);
INSERT INTO floats VALUES (16777216, 0.1, 0.1, 1), (-3.4028235e38, 1.17549435e-38, 1e-300, 2),
  (NULL, 0, -0.5, 3), (-0e0, 0, -0e0, 4);
CREATE TABLE keys_ (t time(3), d decimal(30,10), dt datetime(6), l varchar(9) CHARACTER SET gbk,
  b varbinary(9), bi bit(9), y year, PRIMARY KEY (l, d, t, dt, b, bi, y)) CHARACTER SET latin1;
INSERT INTO keys_ SELECT SEC_TO_TIME(-seq * 1.25), -seq / 7,
  '2024-02-29' + INTERVAL seq * 1234567 MICROSECOND,
  IF(seq % 3, '中文', CONCAT(' ', seq % 5, '\\\\''')), UNHEX(HEX(seq % 7)), seq % 300, 1901 + seq % 200
  FROM seq_1_to_997;
CREATE TABLE labels (e enum('b','a','é') CHARACTER SET latin1, n int, PRIMARY KEY (e, n));
INSERT INTO labels VALUES ('b', 1), ('a', 1), ('é', 1), ('b', 2);
CREATE TABLE ci (k varchar(9) COLLATE utf8mb4_general_ci PRIMARY KEY);
CREATE TABLE prefix (v varchar(3000) CHARACTER SET latin1 NOT NULL, UNIQUE (v(2000)));
INSERT INTO prefix SELECT CONCAT(REPEAT('a', 1500), MD5(seq)) FROM seq_1_to_250;
CREATE TABLE prefix_of_text (v text CHARACTER SET latin1 NOT NULL, UNIQUE (v(2000)));
INSERT INTO prefix_of_text SELECT v FROM prefix;
CREATE TABLE nopad (k char(9) COLLATE utf8mb4_nopad_bin,
  v varchar(9) COLLATE utf8mb4_nopad_bin, PRIMARY KEY (k, v));
INSERT INTO nopad VALUES ('a', 'a'), ('a\t', 'a'), ('a\t', 'a\t'), ('a', 'a '),
  ('', ''), ('\t', '\t'), ('\t', '');
INSERT INTO ci VALUES ('B'), ('a'), ('C'), ('b!'), ('ß'), ('É'), ('😀'), ('');
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW", "--default-time-zone=+08:00")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *options) as server:
        run_program("mariadb", server, "--default-character-set=utf8mb4", given=(SETUP + FLOATS).encode())
        yield server


def live_rows(server: MariaDb, name: str = "MariaDB", chunk_rows: int = 100) -> dict[Any, list[Any]]:
    """The canonical rows of each table; text in each column's charset, or in utf8mb4 as TiDB sends it."""
    kind = AtOneTso(TSO)
    kind.name = name
    settings = DatabaseSettings("127.0.0.1", "root", port=server.port, tls="off")
    session = (*SESSION, *MariaDbServer.session)
    reading = Reading(
        run="1",
        tables=1,
        epoch=0,
        placed=lambda place: place_in("ticdc-open", "tidb", Tso(TSO), "shop"),
        chunk_rows=chunk_rows,
        free=Connections(2, lambda: connect(settings, session)),
    )
    found: dict[Any, list[Any]] = {}
    with connect(settings, session) as database:
        for table in chosen(listed(database), ("o.dd db.*", "plain.*")):
            for message in table_messages(database, kind, table, reading):
                for event in decode_message("ticdc-open", message, {"time_zone": "Asia/Tokyo"}):
                    rows = found.setdefault((event.database, event.table), [])  # type: ignore[union-attr]
                    if isinstance(event, RowChange):
                        rows.append(event.after)
    return found


@pytest.mark.parametrize("name", ("MariaDB", "TiDB"))
@pytest.mark.parametrize("chunk_rows", (1, 100))
def test_a_live_read_has_the_rows_of_the_server_s_own_dump(
    server: MariaDb, tmp_path: Path, name: str, chunk_rows: int
) -> None:
    dumped = rows_of(mariadb_dump(server, tmp_path / "dump.sql", ("--hex-blob",)))

    found = live_rows(server, name, chunk_rows)

    floats = found.pop(("plain", "floats"))
    assert len(dumped.pop(("plain", "floats"))) == 4
    assert {name: in_order(rows) for name, rows in found.items()} == {
        name: in_order(rows) for name, rows in dumped.items()
    }
    assert len(found["plain", "keys_"]) == 997
    assert [row["f"] for row in floats] == [16777216, -3.4028234663852886e38, None, 0]
    assert all(math.copysign(1, floats[3][name]) == -1 for name in ("f", "d"))
    assert [row["u"] for row in floats] == [0.10000000149011612, 1.1754943508222875e-38, 0, 0]
