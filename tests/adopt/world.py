"""A server with tables full of rows, its writer, the feed of the changes in a broker, and the commands.

The feed is our encoder's, a real connector's, or a real Canal's.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lakehouse.config.load import database_settings, load
from lakehouse.demo.kafka_broker import Broker
from lakehouse.errors import EnvironmentError_
from lakehouse.ops.records.gold import Manifest
from lakehouse.sources.kafka_produce import produce
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.repair_tables import verified
from lakehouse.spark.pipeline.run import runs
from lakehouse.spark.pipeline.snapshot_tables import Asked, snapshot_tables
from lakehouse.spark.source import Source, source_of
from lakehouse.spark.verification.looks import Compared, Options
from tests.adopt.feed import Captured, Encoded, Streamed
from tests.adopt.packed import Packed
from tests.servers.mariadb import MariaDb
from tests.support.busy_server import BusyServer
from tests.support.lakes import quiet
from tests.support.paths import ROOT

BIG = "item_big"
# rows of the big table that the writer knows, and changes
KNOWN = 2000
# a command, with chunks and commits of few rows, so that a short table has many of them
SMALL = """
from lakehouse.spark.bronze import snapshots
from lakehouse.spark.pipeline import snapshot_tables
snapshot_tables.CHUNK_ROWS, snapshots.COMMIT_BYTES = 500, 1
"""
# debezium and canal are the real ones, the others our encoder's
FEEDS: dict[str, Callable[[BusyServer, Path, int], Encoded | Streamed | Captured]] = {
    "encoder": lambda busy, *_: Encoded(busy),
    "packets": lambda busy, *_: Packed(busy),
    "debezium": Streamed,
    "canal": Captured,
}
COMMAND = "from lakehouse.cli.main import main\nmain()\n"


class World:
    """The tables, their feed (`kind`: see FEEDS), and the lake."""

    def __init__(
        self, folder: Path, server: MariaDb, broker: Broker, *, tables: int, rows: int, kind: str = "encoder"
    ) -> None:
        self.folder, self.server, self.broker = folder, server, broker
        names = [f"item_{number}" for number in range(tables - 2)]
        self.busy = BusyServer(server.port, 1, 50, ["pair", *names, BIG])
        self.busy.run("CREATE DATABASE IF NOT EXISTS elsewhere")
        self._fill(rows)
        self.feed = FEEDS[kind](self.busy, folder / "producer", server.port)
        self._waited = self._waits()
        (folder / "configs/sources").mkdir(parents=True)
        (folder / "configs/sources/shop.yml").write_text(
            f"format: {self.feed.format}\nkafka:\n  bootstrap_servers: {broker.bootstrap}\n"
            f"  topic_pattern: '{self.feed.topics}'\noptions: {self.feed.options}\ntables: auto\n"
            f"database:\n  host: 127.0.0.1\n  port: {server.port}\n  user: root\n  tls: off\n"
        )
        self.lake = folder / "lake"

    def _fill(self, rows: int) -> None:
        """Rows of the big table, of which the writer knows some of the whole range of keys."""
        busy = self.busy
        values = ((id_, f"v{id_ % 97}", id_) for id_ in range(51, rows + 1))
        busy.cursor.executemany(f"INSERT INTO `{BIG}` VALUES (%s, %s, %s)", values)
        for id_ in random.Random(1).sample(range(51, rows + 1), min(KNOWN, rows - 50)):
            busy.rows[BIG][id_] = {"id": id_, "v": f"v{id_ % 97}", "n": id_}
        busy.next = rows

    def source(self) -> Source:
        return source_of(load(self.folder / "configs"), "shop", str(self.lake))

    def close(self) -> None:
        """End the feed's producer."""
        self.feed.close()

    # --- what goes on meanwhile

    def send(self) -> None:
        """Send what the feed has to tell; what a broker that died did not confirm is sent again."""
        while told := self.feed.told():
            with suppress(EnvironmentError_):
                produce(told, self.broker.bootstrap)
                self.feed.forget(len(told))

    def statement(self, number: int) -> None:
        """DDL on tables of another database."""
        table = f"elsewhere.t{number % 5}"
        self.busy.run(f"CREATE TABLE IF NOT EXISTS {table} (id int PRIMARY KEY)")
        self.busy.run(f"ALTER TABLE {table} ADD COLUMN c{self.busy.transactions} int")
        if number % 3 == 0:
            self.busy.run(f"DROP TABLE {table}")

    @contextmanager
    def writing(self, pause: float) -> Iterator[None]:
        """Transactions and their feed, for as long as the block lasts."""
        stop, failed = threading.Event(), list[BaseException]()

        def write() -> None:
            number = 0
            while not stop.wait(pause):
                self.busy.transact()
                number += 1
                if number % 20 == 0:
                    self.statement(number // 20)

        def feed() -> None:
            while not stop.wait(0.3):
                self.send()

        def kept(work: Any) -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=kept, args=(work,)) for work in (write, feed)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        if failed:
            raise failed[0]
        self.send()

    @contextmanager
    def broker_killed(self) -> Iterator[None]:
        """SIGKILL the broker, and start it again at the end, on what it has on its disk."""
        self.broker.stop(grace=0)
        yield
        self.broker.start()

    # --- the commands

    def begin(self, *words: str, small: bool = True) -> subprocess.Popen[bytes]:
        """A command in a process of its own."""
        lake = ("--configs", str(self.folder / "configs"), "--lake", str(self.lake))
        with (self.folder / "commands.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", (SMALL if small else "") + COMMAND, *words, *lake],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def commits(self) -> int:
        """How many commits bronze has."""
        return len(list((self.lake / "bronze/shop/_delta_log").glob("*.json")))

    def run(self) -> None:
        """Run all layers on all that has happened, here."""
        self.send()
        self.feed.catch_up()
        self.send()
        every = ("bronze", "silver", "gold")
        list(runs(load(self.folder / "configs"), every, True, (), lake=str(self.lake), progress=quiet))

    def snapshot(self, *tables: str, **asked: Any) -> dict[str, Any]:
        """Read tables, here."""
        return snapshot_tables(self.source(), Asked(tables, parallel=4, **asked), quiet)

    # --- what comes of it

    def verify(self) -> dict[str, dict[str, Any]]:
        """The comparison's entries by table; while it waits, something is written and the pipeline runs."""
        source = self.source()

        def pause(_: float) -> None:
            self.busy.transact()
            self.run()

        asked = Compared(source, database_settings(source.config), Options(pause=pause, wait=20.0), quiet)
        return {entry["table"]: entry for entry in verified(asked, repair=False)}

    def states(self, spark: Any) -> dict[str, str | None]:
        """What the newest manifest says of the tables that are not exact."""
        manifest = OpsLog(spark, Lake(str(self.lake)), "shop").load().last(Manifest)
        assert manifest is not None
        open_ = (one for one in manifest.tables if one.state not in ("exact", "retired"))
        return {f"{one.database}.{one.table}": one.why for one in open_}

    def waits(self) -> dict[str, int]:
        """How often somebody has waited for a lock since the feed began."""
        return {name: number - self._waited[name] for name, number in self._waits().items()}

    def _waits(self) -> dict[str, int]:
        names = "'Innodb_row_lock_waits', 'Table_locks_waited'"
        self.busy.cursor.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})")
        return {name: int(value) for name, value in self.busy.cursor.fetchall()}


def kill(process: subprocess.Popen[bytes]) -> bool:
    """SIGKILL a command and its children; whether it was still running."""
    running = process.poll() is None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return running


def wait_until(is_so: Any, seconds: float, *processes: subprocess.Popen[bytes]) -> None:
    """Wait for a condition. RuntimeError where it does not come, or one of the processes has failed."""
    deadline = time.monotonic() + seconds
    while not is_so():
        failed = [one for one in processes if one.poll() not in (None, 0)]
        if failed or time.monotonic() > deadline:
            raise RuntimeError("expected the commands to go on, got one that failed or that is too slow")
        time.sleep(0.1)
