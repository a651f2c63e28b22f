"""A table's state and its entry in the manifest."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from lakehouse.events import MIN_POSITION, Position, just_above
from lakehouse.fold.continuity import Breaks
from lakehouse.fold.row_edits import OLD_ROW_STAYS
from lakehouse.fold.upcast import lost_since
from lakehouse.gold.options import to_plain
from lakehouse.gold.shards import options_for, shards_id
from lakehouse.lineage import Held, Lineage, key_ids, split_name
from lakehouse.ops.records.gold import TableEntry
from lakehouse.silver.disproved_watermarks import disproved_text
from lakehouse.spark.change_log.change_counts import Folded, Taken, folded_changes
from lakehouse.spark.change_log.dead_letters import missing_text
from lakehouse.spark.change_log.undeclared_columns import held_at
from lakehouse.spark.gold.plan import GoldRun, ShardsPlan, TablePlan
from lakehouse.spark.gold.results import MISFITS, Found, Written
from lakehouse.spark.ops.gold_names import renamed


class State(NamedTuple):
    """Whether a table equals its source: `state` is exact, incomplete or behind; since which position it is
    not exact, and why.
    """

    state: str
    since: Position | None
    why: str | None


EXACT = State("exact", None, None)
UNFILLED = (
    "no row of it has come: it is empty, or the producer leaves it out (`table.include.list` and the like, a "
    "subscription to some tables), which nothing in the feed tells"
)


def table_entry(run: GoldRun, plan: TablePlan, written: Written, notes: list[str]) -> TableEntry:
    """The entry of a table that was written, or had nothing to write."""
    database, table = plan.lineage.name_at(plan.at) or plan.lineage.intervals[-1].name
    lacking = lacking_of(run, plan, written)
    changes, fewer = folded_of(run, plan, written)
    known = {**lacking, **fewer, **_below_floors(run, plan)}
    state = state_of(run, plan.lineage, plan.at, held=plan.held, lacking=known)
    stop = run.stops.get(plan.lineage.id)
    return TableEntry(
        lineage=plan.lineage.id,
        database=database,
        table=table,
        gold=plan.gold,
        version=written.version,
        wanted=plan.wanted,
        made_for=plan.made_for,
        shape=plan.shape,
        state=state.state,
        since=state.since,
        why=state.why,
        notes=(
            *plan.lineage.notes,
            *notes,
            *_left_out(run, plan),
            *([UNFILLED] if changes == (0, 0) and run.settings.said.rules.tells_all else []),
            *renamed(plan.gold, plan.wanted, plan.options.target),
        ),
        held=held_at(plan.held, run.window.position, plan.known),
        names=tuple(interval.name for interval in plan.lineage.intervals),
        options=to_plain(plan.options),
        stopped=UNSET if stop is None else (stop.position, stop.label),
        lacking=lacking,
        changes=changes,
        counted=_counted(plan, written),
    )


def _counted(plan: TablePlan, written: Written) -> bool | UnsetType:
    """Whether each delete of a table without a key has found a row of its image; what is told of a table with
    one says nothing.
    """
    if not written.whole:
        return UNSET if plan.known is None else plan.known.counted
    return UNSET if has_key(plan) else not written.found.guessed


def has_key(plan: TablePlan) -> bool:
    """Whether the table has a key."""
    return bool(key_ids(plan.lineage, plan.lineage.step_at(just_above(plan.at))))


def shards_entry(
    run: GoldRun, plan: ShardsPlan, written: Written, notes: list[str], collided: tuple[str, ...]
) -> TableEntry:
    """The entry of a table of several shards."""
    database, table = split_name(plan.options.merged)
    lacking = lacking_of(run, plan, written)
    changes, fewer = folded_of(run, plan, written)
    lineage, held = plan.held[0] if plan.held else (None, None)
    found = _state_of_shards(run, plan, {**lacking, **fewer, **_below_floors(run, plan)})
    return TableEntry(
        lineage=shards_id(plan.options),
        database=database,
        table=table,
        gold=plan.gold,
        version=written.version,
        wanted=plan.wanted,
        shape=plan.shape,
        state=found.state,
        since=found.since,
        why=found.why,
        notes=(
            *notes,
            *collided,
            *renamed(plan.gold, plan.wanted, plan.options.target),
            *(note for lineage in plan.lineages for note in lineage.notes),
        ),
        held=held_at(held, run.window.position, plan.known, shard=lineage),
        names=tuple(interval.name for lineage in plan.lineages for interval in lineage.intervals),
        options=to_plain(plan.options),
        lacking=lacking,
        shards=tuple(lineage.id for lineage in plan.lineages),
        collided=collided,
        changes=changes,
    )


def without_shards(run: GoldRun, plan: ShardsPlan) -> TableEntry:
    """The entry of a merged table of which no shard lives, which keeps its Delta data as it was: it is
    retired, or waits for a table that is held since before it is there.
    """
    assert plan.known is not None
    state = _state_of_shards(run, plan, {})
    if state.state != "behind":
        return replace(plan.known, state="retired", since=plan.at)
    lineage, held = plan.held[0]
    since = plan.known.since if plan.known.state == "behind" else run.window.position_before
    held_now = held_at(held, run.window.position, plan.known, shard=lineage)
    return replace(plan.known, state="behind", since=since, why=state.why, held=held_now)


def _state_of_shards(run: GoldRun, plan: ShardsPlan, lacking: Mapping[str, Position]) -> State:
    """A merged table is behind if a shard is held, be it one that is not there yet; it is exact if all of its
    shards are, else as the first that is not. A table that no row or statement has told of yet may be one.
    """
    for lineage, hold in (*plan.held[:1], *((one, None) for one in (*plan.lineages, *plan.untold))):
        state = state_of(run, lineage, plan.at, held=hold, lacking=lacking)
        if state != EXACT:
            return state._replace(why=f"{'.'.join(lineage.intervals[-1].name)}: {state.why}")
    for name, letters in run.dead.items():
        said = None if name is None else options_for(name, run.settings.options)
        if name is not None and said is not None and said.merged == plan.options.merged:
            since = _since(run, shards_id(plan.options))
            return State("incomplete", since, f"{'.'.join(name)}: {letters} dead letters")
    return EXACT


def kept_entry(run: GoldRun, plan: TablePlan | ShardsPlan) -> TableEntry | None:
    """The entry of a table that something holds, by now, before a floor where its rows stand: it stays as it
    was published, and is folded whole once nothing does. None where it has rows at its place.
    """
    known, lineages = plan.known, plan.lineages
    if known is None or not any(run.floors.stand_above(one, plan.at) for one in lineages):
        return None
    held = plan.held if isinstance(plan, TablePlan) else plan.held[0][1] if plan.held else None
    shard = plan.held[0][0] if isinstance(plan, ShardsPlan) and plan.held else None
    why = state_of(run, lineages[0], plan.at, held=held, lacking={}).why
    since = known.since if known.state == "behind" else run.window.position_before
    held_now = held_at(held, run.window.position, known, shard=shard)
    return replace(known, shape="", state="behind", since=since, why=why, held=held_now)


def retired_entry(plan: TablePlan) -> TableEntry:
    """The entry of a dropped table, which keeps its Delta data as it was."""
    assert plan.known is not None
    end = plan.lineage.ended_at(plan.at)
    database, table = next(one.name for one in plan.lineage.intervals if one.high == end)
    return replace(plan.known, database=database, table=table, state="retired", since=end)


def misfit_entry(run: GoldRun, known: TableEntry, why: str) -> TableEntry:
    """The entry of a table that its YAML does not fit: it stays as it was, behind. It has no shape, so that
    it is folded again whatever its YAML becomes.
    """
    since = known.since if known.state == "behind" else run.window.position_before
    return replace(known, shape="", state="behind", since=since, why=f"held by its YAML: {why}")


def lacking_of(run: GoldRun, plan: TablePlan | ShardsPlan, written: Written) -> dict[str, Position]:
    """What the table's changes are known to lack, and since when: what was found before counts until all of
    them are folded again. Below a retention floor there are none left to fold: what they lacked stays.
    """
    has_floor = any(map(run.floors.reach, plan.lineages))
    known = {} if written.whole and not has_floor else _known_lacking(run, plan)
    cleared = min((lineage.cleared_at(plan.at) for lineage in plan.lineages), default=MIN_POSITION)
    # what an emptied table lacked is mended; found again, it counts from now
    before = {text: place for text, place in known.items() if place >= cleared}
    since = {text: _since_ddl(plan, text) or plan.at for text in _problems(run, written.found)}
    if written.found.all_changes and isinstance(plan, TablePlan) and not has_floor:
        # a change that came late may be the one that was lacking
        before = {text: place for text, place in before.items() if not text.startswith(MISFITS)}
    if not any(text.startswith(MISFITS) for text in before):
        since |= _misfits(written.found.breaks)
    return {**since, **before}


def _known_lacking(run: GoldRun, plan: TablePlan | ShardsPlan) -> dict[str, Position]:
    """What the table is known to lack by the last manifest, and since when: a YAML may have merged it since
    with others, made a table of its own of a shard, or left it out for a while.
    """
    mine = {lineage.id for lineage in plan.lineages}
    own = None if plan.known is None else plan.known.lineage
    told = [
        entry.lacking
        for entry in run.entries.values()
        if entry.lacking is not UNSET and (entry.lineage == own or not mine.isdisjoint(entry.lineages))
    ]
    known: dict[str, Position] = {}
    for found in (*told, *(run.floors.lacking.get(one, {}) for one in mine)):
        known |= {text: min(place, known.get(text, place)) for text, place in found.items()}
    return known


def _below_floors(run: GoldRun, plan: TablePlan | ShardsPlan) -> dict[str, Position]:
    """What retention floors leave of the table that is not what it would be with its log."""
    upstream = run.settings.upstream
    limits = (run.floors.limits(one, plan.at, plan.options, upstream) for one in plan.lineages)
    return {text: place for found in limits for text, place in found.items()}


def folded_of(
    run: GoldRun, plan: TablePlan | ShardsPlan, written: Written
) -> tuple[Folded, dict[str, Position]]:
    """How many of silver's changes the table is made of; and that they are fewer than silver has, in words,
    since when. A table that stands before the watermark is held against silver when it is written.
    """
    known = plan.known.changes if plan.known is not None else UNSET
    if plan.at < run.window.position and not (written.taken or written.whole):
        return known, {}
    taken = Taken(written.taken, written.whole, known)
    changes, why = folded_changes(run.counts, run.silver, plan.lineages, plan.at, taken=taken)
    since = plan.known.since if plan.known is not None and plan.known.state == "incomplete" else None
    return changes, {} if why is None else {why: since or run.window.position_before}


def _misfits(breaks: Breaks) -> dict[str, Position]:
    """Changes that do not fit those before them, in words, since the first of them. A table that has some is
    incomplete until all of its changes are folded again: those of later windows change nothing about it.
    """
    if breaks.first is None:
        return {}
    text = f"{MISFITS} ({breaks.total}, the first: {breaks.first}): changes between them were not delivered"
    return {text: breaks.first.position}


def _since_ddl(plan: TablePlan | ShardsPlan, problem: str) -> Position | None:
    """The DDL that a problem is about: the first of any shard."""
    found = (lost_since(lineage, problem, plan.at) for lineage in plan.lineages)
    return min((place for place in found if place is not None), default=None)


def _problems(run: GoldRun, found: Found) -> list[str]:
    """What is lacking, in words; an old row that a change does not tell, with what to set upstream."""
    names = ", ".join(sorted(found.unknown))
    undeclared = [f"rows have columns that no DDL has added: {names}"] if names else []
    mended = f"; {run.settings.old_rows}" if run.settings.old_rows else ""
    told = [text + mended if text == OLD_ROW_STAYS else text for text in sorted(found.problems)]
    return [*told, *undeclared]


def state_of(
    run: GoldRun, lineage: Lineage, at: Position, *, held: Held | None, lacking: Mapping[str, Position]
) -> State:
    """A lineage's state at `at`. Whatever is known to be missing makes it incomplete: it is exact only if
    nothing is.
    """
    if held is not None and held.position <= run.window.position:
        told = held.why if held.by in ("rows", "quality", "name") else f"held by a DDL: {held.why}"
        return State("behind", at, told)
    begun = max(lineage.start, lineage.cleared_at(at))[0]
    for epoch in run.epochs:
        if epoch.restored_to is None and not epoch.goes_on and begun < epoch.epoch <= at[0]:
            why = f"epoch {epoch.epoch} was raised without a snapshot: {epoch.why}"
            return State("incomplete", (epoch.epoch, 0, 0, 0, 0, 0), why)
    found = [(since, text) for text, since in lacking.items()]
    missing = lineage.incomplete_at(at, [*found, *_missing_files(run, lineage)])
    source = _source_state(run, lineage)
    if missing is None:
        return source
    since, why = missing
    if why.startswith(MISFITS) and source != EXACT:  # what is lacking is known, and where
        why = f"{source.why}; {why}"
    return State("incomplete", since, why)


def _missing_files(run: GoldRun, lineage: Lineage) -> list[tuple[Position, str]]:
    """What a storage sink lacks of a lineage's own time; of every one, where it is of no known table."""
    return [
        (file.position, missing_text(file))
        for file in run.missing
        if file.table is None or lineage.name_at(file.position) == file.table
    ]


def _source_state(run: GoldRun, lineage: Lineage) -> State:
    """What dead letters, watermarks that were wrong and the source's losses leave of a lineage's state."""
    for name in (None, *{interval.name for interval in lineage.intervals}):
        if name in run.dead:
            whose = "" if name else " of unknown tables in the source"
            return State("incomplete", _since(run, lineage.id), f"{run.dead[name]} dead letters{whose}")
    for interval in lineage.intervals:
        if (late := run.disproved.get(interval.name)) is not None:
            return State("incomplete", late.position, disproved_text(late))
    if run.losses:
        return State("incomplete", _since(run, lineage.id), run.losses[0])
    return EXACT


def _since(run: GoldRun, lineage: str) -> Position | None:
    """From where on what is missing may be: where the table was found incomplete, be it merged with others,
    else behind what was published last.
    """
    merged = (one for one in run.entries.values() if one.shards is not UNSET and lineage in one.lineages)
    known = run.entries.get(lineage) or next(merged, None)
    return known.since if known is not None and known.state == "incomplete" else run.window.position_before


def _left_out(run: GoldRun, plan: TablePlan) -> list[str]:
    """The note on VIRTUAL columns, where no message carries them."""
    columns = plan.lineage.schema_at(just_above(plan.at)).columns
    names = [c.name for c in columns if c.generated == "virtual" and not run.settings.virtual]
    return [f"VIRTUAL columns are in no message and left out: {', '.join(names)}"] if names else []
