"""One run per source and layer, on any store: a lock file where files can be locked, else a lease, a row of a
small Delta table.

A holder increases a counter while it lives, its heartbeat: a property of the table, because setting one is a
Delta commit without a Spark task, so that a job which holds all task slots does not stop it. Who finds a row
waits and watches: a heartbeat that advances means that the holder lives; one that stands still for LEASE
seconds of the watcher's own clock belongs to a run that died, and its row is taken over. No clocks are
compared, and of two who take at once Delta lets one commit.

A holder whose heartbeat has not got through for LEASE seconds asks, before its next write, whether the lease
is still its own. That nothing is written twice rests on Delta's transactions and on the numbers of the ops
log (lakehouse/spark/ops/log.py), not on the lease.
"""

import json
import logging
import math
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError, LeaseLost
from lakehouse.ops.file_lock import has_flock, holder_text, run_lock, whoami
from lakehouse.spark.column_types import columns
from lakehouse.spark.lake import Lake, literal

LEASE = 120.0
SCHEMA = columns("layer string, holder string, beat bigint, who string")
# the table's property of a layer's heartbeat: the holder and its count
BEAT = "lakehouse.beat."
LOG = logging.getLogger(__name__)


@contextmanager
def layer_lock(spark: SparkSession, lake: Lake, source: str, layers: Iterable[str]) -> Iterator[Lake]:
    """Hold layers of a source against any other run; LakehouseError names who holds them. Yields the lake to
    write to: its writes fail once the layers are another run's.
    """
    with ExitStack() as held:
        if lake.catalog is None and has_flock(lake.root):
            for layer in layers:
                held.enter_context(run_lock(lake.root, source, layer))
            yield lake
        else:
            hold = held.enter_context(lease(spark, lake, source, list(layers)))
            yield replace(lake, before_write=hold.check)


@dataclass(slots=True)
class Hold:
    """A lease from its holder's side. `beaten` is when its last heartbeat was begun that got through, by
    time.monotonic; heartbeats come from a thread of their own.
    """

    table: "Table"
    source: str
    layers: list[str]
    holder: str
    seconds: float
    beaten: float
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def beat(self) -> None:
        """Advance the heartbeat; LeaseLost where another run has taken the lease."""
        with self.lock:
            begun = time.monotonic()
            self.count += 1
            self.table.beat(self.layers, self.holder, self.count, self._refuse_lost)
            self.beaten = begun

    def check(self) -> None:
        """Return at once while heartbeats get through, else only once one has; LeaseLost where another run
        has taken the lease.
        """
        if time.monotonic() - self.beaten > self.seconds:
            self.beat()

    def _refuse_lost(self) -> None:
        if any(holder != self.holder for holder, _ in self.table.beats(self.layers).values()):
            raise LeaseLost(
                f"{self.source}: this run's lease lapsed, and another run of {' and '.join(self.layers)} has "
                "taken it over; this one stops, and nothing more of it is written"
            )


@contextmanager
def lease(
    spark: SparkSession, lake: Lake, source: str, layers: list[str], seconds: float = LEASE
) -> Iterator[Hold]:
    """Hold the rows of these layers, and keep their heartbeats going."""
    table, holder = Table(spark, lake, f"{source}_lease"), uuid.uuid4().hex
    table.create()
    watched = table.rows(layers)
    _wait(table, source, layers, watched, seconds=seconds)
    if not table.take(layers, holder, watched):
        raise LakehouseError(f"{source}: another run began at the same moment; wait for it or stop it")
    table.beat(layers, holder, 0)
    ended = threading.Event()
    hold = Hold(table, source, layers, holder, seconds=seconds, beaten=time.monotonic())
    beating = threading.Thread(target=_keep, args=(hold, ended), daemon=True)
    beating.start()
    try:
        yield hold
    finally:
        ended.set()
        beating.join()
        table.sql(f"DELETE FROM {table.ref} WHERE holder = {literal(holder)}")


def _wait(table: "Table", source: str, layers: list[str], watched: dict[str, Any], seconds: float) -> None:
    """Return once the rows that were found are gone or stand still; LakehouseError when one of them
    goes on.
    """
    deadline = time.monotonic() + seconds
    while watched and time.monotonic() < deadline:
        time.sleep(min(2.0, seconds / 8))
        now = table.rows(layers)
        for layer, row in now.items():
            if layer not in watched or row[:2] != watched[layer][:2]:
                raise LakehouseError(
                    f"{source}: a {layer} run is going on already ({holder_text(json.loads(row[2]))}); "
                    "wait for it or stop it"
                )
        if not now:
            watched.clear()


def _keep(hold: Hold, ended: threading.Event) -> None:
    """Heartbeats until the run has ended, or has lost its lease: its next write says so."""
    while not ended.wait(hold.seconds / 4):
        try:
            hold.beat()
        except LeaseLost as error:
            LOG.warning("%s", error)
            hold.beaten = -math.inf
            return
        except Exception as error:  # the next one may get through; without any the lease ends
            LOG.warning("a heartbeat failed: %s", type(error).__name__)


class Table:
    """The rows of a source's leases: (holder, beat, who) by layer."""

    def __init__(self, spark: SparkSession, lake: Lake, name: str) -> None:
        self.spark, self.lake, self.name, self.ref = spark, lake, name, lake.ref("ops", name)

    def create(self) -> None:
        if not self.lake.exists(self.spark, "ops", self.name):
            empty = self.spark.createDataFrame(
                pa.table({"layer": [""], "holder": [""], "beat": [0], "who": [""]}), SCHEMA
            ).limit(0)
            self.lake.append_shared(empty, self.name)

    def rows(self, layers: list[str]) -> dict[str, Any]:
        """By layer the holder, its heartbeat and who it is."""
        rows = self.lake.read(self.spark, "ops", self.name).where(F.col("layer").isin(layers)).collect()
        beats = self.beats(layers)
        return {
            row.layer: (
                row.holder,
                beats[row.layer][1] if beats.get(row.layer, ("",))[0] == row.holder else row.beat,
                row.who,
            )
            for row in rows
        }

    def beats(self, layers: list[str]) -> dict[str, tuple[str, int]]:
        """By layer the holder and count of the last heartbeat. Runs no Spark task."""
        properties = {
            row.key: row.value for row in self.spark.sql(f"SHOW TBLPROPERTIES {self.ref}").collect()
        }
        found = {layer: properties.get(BEAT + layer, "").split(":") for layer in layers}
        return {layer: (beat[0], int(beat[1])) for layer, beat in found.items() if len(beat) == 2}

    def beat(
        self, layers: list[str], holder: str, count: int, check: Callable[[], None] = lambda: None
    ) -> None:
        """Set the heartbeat of layers, each time it is tried after a `check`. Runs no Spark task, but for a
        checkpoint once in 1,000 times.
        """
        beats = ", ".join(f"{literal(BEAT + layer)} = {literal(f'{holder}:{count}')}" for layer in layers)
        self.sql(
            f"ALTER TABLE {self.ref} SET TBLPROPERTIES ({beats}, 'delta.checkpointInterval' = '1000')", check
        )

    def take(self, layers: list[str], holder: str, watched: dict[str, Any]) -> bool:
        """Put this holder's rows where there are none, or the watched ones; False where another was
        quicker.
        """
        dead = " OR ".join(f"t.holder = {literal(row[0])}" for row in watched.values()) or "false"
        mine = " UNION ALL ".join(
            (
                f"SELECT {literal(layer)} layer, {literal(holder)} holder, 0L beat, "
                f"{literal(json.dumps(whoami()))} who"
            )
            for layer in layers
        )
        self.sql(
            f"MERGE INTO {self.ref} t USING ({mine}) s ON t.layer = s.layer"
            f" WHEN MATCHED AND ({dead}) THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        taken = [layer for layer, row in self.rows(layers).items() if row[0] == holder]
        if len(taken) < len(layers):
            self.sql(f"DELETE FROM {self.ref} WHERE holder = {literal(holder)}")
        return len(taken) == len(layers)

    def sql(self, text: str, check: Callable[[], None] = lambda: None) -> None:
        """A statement, again and again while others write at the same moment: each says itself which rows it
        is about, but for a heartbeat, which the `check` keeps from being set over another holder's.
        """
        for pause in (0.1, 0.2, 0.4, 0.8, 1.6, 0.0):
            check()
            try:
                self.spark.sql(text)
                return
            except Exception as error:
                # Delta's own error, which a session shows as Java's, as pyspark's or as Connect's
                said = str(error)
                if not pause or not ("DELTA_CONCURRENT" in said or "DELTA_METADATA_CHANGED" in said):
                    raise
                time.sleep(pause * random.uniform(0.5, 1.5))
