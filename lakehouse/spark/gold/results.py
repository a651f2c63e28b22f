"""The records of a gold run: sizes, its window of changes, and the results of each table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import UNSET
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.events import Position
from lakehouse.fold.continuity import NO_BREAKS, Breaks
from lakehouse.fold.row_edits import Change, Key
from lakehouse.fold.upcast import Row
from lakehouse.ops.records.gold import TableEntry
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import between
from lakehouse.spark.plain.find import Hits
from lakehouse.spark.quality.gates import NO_VERDICT, Verdict


@dataclass(frozen=True, slots=True)
class Size:
    """The number of changes in silver, and the bytes of their images."""

    rows: int
    bytes: int

    @property
    def small(self) -> bool:
        """Whether the driver can hold them."""
        return self.rows <= limits.GOLD_TABLE_CHANGES and self.bytes <= limits.GOLD_TABLE_BYTES


def total(sizes: Iterable[Size]) -> Size:
    """The sum of several sizes."""
    found = list(sizes)
    return Size(sum(size.rows for size in found), sum(size.bytes for size in found))


@dataclass(frozen=True, slots=True)
class Window:
    """The changes that a run looks at: those of batches up to `batch` and positions up to `position` that the
    last manifest (`batch_before`, `position_before`) has not seen.
    """

    batch: int
    position: Position
    batch_before: int
    position_before: Position

    @property
    def condition(self) -> Column:
        """Late changes (of new batches, at or below the last watermark), and those above it."""
        late = (F.col("batch") > self.batch_before) & between(None, self.position_before)
        return late | between(self.position_before, self.position)


class Found(NamedTuple):
    """What a fold found besides rows.

    unknown      columns that no DDL has declared, each with the first position where a row has it
    problems     what the changes are known to lack, in words
    applied      how many changes were applied
    verdict      what the table's expectations say of the changes
    breaks       changes that do not fit those before them
    all_changes  whether the fold read all of the table's changes, not only a window's
    guessed      whether deletes in a table without a key did not find rows of their image
    """

    unknown: Mapping[str, Position] = {}
    problems: frozenset[str] = frozenset()
    applied: int = 0
    verdict: Verdict = NO_VERDICT
    breaks: Breaks = NO_BREAKS
    all_changes: bool = False
    guessed: bool = False

    def plus(self, other: "Found") -> "Found":
        """Both findings as one; of two places of a column the first one counts."""
        unknown = {
            name: min(found[name] for found in (self.unknown, other.unknown) if name in found)
            for name in {*self.unknown, *other.unknown}
        }
        return Found(
            unknown,
            self.problems | other.problems,
            self.applied + other.applied,
            self.verdict.plus(other.verdict),
            breaks=self.breaks.plus(other.breaks),
            all_changes=self.all_changes or other.all_changes,
            guessed=self.guessed or other.guessed,
        )


NOTHING_FOUND = Found()


class Written(NamedTuple):
    """What was written of a table.

    version  its Delta version
    what     what was done, in words; "": nothing
    found    what the fold found
    whole    whether all of the table's changes were folded
    taken    how many changes were folded; None: they were not counted
    """

    version: int
    what: str = ""
    found: Found = NOTHING_FOUND
    whole: bool = False
    taken: int | None = 0


MISFITS = "changes do not fit the rows before them"


def has_misfits(entry: TableEntry) -> bool:
    """Whether a table is known to lack changes because others do not fit without them."""
    return entry.lacking is not UNSET and any(text.startswith(MISFITS) for text in entry.lacking)


class Outcome(NamedTuple):
    """What a window's changes do to gold's rows: rows to put, rows to delete (a log has only rows to put),
    and what the fold found. `first`: the keys whose rows gold must have before; None: not known. `meets`: how
    many rows of a table without a key the deletes take; rows that stay of them are among those to put.
    `hits`: which rows of gold have been found.
    """

    puts: list[Row]
    deletes: list[Row]
    found: Found = NOTHING_FOUND
    first: frozenset[Key] | None = None
    meets: int = 0
    hits: Hits | None = None


class TableResult(NamedTuple):
    """The result of a run for one gold table: its entry in the manifest (None: it is not published), what was
    done in words ("": nothing), problems to report of the source, what the fold found, and the error that
    ended it.
    """

    entry: TableEntry | None
    what: str = ""
    problems: tuple[str, ...] = ()
    found: Found = NOTHING_FOUND
    error: Exception | None = None


@dataclass(slots=True)
class Counted:
    """Changes that count themselves as they are given."""

    changes: Iterable[Change]
    number: int = 0

    def __iter__(self) -> Iterator[Change]:
        for change in self.changes:
            self.number += 1
            yield change
