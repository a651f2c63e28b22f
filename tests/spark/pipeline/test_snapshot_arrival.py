"""Tables of a real MariaDB that a writer changes, snapshotted beside Canal's JSON in a real Kafka."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.demo.kafka_broker import Broker
from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import Manifest
from lakehouse.sources.kafka_produce import produce
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline import snapshot_tables as command
from lakehouse.spark.pipeline.run import runs
from lakehouse.spark.pipeline.snapshot_tables import Asked, snapshot_tables
from lakehouse.spark.source import source_of
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.support.busy_server import BusyServer, in_order
from tests.support.flat_feed import FlatFeed
from tests.support.lakes import quiet, shown


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *options) as server:
        yield server


@contextmanager
def sending(feed: FlatFeed, broker: Broker) -> Iterator[None]:
    """Canal, from a thread of its own, for as long as the block lasts; at its end all has been sent."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.2):
            if messages := feed.send():
                produce(messages, broker.bootstrap)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        produce(feed.send(lag=0), broker.bootstrap)


def test_gold_is_the_server_after_a_snapshot_beside_a_feed_that_is_late(
    spark: Any,
    broker: Broker,
    topic: str,
    server: MariaDb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "CHUNK_ROWS", 200)
    monkeypatch.setattr("lakehouse.sources.live.arrival.CLOCKS_WITHIN", 2000)
    busy = BusyServer(server.port, 31, rows=1500, tables=("item", "pair"))
    feed, lake = FlatFeed(busy, lag=3.0, topic=topic), tmp_path / "lake"
    (tmp_path / "configs/sources").mkdir(parents=True)
    (tmp_path / "configs/sources/shop.yml").write_text(
        f"format: canal\nkafka:\n  bootstrap_servers: {broker.bootstrap}\n  topics: [{topic}]\n"
        f"time_zone: UTC\ntables: auto\noptions:\n  server: mariadb\ndatabase:\n  host: 127.0.0.1\n"
        f"  port: {server.port}\n  user: root\n  tls: off\n"
    )

    def run() -> dict[str, str | None]:
        every = ("bronze", "silver", "gold")
        list(runs(load(tmp_path / "configs"), every, True, (), lake=str(lake), progress=quiet))
        manifest = OpsLog(spark, Lake(str(lake)), "shop").load().last(Manifest)
        assert manifest is not None
        return {one.table: one.why for one in manifest.tables if one.state != "exact"}

    source = source_of(load(tmp_path / "configs"), "shop", str(lake))
    busy.transact()
    produce(feed.send(lag=0), broker.bootstrap)
    with pytest.raises(LakehouseError, match="to be in bronze, got one that it has not read"):
        snapshot_tables(source, Asked(("shop.*",)), quiet)
    run()
    with sending(feed, broker), busy.writing():
        time.sleep(4)
        result = snapshot_tables(source, Asked(("shop.*",), rows_per_second=2000), quiet)
    states = run()

    assert (result["tables"], result["server"]) == (2, "MariaDB")
    assert states == {}
    assert {name: in_order(rows) for name, rows in shown(lake, tmp_path / "shown").items()} == busy.truth()
