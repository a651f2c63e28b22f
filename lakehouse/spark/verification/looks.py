"""One run of `lakehouse verify` and its steps on one table: sums, what is read of the server between two of
its places, and gold held against it.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from lakehouse.errors import LakehouseError
from lakehouse.events import SNAPSHOT_TOPIC, Position
from lakehouse.reporting.text.values import duration
from lakehouse.sources.database import Database, DatabaseSettings, connect
from lakehouse.sources.server_sql import at_tso, keep_tso, version_of
from lakehouse.spark import limits
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import get_session, many_rows
from lakehouse.spark.source import Source
from lakehouse.spark.verification.compare import (
    Asked,
    Held,
    Shape,
    Window,
    changed_keys,
    found_rows,
    gold_side,
    shape_of,
)
from lakehouse.spark.verification.scratch import Scratch
from lakehouse.spark.verification.sides import (
    Access,
    differing_buckets,
    gold_rows,
    gold_sums,
    server_rows,
    server_sums,
)
from lakehouse.verification.server import ServerPlace, columns_of, place_of, ranges
from lakehouse.verification.verdict import COLUMNS, TABLE, Found

Progress = Callable[[str], None]
# seconds between two looks at the ops log
POLL = 2.0
_WORKERS_ERROR = re.compile(r"lakehouse(?:\.\w+)+Error_?: (.+)")


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator asks: these tables alone (none: all); see Asked for `values` and `sample`; `wait`:
    seconds for the feed to pass a place; `parallel`: connections that read. `pause` waits so many seconds.
    """

    tables: tuple[str, ...] = ()
    sample: float = 1.0
    values: bool = False
    wait: float = 120.0
    parallel: int = 2
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared: a source and its server, as an operator asks it."""

    source: Source
    settings: DatabaseSettings
    options: Options
    progress: Progress


def looks_within(options: Options) -> Iterator[None]:
    """One look, and more of them for as long as `wait` says: a look takes of that time too. However long the
    first one takes, there is a second where anything is to be waited for.
    """
    left = options.wait
    while True:
        begun = time.monotonic()
        yield
        looked = time.monotonic() - begun
        if left <= 0:
            return
        pause = min(POLL, left)
        options.pause(pause)
        left -= pause + looked


class Session:
    """One run: the source, its lake, its server."""

    def __init__(self, asked: Compared, scratch: Scratch) -> None:
        self.spark, self.scratch = get_session(), scratch
        source, self.options, self.progress = asked.source, asked.options, asked.progress
        self.source, self.settings = source, asked.settings
        known = sources(self.spark, source.lake)
        if source.name not in known:
            raise LakehouseError(f"{source.name}: gold has published nothing yet; `lakehouse run all` does")
        self.recorded = known[source.name]
        self._reader: Reader | None = None
        # a sample is the same rows in all looks of one run, and others in the next
        self.turn = sum(self.reader().watermark())
        with connect(self.settings) as server:
            self.version = version_of(server)

    def reader(self) -> Reader:
        """Gold as it is published now; as long as that is the same, its history is built once."""
        new, known = Reader(self.spark, self.source.lake, self.source.name, self.recorded), self._reader
        if known is None or (new.manifest, new.done) != (known.manifest, known.done):
            self._reader = known = new
        return known

    def reader_past(self, place: ServerPlace) -> tuple[Reader, bool]:
        """Gold at the first published watermark that has passed the place; False, and gold as it is published
        last, where none has in time.
        """
        for number, _ in enumerate(looks_within(self.options)):
            reader = self.reader()
            if place.passed_by(reader.watermark()) and _is_complete(reader):
                return reader, True
            if number == 0:
                self.progress(
                    f"verify  {self.source.name}: waits {duration(self.options.wait)} at most for a run to "
                    f"publish what the server had at {place}: start `lakehouse run all` if none goes on"
                )
        return reader, False

    @property
    def by_tso(self) -> bool:
        """Whether the server can be read at a published TSO."""
        return self.recorded.order == "tidb"

    def place(self, server: Database) -> ServerPlace | None:
        """Where the server stands; None where it is read at a TSO."""
        return None if self.by_tso else place_of(server)

    def told_place(self, table: Held, place: ServerPlace | None) -> str:
        """The place of the server at which a table was read, for people."""
        return f"TSO {table.at[1]}" if place is None else str(place)

    def at(self, position: Position) -> tuple[str, ...]:
        """What a session begins with that reads the server at a published position, where it can be."""
        return at_tso(position[1]) if self.by_tso else ()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the server's state at the published watermark for as long as the block lasts, where it is read
        at a TSO.
        """
        with connect(self.settings) if self.by_tso else nullcontext() as server:
            if server is not None:
                keep_tso(server, self.reader().watermark()[1])
            yield

    def access(self, table: Held) -> Access:
        """How the table is read at the server."""
        return Access(self.settings, self.at(table.at), self.options.parallel)

    def shape(self, server: Database, table: Held, rows: int) -> Shape | None:
        """How the table is compared; None where the server has none of its name."""
        columns = columns_of(server, table.name)
        asked = Asked(self.options.values, self.options.sample, turn=self.turn)
        return shape_of(table, columns, asked, rows) if columns else None


@contextmanager
def working(session: Session, rows: int) -> Iterator[None]:
    """For the work on a table of so many rows: plans are compiled where that is worth it, and what a worker
    says of the server is an error of this side.
    """
    try:
        with many_rows(session.spark) if rows > limits.VERIFY_RANGE_ROWS else nullcontext():
            yield
    except Exception as error:  # each kind of session shows a worker's error in its way
        found = _WORKERS_ERROR.search(str(error))
        if found is None or isinstance(error, LakehouseError):
            raise
        raise LakehouseError(found[1]) from None


def _is_complete(reader: Reader) -> bool:
    """Whether all that lies below the published position has arrived: by watermarks, or because all of the
    feed comes in one partition.
    """
    if reader.manifest_or_error().consistency == "resolved" or reader.done is None:
        return True
    places = {(one.topic, one.partition) for one in reader.done.next if one.topic != SNAPSHOT_TOPIC}
    return len(places) <= 1


def _ranges(server: Database, table: Held) -> list[str]:
    return list(ranges(server, table.name, columns_of(server, table.name), limits.VERIFY_RANGE_ROWS))


class Summed(NamedTuple):
    """The buckets whose sums differ; None where the columns do, so that all rows have to be looked at."""

    buckets: list[int] | None
    shape: Shape | None
    place: ServerPlace | None


def sums(session: Session, table: Held, rows: int) -> Summed:
    """A table of about `rows` rows summed up by both sides."""
    access = session.access(table)
    with connect(access.settings, access.statements) as server:
        place, shape = session.place(server), session.shape(server, table, rows)
        if shape is None or shape.one_sided or not shape.comparison.cells:
            return Summed(None, shape, place)
        found = _ranges(server, table)
    comparison = shape.comparison
    gold = gold_sums(gold_side(table, comparison), comparison)
    return Summed(
        differing_buckets(gold, server_sums(session.spark, access, comparison, found)), shape, place
    )


class Read(NamedTuple):
    """What one look has read of the server, between two of its places: the rows of some buckets (None: of
    all), in a scratch table.
    """

    table: Held
    shape: Shape | None
    buckets: Sequence[int] | None
    before: ServerPlace | None
    place: ServerPlace | None


def read_rows(
    session: Session, table: Held, rows: int, chosen: tuple[Sequence[int] | None, Shape | None]
) -> Read:
    """Read the rows of the `chosen` buckets, which hold in the shape that they were found in; in another one
    all rows are read.
    """
    access = session.access(table)
    with connect(access.settings, access.statements) as server:
        before, shape = session.place(server), session.shape(server, table, rows)
        buckets = chosen[0] if shape == chosen[1] else None
        if shape is not None and shape.comparison.cells:
            ranges = _ranges(server, table)
            frame = server_rows(session.spark, access, shape.comparison, ranges, buckets=buckets)
            session.scratch.lake.overwrite(frame, "gold", session.scratch.table(table.entry.gold))
        return Read(table, shape, buckets, before, place=session.place(server))


class Look(NamedTuple):
    """What one look at a table's rows has found: the rows that differ, how many more there are than these,
    gold as it was held against the server (None: the table is gone), and whether the feed has passed.
    """

    found: list[Found]
    more: int
    at: Held | None
    place: ServerPlace | None
    passed: bool
    left_out: tuple[str, ...] = ()


def held_against(session: Session, read: Read, after: Held | None, *, passed: bool) -> Look:
    """Gold, as it is published after the server was read, held against what was read."""
    look = Look([], 0, after, read.place, passed=passed)
    if after is None:
        return look
    window = None if read.before is None else Window(after, read.before.position(after.at[0]))
    doubtful = not passed or (window is not None and window.has_statement)
    if read.shape is None:
        return look._replace(found=[Found("", TABLE, changed=doubtful)])
    comparison, one_sided, left_out = read.shape
    if _columns(after) != _columns(read.table):
        return look._replace(found=[Found("", COLUMNS, changed=True)])
    found = [Found("", COLUMNS, columns=one_sided, changed=doubtful)] if one_sided else []
    if not comparison.cells:
        return look._replace(found=found, left_out=left_out)
    gold = gold_rows(gold_side(after, comparison), comparison, read.buckets)
    scratch = session.scratch
    source = scratch.lake.read(session.spark, "gold", scratch.table(read.table.entry.gold))
    changed = None
    if not doubtful:
        nothing = session.spark.createDataFrame([], "key STRING")
        changed = nothing if window is None else changed_keys(window, comparison)
    rows, number = found_rows(comparison, gold, source, changed)
    # what was read is this run's own only while the slot is
    scratch.lake.before_write()
    return look._replace(found=[*found, *rows], more=number - len(rows), left_out=left_out)


def _columns(table: Held) -> list[tuple[str, str, str]]:
    return [(column.name, column.spark, str(column.column.type)) for column in table.columns]
