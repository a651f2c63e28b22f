"""Tables of a real MariaDB that a writer changes, snapshotted by the command and joined to their feed: gold
is the server, whatever died on the way.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.ops.records import Manifest
from lakehouse.sources.live import read
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import rebuild_silver
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.run import runs
from lakehouse.spark.pipeline.snapshot_tables import Asked, list_tables, snapshot_tables
from lakehouse.spark.source import Source, source_of
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.support.busy_server import BusyServer, in_order
from tests.support.lakes import quiet, shown, write_recording

PASSWORD = "hunter2hunter2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *options) as server:
        yield server


class Shop:
    """A source of a recording whose database is the server, and its lake."""

    def __init__(self, folder: Path, busy: BusyServer, port: int) -> None:
        self.folder, self.busy, self.recording = folder, busy, folder / "recording.jsonl"
        (folder / "configs/sources").mkdir(parents=True)
        (folder / "configs/sources/shop.yml").write_text(
            f"format: debezium\nrecording: {self.recording}\ntables: auto\ndatabase:\n  host: 127.0.0.1\n"
            f"  port: {port}\n  user: root\n  password: ${{env:SHOP_PASSWORD}}\n  tls: off\n"
        )
        self.lake = folder / "lake"

    def source(self) -> Source:
        return source_of(load(self.folder / "configs"), "shop", str(self.lake))

    def run(self) -> None:
        """Run all layers on what the server has done so far."""
        write_recording(self.recording, list(self.busy.messages))
        every = ("bronze", "silver", "gold")
        list(runs(load(self.folder / "configs"), every, True, (), lake=str(self.lake), progress=quiet))

    def snapshot(self, *tables: str, told: Any = quiet, **asked: Any) -> dict[str, Any]:
        return snapshot_tables(self.source(), Asked(tables, **asked), told)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {name: in_order(rows) for name, rows in shown(self.lake, self.folder / "shown").items()}

    def states(self, spark: Any) -> dict[str, str | None]:
        """What the newest manifest says of each table that is not exact."""
        manifest = OpsLog(spark, Lake(str(self.lake)), "shop").load().last(Manifest)
        assert manifest is not None
        return {f"{one.database}.{one.table}": one.why for one in manifest.tables if one.state != "exact"}


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)


def test_gold_is_the_server_after_a_snapshot_that_a_writer_went_on_in(
    spark: Any, server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "CHUNK_ROWS", 300)
    busy = BusyServer(server.port, 1, rows=3000)
    shop, told = Shop(tmp_path, busy, server.port), list[str]()
    for _ in range(10):
        busy.transact()
    shop.run()

    with busy.writing():
        result = shop.snapshot(told=told.append, rows_per_second=20_000)
    shop.run()
    early = shop.tables()
    for _ in range(3):
        busy.transact()
    shop.run()
    last = shop.tables()
    rebuild_silver(str(shop.lake), "shop", True, "to see that bronze tells all")
    shop.run()

    assert (result["tables"], result["server"]) == (3, "MariaDB")
    assert result["rows"] > 8000
    assert len(early) == 3
    assert last == busy.truth()
    assert shop.states(spark) == {}
    assert shop.tables() == last
    assert PASSWORD not in "".join(told)


def test_fifty_small_tables_and_a_second_snapshot_of_one(spark: Any, server: MariaDb, tmp_path: Path) -> None:
    busy = BusyServer(server.port, 2, 20, [f"item_{number}" for number in range(50)])
    shop = Shop(tmp_path, busy, server.port)
    busy.transact()
    shop.run()

    with busy.writing():
        first = shop.snapshot(parallel=4)
    listed = list_tables(shop.source(), Asked(("shop.item_1*",)))
    again = shop.snapshot("shop.item_7")
    busy.transact()
    shop.run()

    assert first["tables"] == 50
    assert len(listed) == 11
    assert again["tables"] == 1
    assert shop.tables() == busy.truth()
    assert shop.states(spark) == {}
