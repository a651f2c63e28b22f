"""Reads the rows again that a comparison has found to differ, and lands them in bronze.

    moment       all are read by one SELECT, in a moment of which the server tells the place: MariaDB's
                 consistent snapshot, TiDB's TSO. MySQL tells the end of its binlog before and after it
    rows         stand there, above all that was changed before, below what is streamed from there on
    deletes      of the keys that gold has and the source had not, at the same place

Each of them says what its row was at that place, or by the second one; between the two the table is
incomplete. So they need no other end to count, a run that dies in the middle has mended some of them, and it
does not matter what the feed has told by then: changes behind the place come above them.
Silver keeps them as a feed's changes, of which gold is folded, now and when it is folded again.

A table of which that can't be said is read whole (WholeOnly says why).
"""

import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from lakehouse.config.load import database_settings
from lakehouse.formats.snapshot.decode import position
from lakehouse.formats.snapshot.encode import incarnation_of, messages
from lakehouse.lineage import READ_WHILE
from lakehouse.reporting.text.values import counted
from lakehouse.sources.database import SESSION, Cells, Database, DatabaseError, connect
from lakehouse.sources.dumps.snapshot import place_in
from lakehouse.sources.kafka_offsets import loss_text
from lakehouse.sources.live.servers import Server, server_of
from lakehouse.sources.live.tables import described, listed
from lakehouse.spark.bronze.epochs import last_epoch
from lakehouse.spark.bronze.snapshots import land_snapshot
from lakehouse.spark.change_log.dead_letters import open_losses, server_changes
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.pipeline.arrival_feed import refuse_new_epoch
from lakehouse.spark.pipeline.snapshot_tables import place_now, refuse_gap
from lakehouse.spark.session import get_session
from lakehouse.spark.source import Source
from lakehouse.spark.verification.compare import Held, gold_side
from lakehouse.spark.verification.run import TableResult
from lakehouse.spark.verification.sides import gold_keys
from lakehouse.verification.part import Part, Span, Wanted, WholeOnly, reads_alike, wanted


class Taken(NamedTuple):
    """What was read of a table: the wanted rows that the server has, by the hashes of their keys, and of
    which place, or places, they are.
    """

    part: Part
    span: Span
    rows: Mapping[str, Cells]


def read_rows_again(source: Source, table: Held, result: TableResult, progress: Progress) -> str:
    """Land the rows of a table that differ as its server has them; says what was landed. WholeOnly where all
    of the table has to be read.
    """
    chosen = wanted(result.comparison, (*result.different, *result.undecided), result.more)
    spark, settings = get_session(), database_settings(source.config)
    with (
        layer_lock(spark, source.lake, source.name, ("import",)) as lake,
        connect(settings) as open_connection,
        server_of(open_connection) as server,
    ):
        log = OpsLog(spark, lake, source.name).load()
        refuse_whole(table, _losses(table, log))
        epoch = last_epoch(log)
        with connect(settings, (*SESSION, *server.session)) as database:
            refuse_gap(log, place_now(source, server, database), progress)
            taken = _taken(source, table, result, (chosen, server, database))
        gold = gold_keys(
            gold_side(table, taken.part.comparison.of_keys), taken.part.comparison.of_keys, chosen.keys
        )
        gone = taken.part.gone(gold, taken.rows)
        now = datetime.now(UTC).isoformat()
        incarnation = incarnation_of(taken.span.place, ("part", now, *table.name))
        refuse_new_epoch(log, epoch)
        records = taken.part.records(taken.span, taken.rows.values(), gone)
        land_snapshot(RunContext(log, progress), messages(records, incarnation))
    rows, deletes = counted(len(taken.rows), "row"), counted(len(gone), "row")
    return f"{rows} read again from the database at {taken.span}, {deletes} that it does not have"


def _losses(table: Held, log: OpsLog) -> set[str]:
    """What the source as a whole has lost, in words: no snapshot of a table ends that either."""
    manifest = table.reader.manifest_or_error()
    losses = {*manifest.problems, *map(loss_text, open_losses(log))}
    return losses - set(server_changes(log, manifest.watermark[0]))


def refuse_whole(table: Held, losses: Collection[str]) -> None:
    """WholeOnly where rows that are added to what silver has do not make the table exact. `losses` are those
    of the source as a whole.
    """
    mode, entry = table.mode, table.entry
    if mode.word != "upsert":
        raise WholeOnly(f"its mode is {mode.word}, in which gold has more than the source's rows")
    schema = mode.lineage.source_schema
    if schema is None or schema.inferred:
        raise WholeOnly("no statement has told its schema")
    if entry.state != "exact" and entry.why not in {*losses, READ_WHILE}:
        raise WholeOnly(f"it is {entry.state}: {entry.why}")


def _taken(
    source: Source, table: Held, result: TableResult, reading: tuple[Wanted, Server, Database]
) -> Taken:
    """Read the wanted rows in one moment."""
    chosen, server, database = reading
    found = next((one for one in listed(database) if one.name == table.name), None)
    if found is None or not found.is_transactional:
        raise WholeOnly("its engine has no transactions" if found else "the server lists no such table")
    tidb = server.name == "TiDB"
    try:
        live = described(database, found, tidb=tidb)
        known = table.mode.lineage.source_schema
        if known is None or not reads_alike(known, live.schema):
            raise WholeOnly("its definition is another one than the feed has told so far")
        assert result.comparison is not None  # or nothing was wanted
        part = Part(live, result.comparison, chosen, number=time.time_ns() // 1_000_000)
        database.execute(f"SET SESSION character_set_results = {live.charset or 'NULL'}")
        with server.moment(database, first=True) as moment:
            rows = part.rows(database.stream(part.statement))
        places = [moment.place]
        if not moment.exact:
            with server.moment(database, first=False) as moment:
                places.append(moment.place)
        database.execute("SET SESSION character_set_results = utf8mb4")
        if described(database, found, tidb=tidb).state != live.state:
            raise WholeOnly("its definition has changed while it was read")
    except DatabaseError as error:
        raise WholeOnly(f"its rows can't be read in one SELECT ({error})") from None
    form, order = source.silver.format, source.silver.order
    span = Span(*(place_in(form, order, place, source.name) for place in places))
    if span.until is not None and position(0, span.until) < position(0, span.place):
        raise WholeOnly("the server's binlog began anew while it was read")
    return Taken(part, span, rows)
