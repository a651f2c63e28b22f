"""Whose rules convert values: the source says it, on every path that folds."""

import pytest

from lakehouse.fold.upcast import Upstream
from lakehouse.formats import FORMATS
from lakehouse.gold.upstream import upstream_of
from tests.support.feeds import Canal, Debezium, TiCDC

BINLOG = [name for name, row in FORMATS.items() if row.producer.server is None]


def test_the_formats_of_tidb_say_their_server_and_the_others_have_an_option() -> None:
    assert {name for name, row in FORMATS.items() if "server" in row.options} == set(BINLOG)
    assert {upstream_of(name, {}).server for name in FORMATS if name not in BINLOG} == {"tidb"}


@pytest.mark.parametrize("format", BINLOG)
def test_a_binlogs_server_is_mysql_unless_another_is_said(format: str) -> None:
    said: dict[str, tuple[str, tuple[int, ...]]] = {
        "": ("mysql", ()),
        "mariadb": ("mariadb", ()),
        "mysql 5.7": ("mysql", (5, 7)),
        "mariadb 10.6.12": ("mariadb", (10, 6, 12)),
    }
    for option, (server, version) in said.items():
        found = upstream_of(format, {"server": option} if option else {})
        assert (found.zone, found.server, found.version) == ("UTC", server, version)


def test_another_server_folds_a_table_again_and_none_that_is_said_is_as_it_was() -> None:
    assert [Upstream("UTC", server).mark for server in ("mysql", "tidb")] == ["", ""]
    marks = {
        Upstream("UTC", server, version).mark
        for server, version in (("mariadb", ()), ("mariadb", (10, 6)), ("mysql", (5, 7)))
    }
    assert len(marks) == 3 and "" not in marks


@pytest.mark.parametrize(("server", "number"), [("mysql", 2), ("mariadb", 1)])
def test_text_becomes_a_number_by_the_rules_of_the_server_that_is_said(server: str, number: int) -> None:
    create, alter = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "ALTER TABLE t MODIFY v INT"
    canal = Canal(server=server).ddl(1, create).insert(2, id=1, v="1.9").ddl(3, alter)
    debezium = Debezium(server=server).ddl(1, create).change(2, "c", None, {"id": 1, "v": "1.9"})
    debezium.ddl(3, alter)

    assert canal.table() == debezium.table() == [{"id": 1, "v": number}]
    assert TiCDC().ddl(1, create).insert(2, id=1, v="1.9").ddl(3, alter).table() == [{"id": 1, "v": 2}]


def test_of_a_compacted_topic_no_change_is_held_against_the_one_before_it() -> None:
    def feed(**options: str) -> Debezium:
        sent = Debezium(**options).ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
        return sent.change(3, "u", {"id": 1, "v": "compaction took it"}, {"id": 1, "v": "last"})

    checked, compacted = feed().memory, feed(compacted="true").memory
    rows = {"d.t": [{"id": 1, "v": "last"}]}

    assert checked.tables(checked.reach) == compacted.tables(compacted.reach) == rows
    assert [list(one.breaks) for one in (checked, compacted)] == [["d.t"], []]
    assert upstream_of("debezium", {"compacted": "true"}).mark == " compacted"
