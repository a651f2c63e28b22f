"""What is decided before anything is written to gold: which tables, up to where, and which are folded whole.

    GoldRun ─plan_tables─▶ TablePlan | ShardsPlan ─(run.py, table.py, shards.py)─▶ Written ─(entries.py)─▶
    TableEntry

All records here are frozen: what one table's thread finds is in its return value, and no thread changes what
another one reads.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.events import Position, just_above, just_below
from lakehouse.fold.upcast import Row
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.gold.shards import options_for, options_of, split_shards
from lakehouse.lineage import Held, History, Lineage, Name, key_ids, shape_of, split_name
from lakehouse.ops.records import Epoch, TableEntry
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import between
from lakehouse.spark.gold.settings import GoldFeed
from lakehouse.spark.gold.undeclared_columns import still_waiting
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.gold_names import free_of, plain_name
from lakehouse.spark.quality.gates import NO_VERDICT, Gate, Gates, Stop, Verdict

THREADS = 3
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How many changes silver holds of something, and the bytes of their images."""

    rows: int
    bytes: int

    @property
    def small(self) -> bool:
        """Whether the driver may hold it."""
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
    """What a fold came to beside rows: columns that no DDL has declared, each with the first position where a
    row has it; what the changes are known to lack, in words; how many changes were applied; what the table's
    expectations said of them.
    """

    unknown: Mapping[str, Position] = {}
    problems: frozenset[str] = frozenset()
    applied: int = 0
    verdict: Verdict = NO_VERDICT

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
        )


NOTHING_FOUND = Found()


class Written(NamedTuple):
    """What was written of a table: its Delta version, what was done in words ("": nothing), what the fold
    found, and whether it looked at all of the table's changes.
    """

    version: int
    what: str = ""
    found: Found = NOTHING_FOUND
    whole: bool = False


class Outcome(NamedTuple):
    """What a window makes of gold's rows: rows to put, rows to delete (a log's rows are all put), and what
    the fold found.
    """

    puts: list[Row]
    deletes: list[Row]
    found: Found = NOTHING_FOUND


class TableResult(NamedTuple):
    """What a run made of one gold table: its entry in the manifest (None: it is not published), what was done
    in words ("": nothing), problems of the source that it showed, what the fold found, and the error that
    ended it.
    """

    entry: TableEntry | None
    what: str = ""
    problems: tuple[str, ...] = ()
    found: Found = NOTHING_FOUND
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class GoldRun:
    """What a run of gold knows before it decides, the same for all of its tables.

    silver      silver's changes of batches up to the window's, without those that are void
    sizes       what silver holds of each source table
    entries     the last manifest's tables, by lineage
    refresh     everything is folded again: consistency or silver's generation is another one
    rebuild     the lineages that are folded again because somebody asked for it
    epochs      the epochs that operators have raised
    void        restores, and snapshots that were broken off: what lies there counts no more
    dead        open dead letters by table; None: of no known table
    floors      the retention floors, by source table
    losses      what the whole source is known to lack, in words
    stops       where a failed check with action `stop` holds a lineage
    """

    spark: SparkSession
    lake: Lake
    settings: GoldFeed
    history: History
    window: Window
    silver: DataFrame
    sizes: Mapping[Name, Size]
    entries: Mapping[str, TableEntry]
    refresh: bool
    rebuild: frozenset[str]
    epochs: tuple[Epoch, ...]
    void: tuple[int | Position | None, ...]
    dead: Mapping[Name | None, int]
    losses: tuple[str, ...]
    floors: Mapping[Name, Position]
    gates: Gates
    stops: Mapping[str, Stop]

    def size(self, lineage: Lineage) -> Size:
        """What silver holds under the names of a lineage."""
        names = {interval.name for interval in lineage.intervals}
        return total(self.sizes[name] for name in names if name in self.sizes)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One lineage in one run: up to where, into which Delta table, what holds it, and whether it is folded
    whole. `wanted` is the gold name that it would have if that were free; `known` its entry in the last
    manifest; `shape` the digest of all that it is folded under.
    """

    lineage: Lineage
    at: Position
    gold: str
    wanted: str
    shape: str
    known: TableEntry | None
    held: Held | None
    retired: bool
    whole: bool
    options: GoldOptions = PLAIN
    gate: Gate | None = None

    @property
    def lineages(self) -> tuple[Lineage, ...]:
        return (self.lineage,)


@dataclass(frozen=True, slots=True)
class ShardsPlan:
    """The live shards of one gold table in one run; the members are those of a TablePlan."""

    lineages: tuple[Lineage, ...]
    at: Position
    gold: str
    wanted: str
    shape: str
    known: TableEntry | None
    held: Mapping[str, Held]
    whole: bool
    options: GoldOptions
    gate: None = None

    @property
    def retired(self) -> bool:
        """No shard lives any more."""
        return not self.lineages


Plan = TablePlan | ShardsPlan


def plan_tables(run: GoldRun) -> list[Plan]:
    """The plans of all tables that gold has or is to have, tables of their own first. New tables have the
    name that they want, or a free one beside it; nobody has claimed it yet.
    """
    alone, together = split_shards(run.history.lineages, run.settings.options)
    taken = {entry.gold.casefold() for entry in run.entries.values()}
    plans: list[Plan] = []
    for lineage in alone:
        plan = plan_table(run, lineage, taken)
        plans += [plan] if plan is not None else []
    for lineages, options in together:
        shards = plan_shards(run, lineages, options, taken)
        plans += [shards] if shards is not None else []
    return plans


def plan_table(run: GoldRun, lineage: Lineage, taken: set[str]) -> TablePlan | None:
    """One lineage's plan; None where gold has nothing of it. `taken` are gold's names in lower case."""
    end = run.window.position
    if lineage.start > end or not is_selected(run.settings, lineage):
        return None
    known, held = run.entries.get(lineage.id), held_by(run, lineage)
    at = min(end, just_below(held.position)) if held is not None else end
    retired = lineage.end is not None and lineage.end <= at
    if retired and known is None:
        return None
    options, gate = options_of(lineage, run.settings.options), run.gates.of(lineage)
    gold, wanted = allocate(known, lineage.name_at(at) or lineage.intervals[-1].name, options, taken)
    shape = whole_shape(run, lineage, at, options, gate=gate)
    whole = must_fold_whole(run, known, lineage.id, shape, at=at) or (
        known is not None and known.state == "retired" and not retired
    )
    return TablePlan(
        lineage=lineage,
        at=at,
        gold=gold,
        wanted=wanted,
        shape=shape,
        known=known,
        held=held,
        retired=retired,
        whole=whole,
        options=options,
        gate=gate,
    )


def plan_shards(
    run: GoldRun, lineages: list[Lineage], options: GoldOptions, taken: set[str]
) -> ShardsPlan | None:
    """The plan of a table that several lineages make up; None where gold has nothing of it. A shard that is
    held holds all.
    """
    started = [lineage for lineage in lineages if lineage.start <= run.window.position]
    held = {lineage.id: hold for lineage in started if (hold := held_by(run, lineage)) is not None}
    at = min([run.window.position, *(just_below(hold.position) for hold in held.values())])
    live = [lineage for lineage in started if lineage.name_at(at) is not None]
    live.sort(key=lambda lineage: lineage.name_at(at) or ("", ""))
    known = run.entries.get(shards_id(options))
    if not live and known is None:
        return None
    shapes = [(lineage.id, shape_of(lineage, at, list(run.void))) for lineage in live]
    shape = hashlib.blake2b(repr(shapes).encode(), digest_size=12).hexdigest() + options.digest()
    gold, wanted = allocate(known, split_name(options.merged), options, taken)
    return ShardsPlan(
        lineages=tuple(live),
        at=at,
        gold=gold,
        wanted=wanted,
        shape=shape,
        known=known,
        held=held,
        whole=must_fold_whole(run, known, shards_id(options), shape, at=at),
        options=options,
    )


def shards_id(options: GoldOptions) -> str:
    """What stands for the lineage in the entry of a table of several shards."""
    return f"shards of {options.merged}"


def is_selected(settings: GoldFeed, lineage: Lineage) -> bool:
    """Whether gold is to have the table: all tables, or those that a YAML names by one of their names."""
    if settings.tables is None:
        return True
    return any(options_for(interval.name, settings.options) is not None for interval in lineage.intervals)


def held_by(run: GoldRun, lineage: Lineage) -> Held | None:
    """The first of what holds a lineage: a DDL, a failed check, rows whose columns no DDL has declared."""
    stop = run.stops.get(lineage.id)
    waits = still_waiting(lineage, run.entries.get(lineage.id))
    holds = [lineage.held, None if stop is None else stop.held, waits]
    return min((hold for hold in holds if hold is not None), key=lambda hold: hold.position, default=None)


def whole_shape(run: GoldRun, lineage: Lineage, at: Position, options: GoldOptions, gate: Gate | None) -> str:
    """A digest of everything that a table is folded under: schema history, its YAML and its suite."""
    return shape_of(lineage, at, list(run.void)) + options.digest() + (gate.judge.mark if gate else "")


def must_fold_whole(run: GoldRun, known: TableEntry | None, lineage: str, shape: str, at: Position) -> bool:
    """Whether a table can't go on from gold's rows: it is new, is folded under something else than before,
    somebody asked for it, or it ends elsewhere than the last manifest says.
    """
    if known is None or known.shape != shape or run.refresh or lineage in run.rebuild:
        return True
    return at != known.since if known.state == "behind" else at < run.window.position_before


def has_key(plan: TablePlan) -> bool:
    """Whether the table has a key; without one nothing less than the whole table is folded."""
    return bool(key_ids(plan.lineage, plan.lineage.step_at(just_above(plan.at))))


def allocate(known: TableEntry | None, name: Name, options: GoldOptions, taken: set[str]) -> tuple[str, str]:
    """A table's gold name, and the one it would have if that were free: names may differ only in case, or in
    characters that are replaced.
    """
    if known is not None:
        return known.gold, known.wanted or known.gold
    wanted = plain_name(name, options.target)
    return free_of(taken, chain([wanted], (f"{wanted}_{number}" for number in count(2)))), wanted
