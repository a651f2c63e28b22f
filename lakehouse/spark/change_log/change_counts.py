"""Silver's changes by table, counted by silver's batches, against those that a gold table was made of.

    done records: inserted by table − above the watermark  =  folded + not of this table's life

The done records have what the batches inserted; what lies above the watermark takes one count. Silver's rows
of a table are counted only where both sides differ: there may be rows of other lineages under its names, or
void ones, whose number is then recorded. A table made of fewer changes than silver has for it has lost some,
or got another table's.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import UNSET, UnsetType
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.lineage import Lineage, Name
from lakehouse.ops.records.silver import Done
from lakehouse.spark.change_log.changes import between, of_any
from lakehouse.spark.silver.tables import count_by_table

Folded = tuple[int, int] | UnsetType
"""How many of silver's changes a table was made of, and how many silver has under its names that are not its
own; UNSET: not counted."""


class ChangeCounts(NamedTuple):
    """How many changes silver has of each source table up to a watermark, by what its batches have inserted
    (None: unknown, since an older lakehouse wrote some of them). Without `rows` nothing is counted. Not
    `goes_on`: the counts of gold's tables were taken before silver's rows were replaced.
    """

    rows: Mapping[Name, int | None] | None = None
    goes_on: bool = True

    def of(self, lineages: Iterable[Lineage]) -> int | None:
        """What is counted under all names of these lineages; None where that is not known."""
        if self.rows is None:
            return None
        total = 0
        for name in {interval.name for lineage in lineages for interval in lineage.intervals}:
            rows = self.rows.get(name, 0)
            if rows is None:
                return None
            total += rows
        return total


NO_COUNTS = ChangeCounts()


def change_counts(
    done: Done | None, silver: DataFrame, watermark: Position, *, goes_on: bool
) -> ChangeCounts:
    """The counts of a done batch, without what lies above the watermark. `silver` has the changes of batches
    up to it: a later one may be done by now, whose changes would seem to be none of their tables' own.
    """
    tables = () if done is None else done.tables
    waiting: dict[Name, int] = {}
    if any(one.high > watermark for one in tables):
        waiting = count_by_table(silver.where(_reaches(watermark) & between(watermark, None)))
    counted = {one.name: None if one.rows is UNSET else one.rows - waiting.get(one.name, 0) for one in tables}
    return ChangeCounts(counted, goes_on)


def _reaches(watermark: Position) -> Column:
    """A condition on leading integers, by which files are skipped."""
    epoch, first = F.col("position.epoch"), F.col("position.p1")
    return (epoch > watermark[0]) | ((epoch == watermark[0]) & (first >= watermark[1]))


class Taken(NamedTuple):
    """How many changes a run has folded into a table (None: they were not counted): all that it has where
    `whole`, else those of a window, besides what is `known`.
    """

    changes: int | None
    whole: bool
    known: Folded


def folded_changes(
    counts: ChangeCounts, silver: DataFrame, lineages: Iterable[Lineage], at: Position, *, taken: Taken
) -> tuple[Folded, str | None]:
    """How many changes the table is made of now, held against what silver has up to `at`; and what is
    lacking, in words.
    """
    lineages = list(lineages)
    counted = counts.of(lineages)
    begins = taken.known is UNSET or not counts.goes_on
    if counted is None or not lineages or (begins and not taken.whole and taken.changes == 0):
        return UNSET, None  # it is counted once it has something new
    others = 0 if taken.known is UNSET else taken.known[1]
    folded = _folded(counts, taken)
    if folded is not None and counted - others == folded:
        return (folded, others), None
    exact = silver.where(of_any(lineages) & between(None, at)).count()
    folded = exact if folded is None else folded
    why = None
    if folded < exact:
        why = (
            f"{folded} of {exact} changes that silver has of it were folded: rows went to another table, or "
            "were lost on their way: `lakehouse rebuild` folds all of them again"
        )
    return (folded, counted - exact), why


def _folded(counts: ChangeCounts, taken: Taken) -> int | None:
    """The number of changes that the table is made of; None where they have to be counted again."""
    if taken.whole or taken.changes is None:
        return taken.changes
    return None if taken.known is UNSET or not counts.goes_on else taken.known[0] + taken.changes
