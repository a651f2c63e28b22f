"""`lakehouse import`: lands a dump's tables in a source's bronze, from where silver and gold take them."""

import io
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import SNAPSHOT_TOPIC, Message, Position
from lakehouse.formats.snapshot.decode import position
from lakehouse.formats.snapshot.records import Place
from lakehouse.ops.file_lock import is_remote
from lakehouse.ops.records.silver import Done
from lakehouse.reporting.text.values import counted, pace
from lakehouse.silver.binlog_servers import refuse_other_binlog
from lakehouse.sources.dumps.files import DumpFiles, LocalDump
from lakehouse.sources.dumps.metadata import given_place
from lakehouse.sources.dumps.read import Dump, find_dump
from lakehouse.sources.dumps.snapshot import Found, checked, dump_incarnation, place_in, snapshot_messages
from lakehouse.sources.file_systems import FileInfo
from lakehouse.spark.bronze.epochs import epoch_of, epochs_of, last_epoch
from lakehouse.spark.bronze.snapshots import land_snapshot
from lakehouse.spark.bronze.storage import SparkFiles, is_whole
from lakehouse.spark.ops.lake_record import register
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.source import Source
from lakehouse.values.scalars import time_zone

# seconds between lines of progress
EACH = 10.0


class RemoteDump:
    """A dump's folder in a storage that Spark reads. A file is read whole."""

    def __init__(self, root: str) -> None:
        self.name = root
        self._files = SparkFiles(get_session(), root, {})

    def paths(self) -> list[FileInfo]:
        """The files, in the order of their names."""
        return [info for info in self._files.list_dir("") if not info.is_dir]

    def open(self, path: str) -> io.BytesIO:
        info, data = self._files.stat(path), self._files.read(path)
        if info is None or not is_whole(info, data):
            raise LakehouseError(
                f"{path}: expected a file of the dump's folder as it was listed, got another"
            )
        return io.BytesIO(data)


class Given(NamedTuple):
    """Where a dump is, and what an operator says of it, where it does not tell: its position, and the zone of
    TIMESTAMP.
    """

    root: str
    at: str | None = None
    zone: str | None = None


def dump_of(given: Given) -> Dump:
    """The dump of a folder or file, in local or remote storage. LakehouseError where there is none."""
    if given.zone is not None:
        time_zone(given.zone)  # refuses what is none
    files: DumpFiles = RemoteDump(given.root) if is_remote(given.root) else LocalDump(Path(given.root))
    return replace(find_dump(files), zone=given.zone)


def place_of(source: Source, dump: Dump, at: str | None) -> Place:
    """The dump's position in the source's order."""
    place = dump.place if at is None else given_place(at)
    return place_in(source.silver.format, source.silver.order, place, source.name)


def check_dump(source: Source, given: Given, progress: Progress) -> list[dict[str, Any]]:
    """Read a dump whole and write nothing: its position and its tables, one by one."""
    dump = dump_of(given)
    place = place_of(source, dump, given.at)
    found = Found(tidb=bool(place.tso))
    told = _Told(source.name, dump, found, progress)
    for _ in checked(dump, found):
        told.now()
    return [
        {"position": str(place)},
        *({"table": ".".join(one.name), "rows": one.rows, "notes": list(one.notes)} for one in found.tables),
    ]


def import_dump(source: Source, given: Given, progress: Progress) -> dict[str, Any]:
    """Land a dump in bronze. What an earlier run of the same dump has landed is not landed again."""
    dump, found = dump_of(given), Found()
    place = place_of(source, dump, given.at)
    spark = get_session()  # what is wrong with the dump is told before Spark starts
    with layer_lock(spark, source.lake, source.name, ("import",)) as lake:
        register(spark, lake, source.name, source.settings)
        log = OpsLog(spark, lake, source.name).load()
        context = RunContext(log, progress)
        refuse_below_floors(log, place)
        refuse_other_server(log, place)
        refuse_earlier_epoch(log, dump_incarnation(dump, place))
        warn_of_gap(log, place, progress)
        told = _Told(source.name, dump, found, progress)
        landed = land_snapshot(context, told.with_progress(snapshot_messages(dump, place, found)))
    for table in found.tables:
        for note in table.notes:
            progress(f"warning: {'.'.join(table.name)}: {note}")
    return {
        "source": source.name,
        "position": str(place),
        "tables": len(found.tables),
        "rows": found.rows,
        "landed": f"{landed} new records" if landed else "nothing new: it had been imported",
    }


def refuse_below_floors(log: OpsLog, place: Place) -> None:
    """LakehouseError where silver keeps no changes of that time any more."""
    at: Position = position(last_epoch(log), place)
    below = sorted(".".join(name) for name, floor in floors_of(log).items() if at <= floor)
    if below:
        raise LakehouseError(
            f"{log.source}: expected a snapshot above the retention floor, got one at {place}, below that of "
            f"{', '.join(below)}; take a newer one"
        )


def refuse_other_server(log: OpsLog, place: Place) -> None:
    """LakehouseError where the snapshot's binlog is called otherwise than the feed's."""
    done = log.last(Done)
    if place.file and done is not None:
        refuse_other_binlog(log.source, done.servers, last_epoch(log), place.file)


def refuse_earlier_epoch(log: OpsLog, incarnation: str) -> None:
    """LakehouseError where records of the same dump have landed before the present epoch began: they are of
    that time, and a table of which the rest lands now would lack their rows.
    """
    if epoch_of(epochs_of(log), (SNAPSHOT_TOPIC, incarnation, 0), 0) < last_epoch(log):
        raise LakehouseError(
            f"{log.source}: expected a dump that was taken since the epoch began, got one of which records "
            "had landed before; take a new one"
        )


def warn_of_gap(log: OpsLog, place: Place, progress: Progress) -> None:
    """Say so where nothing shows that the feed had begun when the snapshot was taken."""
    if log.last(Done) is None:
        progress(
            f"warning: {log.source}: nothing of the feed has arrived: if it begins behind {place}, changes "
            "in between are missing; let it begin first, and take the snapshot then"
        )
    first = _first_position(log)
    at = position(0, place)
    if first is not None and at[1:] < first[1:]:
        progress(
            f"warning: {log.source}: the snapshot is of {place}, and the feed's first message is behind it: "
            "if the feed began later, changes in between are missing; take one after the feed's beginning"
        )


def _first_position(log: OpsLog) -> Position | None:
    """The lowest position that the feed has told; None where silver has nothing of it, or rows of another
    snapshot.
    """
    done = log.last(Done)
    if done is None or done.snapshots is not UNSET:
        return None
    found = [table.low for table in done.tables]
    for name in ("watermarks", "schema_changes"):
        rows = read_silver(log.spark, log.lake, log.source, name)
        row = rows.agg(F.min("position").alias("low")).first()
        found += [tuple(row.low)] if row is not None and row.low is not None else []
    return min(found, default=None)


class _Told:
    """Lines of progress while a dump is read."""

    def __init__(self, source: str, dump: Dump, found: Found, progress: Progress) -> None:
        self.source, self.files, self.found, self.progress = source, dump.files, found, progress
        self.size, self.begun = dump.size, time.monotonic()
        self.last = self.begun

    def now(self) -> None:
        """One line, where the last one is long ago."""
        if time.monotonic() - self.last >= EACH:
            self.last = time.monotonic()
            self.progress(self.line(self.last - self.begun))

    def line(self, seconds: float) -> str:
        """The rows that have been read in so many seconds, and how long what is left of the files takes."""
        rows, read = self.found.rows, self.files.read
        left = rows * max(0, self.size - read) // read if read else None
        tables = f"{counted(rows, 'row')} of {counted(len(self.found.tables), 'table')}"
        return f"import  {self.source}: {tables} read{pace(rows, seconds, left)}"

    def with_progress(self, messages: Iterator[Message]) -> Iterator[Message]:
        for message in messages:
            self.now()
            yield message
