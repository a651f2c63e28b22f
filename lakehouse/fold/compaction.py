"""Compaction below a retention floor: a table's changes up to a position become one `snapshot` change per
live row.

    compacted(lineage, changes ≤ F) + changes > F    fold to the same rows as all changes do, at every place
                                                     from F on

A floor is a place where no DDL stands, and its snapshot changes stand right there: the schema below it is
theirs. Tables that need their log are not compacted: those whose schema is inferred from it, those that keep
what the source has dropped, and those of which rows at the floor may show what happened above it.

What was folded together stays as it was, whatever YAMLs say later of statements, keys and the server:
`folded_under` tells whether another fold would be another one.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakehouse.ddl_effects import Clear, Fill, ImpliedFill, UnknownFill
from lakehouse.events import Position
from lakehouse.fold.current_rows import finish, fold
from lakehouse.fold.row_edits import UPSTREAM, Change
from lakehouse.fold.upcast import Row, Upstream
from lakehouse.lineage import Lineage, key_ids
from lakehouse.schema import ColumnType, TableSchema

FLAG = "snapshot"
# a row at a floor that lacks what these fill is told to lack it
_FILLS = (Fill, ImpliedFill, UnknownFill)


def needs_log(lineage: Lineage, floor: Position) -> str | None:
    """Why a table's log can't be folded together, if it can't. Of one that is dropped for good below the
    floor nothing is shown above it, unless an operator may still skip the DROP.
    """
    if lineage.held is not None and lineage.held.position <= floor:
        return "a DDL below the floor holds it"
    if lineage.end is not None and lineage.end <= floor:
        return None
    if lineage.ended_at(floor) is not None:
        return "it is dropped at the floor and comes back above it"
    if any(step.schema.inferred for step in lineage.steps if step.position <= floor):
        return "its schema is inferred from its rows"
    if lineage.schema_at(floor).keeps.dropped:
        return "gold keeps columns that the source has dropped"
    if lineage.is_unsettled_at(floor):
        # its changes above the floor would be held against rows that show them already
        return "rows of it were read while it changed, and the floor is not past the end of that"
    return None


def with_namesakes(kept: Mapping[str, str], lineages: Iterable[Lineage], floor: Position) -> dict[str, str]:
    """The lineages that keep their log below the floor, by id and with the reason: those, and whichever had
    one of their names there. A floor is a table name's, and what arrives below it is refused.
    """
    names = {one.id: {i.name for i in one.intervals if i.low < floor} for one in lineages}
    reasons = dict(kept)
    while True:
        taken = {name for one in reasons for name in names.get(one, ())}
        more = [one for one, mine in names.items() if one not in reasons and mine & taken]
        if not more:
            return reasons
        reasons |= dict.fromkeys(more, "a table that has had its name keeps its log")


def compacted(
    lineage: Lineage, changes: Iterable[Change], floor: Position, upstream: Upstream = UPSTREAM
) -> list[Change]:
    """One change per row that lives at the floor; none where the table does not live there."""
    if lineage.name_at(floor) is None:
        return []
    schema = lineage.schema_at(floor)
    rows = finish(fold(lineage, changes, floor, upstream))
    return [
        Change(floor, "snapshot", None, named_image(row, schema), encoding="canonical", flags=(FLAG,))
        for row in rows
    ]


def named_image(row: Row, schema: TableSchema) -> dict[str, object]:
    """A row by column name; columns that it does not have are left out, as they were."""
    return {column.name: row[column.id] for column in schema.columns if column.id in row}


def folded_under(lineage: Lineage, floor: Position, upstream: Upstream) -> str:
    """A digest of what the rows at a floor depend on beside changes: what statements below it have done, the
    key, and the rules of the server where it had to convert values. It names all by itself, so that another
    version of lakehouse finds the same.
    """
    steps = [step for step in lineage.steps if step.position <= floor]
    effects = [(step.position, one) for step in steps for one in step.effects]
    converts = any(not isinstance(one, Clear) for _, one in effects)
    schema, key = lineage.schema_at(floor), key_ids(lineage, lineage.step_at(floor))
    told = (
        [interval.name for interval in lineage.intervals if interval.low <= floor],
        lineage.name_at(floor),
        [(place, type(one).__name__) for place, one in effects if not isinstance(one, _FILLS)],
        [(column.name, _plain(column.type), column.id in key) for column in schema.columns],
        sorted((column, _plain(kind)) for column, kind in schema.keeps.types),
        (upstream.server, upstream.version) if converts else (),
        upstream.charset or "",
    )
    return hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest()


def _plain(kind: ColumnType) -> str:
    """The type without its charset, which a later message may tell."""
    return str(replace(kind, charset=None))
