"""The lives of a source's tables while its schema history is read: begun, renamed, ended, reopened, and their
first shapes.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from lakehouse.events import MIN_POSITION, Position, just_below
from lakehouse.lineage import History, Interval, Lineage, Name, Step
from lakehouse.schema import TableSchema
from lakehouse.schema_history.schema_records import Shape, inferred_schema

EMPTY = TableSchema((), inferred=True)


class Sightings(Protocol):
    """What silver has of each name's rows."""

    def names(self) -> Iterable[Name]: ...

    def maybe(self, name: Name, low: Position, high: Position | None) -> bool:
        """Whether rows of the name between the places may exist; cheap, and never wrongly no."""

    def shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        """The shape of the rows between the places, or None where there are none."""

    def key_names(self, name: Name) -> tuple[str, ...]: ...


class Lives:
    """The lineages so far: those that live by name, those that ended, and since when a name is free."""

    def __init__(self, sightings: Sightings, ordered: bool) -> None:
        self.sightings, self.ordered = sightings, ordered
        self.live: dict[Name, Lineage] = {}
        self.free_since: dict[Name, Position] = {}
        self.ended: dict[Name, Lineage] = {}
        self.history = History()

    def _begin(self, name: Name, position: Position, schema: TableSchema, ddl: str | None = None) -> Lineage:
        places = ".".join(
            str(part)
            for part in position[: max((i for i, part in enumerate(position) if part), default=0) + 1]
        )
        lineage = Lineage(
            f"{name[0]}.{name[1]}@{places}",
            [Step(position, schema, (), ddl)],
            [Interval(name, position, None)],
        )
        lineage.key_names = self._named_key(name, schema, ddl)
        self.history.lineages.append(lineage)
        self.live[name] = lineage
        return lineage

    def _named_key(self, name: Name, schema: TableSchema, ddl: str | None) -> tuple[str, ...]:
        """The key that messages name, for schema records that tell none. A CREATE and an inferred shape tell
        the key of their own time: another table may have had the name, or this one another key.
        """
        return () if ddl is not None or schema.inferred else self.sightings.key_names(name)

    def _drop(self, name: Name, position: Position) -> None:
        lineage = self._find(name, position)
        if lineage is not None:
            self._anchor(lineage, position)
            lineage.end = position
            self._close(name, position)
            self.ended[name] = lineage

    def _close(self, name: Name, position: Position) -> Lineage:
        lineage = self.live.pop(name)
        last = lineage.intervals[-1]
        lineage.intervals[-1] = replace(last, high=position)
        self.free_since[name] = position
        return lineage

    def _find(self, name: Name, position: Position) -> Lineage | None:
        """The live lineage of a name, or one that begins where rows of it were seen before `position`."""
        if name in self.live:
            return self.live[name]
        low = self.free_since.get(name, MIN_POSITION)
        if not self.sightings.maybe(name, low, position):
            return None
        shape = self.sightings.shape(name, low, position)
        return None if shape is None else self._adopt(name, low, shape)

    def _adopt(self, name: Name, low: Position, shape: Shape) -> Lineage:
        """Rows under a name without a live table: the last one reopened, else a table that was there before
        the feed.
        """
        if name in self.ended:
            return self._reopen(
                name, max(low, just_below(shape.first)), "rows came after its DROP: it was recovered upstream"
            )
        lineage = self._begin(name, low, inferred_schema(shape))
        lineage.since = shape.first
        lineage.notes.append("no CREATE was seen: its schema is inferred from the messages")
        return lineage

    def _reopen(self, name: Name, position: Position, why: str) -> Lineage:
        lineage = self.ended.pop(name)
        lineage.end = None
        lineage.intervals.append(Interval(name, position, None))
        lineage.incomplete.append((position, why))
        self.live[name] = lineage
        return lineage

    def _get(self, name: Name, position: Position) -> Lineage:
        """The lineage that a DDL of a name speaks of; one of unknown shape where nothing was seen of it."""
        found = self._find(name, position)
        if found is not None:
            return found
        lineage = self._begin(name, self.free_since.get(name, MIN_POSITION), EMPTY)
        lineage.since = position
        lineage.notes.append("no CREATE was seen: its schema is inferred from the messages")
        return lineage

    def _rename(self, old: Name, new: Name, position: Position) -> None:
        lineage = self._get(old, position)
        if new in self.live and self.live[new] is not lineage:
            self._drop(new, position)
        if not self._rename_anchored(lineage, position):
            lineage.notes.append(f"its shape before the rename from {'.'.join(old)} is not known")
        self._close(old, position)
        lineage.intervals.append(Interval(new, self._low(new, position), None))
        self.live[new] = lineage
        self.ended.pop(new, None)
        lineage.key_names = lineage.key_names or self._named_key(
            new, lineage.steps[-1].schema, lineage.steps[0].ddl
        )

    def _low(self, name: Name, position: Position) -> Position:
        """From where on rows of a name are those of the table that has it since `position`."""
        return position if self.ordered else self.free_since.get(name, MIN_POSITION)

    def _rename_anchored(self, lineage: Lineage, position: Position) -> bool:
        self._anchor(lineage, position)
        return bool(lineage.steps[-1].schema.columns) or lineage.steps[-1].position == MIN_POSITION

    def _anchor(self, lineage: Lineage, position: Position | None) -> None:
        """Give a lineage of unknown shape the one that its rows since its last step have."""
        last = lineage.steps[-1]
        interval = lineage.intervals[-1]
        if last.schema.columns or not self.sightings.maybe(interval.name, interval.low, position):
            return
        shape = self.sightings.shape(interval.name, max(interval.low, last.position), position)
        if shape is not None:
            lineage.steps[-1] = replace(last, schema=inferred_schema(shape))
