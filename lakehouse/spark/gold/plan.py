"""The plan of a gold run: which tables are written, up to which position, and which are folded whole.

    GoldRun ─plan_tables─▶ TablePlan | ShardsPlan ─(tables.py, shards.py)─▶ Written
            ─(entries.py)─▶ TableEntry

All records here are frozen: what one table's thread finds is in its return value, and no thread changes what
another one reads.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import UNSET
from pyspark.sql import DataFrame, SparkSession

from lakehouse.events import Position, just_above, just_below
from lakehouse.gold.columns import gold_columns
from lakehouse.gold.ddl_in_place import InPlace, in_place
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.gold.shards import (
    is_displaced,
    living_shards,
    options_for,
    options_of,
    said_of,
    shards_id,
    split_shards,
)
from lakehouse.gold.table_names import (
    Live,
    NamesHeld,
    free_of,
    holders,
    made_of,
    names_held,
    numbered,
    plain_name,
)
from lakehouse.lineage import Held, History, Lineage, Name, shape_of, split_name
from lakehouse.ops.progress import Disproved
from lakehouse.ops.records.bronze import MissingFile
from lakehouse.ops.records.gold import TableEntry
from lakehouse.ops.records.operators import Epoch
from lakehouse.spark.bronze.epochs import is_void
from lakehouse.spark.change_log.change_counts import NO_COUNTS, ChangeCounts
from lakehouse.spark.change_log.undeclared_columns import still_waiting
from lakehouse.spark.fold.silver_files import SilverFiles
from lakehouse.spark.gold.results import Size, Window, total
from lakehouse.spark.gold.settings import GoldSettings, is_selected
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.retention_floors import BelowFloors
from lakehouse.spark.quality.gates import Gate, Gates, Stop
from lakehouse.spark.session import arrow_rows_of

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class GoldRun:
    """What a run of gold knows before it plans, the same for all of its tables.

    silver      silver's changes of batches up to the window's, without those that are void
    files       where they lie, for workers to read them there; None also where some are void
    sizes       what silver holds of each source table
    entries     the last manifest's tables, by lineage
    refresh     everything is folded again: consistency or silver's generation is another one
    rebuild     lineages folded again because somebody asked; returned: those back at their published rows
    epochs      the epochs that operators have raised
    void        restores, and snapshots that were broken off: what lies there counts no more
    dead        open dead letters by table; None: of no known table
    losses      what the whole source is known to lack, in words; floors: below retention's floors
    disproved   what came after a watermark that had passed it; missing: what a storage sink lacks
    stops       where a failed check with action `stop` holds a lineage
    unpublished gold tables that a run has written to which died before its manifest
    counts      of silver's changes of each table up to the window's end
    """

    spark: SparkSession
    lake: Lake
    settings: GoldSettings
    history: History
    window: Window
    silver: DataFrame
    files: SilverFiles | None
    sizes: Mapping[Name, Size]
    entries: Mapping[str, TableEntry]
    refresh: bool
    rebuild: frozenset[str]
    epochs: tuple[Epoch, ...]
    void: tuple[int | Position | None, ...]
    dead: Mapping[Name | None, int]
    losses: tuple[str, ...]
    disproved: Mapping[Name, Disproved]
    missing: tuple[MissingFile, ...]
    floors: BelowFloors
    gates: Gates
    stops: Mapping[str, Stop]
    unpublished: frozenset[str] = frozenset()
    returned: frozenset[str] = frozenset()
    counts: ChangeCounts = NO_COUNTS

    @property
    def arrow_rows(self) -> int:
        """How many changes of the table with the largest ones are handed to a Python worker at once."""
        means = [size.bytes / size.rows for size in self.sizes.values() if size.rows]
        return arrow_rows_of(max(means, default=1))

    def size(self, lineage: Lineage) -> Size:
        """The size of silver under the names of a lineage."""
        names = {interval.name for interval in lineage.intervals}
        return total(self.sizes[name] for name in names if name in self.sizes)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One lineage in one run: up to where, into which Delta table, what holds it, and whether it is folded
    whole. `made_for` is the source's name that the Delta table is made for, `wanted` the gold name that it
    would have if that were free; `known` the lineage's entry in the last manifest, `before` the Delta table's
    (None: it is new); `shape` the digest of all that it is folded under; `change` what DDL does to it in
    place before the window's changes are merged.
    """

    lineage: Lineage
    at: Position
    gold: str
    made_for: Name
    wanted: str
    shape: str
    known: TableEntry | None
    before: TableEntry | None
    held: Held | None
    retired: bool
    whole: bool
    options: GoldOptions = PLAIN
    gate: Gate | None = None
    change: InPlace | None = None

    @property
    def lineages(self) -> tuple[Lineage, ...]:
        return (self.lineage,)


@dataclass(frozen=True, slots=True)
class ShardsPlan:
    """The live shards of one gold table in one run; the members are those of a TablePlan. `held`: what holds
    shards, which need not live, by position; `untold`: those of which no column is known yet.
    """

    lineages: tuple[Lineage, ...]
    at: Position
    gold: str
    wanted: str
    shape: str
    known: TableEntry | None
    held: tuple[tuple[Lineage, Held], ...]
    whole: bool
    options: GoldOptions
    untold: tuple[Lineage, ...] = ()
    gate: None = None

    @property
    def before(self) -> TableEntry | None:
        return self.known

    @property
    def retired(self) -> bool:
        """No shard lives any more."""
        return not self.lineages


Plan = TablePlan | ShardsPlan


def plan_tables(run: GoldRun) -> list[Plan]:
    """The plans of all tables that gold has or is to have, merged ones last. New tables have the name that
    they want, or that name with a free number; it is not claimed yet.
    """
    held, alone, together = _split(run)
    taken = {entry.gold.casefold() for entry in run.entries.values()}
    planned = [plan for one in alone if (plan := plan_table(run, one, held.waits.get(one.id))) is not None]
    plans: list[Plan] = [*in_delta_tables(run, planned, taken, held.kept)]
    for lineages, options in together:
        shards = plan_shards(run, lineages, options, taken)
        plans += [shards] if shards is not None else []
    return plans


def _split(run: GoldRun) -> tuple[NamesHeld, list[Lineage], list[tuple[list[Lineage], GoldOptions]]]:
    """The names that stay with held tables; `split_shards`, each lineage by its names up to what holds it."""
    lineages, end = run.history.lineages, run.window.position
    names = names_held(lineages, end, run.entries)
    holds = {one.id: held_by(run, one, names.waits.get(one.id)) for one in lineages}
    places = {one: min(end, just_below(held.position)) for one, held in holds.items() if held is not None}
    return names, *split_shards(lineages, run.settings.options, end, places)


def plan_table(run: GoldRun, lineage: Lineage, waits: Held | None) -> TablePlan | None:
    """One lineage's plan, in a Delta table of its own; None where gold has nothing of it. `waits`: what holds
    it for its name.
    """
    end = run.window.position
    if lineage.start > end or not is_selected(run.settings, lineage, end):
        return None
    known, held = run.entries.get(lineage.id), held_by(run, lineage, waits)
    if known is None and (lineage.ended_at(end) is not None or _has_not_begun(lineage, waits, run.settings)):
        return None
    at = min(end, just_below(held.position)) if held is not None else end
    if known is None and held is None and not _is_told(lineage, at):
        return None
    retired = lineage.ended_at(at) is not None
    options, gate = options_of(lineage, run.settings.options, at), run.gates.of(lineage)
    name = lineage.name_at(at) or lineage.intervals[-1].name
    shape = whole_shape(run, lineage, at, options, gate=gate)
    whole = must_fold_whole(run, known, lineage.id, shape, at=at) or (
        known is not None and known.state == "retired" and not retired
    )
    change = None
    if whole and known is not None and gate is None and not retired:
        change = change_in_place(run, known, lineage, at, options=options)
    wanted = plain_name(name, options.target)
    return TablePlan(
        lineage=lineage,
        at=at,
        gold=wanted,
        made_for=name,
        wanted=wanted,
        shape=shape,
        known=known,
        before=None,
        held=held,
        retired=retired,
        whole=whole and change is None,
        options=options,
        gate=gate,
        change=change,
    )


def _has_not_begun(lineage: Lineage, waits: Held | None, settings: GoldSettings) -> bool:
    """Whether a table waits for its name since it was created, or under the name that it had before is none
    of those that are wanted.
    """
    if waits is None or waits.position <= lineage.start:
        return waits is not None
    before = lineage.name_at(just_below(waits.position))
    return settings.tables is not None and (before is None or options_for(before, settings.options) is None)


def _is_told(lineage: Lineage, at: Position) -> bool:
    """Whether any of its columns is known: some tables have only statements, and no row yet."""
    return bool(lineage.schema_at(just_above(at)).columns)


def change_in_place(
    run: GoldRun, known: TableEntry, lineage: Lineage, at: Position, *, options: GoldOptions
) -> InPlace | None:
    """What DDL since the last manifest does to a large table in place; None where it has to be folded whole:
    there is another reason, what was published is not exact, or the DDL does more than that. To fold a small
    table costs less than the commits of a change.
    """
    settings, before = run.settings, run.window.position_before
    if run.refresh or lineage.id in run.rebuild or run.size(lineage).small or at < before:
        return None
    is_known = known.state == "exact" and not known.lacking and known.gold not in run.unpublished
    if not is_known or known.shape != whole_shape(run, lineage, before, options, gate=None):
        return None
    first, last = (lineage.step_at(just_above(place)) for place in (before, at))
    columns = [
        gold_columns(lineage.steps[step].schema, virtual=settings.virtual, options=options)
        for step in (first, last)
    ]
    return in_place(
        lineage, (first, last), (columns[0], columns[1]), options=options, upstream=settings.upstream
    )


def in_delta_tables(
    run: GoldRun, plans: Sequence[TablePlan], taken: set[str], kept: Mapping[str, Name]
) -> list[TablePlan]:
    """The plans, each in its lineage's Delta table. A dropped table is left out where another lineage takes
    over its Delta table, unless a copy is to stay. `taken` are gold's names in lower case; `kept` the names
    of lineages that keep theirs.
    """
    end = run.window.position
    names = {plan.lineage.id: kept.get(plan.lineage.id) or plan.lineage.name_at(end) for plan in plans}
    live = [(plan, name) for plan in plans if (name := names[plan.lineage.id]) is not None]
    made = [made_of(entry) for entry in run.entries.values() if entry.shards is UNSET]
    has = holders(
        made, [Live(one.lineage.id, name, plain_name(name, one.options.target)) for one, name in live]
    )
    entries, go_on = {entry.gold: entry for entry in run.entries.values()}, set(has.values())
    found = []
    for plan in plans:
        gold, known, name = has.get(plan.lineage.id), plan.known, names[plan.lineage.id]
        if known is not None and (known.gold == gold or (name is None and known.gold not in go_on)):
            found.append(_in_delta_table_of(plan, known))
        elif gold is not None:
            found.append(_in_delta_table_of(plan, entries[gold]))
        elif name is not None and _is_wanted(run.settings, plan.lineage, name, names.values()):
            found.append(replace(plan, gold=free_of(taken, numbered(plan.wanted)), whole=True))
        elif name is None and known is not None and plan.options.puts_aside:
            aside = free_of(taken, numbered(f"{known.gold}_dropped"))
            found.append(replace(plan, gold=aside, at=run.window.position, retired=True))
    return found


def _is_wanted(settings: GoldSettings, lineage: Lineage, name: Name, live: Iterable[Name | None]) -> bool:
    """Whether a lineage is to have a new Delta table: not where it is selected by a former name alone, which
    is another table's now.
    """
    return settings.tables is None or not is_displaced(lineage, name, live, settings.options)


def _in_delta_table_of(plan: TablePlan, before: TableEntry) -> TablePlan:
    """The plan, in the Delta table of that entry; another lineage's is folded whole."""
    made = made_of(before)
    plan = replace(plan, gold=made.gold, made_for=made.made_for, wanted=made.wanted, before=before)
    return replace(plan, whole=plan.whole or before is not plan.known)


def plan_shards(
    run: GoldRun,
    lineages: list[Lineage],
    options: GoldOptions,
    taken: set[str],
    waits: Mapping[str, Held] = {},
) -> ShardsPlan | None:
    """The plan of a table that several lineages make up; None where gold has nothing of it. A shard that is
    held holds all. `waits`: what the run has found to hold some of them.
    """
    known = run.entries.get(shards_id(options))
    started = [lineage for lineage in lineages if lineage.start <= run.window.position]
    holds = [(one, held_by(run, one, waits.get(one.id), known=known)) for one in started]
    held = sorted(((one, hold) for one, hold in holds if hold is not None), key=lambda pair: pair[1].position)
    at = min([run.window.position, *(just_below(hold.position) for _, hold in held)])
    said = run.settings.options
    mine = ((one, at) for one in started if said_of(one, said, at).merged == options.merged)
    living = living_shards(mine, said)
    live = [lineage for lineage in living if _is_told(lineage, at)]
    if not live and known is None:
        return None
    shapes = [(lineage.id, shape_of(lineage, at, list(run.void))) for lineage in live]
    shape = hashlib.blake2b(repr(shapes).encode(), digest_size=12).hexdigest() + options.digest()
    shape += run.settings.upstream.mark
    wanted = plain_name(split_name(options.merged), options.target)
    gold = known.gold if known is not None else free_of(taken, numbered(wanted))
    return ShardsPlan(
        lineages=tuple(live),
        at=at,
        gold=gold,
        wanted=known.wanted or known.gold if known is not None else wanted,
        shape=shape,
        known=known,
        held=tuple(held),
        untold=tuple(lineage for lineage in living if not _is_told(lineage, at)),
        # while none lived, changes have passed that are in no table
        whole=must_fold_whole(run, known, shards_id(options), shape, at=at)
        or (known is not None and known.state == "retired"),
        options=options,
    )


def shards_plan(run: GoldRun, entry: str, waits: Mapping[str, Held] = {}) -> ShardsPlan | None:
    """The plan of the merged table whose entry has this id; None where there is none. `waits` as in
    `plan_shards`.
    """
    _, _, merged = _split(run)
    mine = [(lineages, options) for lineages, options in merged if shards_id(options) == entry]
    return plan_shards(run, *mine[0], set(), waits) if mine else None


def held_by(
    run: GoldRun, lineage: Lineage, other: Held | None = None, *, known: TableEntry | None = None
) -> Held | None:
    """The first of what holds a lineage: a DDL, a failed check, rows whose columns no DDL has declared,
    `other`. `known`: the entry of the table that it is merged into.
    """
    stop = run.stops.get(lineage.id)
    waits = still_waiting(lineage, known or run.entries.get(lineage.id))
    waits = None if waits is None or is_void(waits.position, run.epochs) else waits
    holds = [lineage.held, None if stop is None else stop.held, waits, other]
    return min((hold for hold in holds if hold is not None), key=lambda hold: hold.position, default=None)


def whole_shape(run: GoldRun, lineage: Lineage, at: Position, options: GoldOptions, gate: Gate | None) -> str:
    """A digest of everything that a table is folded under: schema history, its YAML, whose rules hold, and
    its suite.
    """
    mark = run.settings.upstream.mark + (gate.judge.mark if gate else "")
    return shape_of(lineage, at, list(run.void)) + options.digest() + mark


def must_fold_whole(run: GoldRun, known: TableEntry | None, lineage: str, shape: str, at: Position) -> bool:
    """Whether a table can't go on from gold's rows: it is new, is folded under something else than before,
    somebody asked for it, or it ends elsewhere than the last manifest says.
    """
    if known is None or known.shape != shape or run.refresh or lineage in run.rebuild:
        return True
    return at != known.since if known.state == "behind" else at < run.window.position_before
