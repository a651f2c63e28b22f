"""`lakehouse verify`: gold, as its manifests publish it, against the source's server.

    sums      both sides sum up their rows by bucket: most tables are equal, and nothing else is read
    looks     of buckets that differ the rows are read, table by table, and held against gold once the feed
              has passed the place where the server stood after that; see lakehouse/verification/verdict.py

Nothing is locked, at the server or in the lake: it runs while the pipeline does.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import UNSET

from lakehouse.errors import LakehouseError
from lakehouse.lineage import Name
from lakehouse.ops.records.gold import TableEntry
from lakehouse.silver.binlog_servers import behind_feed, refuse_other_binlog
from lakehouse.sources.database import SESSION, connect
from lakehouse.sources.live.tables import listed, without_temporary
from lakehouse.sources.server_sql import is_tidb
from lakehouse.spark.bronze.epochs import last_epoch
from lakehouse.spark.operations.rebuild import discard
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import get_session
from lakehouse.spark.verification.compare import Held, Shape, held, why_not
from lakehouse.spark.verification.looks import (
    Compared,
    Look,
    Read,
    Session,
    held_against,
    read_rows,
    sums,
    working,
)
from lakehouse.spark.verification.scratch import scratch
from lakehouse.verification.rows import Comparison
from lakehouse.verification.server import place_of
from lakehouse.verification.verdict import LOOKS, Found, Looks

# looks at a table's rows, after which what still differs and is being changed is undecided
MOST_LOOKS = 4
DROPPED = "the server has it, and the feed has told its DROP: a CREATE is on its way, or was never told"
UNKNOWN = "the server has it, and gold has not: if the feed carries it, `lakehouse snapshot` reads it"


class TableResult(NamedTuple):
    """What has been found of one table. `rows`: how many gold has; `more`: rows that differ and are not
    named; `why`: why it was not compared, or why something is undecided; `left_out`: columns that were not
    compared; `comparison`: how its rows were dealt to buckets, None where not in one way in all looks;
    `share`: that of its buckets that were looked at.
    """

    name: Name
    rows: int = 0
    compared: bool = True
    different: tuple[Found, ...] = ()
    undecided: tuple[Found, ...] = ()
    more: int = 0
    why: str | None = None
    left_out: tuple[str, ...] = ()
    gold_at: str = ""
    source_at: str = ""
    comparison: Comparison | None = None
    share: float = 1.0


@dataclass(slots=True)
class Open:
    """A table whose sums differ: the buckets that are looked at next (None: all), and the last look."""

    table: Held
    rows: int
    looks: Looks
    buckets: Sequence[int] | None
    shape: Shape | None = None
    look: Look | None = None
    one_shape: bool = True

    def take(self, read: Read, look: Look) -> None:
        """Take a look's rows."""
        self.one_shape = self.one_shape and read.shape == self.shape
        self.look, self.shape = look, read.shape
        self.looks.take(look.found)
        narrowed = sorted({one.bucket for one in self.looks.undecided if one.key}) or None
        # rows that are not named may lie in any of the buckets
        self.buckets = read.buckets if look.more else narrowed
        self.table = look.at or self.table

    @property
    def goes_on(self) -> bool:
        """Whether another look can decide more."""
        return self.look is None or bool(self.looks.open and self.look.passed and self.look.at is not None)


def verify(asked: Compared) -> list[TableResult]:
    """Compare a source's tables. LakehouseError where the server is not the feed's, or the feed has no
    positions of the server's.
    """
    source = asked.source
    with scratch(get_session(), source.lake, source.name) as held:
        session = Session(asked, held)
        _refuse_other_server(session, session.reader())
        with session.kept():
            return _verified(session)


def _verified(session: Session) -> list[TableResult]:
    reader, source, options = session.reader(), session.source, session.options
    results: dict[Name, TableResult] = {}
    differing: dict[Name, Open] = {}
    for name, entry in sorted(reader.entries().items()):
        if options.tables and entry.name not in options.tables:
            continue
        why = why_not(entry)
        if why is not None:
            results[name] = TableResult(name, compared=False, why=why)
            continue
        session.progress(f"verify  {source.name}: {entry.name}")
        results[name] = _first(session, name, differing)
    if not options.tables:
        here = _unseen(session, reader)
        results |= {name: TableResult(name, compared=False, why=why) for name, why in here.items()}
    for _ in range(MOST_LOOKS):
        _look_again(session, [one for one in differing.values() if one.goes_on])
    for name, one in differing.items():
        results[name] = _result(session, results[name], one)
    return list(results.values())


def _unseen(session: Session, reader: Reader) -> dict[Name, str]:
    """See `unseen`, at a TiDB of the tables at the published watermark."""
    told, wanted = reader.manifest_or_error().tables, session.source.gold.tables
    with connect(session.settings, (*SESSION, *session.at(reader.watermark()))) as server:
        every = listed(server)
        found = unseen([table.name for table in every], told, wanted)
        here = [table for table in every if table.name in found]
        if session.by_tso:
            here = without_temporary(server, here)
    return {table.name: found[table.name] for table in here}


def unseen(
    tables: Iterable[Name], entries: Iterable[TableEntry], wanted: Collection[Name] | None
) -> dict[Name, str]:
    """The server's tables that gold does not have, and why they are not compared. `wanted`: the tables that
    the source has, None for those of all databases that gold has tables of.
    """
    entries = list(entries)
    alone = [one for one in entries if one.shards is UNSET]
    live = {(one.database, one.table) for one in alone if one.state != "retired"}
    # a copy of a dropped table may be kept beside the one that has its name now
    retired = {name: name not in live for name in ((one.database, one.table) for one in alone)}
    merged = {name for one in entries if one.shards is not UNSET for name in one.names}
    databases = {name[0] for name in {*retired, *merged}}
    found = dict[Name, str]()
    for name in tables:
        if retired.get(name):
            found[name] = DROPPED
        elif name not in retired and name not in merged and name[0] in databases:
            found |= {name: UNKNOWN} if wanted is None or name in wanted else {}
    return found


def _first(session: Session, name: Name, differing: dict[Name, Open]) -> TableResult:
    """Compare a table's sums; where they differ, it is one of those that are looked at."""
    table = held(session.reader(), name)
    if table is None:
        return TableResult(name, compared=False, why="it is no longer published")
    rows = table.frame().count()
    with working(session, rows):
        found = sums(session, table, rows)
    if found.buckets != []:
        looks = Looks(needed=1 if session.by_tso else LOOKS)
        differing[name] = Open(table, rows, looks, found.buckets, shape=found.shape)
    left_out = found.shape.left_out if found.shape is not None else ()
    share = found.shape.comparison.share if found.shape is not None else 1.0
    place = session.told_place(table, found.place)
    at = str(list(table.at))
    return TableResult(name, rows, left_out=left_out, gold_at=at, source_at=place, share=share)


def _look_again(session: Session, tables: Sequence[Open]) -> None:
    """One more look at some tables: all of them are read, and the feed is waited for once."""
    scratch, reads = session.scratch, list[Read]()
    try:
        for one in tables:
            with working(session, one.rows):
                reads.append(read_rows(session, one.table, one.rows, (one.buckets, one.shape)))
        last = next((read.place for read in reversed(reads) if read.place is not None), None)
        reader, passed = (None, True) if last is None else session.reader_past(last)
        for one, read in zip(tables, reads, strict=True):
            after = one.table if reader is None else held(reader, one.table.name)
            with working(session, one.rows):
                one.take(read, held_against(session, read, after, passed=passed))
    finally:
        for one in tables:
            discard(session.spark, scratch.lake, scratch.table(one.table.entry.gold))


def _result(session: Session, begun: TableResult, one: Open) -> TableResult:
    looks, look = one.looks, one.look
    if look is None or look.at is None:
        return begun._replace(compared=False, why="it was dropped meanwhile")
    why = None
    if looks.open and not look.passed:
        why = (
            f"within {session.options.wait:g} s the feed has not passed {look.place}, where the server "
            "stood: is the pipeline running? On an idle server nothing follows: write a row, or wait for "
            "longer; a feed without watermarks can pass it in one partition only"
        )
    elif looks.open:
        why = f"it was being changed in each of {MOST_LOOKS} looks"
    return begun._replace(
        different=tuple(looks.different.values()),
        undecided=tuple(looks.undecided),
        more=look.more if looks.different else 0,
        why=why,
        left_out=look.left_out,
        gold_at=str(list(look.at.at)),
        source_at=session.told_place(look.at, look.place),
        comparison=one.shape.comparison if one.one_shape and one.shape is not None else None,
    )


def _refuse_other_server(session: Session, reader: Reader) -> None:
    """LakehouseError where the server can't be the one whose changes the feed tells."""
    name, watermark = session.source.name, reader.watermark()
    missing = [one for one in session.options.tables if not reader.has(one, live=True)]
    if missing:
        raise LakehouseError(f"{missing[0]}: expected a live table of {name}; `lakehouse status` lists them")
    if session.recorded.order not in ("tidb", "binlog"):
        raise LakehouseError(
            f"{name}: expected a feed with positions of the source, got one in order of arrival: no place of "
            "the server can be compared with it"
        )
    if session.by_tso != is_tidb(session.version):
        wanted = "a TiDB" if session.by_tso else "a MySQL or MariaDB"
        raise LakehouseError(
            f"{name}: expected {wanted}, as its feed is of one, got version {session.version}"
        )
    if watermark[0] < (epoch := last_epoch(reader.log)):
        raise LakehouseError(
            f"{name}: expected gold at a place in epoch {epoch}, which has begun, got one before it, with "
            "which no place of the server can be compared; `lakehouse run all`, once the feed has told more"
        )
    if not session.by_tso:
        with connect(session.settings) as server:
            place = place_of(server)
        servers = None if reader.done is None else reader.done.servers
        refuse_other_binlog(name, servers, watermark[0], place.file)
        if watermark[1:3] > place.position(0)[1:3]:
            raise behind_feed(name, place)
