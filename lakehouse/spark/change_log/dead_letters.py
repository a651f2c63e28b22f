"""Dead letters that nobody has closed, and what the topics lost: while there is one, its table, or all of the
source, is not exact.

A letter is closed by a `dismissed` record of the ops log, or by the done batch that decoded its message
again. Offsets that retention took, and a topic that was created anew, stand among the letters under the code
`lost`, of no known table.
"""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lakehouse.ops.records import Closing, Dismissed, Done, Epoch, Gap
from lakehouse.silver.binlog_servers import standing, told_change
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog

LOST = "lost"
Name = tuple[str, str]


def closing(code: str | None, batch: int, gaps: int) -> Closing:
    """Closes the letters of `code` (None: of any) up to a batch, and the first `gaps` losses."""
    return Closing(code, batch, gaps if code in (None, LOST) else 0)


def closings(log: OpsLog) -> list[Closing]:
    """What has been closed: by operators, and by batches that decoded letters again."""
    dismissed = [Closing(one.code, one.batch, one.gaps) for one in log.all(Dismissed)]
    return [*dismissed, *(done.requeued for done in log.all(Done) if done.requeued)]


def is_open(log: OpsLog) -> Column:
    """Whether a row of silver's dead letters is open."""
    closed = F.lit(False)
    for one in closings(log):
        mine = F.lit(True) if one.code is None else F.col("code") == one.code
        closed = closed | (mine & (F.col("batch") <= one.batch))
    return ~closed


def open_counts(spark: SparkSession, lake: Lake, source: str, log: OpsLog) -> dict[Name | None, int]:
    """Open dead letters by table; None: of no known table."""
    from lakehouse.spark.silver.tables import read_silver

    done = log.last(Done)
    dead = [(one.name, one.n) for one in (done.dead if done else ())]
    if dead and closings(log):
        rows = (
            read_silver(spark, lake, source, "dead_letters")
            .where(is_open(log))
            .groupBy("database", "table")
            .count()
            .collect()
        )
        dead = [((row.database, row.table), row["count"]) for row in rows]
    found: dict[Name | None, int] = {}
    for (database, table), number in dead:
        name = None if database is None or table is None else (database, table)
        found[name] = found.get(name, 0) + number
    return found


def open_losses(log: OpsLog) -> list[Gap]:
    """What the topics lost and nobody has dismissed."""
    return log.all(Gap)[max((one.gaps for one in closings(log)), default=0) :]


def server_changes(log: OpsLog, reached: int) -> list[str]:
    """Where the upstream's binlog changed servers, in words, at a time that is in epoch `reached`."""
    done = log.last(Done)
    found = standing(done.servers if done else None, log.all(Epoch), reached)
    return [told_change(log.source, change) for change in found]
