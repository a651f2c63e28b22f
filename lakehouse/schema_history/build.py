"""The schema history of a source: its DDLs and schema records, in order, become lineages
(lakehouse/lineage.py).

Where no CREATE was seen, a lineage begins with the schema that the messages' own types give (`inferred`),
taken from the rows before the next DDL, so that it never depends on how far silver had come. A statement that
is not understood, or that does not fit, holds its table from its position on.
"""

from collections.abc import Container, Iterable
from dataclasses import replace
from itertools import groupby

from lakehouse.ddl.policy import Rules
from lakehouse.ddl_effects import Clear
from lakehouse.events import READINGS, Position, dropped, is_of_some_tables
from lakehouse.lineage import History, Lineage, Name
from lakehouse.schema import name_key
from lakehouse.schema_history.created_schemas import with_blocking_snapshots, with_created_schema
from lakehouse.schema_history.name_matching import Spelling
from lakehouse.schema_history.named_tables import at_one_place, in_steps, rename_of
from lakehouse.schema_history.readings import Taken, apply_reading, release
from lakehouse.schema_history.rulings import (
    rule_on_inferred,
    rule_on_snapshot,
    rule_on_snapshot_of_some,
    with_record_columns,
    with_schema_record,
)
from lakehouse.schema_history.schema_records import Record, is_other_table, misread_texts, recorded_schema
from lakehouse.schema_history.statements import Context, apply_ddl, renames_of
from lakehouse.schema_history.table_lives import (
    NO_ROWS,
    Lives,
    Sightings,
    with_virtual,
    without_virtual_keys,
)

NO_RULES = Rules()
NO_RECORD = (
    "a later full snapshot of the source has nothing of its database: it is gone, or not captured any more"
)
NOT_READ = (
    "a later snapshot of the source was not seen to read rows to its end: changes from before it may not "
    "have been sent"
)
_MISREAD = "the connector reads its text by another character set than the statements gave it"
MISREAD = f"column {{}}: {_MISREAD}"
OTHER_COLUMNS = "the connector reads its rows by other columns than the statements gave it"
ORIGIN = "it got its name as the last of several in one RENAME, and nothing tells which table it was"
MAY_BE_GONE = "a RENAME over several names took a table of these columns, and nothing tells which one it was"


def build(
    records: Iterable[Record],
    sightings: Sightings,
    rules: Rules = NO_RULES,
    snapshots: Iterable[Position] = (),
    *,
    ordered: bool = True,
    virtual: bool = False,
) -> History:
    """The lineages of a source. `rules` are what YAMLs and operators say of DDLs; `snapshots` are the places
    of the full snapshots that are complete. Not `ordered`: rows lie in several partitions, whose places do
    not compare. `virtual`: rows carry VIRTUAL columns.
    """
    records = with_blocking_snapshots(_once(records)) if virtual else _once(records)  # TiCDC has none
    records = sorted(map(with_created_schema, records), key=lambda record: record.position)
    records = records if virtual else at_one_place(records)
    lives = Lives(sightings, ordered, rules.logs, rules.charset)
    lives.virtual = virtual
    spelling = Spelling(sightings.names(), records, lives.has_rows_between)
    whole, taken = set(snapshots), Taken()
    problems: list[tuple[Position, str]] = []
    for position, group in groupby(records, key=lambda record: record.position):
        contexts = [Context(record, lives, rules, spelling) for record in group]
        problems += _apply_position(position, contexts, taken, is_snapshot=position in whole)
    lives.adopt_unseen()
    lives.settle_keys()
    for lineage in lives.lineages:
        _go_on(lineage, whole)
    for lineage in lives.live.values():
        _settle(lives, lineage)
    times = {record.position: record.commit_ts for record in records if record.commit_ts is not None}
    shown = any(record.kind == "snapshot" for record in records)
    for lineage in lives.lineages:
        lineage.snapshots_shown = shown
        lineage.steps = (with_virtual if virtual else without_virtual_keys)(lineage.steps)
        lineage.times = {
            step.position: times[step.position] for step in lineage.steps if step.position in times
        }
    return History(lives.lineages, problems)


def _go_on(lineage: Lineage, snapshots: Container[Position]) -> None:
    """A connector that misreads a table goes on so behind what empties it, until it reads its schema anew:
    for a full snapshot, or where the table is created again.
    """
    for position, why in list(lineage.incomplete):
        if why == OTHER_COLUMNS or why.endswith(_MISREAD):
            for step in lineage.steps:
                if step.position > position and any(isinstance(one, Clear) for one in step.effects):
                    if step.position in snapshots or step.ddl == "DROP TABLE":
                        break
                    lineage.incomplete.append((step.position, why))


def _once(records: Iterable[Record]) -> Iterable[Record]:
    """Each statement once: a Debezium connector that restarts sends it again with other columns than before,
    or with none, for its own history may be ahead of the binlog then. The first that has columns stands.
    """
    told: dict[tuple[object, ...], Record] = {}
    for number, record in enumerate(records):
        is_statement = record.kind == "ddl" and record.ddl is not None
        text = record.ddl if is_statement else number
        key = (record.position, record.database, record.table, text)
        if key not in told or (record.columns and not told[key].columns):
            told[key] = record
    return told.values()


# Records of one position


def _apply_position(
    position: Position, every: list[Context], taken: Taken, *, is_snapshot: bool
) -> list[tuple[Position, str]]:
    """Apply all records of one position, a complete full snapshot's where `is_snapshot`. Returns the problems
    that belong to no table.
    """
    lives = every[0].lives
    contexts = [context for context in every if context.record.kind not in READINGS]
    problems: list[tuple[Position, str]] = []
    if not is_snapshot:
        problems += _apply_at_once(contexts)
        _doubt_rows(lives, position, (context.record for context in contexts))
    elif is_of_some_tables({dropped(context.record.ddl) for context in contexts}):
        problems += _apply_snapshot_of_some(contexts)
    else:
        _apply_snapshot(lives, position, [context.record for context in contexts])
    for context in every:
        problems += apply_reading(lives, context.record, taken)
    return problems


def _apply_at_once(contexts: list[Context]) -> list[tuple[Position, str]]:
    """Apply the records of one position, in the only order in which each source name exists and each target
    is free: of `RENAME b TO c` and `RENAME a TO b`, sent as two records, the first one goes first, however
    they arrived. A schema record shows what the statements have made. Returns the problems that belong to no
    table.
    """
    has_renames = any(map(renames_of, contexts))
    # a snapshot may tell thousands of tables at one position
    ordered = sorted(contexts, key=lambda context: context.record.kind != "ddl")
    ordered = _in_steps(ordered) if has_renames else ordered
    if ordered or not has_renames:
        return [problem for context in ordered for problem in _apply_record(context)]
    _redo_lost_step(contexts)
    problems = []
    pending = contexts
    while pending:
        chosen = min(pending, key=lambda context: _rank(context, pending))
        problems += _apply_record(chosen)
        pending = [context for context in pending if context is not chosen]
    return problems


def _rank(context: Context, pending: list[Context]) -> tuple[bool, ...]:
    """What speaks against a record as the next one; names of which nothing is known may exist or not."""
    for old, new in renames_of(context):
        others = {pair[0] for other in pending if other is not context for pair in renames_of(other)}
        missing = context.lives.find(old, context.position) is None
        return (
            False,
            context.lives.find(new, context.position) is not None,
            missing and any(_leads_to(other, old) for other in pending if other is not context),
            new in others,
            missing,
        )
    return context.record.kind != "ddl", False, False, False, False


def _apply_record(context: Context) -> list[tuple[Position, str]]:
    """Apply one record; returns the problems that belong to no table."""
    if context.record.kind == "ddl":
        _doubt_origin(context)
        problems = apply_ddl(context)
        _apply_columns_of_ddl(context.lives, context.record)
        return problems
    if context.record.kind == "inferred":
        _apply_inferred(context.lives, context.record)
    else:
        _apply_schema_record(context.lives, context.record)
    return []


# A RENAME over several names: TiCDC sends a record for each step, or keeps the last one alone


def _leads_to(context: Context, name: Name) -> bool:
    """Whether a record gives a table a name that it does not keep: of `RENAME a TO x, x TO y` TiCDC sends two
    records, both of the table y.
    """
    told = name_key(context.record.table or "")
    return any(
        new == name and told not in ("", name_key(new[1]), name_key(old[1]))
        for old, new in renames_of(context)
    )


def _in_steps(contexts: list[Context]) -> list[Context]:
    """The classic architecture of TiCDC tells each step of a RENAME from the name that its table had before
    the statement: here in their order, each from the name that the step before it gave. Nothing elsewhere.
    """
    lives, position = contexts[0].lives, contexts[0].position
    told = {pair: context for context in contexts for pair in renames_of(context)}
    tables = {pair: one.record.table for pair, one in told.items() if not lives.virtual}
    steps = [
        replace(told[pair], record=replace(told[pair].record, ddl=rename_of(*step)))
        for pair, step in in_steps(tables, lambda name: lives.find(name, position) is not None)
    ]
    return steps and steps + [context for context in contexts if not renames_of(context)]


def _redo_lost_step(contexts: list[Context]) -> None:
    """Of `RENAME a TO x, b TO a, x TO b` TiCDC's storage sink keeps the last two steps: the files of all
    steps of a table have one path. The one table whose name another one gets was the first to go.
    """
    lives, position = contexts[0].lives, contexts[0].position
    pairs = [pair for context in contexts for pair in renames_of(context)]
    olds = {old for old, _ in pairs}
    lost = [old for context in contexts for old in _lost(context) if old not in {new for _, new in pairs}]
    taken = [new for _, new in pairs if new in lives.live and new not in olds]
    if len(lost) == len(taken) == 1:
        lives.rename(taken[0], lost[0], position)


def _doubt_origin(context: Context) -> None:
    """Of `RENAME a TO x, x TO y` nothing tells that the table was a."""
    record, lives = context.record, context.lives
    for old in _lost(context):
        names = {name_key(column["name"]) for column in record.columns or ()}
        for lineage in lives.live.values():
            if {name_key(column.name) for column in lineage.steps[-1].schema.columns} == names:
                lineage.incomplete.append((context.position, MAY_BE_GONE))
        lives.get(old, context.position).incomplete.append((context.position, ORIGIN))


def _lost(context: Context) -> list[Name]:
    """The old name of a table in a storage sink's file that is the last step of several: a statement that was
    one of several ends with a semicolon there.
    """
    record = context.record
    if context.lives.virtual or not record.columns or not (record.ddl or "").endswith(";"):
        return []
    return [old for old, _ in renames_of(context) if context.lives.find(old, context.position) is None]


# Schema records


def _apply_columns_of_ddl(lives: Lives, record: Record) -> None:
    """A DDL whose message has the table's columns settles a schema that is not known. A binlog's connector
    reads text by the character sets that it shows there.
    """
    lineage = lives.live.get((record.database, record.table or ""))
    if lineage is not None and record.columns:
        own, told = lineage.steps[-1].schema, recorded_schema(record)
        misread = misread_texts(own, told) if lives.virtual else []
        lineage.incomplete += [(record.position, MISREAD.format(name)) for name in misread]
        if lives.virtual and own.columns and lineage.held is None and is_other_table(own, told):
            lineage.incomplete.append((record.position, OTHER_COLUMNS))
        lineage.steps = with_record_columns(lineage, record)


def _apply_schema_record(lives: Lives, record: Record) -> None:
    if record.table is None or not record.has_columns:
        return
    name = (record.database, record.table)
    lineage = lives.find(name, record.position)
    if lineage is None:
        lineage = lives.begin(name, record.position, recorded_schema(record))
        lineage.notes += [NO_ROWS] if record.kind == "snapshot" else []
    else:
        lineage.steps = with_schema_record(lineage, record)


def _apply_inferred(lives: Lives, record: Record) -> None:
    lineage = lives.find((record.database, record.table or ""), record.position)
    if lineage is not None:
        rule_on_inferred(lineage, record).apply(lineage)


# Snapshots


def _apply_snapshot(lives: Lives, position: Position, records: Iterable[Record]) -> None:
    """A complete full snapshot holds all there was: what came before it is gone, and so is a table that it
    does not know, be it that its database has none left.
    """
    records = list(records)
    known = {
        (record.database, record.table): record
        for record in records
        if record.table is not None and record.has_columns
    }
    for name, record in known.items():
        lineage = lives.find(name, position)
        if lineage is None:
            lives.begin(name, position, recorded_schema(record))
            continue
        lives.anchor(lineage, position)
        rule_on_snapshot(lineage, record).apply(lineage)
        release(lineage)
        _end_doubt(lineage)
    databases = {name[0] for name in known}
    databases |= {one.database for one in records if dropped(one.ddl) in ("DATABASE", "SCHEMA")}
    for database in databases:
        for name in lives.present(position, database):
            if name[0] == database and name not in known:
                lives.drop(name, position)
    for name, lineage in lives.live.items():
        if name[0] not in databases and lineage.steps[-1].schema.columns:
            lineage.incomplete.append((position, NO_RECORD))


def _doubt_rows(lives: Lives, position: Position, records: Iterable[Record]) -> None:
    """A full snapshot that takes schemas alone, or has not ended yet: a connector has begun anew at its
    place, and what was changed between there and where it had come is in no message.
    """
    if not any(one.kind == "snapshot" and dropped(one.ddl) in ("DATABASE", "SCHEMA") for one in records):
        return
    for lineage in lives.live.values():
        if any(lives.has_rows_between(one.name, one.low, position) for one in lineage.intervals):
            lineage.incomplete.append((position, NOT_READ))


def _apply_snapshot_of_some(contexts: list[Context]) -> list[tuple[Position, str]]:
    """A snapshot that clears nothing: what its records do, and what its rows leave open."""
    for context in contexts:
        record, name = context.record, (context.record.database, context.record.table or "")
        if record.table and record.has_columns:
            lineage = context.lives.find(name, context.position)
            if lineage is not None:
                rule_on_snapshot_of_some(lineage, record).apply(lineage)
    problems = _apply_at_once(contexts)
    for context in contexts:
        _end_doubt(context.lives.live.get((context.record.database, context.record.table or "")))
    return problems


def _end_doubt(lineage: Lineage | None) -> None:
    """The rows of a snapshot that is whole have been read."""
    if lineage is not None:
        lineage.notes = [note for note in lineage.notes if note != NO_ROWS]


# The end


def _settle(lives: Lives, lineage: Lineage) -> None:
    """Give a live table the schema that its last rows show, and note what of it is not known."""
    lives.anchor(lineage, None)
    untyped = [column.name for column in lineage.steps[-1].schema.columns if not column.type.base]
    if untyped:
        lineage.notes.append(
            f"no message tells the type of {', '.join(untyped)}: text as the wire has it, until a schema is "
            "imported"
        )
