"""Connections to a source's database, against a real MariaDB."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.errors import EnvironmentError_
from lakehouse.sources.database import Cells, DatabaseSettings, connect, next_size
from tests.servers.mariadb import MariaDb, run_program, start_mariadb

PASSWORD = "pässwörd'\""
SETUP = r"""
SET NAMES utf8mb4; SET sql_mode='ALLOW_INVALID_DATES,PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES', time_zone='+08:00';
SET GLOBAL sql_mode='PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES';
CREATE DATABASE d CHARACTER SET latin1; USE d;
CREATE TABLE t (id int PRIMARY KEY, c char(9), day date, ts timestamp, b blob, f float, l varchar(9),
  bits bit(9));
INSERT INTO t VALUES (1, 'x', '2024-02-30', '2024-01-01 08:00:00', x'ff00', 0.1, 'é', 257);
CREATE TABLE many (id int PRIMARY KEY); INSERT INTO many SELECT seq FROM seq_1_to_2500;
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), "--default-time-zone=+08:00") as server:
        run_program("mariadb", server, given=SETUP.encode())
        yield server


def settings_of(server: MariaDb) -> DatabaseSettings:
    return DatabaseSettings("127.0.0.1", "root", port=server.port, password=PASSWORD, tls="off")


def test_what_a_connection_gives_is_the_servers_own_text(server: MariaDb) -> None:
    with connect(settings_of(server)) as database:
        rows = database.ask("SELECT * FROM d.t WHERE day = %s AND l = %s", ("2024-02-30", "é"))
        created = database.ask("SHOW CREATE TABLE d.t")

    day, instant = b"2024-02-30", b"2024-01-01 00:00:00"
    assert rows == [(b"1", b"x", day, instant, b"\xff\x00", b"0.1", "é".encode(), b"\x01\x01")]
    assert created[0][1] is not None
    assert created[0][1].startswith(b"CREATE TABLE `t` (")


def test_values_are_quoted_for_the_server(server: MariaDb) -> None:
    odd = "'; DROP TABLE d.t; -- \\ \" % é"

    with connect(settings_of(server)) as database:
        assert database.ask("SELECT %s, %s, %s", (odd, b"\xff'\\", 7)) == [(odd.encode(), b"\xff'\\", b"7")]


def test_a_stream_gives_all_rows_some_at_a_time(server: MariaDb) -> None:
    with connect(settings_of(server)) as database:
        lots = list(database.stream("SELECT id FROM d.many WHERE id > %s ORDER BY id", (0,)))
        again = database.ask("SELECT 1")

    assert [len(lot) for lot in lots] == [20, 1000, 1000, 480]
    assert lots[3][-1] == (b"2500",)
    assert again == [(b"1",)]


def test_of_long_rows_a_stream_has_few_in_memory(server: MariaDb) -> None:
    with connect(settings_of(server)) as database:
        statement = "SELECT REPEAT('x', 1000000) FROM d.many LIMIT 31"
        lots = [len(lot) for lot in database.stream(statement)]

    assert lots == [20, 4, 4, 3]


@pytest.mark.parametrize(
    ("rows", "size"),
    (
        ([(b"1", None)], 1000),
        ([(b"x" * 8_000_000,)], 1),
        ([(b"x" * 41_943,)] * 1000, 100),
        ([(None,)] * 1000, 1000),
    ),
)
def test_as_many_rows_are_fetched_as_memory_is_for(rows: list[Cells], size: int) -> None:
    assert next_size(rows) == size


def test_a_limit_of_the_server_s_own_leaves_out_no_row(server: MariaDb) -> None:
    with connect(settings_of(server)) as database:
        database.execute("SET GLOBAL sql_select_limit = 10")
        try:
            with connect(settings_of(server)) as other:
                rows = other.ask("SELECT id FROM d.many")
        finally:
            database.execute("SET GLOBAL sql_select_limit = DEFAULT")

    assert len(rows) == 2500


def test_a_stream_that_is_not_wanted_to_its_end_ends_with_the_connection(server: MariaDb) -> None:
    with connect(settings_of(server)) as database:
        first = next(database.stream("SELECT a.id FROM d.many a, d.many b, d.many c"))

    assert len(first) == 20


def test_an_error_of_the_server_shows_its_code_and_no_value(server: MariaDb) -> None:
    expected = r"database 127\.0\.0\.1:\d+: expected an answer, got error 1146 \(NO_SUCH_TABLE\)$"
    with connect(settings_of(server)) as database, pytest.raises(EnvironmentError_, match=expected):
        database.ask("SELECT * FROM d.none WHERE id = %s", ("secret",))


def test_no_connection_is_one_sentence_without_the_password(server: MariaDb) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = replace(settings_of(server), port=unused.getsockname()[1])
        with pytest.raises(EnvironmentError_) as refused, connect(closed):
            pass

    assert "expected a connection as root, got: Can't connect to MySQL server" in str(refused.value)
    assert str(refused.value).endswith("; check database.host and database.port")
    assert PASSWORD not in str(refused.value) + repr(closed)


def test_tls_that_the_server_does_not_have_is_refused_and_never_given_up(server: MariaDb) -> None:
    for tls in ("verified", "unverified"):
        asked = replace(settings_of(server), tls=tls)
        with pytest.raises(EnvironmentError_, match=r"choose database\.tls") as refused, connect(asked):
            pass
        assert PASSWORD not in str(refused.value)


def test_a_file_that_holds_no_certificates_is_named(server: MariaDb, tmp_path: object) -> None:
    asked = replace(settings_of(server), tls="verified", ca=f"{tmp_path}/none.pem")

    with (
        pytest.raises(EnvironmentError_, match=r"none\.pem: expected a file of PEM certificates"),
        connect(asked),
    ):
        pass


def certificates(folder: Path) -> dict[str, Path]:
    """An authority, and a server's certificate of it for 127.0.0.1."""
    made = {name: folder / f"{name}.pem" for name in ("ca", "ca-key", "cert", "key", "request")}
    extension = folder / "extension.cnf"
    extension.write_text("subjectAltName=IP:127.0.0.1\n")
    new = ("-newkey", "rsa:2048", "-nodes", "-subj")
    usage = ("-addext", "keyUsage=critical,keyCertSign")
    for words in (
        ("req", "-x509", "-days", "2", *new, "/CN=ca", *usage, "-keyout", made["ca-key"], "-out", made["ca"]),
        ("req", *new, "/CN=db", "-keyout", made["key"], "-out", made["request"]),
        (
            *("x509", "-req", "-days", "2", "-in", made["request"], "-CA", made["ca"]),
            *("-CAkey", made["ca-key"], "-CAcreateserial", "-extfile", extension, "-out", made["cert"]),
        ),
    ):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
    return made


@pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificates, is lacking"
)
def test_a_server_is_spoken_to_by_tls_where_its_certificate_is_of_the_authority(tmp_path: Path) -> None:
    made = certificates(tmp_path)
    options = ("--ssl", f"--ssl-ca={made['ca']}", f"--ssl-cert={made['cert']}", f"--ssl-key={made['key']}")
    with start_mariadb(tmp_path / "server", *options) as server:
        asked = DatabaseSettings("127.0.0.1", "root", port=server.port, ca=str(made["ca"]))
        with connect(asked) as database:
            [(_, version)] = database.ask("SHOW STATUS LIKE 'Ssl_version'")
        for refused in (replace(asked, ca=None), replace(asked, host="localhost")):
            with pytest.raises(EnvironmentError_, match=r"choose database\.tls"), connect(refused):
                pass

    assert version in (b"TLSv1.2", b"TLSv1.3")
