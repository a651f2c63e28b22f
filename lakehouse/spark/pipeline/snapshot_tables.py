"""`lakehouse snapshot`: reads tables from a source's database while they change, and lands them in its
bronze, from where silver and gold take them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import UNSET
from pyspark.sql import functions as F

from lakehouse.config.load import database_settings
from lakehouse.errors import LakehouseError
from lakehouse.events import SNAPSHOT_TOPIC, Message
from lakehouse.formats.snapshot.decode import position
from lakehouse.formats.snapshot.records import Place
from lakehouse.lineage import READ_WHILE, Name
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.silver import Done
from lakehouse.reporting.text.values import counted, pace
from lakehouse.silver.binlog_servers import behind_feed
from lakehouse.sources.database import SESSION, Database, connect
from lakehouse.sources.dumps.records import Place as ServerPlace
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.live.ahead import Connections
from lakehouse.sources.live.parallel import Pace, Workers
from lakehouse.sources.live.parallel import Progress as Reached
from lakehouse.sources.live.read import (
    CHUNK_ROWS,
    TRIES,
    Begun,
    Ending,
    Reading,
    changed_definition,
    mark_of,
    table_messages,
)
from lakehouse.sources.live.servers import Server, identity_of, refuse_another, server_of
from lakehouse.sources.live.tables import Listed, chosen, listed, without_temporary
from lakehouse.sources.live.topic import KafkaFeed
from lakehouse.sources.server_sql import is_tidb, version_of
from lakehouse.spark.bronze.epochs import last_epoch
from lakehouse.spark.bronze.snapshots import land_snapshot
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.change_log.dead_letters import open_counts, open_losses
from lakehouse.spark.ops.lake_record import register
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.pipeline.arrival_feed import (
    feed_of,
    refuse_new_epoch,
    server_by_arrival,
    settle,
)
from lakehouse.spark.pipeline.import_dump import EACH, refuse_below_floors, refuse_other_server, warn_of_gap
from lakehouse.spark.session import get_session
from lakehouse.spark.source import Source


class Asked(NamedTuple):
    """What an operator asks for: tables by name or pattern (none: those that the source has), those alone
    that are incomplete, how many at once, how fast, and whether tables are read again that a run which did
    not finish has read. `names`: these tables and no others.
    """

    tables: tuple[str, ...] = ()
    incomplete: bool = False
    parallel: int = 2
    rows_per_second: int | None = None
    again: bool = False
    names: frozenset[Name] = frozenset()


class LastRun(NamedTuple):
    """The newest run of which bronze has records: when it began, the tables that it has read whole, and those
    that it has begun. `finished`: it has read all that it was to.
    """

    run: str = ""
    finished: bool = True
    done: frozenset[Name] = frozenset()
    begun: Mapping[Name, Begun] = {}


def list_tables(source: Source, asked: Asked) -> list[dict[str, Any]]:
    """The tables that a snapshot would read, with about how many rows and bytes. Reads and writes nothing
    else.
    """
    settings, spark = database_settings(source.config), get_session()
    log = OpsLog(spark, source.lake, source.name).load()
    with connect(settings) as database:
        return [
            {"table": ".".join(table.name), "rows": table.rows, "bytes": table.size}
            for table in _tables(log, source, database, asked)
        ]


def snapshot_tables(source: Source, asked: Asked, progress: Progress) -> dict[str, Any]:
    """Read tables and land them in bronze. What a run that died has landed is not read again."""
    settings, spark = database_settings(source.config), get_session()
    with (
        layer_lock(spark, source.lake, source.name, ("import",)) as lake,
        connect(settings) as held,
        server_of(held) as found,
    ):
        register(spark, lake, source.name, source.settings)
        log = OpsLog(spark, lake, source.name).load()
        context = RunContext(log, progress)
        feed = feed_of(source, log)
        server = found if feed is None else server_by_arrival(found, feed)

        known = identity_of(held, server.name)

        @contextmanager
        def connected() -> Iterator[Database]:
            with connect(settings, (*SESSION, *server.session)) as database:
                refuse_another(known, database, server.name)
                yield database

        with connected() as database:
            tables = _tables(log, source, database, asked)
            place = place_now(source, server, database)
            refuse_gap(log, place, progress)
            refuse_same_place(log, {table.name for table in tables}, place)
        for name in not_listed(tables, _wanted(log, source, asked)):
            progress(
                f"warning: {name}: left out, the server lists no such table: may the account SELECT from it? "
                "Views and MariaDB's system versioned tables are not read"
            )
        if asked.incomplete and (number := sum(open_counts(log).values()) + len(open_losses(log))):
            progress(
                f"warning: {counted(number, 'dead letter')} open: what these keep from being exact stays so "
                "until they are dismissed too; see `lakehouse dead-letters list`"
            )
        run = _Run(source, asked, _last_run(log), context, feed=feed)
        return run.read(tables, server, connected)


def place_now(source: Source, server: Server, database: Database) -> Place:
    """The server's place in the source's order, now. LakehouseError where it has none there."""
    with server.moment(database, first=False) as moment:
        return place_in(source.silver.format, source.silver.order, moment.place, source.name)


def refuse_gap(log: OpsLog, place: Place, progress: Progress) -> None:
    """LakehouseError where the server's places are not those of the feed."""
    refuse_below_floors(log, place)
    refuse_other_server(log, place)
    warn_of_gap(log, place, progress)
    done = log.last(Done)
    reached = done.reach if done is not None else None
    if reached is not None and reached[:3] > position(last_epoch(log), place)[:3]:
        raise behind_feed(log.source, place)


def refuse_same_place(log: OpsLog, names: Set[Name], place: Place) -> None:
    """LakehouseError where a snapshot at this very place, which silver has, left a table incomplete: another
    one would tell the same changes, and mend nothing. A dump's cells may be others than those read here.
    """
    done, manifest = log.last(Done), log.last(Manifest)
    if done is None or done.snapshots is UNSET or manifest is None:
        return
    at = position(last_epoch(log), place)
    there = {(one.database, one.table) for one in done.snapshots.whole if one.position == at}
    if stuck := sorted(".".join(name) for name in there & names & _incomplete_in(manifest)):
        raise LakehouseError(
            f"{', '.join(stuck)}: expected a server that has written something since the last snapshot, got "
            f"one that is still at {place}: write a row, or FLUSH BINARY LOGS, and run the command again"
        )


# Which tables


def _tables(log: OpsLog, source: Source, database: Database, asked: Asked) -> list[Listed]:
    found = _asked_of(log, source, listed(database), asked)
    return without_temporary(database, found) if is_tidb(version_of(database)) else found


def _asked_of(log: OpsLog, source: Source, every: list[Listed], asked: Asked) -> list[Listed]:
    if asked.names:
        return [table for table in every if table.name in asked.names]
    if asked.incomplete:
        incomplete = _incomplete(log)
        here = [table for table in every if table.name in incomplete]
        if asked.tables:
            return [table for table in chosen(every, asked.tables) if table in here]
        return here
    if asked.tables:
        return chosen(every, asked.tables)
    if source.gold.tables is not None:
        return [table for table in every if table.name in source.gold.tables]
    told = _databases(log)
    if not told:
        raise LakehouseError(
            f"{source.name}: expected a feed that has told of some table, got none yet: name the tables that "
            "it carries, --tables 'shop.*'"
        )
    return [table for table in every if table.name[0] in told]


def _wanted(log: OpsLog, source: Source, asked: Asked) -> frozenset[Name]:
    """The tables that the server should have; none where the caller looks whether it has."""
    if asked.names or asked.tables:
        return frozenset()
    return frozenset(_incomplete(log)) if asked.incomplete else source.gold.tables or frozenset()


def not_listed(tables: Iterable[Listed], wanted: frozenset[Name]) -> list[str]:
    """The names of wanted tables that are not among those of the server."""
    return [".".join(name) for name in sorted(wanted - {table.name for table in tables})]


def _databases(log: OpsLog) -> set[str]:
    """The databases that the feed tells of."""
    done = log.last(Done)
    return set() if done is None else {table.name[0] for table in done.tables}


def _incomplete(log: OpsLog) -> set[Name]:
    """The tables that the newest manifest calls incomplete, but for those whose snapshot only waits for its
    watermark. LakehouseError where there is no manifest.
    """
    manifest = log.last(Manifest)
    if manifest is None:
        raise LakehouseError(f"{log.source}: expected a run of gold, got none; `lakehouse run all` first")
    return _incomplete_in(manifest)


def _incomplete_in(manifest: Manifest) -> set[Name]:
    entries = [one for one in manifest.tables if one.state == "incomplete" and one.why != READ_WHILE]
    return {
        name
        for one in entries
        for name in (one.names if one.shards is not UNSET and one.shards else ((one.database, one.table),))
    }


# Where a run that died had come to


def _last_run(log: OpsLog) -> LastRun:
    bronze = log.lake.read_or_empty(log.spark, "bronze", log.source, BRONZE_SCHEMA)
    mine = bronze.where((F.col("topic") == SNAPSHOT_TOPIC) & F.col("key").isNotNull())
    rows = mine.groupBy("incarnation").agg(F.max(F.struct("offset", "key")).alias("last")).collect()
    found = [
        Begun(row.incarnation, row["last"].offset + 1, mark)
        for row in rows
        if (mark := mark_of(row["last"].key)) is not None
    ]
    run = max((one.mark.run for one in found), default="")
    # what was read of the upstream before another epoch began says nothing of it now
    last = [one for one in found if one.mark.run == run and one.mark.epoch == last_epoch(log)]
    done = frozenset(one.mark.name for one in last if one.mark.done)
    newest = sorted(last, key=lambda one: one.mark.attempt)
    begun = {one.mark.name: one for one in newest if not one.mark.done}
    finished = not last or len(done) >= last[0].mark.tables
    return without_doubtful(LastRun(run, finished, done, begun), log.last(Manifest))


def without_doubtful(last: LastRun, manifest: Manifest | None) -> LastRun:
    """Without the tables that gold calls incomplete: what they lack may be of later than the place at which
    that run has read them, and would be missing still.
    """
    doubtful = set[Name]() if manifest is None else _incomplete_in(manifest)
    begun = {name: one for name, one in last.begun.items() if name not in doubtful}
    return last._replace(done=last.done - doubtful, begun=begun)


def left_of(tables: list[Listed], last: LastRun, asked: Asked) -> tuple[list[Listed], LastRun]:
    """The tables that are to be read, and the run that is gone on with: none where it has read all of them,
    for one of which a table was dropped has never read all of its own.
    """
    if asked.again or last.finished:
        return tables, LastRun()
    left = [table for table in tables if table.name not in last.done]
    return (left, last) if left else (tables, LastRun())


# The run


def _chunk_rows(rows_per_second: int | None) -> int:
    """The rows of one SELECT. Where they come slowly fewer, for a DDL on their table waits for them."""
    return CHUNK_ROWS if rows_per_second is None else min(CHUNK_ROWS, max(1000, rows_per_second))


class _Run:
    """One run: the tables that are left to read, and how they are read."""

    def __init__(
        self, source: Source, asked: Asked, last: LastRun, context: RunContext, feed: KafkaFeed | None
    ) -> None:
        self.source, self.asked, self.context, self.feed = source, asked, context, feed
        self.endings = list[Ending]()
        self.last = last
        self.reached, self.begun_at, self.told_at = Reached(), time.monotonic(), time.monotonic()

    def read(
        self, tables: list[Listed], server: Server, connected: Callable[[], AbstractContextManager[Database]]
    ) -> dict[str, Any]:
        left, self.last = left_of(tables, self.last, self.asked)
        if self.last.run and len(left) < len(tables):
            self.context.progress(
                f"snapshot  {self.source.name}: goes on with the run of {self.last.run}, which has read "
                f"{len(tables) - len(left)} of these tables (--again reads them again)"
            )
        reading = self._reading(len(tables))

        def read(some: list[Listed]) -> Iterator[Message]:
            free = Connections(self.asked.parallel, connected)
            with_free = replace(reading, free=free)

            def table_of(database: Database, table: Listed) -> Iterator[Message]:
                return table_messages(database, server, table, with_free)

            return Workers(some, free, table_of, self.reached).messages()

        messages = read(left) if self.feed is None else self._settled(left, read, connected, reading)
        landed = land_snapshot(self.context, self._told(messages, left))
        for gone in self.reached.gone:
            self.context.progress(f"warning: {gone}: left out")
        return {
            "source": self.source.name,
            "server": server.name,
            "tables": self.reached.done,
            "rows": self.reached.rows,
            "landed": f"{landed} new records",
        }

    def _reading(self, tables: int) -> Reading:
        log, silver = self.context.log, self.source.silver

        def placed(place: ServerPlace) -> Place:
            return place_in(silver.format, silver.order, place, self.source.name)

        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return Reading(
            run=self.last.run or now,
            attempt=now,
            tables=max(tables, next((one.mark.tables for one in self.last.begun.values()), 0)),
            epoch=last_epoch(log),
            placed=placed,
            paced=Pace(self.asked.rows_per_second, self.reached),
            begun=dict(self.last.begun),
            chunk_rows=_chunk_rows(self.asked.rows_per_second),
            ending=None if self.feed is None else self.endings.append,
        )

    def _settled(
        self,
        tables: list[Listed],
        read: Callable[[list[Listed]], Iterator[Message]],
        connected: Callable[[], AbstractContextManager[Database]],
        reading: Reading,
    ) -> Iterator[Message]:
        """The records of all tables, their ends once the feed has come past them. Tables on which it then
        tells a statement that they were read with are read again.
        """
        assert self.feed is not None
        for _ in range(TRIES):
            yield from read(tables)
            with connected() as database:
                settled = settle(self.feed, database, self.endings, self.context.progress)
            refuse_new_epoch(self.context.log, reading.epoch)
            for ending, until in settled.exact:
                yield from ending.records(until)
            self.endings.clear()
            tables = settled.overtaken
            if not tables:
                return
            self.reached.done -= len(tables)
            for table in tables:
                reading.begun.pop(table.name, None)
        raise changed_definition(tables[0].name)

    def _told(self, messages: Iterator[Message], tables: list[Listed]) -> Iterator[Message]:
        for message in messages:
            if time.monotonic() - self.told_at >= EACH:
                self.told_at = time.monotonic()
                line = progress_line(self.reached, tables, self.told_at - self.begun_at)
                self.context.progress(f"snapshot  {self.source.name}: {line}")
            yield message


def progress_line(reached: Reached, tables: list[Listed], seconds: float) -> str:
    """What has been read of the tables in so many seconds, and how long the rest takes: servers say only
    about how many rows a table has.
    """
    left = max(0, sum(table.rows for table in tables) - reached.rows)
    done = f"{counted(reached.rows, 'row')}, {reached.done} of {counted(len(tables), 'table')}"
    return done + pace(reached.rows, seconds, left)
