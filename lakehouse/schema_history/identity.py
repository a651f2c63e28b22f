"""A lineage's id, which is given once and kept: what becomes known later of its beginning changes its history
and not its identity.

    history, beginnings on record ─with_known_ids─▶ history     each lineage under the id that it was given
    a lineage without a record ─beginning_of─▶ Beginning        what is recorded of a new one

A lineage is known again by the place where it was first seen to begin, and by its name there: of a table
whose rows were seen first the first row, else its CREATE. Whichever lineage has that name at that place has
the id, wherever it is known to begin now.

    rows from 20 on            t@0, begun at t, 20
    CREATE at 10 comes late    a lineage of t from 10 on: t at 20 is its own, so it is t@0
    CREATE at 30 comes late    t@0 ends at 30; the one that begins there has an id of its own
"""

from collections import defaultdict
from collections.abc import Iterable

from lakehouse.events import Position
from lakehouse.lineage import History, Lineage, Name
from lakehouse.ops.records.gold import Beginning


def with_known_ids(history: History, beginnings: Iterable[Beginning]) -> History:
    """The history, its lineages under the ids that are on record. Where one lineage is what two were taken
    for, it has the id that was given first. An id that was given once is given to no other lineage.
    """
    given: dict[int, str] = {}
    used: set[str] = set()
    named = defaultdict[Name, list[Lineage]](list)
    for lineage in history.lineages:
        for name in dict.fromkeys(interval.name for interval in lineage.intervals):
            named[name].append(lineage)
    for one in beginnings:
        used.add(one.lineage)
        name = (one.database, one.table)
        found = lineage_at(named.get(name, ()), name, one.position)
        if found is not None:
            given.setdefault(id(found), one.lineage)
    for lineage in history.lineages:
        lineage.id = given.get(id(lineage)) or _unused(lineage.id, used)
        used.add(lineage.id)
    return history


def lineage_at(lineages: Iterable[Lineage], name: Name, position: Position) -> Lineage | None:
    """The one of the lineages that has the name at a place, or begins to have it there."""
    return next(
        (
            lineage
            for lineage in lineages
            for interval in lineage.intervals
            if interval.name == name
            and interval.low <= position
            and (interval.high is None or position < interval.high)
        ),
        None,
    )


def beginning_of(lineage: Lineage) -> Beginning:
    """What is recorded of a lineage that has no record yet."""
    database, table = lineage.intervals[0].name
    return Beginning(lineage.id, database, table, lineage.start)


def _unused(wanted: str, used: set[str]) -> str:
    """The id, or with a mark behind it where another lineage was given it."""
    while wanted in used:
        wanted += "~"
    return wanted
