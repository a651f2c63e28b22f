"""Whether the layers still hold what their batches have read and written, by what storage says.

Every run: a batch's record says how many changes it inserted. What silver holds is asked from Delta, which
answers from its log: rows that a skipped write, a RESTORE or a DELETE by hand took are noticed before gold
calls a table exact. Silver of a run that is under way, or has died, may hold more than what is done.

`lakehouse audit` counts bronze and silver batch by batch: layer_counts.py.
"""

from typing import NamedTuple

from msgspec import UNSET
from pyspark.sql import functions as F

from lakehouse.ops.records import Done, Floor, Manifest
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.tables import read_silver


class SilverRows(NamedTuple):
    """How many rows silver's changes are to have up to the last done batch, and how many are missing."""

    expected: int
    missing: int = 0

    @property
    def losses(self) -> tuple[str, ...]:
        """What the source is known to lack, in words."""
        if not self.missing:
            return ()
        return (
            f"silver has lost {self.missing} of {self.expected} changes since they were decoded: restore its "
            "changes table to its newest version, or decode everything again with `lakehouse rebuild silver`",
        )


def silver_rows(log: OpsLog, last: Manifest | None, done: Done) -> SilverRows:
    """The rows that silver has against those that it is to have. The first manifest, one that an older
    lakehouse wrote, another generation of silver and a retention floor begin the count again.
    """
    changes = read_silver(log.spark, log.lake, log.source, "changes")
    if last is None or last.silver_rows is UNSET or not is_counted(log, last):
        return SilverRows(changes.where(F.col("batch") <= done.batch).count())
    new = [one.counts.inserted for one in log.all(Done) if last.batch < one.batch <= done.batch]
    expected = last.silver_rows + sum(new)
    return SilverRows(expected, max(0, expected - changes.count()))


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
