"""Tables of a real MySQL read while a writer changes them, joined to the feed of those changes.

npm brings the server, MySQL 5.6: `./run test -m long tests/sources/live/test_mysql.py`.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakehouse.sources.database import SESSION, connect
from lakehouse.sources.live.ahead import Connections
from lakehouse.sources.live.read import table_messages
from lakehouse.sources.live.servers import MySqlServer, server_of
from lakehouse.sources.live.tables import listed
from tests.servers.mariadb import MariaDb
from tests.servers.mysql import start_mysql
from tests.sources.live.test_live import LAST, READING, is_exact, settings_of, wait_for
from tests.support.busy_server import BusyServer, in_order
from tests.support.engine import Memory

pytestmark = pytest.mark.long
LOG = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW")
GTIDS = ("--gtid-mode=ON", "--enforce-gtid-consistency", "--log-slave-updates")


@pytest.fixture(scope="module", params=((), GTIDS), ids=("no GTIDs", "GTIDs"))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with start_mysql(tmp_path_factory.mktemp("mysql"), *LOG, *request.param) as server:
        yield server


@pytest.mark.parametrize("connections", (0, 2))
def test_tables_that_change_while_they_are_read_join_their_feed(server: MariaDb, connections: int) -> None:
    busy = BusyServer(server.port, connections, rows=2000)
    tables = ("item", "pair")

    with busy.writing(), connect(settings_of(server)) as asked, server_of(asked) as kind:
        wait_for(busy, 20)
        session = (*SESSION, *kind.session)
        free = Connections(connections, lambda: connect(settings_of(server), session))
        with connect(settings_of(server), session) as database:
            snapshot = [
                message
                for table in listed(database)
                if table.name[1] in tables
                for message in table_messages(database, kind, table, replace(READING, free=free))
            ]
        told = len(busy.messages)
        wait_for(busy, 60)
    for _ in range(20):
        busy.transact()

    assert isinstance(kind, MySqlServer)
    truth = {name: rows for name, rows in busy.truth().items() if name.removeprefix("shop.") in tables}
    silver = Memory("debezium", tidb=False).add(busy.messages[:told]).add(snapshot).add(busy.messages)
    found = {name: in_order(rows) for name, rows in silver.tables(LAST).items() if name in truth}
    assert found == truth
    assert is_exact(silver)
