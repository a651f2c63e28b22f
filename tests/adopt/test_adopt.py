"""The short form of `python -m tests.adopt`: few rows, one round.

npm and Maven bring what a real Canal needs: `./run test -m long tests/adopt`.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lakehouse.demo.kafka_broker import start_broker
from tests.adopt.world import World, kill, wait_until
from tests.servers.mariadb import start_mariadb
from tests.servers.mysql import start_mysql
from tests.support.live_feed import BINLOG


@pytest.mark.parametrize("kind", ("encoder", "packets", pytest.param("canal", marks=pytest.mark.long)))
def test_tables_are_the_server_s_after_the_snapshot_the_pipeline_and_the_broker_were_killed(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    start = start_mysql if kind == "canal" else start_mariadb
    with (
        start(tmp_path / "server", *BINLOG) as server,
        start_broker(tmp_path / "broker") as broker,
        closing(World(tmp_path, server, broker, tables=4, rows=6000, kind=kind)) as world,
    ):
        world.busy.transact()
        world.run()
        with world.writing(pause=0.05):
            begun = world.commits()
            snapshot = world.begin("snapshot", "shop", "--parallel", "4", "--rows-per-second", "300")
            pipeline = world.begin("run", "all", "--continuous")
            wait_until(lambda: world.commits() >= begun + 3, 120, snapshot, pipeline)
            with world.broker_killed():
                killed = kill(snapshot)
            world.feed.kill()
            kill(pipeline)
            result = world.snapshot()
        world.busy.transact()
        world.run()
        found = world.verify()

        assert killed
        assert result["rows"] > 1000
        assert {"shop.pair", "shop.item_0", "shop.item_1", "shop.item_big"} <= found.keys()
        assert [name for name, one in found.items() if one["different"] or one["undecided"]] == []
        assert world.states(spark) == {}
        assert world.waits() == {"Innodb_row_lock_waits": 0, "Table_locks_waited": 0}
