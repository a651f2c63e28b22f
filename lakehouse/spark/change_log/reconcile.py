"""Whether the layers still hold what was written to them and read from them, by what storage says.

    producer's numbers = records          Done.short, lakehouse/spark/bronze/storage.py
    Delta's commits of bronze = its rows = records that silver's batches have read + those that wait
    inserted changes = silver's rows

Every run of gold asks Delta for the commits and the numbers of rows that its log has, before it calls a table
exact: what a skipped write, a RESTORE or a DELETE by hand took is noticed. Only where the numbers do not add
up are records looked at, as `lakehouse audit` always does (layer_counts.py). What gold makes of silver's
changes is counted by table: change_counts.py.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import UNSET
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.ops.progress import BronzeRows
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Dismissed, Floor
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark.bronze.offsets import unread
from lakehouse.spark.change_log.dead_letters import LOST, open_shortfalls, shortfall_text
from lakehouse.spark.change_log.layer_counts import bronze_findings
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.retention_floors import floors_of
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.table_versions import NEWEST, Commit, commits_above


class SilverRows(NamedTuple):
    """How many rows silver's changes are to have up to the last done batch, and how many they have."""

    expected: int
    rows: int

    @property
    def losses(self) -> tuple[str, ...]:
        """What the source is known to lack, or to have twice, in words."""
        mend = "decode everything again with `lakehouse rebuild silver`"
        if self.rows > self.expected:
            return (
                f"silver has {self.rows} changes, of which its batches have inserted {self.expected}: "
                f"somebody else has written to its changes table; restore the version before that, or {mend}",
            )
        if self.rows < self.expected:
            return (
                f"silver has lost {self.expected - self.rows} of {self.expected} changes since they were "
                f"decoded: restore its changes table to its newest version, or {mend}",
            )
        return ()


class Reconciled(NamedTuple):
    """What bronze and silver are to have from now on, and what they lack, in words; and how many dismissals
    of operators that takes into account.
    """

    silver_rows: int
    bronze: BronzeRows
    losses: tuple[str, ...]
    dismissals: int


def reconciled(log: OpsLog, last: Manifest | None, done: Done) -> Reconciled:
    """Bronze and silver held against each other, since the last manifest."""
    silver, bronze = silver_rows(log, last, done), bronze_rows(log, last, done)
    short = tuple(shortfall_text(one) for one in open_shortfalls(log))
    losses = (*bronze.losses, *silver.losses, *short)
    return Reconciled(silver.expected, bronze, losses, len(log.all(Dismissed)))


# --- silver


def silver_rows(log: OpsLog, last: Manifest | None, done: Done) -> SilverRows:
    """The rows that silver has against those that it is to have. A manifest that an older lakehouse wrote and
    a retention floor begin the count again.
    """
    expected = inserted_rows(log, last, done)
    if expected is not None and log.lake.count(log.spark, "silver", f"{log.source}_changes") == expected:
        return SilverRows(expected, expected)
    changes = read_silver(log.spark, log.lake, log.source, "changes")
    # a batch that is under way, or done by now, has rows that make up for none that are missing
    rows = changes.where(F.col("batch") <= done.batch).count()
    return SilverRows(rows if expected is None else expected, rows)


def inserted_rows(log: OpsLog, last: Manifest | None, done: Done) -> int | None:
    """How many rows silver's batches have inserted: since the last manifest, besides those that it has
    counted, or since the generation's first batch; None where that is not known.
    """
    if last is not None and last.silver_rows is not UNSET and is_counted(log, last):
        return last.silver_rows + sum(one.counts.inserted for one in new_batches(log, last, done))
    if floors_of(log):
        return None
    rows = [one.rows for one in done.tables]
    return None if UNSET in rows else sum(one for one in rows if one is not UNSET)


def new_batches(log: OpsLog, last: Manifest | None, done: Done) -> Iterable[Done]:
    """The batches since a manifest, each once: of two runs that overlapped both may have said it is done."""
    known = last.batch if last is not None else 0
    return {one.batch: one for one in log.above(Done, known) if one.batch <= done.batch}.values()


def is_counted(log: OpsLog, last: Manifest) -> bool:
    """Whether the manifest's count of silver's rows still holds."""
    if last.generation != log.generation:
        return False
    for one in reversed(log.records):
        if isinstance(one.record, Manifest):
            return True
        if isinstance(one.record, Floor):
            return False
    return True


# --- bronze


def bronze_rows(log: OpsLog, last: Manifest | None, done: Done) -> BronzeRows:
    """What bronze is to have and silver to have read. An older lakehouse's manifest, commits that Delta has
    forgotten, and an operator's dismissal of what the last manifest has lost begin the count again.
    """
    lake, spark = log.lake, log.spark
    known = last.bronze if last is not None and last.bronze is not UNSET else None
    if known is not None and known.losses and is_dismissed(log):
        known = None
    if not lake.exists(spark, "bronze", log.source):
        return _without_bronze(known)
    above = known.version if known is not None else -1 if last is None else NEWEST
    commits = commits_above(spark, lake, ("bronze", log.source), above)
    version = commits[0].version
    rows = lake.count(spark, "bronze", log.source, version)
    expected = max(rows, expected_rows(known, commits, is_first=last is None) or rows)
    lost = expected - rows
    losses = [lost_rows(lost, expected, known, commits)] if lost else []
    read = records_read(log, last if known is not None else None, done, known, first=last is None)
    waiting = 0 if read == rows else _waiting(lake.read(spark, "bronze", log.source, version), done)
    if read is None:
        read = rows - waiting
    elif not rows - waiting <= read <= rows + lost - waiting:
        found = list(bronze_findings(log, done))
        losses += found
        read = read if found else rows - waiting
    return BronzeRows(version, expected, read, tuple(losses))


def _without_bronze(known: BronzeRows | None) -> BronzeRows:
    if known is None:
        return BronzeRows(-1, 0, None)
    lost = f"bronze has lost {known.rows} of {known.rows} records: its table is gone"
    return BronzeRows(known.version, known.rows, known.read, (lost,))


def is_dismissed(log: OpsLog) -> bool:
    """Whether an operator has dismissed what was lost since the last manifest: by a dismissal that its run
    had not read. One of an older lakehouse does not say which it had: the later ones count.
    """
    last = log.last(Manifest)
    if last is not None and last.dismissals is not UNSET:
        return any(one.code in (None, LOST) for one in log.all(Dismissed)[last.dismissals :])
    for one in reversed(log.records):
        if isinstance(one.record, Manifest):
            return False
        if isinstance(one.record, Dismissed) and one.record.code in (None, LOST):
            return True
    return False


def expected_rows(known: BronzeRows | None, commits: list[Commit], *, is_first: bool) -> int | None:
    """The rows that bronze is to have by what its commits have appended; None where that is not known."""
    above = known.version if known is not None else -1
    new = [one for one in commits if one.version > above]
    if known is None and not is_first:
        return None
    if len(new) != max(0, commits[0].version - above) or any(one.appended is None for one in new):
        return None
    return (known.rows if known is not None else 0) + sum(one.appended or 0 for one in new)


def lost_rows(lost: int, expected: int, known: BronzeRows | None, commits: list[Commit]) -> str:
    """What bronze has lost, in words, with the commits that may have taken it."""
    above = known.version if known is not None else -1
    takers = [f"{one.operation} made version {one.version}" for one in commits if one.takes]
    takers = takers if commits[0].version >= above else [f"it stands at version {commits[0].version}"]
    why = f" ({', '.join(takers)})" if takers else ""
    return (
        f"bronze has lost {lost} of {expected} records{why}: restore its table to the version before, or "
        "land them again and dismiss the loss: `lakehouse dead-letters dismiss --code lost`"
    )


def records_read(
    log: OpsLog, last: Manifest | None, done: Done, known: BronzeRows | None, *, first: bool
) -> int | None:
    """How many records silver's batches have read; None where that is not known: of what has landed below
    the others a batch does not say which are new to it.
    """
    read = 0 if first else known.read if known is not None else None
    if read is None or (last is not None and last.generation != log.generation):
        return None
    plans = {one.batch: one for one in log.above(Planned, last.batch if last is not None else 0)}
    batches = list(new_batches(log, last, done))
    if len(batches) != done.batch - (last.batch if last is not None else 0):
        return None
    for one in batches:
        plan = plans.get(one.batch)
        if plan is None or (plan.again and not plan.is_repeat):
            return None
        read += 0 if plan.is_repeat else one.counts.messages
    return read


def _waiting(bronze: DataFrame, done: Done) -> int:
    """How many records no batch has read yet, above those that batches have."""
    return unread(bronze, done.next).count()
