"""One turn of a gold table that several lineages make up (lakehouse/gold/shards.py): they are written in one
commit, up to one place.
"""

import functools
import hashlib
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.events import just_below
from lakehouse.gold.modes import CURRENT, DELETED, SHARD
from lakehouse.gold.options import GoldOptions, to_plain
from lakehouse.gold.shards import aligned
from lakehouse.lineage import Lineage, split_name
from lakehouse.spark.change_log.changes import between, of_lineage
from lakehouse.spark.gold import merge as write_gold
from lakehouse.spark.gold.layout import misfit, take_back
from lakehouse.spark.gold.new_changes import Fresh, Read
from lakehouse.spark.gold.plan import Group, Outcome, Written
from lakehouse.spark.gold.table import GoldTable
from lakehouse.spark.lake import quote
from lakehouse.spark.ops.gold_names import renamed
from lakehouse.spark.session import keeping

if TYPE_CHECKING:
    from lakehouse.spark.gold.plan import Progress
    from lakehouse.spark.gold.run import GoldRun


def group_of(run: "GoldRun", lineages: list[Lineage], options: GoldOptions) -> Group | None:
    """What there is to decide before anything is written; None where gold has nothing of it. A shard that is
    held holds all.
    """
    started = [lineage for lineage in lineages if lineage.start <= run.window.position]
    holds = [lineage.held.position for lineage in started if lineage.held is not None]
    at = min([run.window.position, *map(just_below, holds)])
    live = sorted(
        (lineage for lineage in started if lineage.name_at(at) is not None),
        key=lambda one: one.name_at(at) or ("", ""),
    )
    known = run.known.get(group_id(options))
    if not live and known is None:
        return None
    shapes = [(lineage.id, run.shape(lineage, at)) for lineage in live]
    shape = hashlib.blake2b(repr(shapes).encode(), digest_size=12).hexdigest() + options.digest()
    name = split_name(options.merged)
    gold, wanted = run.allocate(known, name, options)
    whole = known is None or known["shape"] != shape or run.refresh or group_id(options) in run.again
    if known is not None and not whole:
        whole = at != tuple(known["since"]) if known["state"] == "behind" else at < run.window.position_before
    return Group(live, at, gold, wanted, shape, known, whole, options)


def group_id(options: GoldOptions) -> str:
    return f"shards of {options.merged}"


def bring(
    run: "GoldRun", group: Group, fresh: Fresh, progress: "Progress", read: Read
) -> dict[str, Any] | None:
    """Bring the table to the window's end; returns its entry of the manifest. `read` holds the shards'
    changes where it is folded whole and they were read together with other tables'.
    """
    if group.retired:
        assert group.known is not None
        return {**group.known, "state": "retired", "since": list(group.at)}
    tables = [run.table(lineage, group.at, group.gold, group.options) for lineage in group.lineages]
    columns, notes = aligned({shard(table): table.columns for table in tables})
    for table in tables:
        table.take(columns[shard(table)])
        table.read = read.get(table.lineage.id)
    for table in tables:
        wrong = misfit(
            run.spark, group.options, table.lineage.steps[table.step].schema, table.columns, table.ids
        )
        if wrong is not None:
            return held_by_yaml(run, group, wrong)
    with keeping():
        written = write(run, group, tables, fresh)
    run.applied += written.applied
    if written.what:
        progress(f"gold    {group.options.merged}: {written.what}")
        collided = collisions(run, group, tables[0], written.version)
    else:
        collided = (group.known or {}).get("collided", [])
    return {
        **entry(run, group, written, [*notes, *collided, *renamed(group.gold, group.wanted)]),
        "collided": collided,
    }


def shard(table: GoldTable) -> str:
    return str(table.mode.tag[SHARD])


def held_by_yaml(run: "GoldRun", group: Group, wrong: str) -> dict[str, Any] | None:
    if group.known is None:
        run.problems.append(f"{group.options.merged}: {wrong}")
        return None
    since = group.known["since"] if group.known["state"] == "behind" else list(run.window.position_before)
    return {
        **group.known,
        "shape": "",
        "state": "behind",
        "since": since,
        "why": f"held by its YAML: {wrong}",
    }


def write(run: "GoldRun", group: Group, tables: list[GoldTable], fresh: Fresh) -> Written:
    """Merge what is new of each shard, or fold all of them anew."""
    keys = {tuple(column.name for column in table.keys) for table in tables}
    if group.whole or group.known is None or len(keys) > 1:
        return refold(run, group, tables)
    version = group.known["version"]
    if not fresh.small:
        if not any(fresh.of(table.lineage).size.rows for table in tables):
            return Written(version, "", {})
        mine = functools.reduce(
            lambda one, other: one | other, [of_lineage(table.lineage) for table in tables]
        )
        some = fresh.frame.where(mine & between(None, group.at)).limit(1).count()
        return refold(run, group, tables) if some else Written(version, "", {})
    outcomes = []
    for table in tables:
        changes = [
            change for change, _ in fresh.changes.get(table.lineage.id, []) if change.position <= group.at
        ]
        outcome = (
            table.outcome(changes, run.window.position_before, version) if changes else Outcome([], [], {})
        )
        if outcome is None:
            return refold(run, group, tables)
        outcomes.append((table, outcome))
    if not any(outcome.puts or outcome.deletes for _, outcome in outcomes):
        return Written(version, "", {})
    version = outcomes[0][0].write(outcomes, run.window.position_before)
    puts, deletes = (
        sum(len(rows) for rows in told)
        for told in zip(*((o.puts, o.deletes) for _, o in outcomes), strict=True)
    )
    unknown = {name: place for _, outcome in outcomes for name, place in outcome.unknown.items()}
    return Written(version, f"merged {puts} rows, removed {deletes}", unknown, puts + deletes)


def refold(run: "GoldRun", group: Group, tables: list[GoldTable]) -> Written:
    take_back(run.spark, run.lake, group.gold, group.known, group.options)
    frames = [table.whole()[0] for table in tables]
    frame = functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    exists = group.known is not None or run.lake.exists(run.spark, "gold", group.gold)
    version = write_gold.replace_frame(
        run.spark, run.lake, group.gold, frame, create=not exists, options=group.options
    )
    applied = sum(table.mode.applied for table in tables)
    unknown = {name: place for table in tables for name, place in table.mode.unknown.items()}
    return Written(
        version,
        f"{'folded again' if exists else 'created'} from {len(tables)} shards, {applied} changes",
        unknown,
        applied,
    )


def collisions(run: "GoldRun", group: Group, table: GoldTable, version: int) -> list[str]:
    """How many keys more than one shard has; of a history the current versions count. A log has none."""
    ids = set(table.ids)
    names = [column.name for column in table.columns if column.column.id in ids]
    if group.options.mode == "append" or not names:
        return []
    own = {column.column.id: F.col(quote(column.name)) for column in table.columns if column.column.id < 0}
    rows = run.lake.read(run.spark, "gold", group.gold, version)
    if CURRENT in own:
        rows = rows.where(own[CURRENT])
    elif DELETED in own:
        rows = rows.where(~own[DELETED])
    several = (
        rows.groupBy(*[F.col(quote(name)) for name in names])
        .agg(F.count_distinct(own[SHARD]).alias("shards"))
        .where("shards > 1")
    )
    found = several.count()
    return [f"{found} keys are in more than one shard: _shard tells their rows apart"] if found else []


def entry(run: "GoldRun", group: Group, written: Written, notes: list[str]) -> dict[str, Any]:
    database, table = split_name(group.options.merged)
    state: tuple[str, list[int] | None, str | None] = ("exact", None, None)
    for lineage in group.lineages:
        if written.unknown:
            names = ", ".join(sorted(written.unknown))
            lineage.incomplete.append((group.at, f"rows have columns that no DDL has added: {names}"))
        found = run.state(lineage, group.at)
        name = ".".join(lineage.intervals[-1].name)
        if found[0] == "behind" or (found[0] != "exact" and state[0] == "exact"):
            state = (found[0], found[1], f"{name}: {found[2]}")
    return {
        "lineage": group_id(group.options),
        "database": database,
        "table": table,
        "gold": group.gold,
        "version": written.version,
        "shape": group.shape,
        "state": state[0],
        "since": state[1],
        "why": state[2],
        "notes": [*notes, *(note for lineage in group.lineages for note in lineage.notes)],
        "wanted": group.wanted,
        "held": None,
        "names": [list(interval.name) for lineage in group.lineages for interval in lineage.intervals],
        "options": to_plain(group.options),
        "shards": [lineage.id for lineage in group.lineages],
    }
