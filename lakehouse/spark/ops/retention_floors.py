"""The retention floors of a source, by table. Silver refuses changes that arrive below one, and counts them
in its book; the schema history refuses statements (lakehouse/schema_history/ordering_problems.py); gold keeps
what the changes that are gone lacked.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from lakehouse.events import Position
from lakehouse.fold.compaction import folded_under
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.options import GoldOptions
from lakehouse.lineage import Lineage, Name
from lakehouse.ops.records.gold import Lacking, Manifest, TableEntry
from lakehouse.ops.records.operators import Floor
from lakehouse.schema_history.ordering_problems import RaisedFloor
from lakehouse.spark.ops.log import OpsLog

Floors = dict[Name, Position]
LOG_GONE = "a retention floor has taken the changes below it, which {} shows too"
FOLDED_OTHERWISE = (
    "a retention floor has folded the changes below it under another `on_ddl`, `key`, `server` or `charset`"
)


class BelowFloors(NamedTuple):
    """What a run of gold knows of retention floors: their places by source table; and by lineage, what tables
    that the last manifest has no more were known to lack, and under what each floor has folded it.
    """

    places: Mapping[Name, Position] = {}
    lacking: Mapping[str, Lacking] = {}
    folded: Mapping[str, Sequence[tuple[Position, str]]] = {}

    def reach(self, lineage: Lineage) -> bool:
        """Whether some of a lineage's changes are gone."""
        return lineage.reaches_below(self.places)

    def stand_above(self, lineage: Lineage, at: Position) -> bool:
        """Whether a lineage has no rows at a position any more: they stand at a floor above it."""
        names = (one.name for one in lineage.intervals)
        return self.reach(lineage) and any(at < self.places[name] for name in names if name in self.places)

    def limits(self, lineage: Lineage, at: Position, options: GoldOptions, upstream: Upstream) -> Lacking:
        """What of a table can't be folded from the rows at its floors, and since when: what it shows beside
        its live rows, and what YAMLs say by now of what was below.
        """
        found = {}
        if not options.plain and self.reach(lineage):
            place = max(self.places[one.name] for one in lineage.intervals if one.name in self.places)
            mode = "deletes: soft" if options.mode == "upsert" else f"mode {options.mode}"
            found[LOG_GONE.format(mode)] = max(place, lineage.cleared_at(at))
        for place, under in self.folded.get(lineage.id, ()):
            if place <= at and folded_under(lineage, place, upstream) != under:
                found[FOLDED_OTHERWISE] = min(place, found.get(FOLDED_OTHERWISE, place))
        return found


def below_floors(log: OpsLog, last: Manifest | None) -> BelowFloors:
    """What a run that follows the manifest `last` knows of floors."""
    lacking = last.lacking if last is not None and last.lacking is not UNSET else {}
    folded = defaultdict[str, list[tuple[Position, str]]](list)
    for record in log.all(Floor):
        if record.generation == log.generation and record.folded is not UNSET:
            for lineage, under in record.folded.items():
                folded[lineage].append((record.place, under))
    return BelowFloors(floors_of(log), lacking, folded)


def left_lacking(
    below: BelowFloors,
    lineages: Iterable[Lineage],
    before: Iterable[TableEntry],
    now: Iterable[TableEntry],
) -> dict[str, Lacking]:
    """What the lineages that gold has no more lack below a floor: nothing is left there that would show it
    again, once they come back; YAMLs may take one out of the history too, which a log that goes on makes one
    with another. `before` and `now`: the entries of the last manifest, and of the next one.
    """
    there = {lineage for entry in now for lineage in entry.lineages}
    there |= {lineage.id for lineage in lineages if not below.reach(lineage)}
    known = dict(below.lacking)
    for entry in before:
        if entry.lacking is not UNSET:
            known |= dict.fromkeys(entry.lineages, entry.lacking)
    return {one: told for one, told in known.items() if below.places and told and one not in there}


def floors_of(log: OpsLog) -> Floors:
    """The floor of each table that has one, in silver's present generation."""
    floors: Floors = {}
    for record in log.all(Floor):
        if record.generation == log.generation:
            floors |= {name: max(record.place, floors.get(name, record.place)) for name in record.names}
    return floors


def raised_floors(log: OpsLog) -> list[RaisedFloor]:
    """Each floor of silver's present generation, with the batch that it came behind; those of older lakes
    don't tell it.
    """
    return [
        RaisedFloor(record.place, frozenset(record.names), record.batch)
        for record in log.all(Floor)
        if record.generation == log.generation and record.batch is not UNSET
    ]
