"""Open dead letters and losses of topics: while there is one, its table (or all of the source) is not exact.

A letter is closed by a `dismissed` record of the ops log, or by the done batch that decoded its message
again. Offsets that retention deleted, and topics that were created again, are listed with the letters under
the code `lost`, of no known table; so are a storage sink's missing files, of their table, until they arrive.
"""

from msgspec import UNSET
from msgspec.structs import replace
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.lineage import Name
from lakehouse.ops.progress import Shortfall
from lakehouse.ops.pruning import closed_by_code
from lakehouse.ops.records.bronze import FilesMissing, Gap, MissingFile
from lakehouse.ops.records.operators import Dismissed, Epoch, Generation
from lakehouse.ops.records.silver import Closing, Done
from lakehouse.silver.binlog_servers import change_text, standing
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.tables import count_by_table, read_silver

LOST = "lost"


def closing(code: str | None, batch: int, gaps: int) -> Closing:
    """Closes the letters of `code` (None: of any) up to a batch, and the first `gaps` losses."""
    return Closing(code, batch, gaps if code in (None, LOST) else 0)


def closings(log: OpsLog) -> list[Closing]:
    """The closings of dead letters: by operators, and by batches that decoded them again."""
    requeued: list[Closing] = []
    for one in log.records:
        if one.kind == Generation.kind:
            requeued.clear()
        elif one.kind == Done.kind and one.gist.requeued:
            requeued.append(one.gist.requeued)
    return [*dismissals(log), *log.summary.closed, *requeued]


def dismissals(log: OpsLog) -> list[Closing]:
    """What operators have dismissed. Of dismissals before silver's present generation, which numbers its own
    batches, only losses of topics count; `rebuild silver` dismisses the same letters again.
    """
    found: list[Closing] = []
    for one in log.records:
        if one.kind == Generation.kind:
            found = [replace(closing, batch=0) for closing in found]
        elif one.kind == Dismissed.kind and isinstance(said := one.record, Dismissed):
            found.append(Closing(said.code, said.batch, said.gaps))
    return found


def is_open(log: OpsLog) -> Column:
    """Whether a row of silver's dead letters is open."""
    return ~is_closed(closings(log))


def is_closed(closings: list[Closing]) -> Column:
    """Whether any of the closings closes a row of silver's dead letters."""
    closed = F.lit(False)
    for closing in closed_by_code(closings):
        mine = F.lit(True) if closing.code is None else F.col("code") == closing.code
        closed = closed | (mine & (F.col("batch") <= closing.batch))
    return closed


def open_counts(log: OpsLog) -> dict[Name | None, int]:
    """Open dead letters by table; None: of no known table."""
    done = log.last(Done)
    dead = [(one.name, one.n) for one in (done.dead if done else ())]
    if dead and closings(log):
        letters = read_silver(log.spark, log.lake, log.source, "dead_letters").where(is_open(log))
        dead = list(count_by_table(letters).items())
    counts: dict[Name | None, int] = {}
    for (database, table), number in dead:
        name = None if database is None or table is None else (database, table)
        counts[name] = counts.get(name, 0) + number
    return counts


def open_losses(log: OpsLog) -> list[Gap]:
    """Losses of topics that nobody has dismissed."""
    return log.all(Gap)[max((closing.gaps for closing in closings(log)), default=0) :]


def missing_files(log: OpsLog) -> list[MissingFile]:
    """What a storage sink lacks and nobody has dismissed."""
    last = log.last(FilesMissing)
    dismissed = {path for one in log.all(Dismissed) for path in one.files}
    return [file for file in (last.files if last else ()) if file.path not in dismissed]


def open_shortfalls(log: OpsLog) -> list[Shortfall]:
    """What batches found lacking or cut, by numbers and sizes, and nobody has dismissed. To decode dead
    letters again brings none of it.
    """
    done = log.last(Done)
    found = () if done is None or done.short is UNSET else done.short
    closed = max((one.batch for one in dismissals(log) if one.code in (None, LOST)), default=-1)
    return [one for one in found if one.batch > closed]


def shortfall_text(one: Shortfall) -> str:
    """Records that are lacking or cut, in words."""
    place = f"{one.topic}/{one.partition}"
    if one.kind == "cut":
        return (
            f"{one.n} records of {place} are not as long as what was read (the first at offset "
            f"{one.offset}): land them again"
        )
    return (
        f"{one.n} records of {place} are missing by the numbers that the feed gives them (the first before "
        f"offset {one.offset}): they were not sent, or lost on their way"
    )


def missing_text(file: MissingFile) -> str:
    """A file that a storage sink lacks, in words."""
    return f"the storage sink lacks {file.path}, though later files are there: it was deleted or never copied"


def server_changes(log: OpsLog, reached: int) -> list[str]:
    """Changes of the upstream's binlog servers as sentences, at a time that is in epoch `reached`."""
    done = log.last(Done)
    found = standing(done.servers if done else None, log.all(Epoch), reached)
    return [change_text(log.source, change) for change in found]
