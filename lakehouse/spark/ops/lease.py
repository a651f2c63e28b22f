"""One run per source and layer, on any store: a lock file where files can be locked, else a lease, a row of a
small Delta table.

A holder counts its row's `beat` up while it lives. Who finds a row waits and watches: a beat that goes on is
a run that goes on; one that stands still for LEASE seconds of the watcher's own clock belongs to a run that
died, and is taken over. No clocks are compared, and of two who take at once Delta lets one commit. A lease
keeps runs apart; that nothing is written twice rests on Delta's transactions, not on it.
"""

import json
import logging
import random
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.ops.file_lock import has_flock, run_lock, told, whoami
from lakehouse.spark.column_types import columns
from lakehouse.spark.lake import Lake, literal

LEASE = 120.0
SCHEMA = columns("layer string, holder string, beat bigint, who string")
LOG = logging.getLogger(__name__)


@contextmanager
def layer_lock(spark: SparkSession, lake: Lake, source: str, layers: Iterable[str]) -> Iterator[None]:
    """Hold layers of a source against any other run; LakehouseError names who holds them."""
    with ExitStack() as held:
        if lake.catalog is None and has_flock(lake.root):
            for layer in layers:
                held.enter_context(run_lock(lake.root, source, layer))
        else:
            held.enter_context(lease(spark, lake, source, list(layers)))
        yield


@contextmanager
def lease(
    spark: SparkSession, lake: Lake, source: str, layers: list[str], seconds: float = LEASE
) -> Iterator[None]:
    """Hold the rows of these layers, and keep them beating."""
    table, holder = Table(spark, lake, f"{source}_lease"), uuid.uuid4().hex
    table.create()
    watched = table.rows(layers)
    _wait(table, source, layers, watched, seconds=seconds)
    if not table.take(layers, holder, watched):
        raise LakehouseError(f"{source}: another run began at the same moment; wait for it or stop it")
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(table, holder, ended, seconds / 4), daemon=True)
    beating.start()
    try:
        yield
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
                    f"{source}: a {layer} run is going on already ({told(json.loads(row[2]))}); wait for it "
                    "or stop it"
                )
        if not now:
            watched.clear()


def _beat(table: "Table", holder: str, ended: threading.Event, pause: float) -> None:
    while not ended.wait(pause):
        try:
            table.sql(f"UPDATE {table.ref} SET beat = beat + 1 WHERE holder = {literal(holder)}")
        except Exception as error:  # the next beat may do; without any the lease ends
            LOG.warning("a lease could not be kept: %s", type(error).__name__)


class Table:
    """The rows of a source's leases: (holder, beat, who) by layer."""

    def __init__(self, spark: SparkSession, lake: Lake, name: str) -> None:
        self.spark, self.lake, self.name, self.ref = spark, lake, name, lake.ref("ops", name)

    def create(self) -> None:
        if not self.lake.exists(self.spark, "ops", self.name):
            empty = self.spark.createDataFrame(
                pa.table({"layer": [""], "holder": [""], "beat": [0], "who": [""]}), SCHEMA
            ).limit(0)
            self.lake.append(empty, "ops", self.name)

    def rows(self, layers: list[str]) -> dict[str, Any]:
        rows = self.lake.read(self.spark, "ops", self.name).where(F.col("layer").isin(layers)).collect()
        return {row.layer: (row.holder, row.beat, row.who) for row in rows}

    def take(self, layers: list[str], holder: str, watched: dict[str, Any]) -> bool:
        """Put this holder's rows where there are none, or the watched ones; False where another was
        quicker.
        """
        dead = (
            " OR ".join(f"(t.holder = {literal(row[0])} AND t.beat = {row[1]})" for row in watched.values())
            or "false"
        )
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

    def sql(self, text: str) -> None:
        """A statement, again and again while others write at the same moment: each says itself which rows it
        is about.
        """
        for pause in (0.1, 0.2, 0.4, 0.8, 1.6, 0.0):
            try:
                self.spark.sql(text)
                return
            except Exception as error:
                # Delta's own error, which a session shows as Java's, as pyspark's or as Connect's
                if "DELTA_CONCURRENT" not in str(error) or not pause:
                    raise
                time.sleep(pause * random.uniform(0.5, 1.5))
