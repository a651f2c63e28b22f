"""The lives of a source's tables while its schema history is built: begun, renamed, ended and reopened, with
the schemas that their first rows show.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

from lakehouse.ddl.apply.generated_columns import recomputed_virtual
from lakehouse.ddl_effects import Clear
from lakehouse.events import MIN_POSITION, Position, just_below
from lakehouse.lineage import Interval, Lineage, Name, Step
from lakehouse.schema import GoldKeeps, TableSchema, name_key
from lakehouse.schema_history.name_matching import LiveTables, of_database
from lakehouse.schema_history.schema_records import (
    Shape,
    inferred_schema,
    lost_labels,
    replaced,
    with_ids_of,
)

EMPTY = TableSchema((), inferred=True)
_GONE = ""  # the charset of a database that was dropped

NO_CREATE = "no CREATE was seen: its schema is inferred from the messages"
MAYBE_OLDER = (
    "its CREATE has IF NOT EXISTS: if it was there before, its rows of then are unknown, and so is its schema"
)
NO_ROWS = (
    "a snapshot has told its schema and was not seen to read its rows: those from before it are unknown, "
    "until `lakehouse snapshot` or `lakehouse import` reads them"
)
# what a snapshot of all its rows ends
OLDER = frozenset({NO_CREATE, MAYBE_OLDER, NO_ROWS})
SEQUENCE = "it is a sequence of MariaDB, which has one row and logs each new one as an INSERT"
_SEQUENCE_COLUMNS = (
    "next_not_cached_value minimum_value maximum_value start_value increment cache_size cycle_option "
    "cycle_count"
)
UNSEEN = (
    "a RENAME gave it the name of a known table, and its own rows from before its first message are unknown"
)


class Sightings(Protocol):
    """The rows that silver has of each name."""

    def names(self) -> Iterable[Name]: ...

    def maybe(self, name: Name, low: Position, high: Position | None) -> bool:
        """Whether rows of the name between the places may exist; cheap, and never wrongly no."""

    def shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        """The shape of the rows between the places, or None where there are none."""

    def key_names(self, name: Name) -> tuple[str, ...]: ...


def lineage_id(name: Name, position: Position) -> str:
    """The id of a table that begins here: its name and its position, without the zeros at the end."""
    parts = max((i for i, part in enumerate(position) if part), default=0) + 1
    return f"{name[0]}.{name[1]}@{'.'.join(map(str, position[:parts]))}"


def one_of_equals(lineages: Iterable[Lineage | None]) -> Lineage | None:
    """One of the tables where all have the same columns and keys, None where they have not."""
    found = list(lineages)
    schemas = [None if one is None else one.source_schema for one in found]
    return found[0] if found and schemas.count(schemas[0]) == len(schemas) else None


class DatabaseCharsets:
    """The charsets that tables of each database have where their statements name none, as far as statements
    and `server`, the source's own default, tell it.
    """

    def __init__(self, server: str | None) -> None:
        self.server = server
        self._told: dict[str, str | None] = {}

    def of(self, database: str) -> str | None:
        """The charset of tables to come, None where it is not known."""
        return self._told.get(name_key(database), self.server) or None

    def tell(self, database: str, charset: str | None, *, if_not_exists: bool) -> None:
        """Note a database's charset, None for the server's. Where it may be there already, with a charset of
        its own, another one than the server's is not known.
        """
        key, told = name_key(database), charset or self.server
        if not if_not_exists or self._told.get(key) == _GONE:
            self._told[key] = told
        elif key not in self._told and told != self.server:
            self._told[key] = None

    def drop(self, database: str) -> None:
        self._told[name_key(database)] = _GONE


class Lives:
    """The lineages so far: those that are live, by name, those that ended, and since when a name is free. Not
    `ordered`: places of different partitions do not compare. `logs` are the tables whose log goes on when
    they are created again.
    """

    def __init__(
        self,
        sightings: Sightings,
        ordered: bool,
        logs: frozenset[Name] = frozenset(),
        charset: str | None = None,
    ) -> None:
        self.sightings, self.ordered, self.logs = sightings, ordered, logs
        self.charsets = DatabaseCharsets(charset)
        self.virtual = False  # rows carry VIRTUAL columns, as a binlog's do
        self.live = LiveTables()
        self.free_since: dict[Name, Position] = {}
        self.ended: dict[Name, Lineage] = {}
        self.lineages: list[Lineage] = []

    def begin(self, name: Name, position: Position, schema: TableSchema, ddl: str | None = None) -> Lineage:
        """A new table of that name; or a dropped one that goes on, where gold keeps its log."""
        if name in self.logs and name in self.ended and schema.columns:
            return self._go_on(name, position, schema, ddl)
        lineage = Lineage(
            lineage_id(name, position),
            [Step(position, schema, (), ddl)],
            [Interval(name, position, None)],
        )
        lineage.key_names = self._named_key(name, schema, ddl)
        lineage.incomplete += [(position, why) for why in lost_labels(schema)]
        self.lineages.append(lineage)
        self.live[name] = lineage
        return lineage

    def restore_cleared(self, lineage: Lineage, name: Name, position: Position) -> Lineage:
        """A table of the rows that a TRUNCATE has taken from another one, with its columns of then."""
        steps = lineage.steps
        cleared = [one.schema for one in steps if any(isinstance(effect, Clear) for effect in one.effects)]
        return self.begin(name, position, cleared[-1] if cleared else EMPTY)

    def _go_on(self, name: Name, position: Position, schema: TableSchema, ddl: str | None) -> Lineage:
        """The dropped table of a name, empty from its end on, and created again with another schema."""
        lineage = self.ended.pop(name)
        before, end = lineage.steps[-1].schema, lineage.end or position
        following = replace(with_ids_of(before, schema), keeps=GoldKeeps())
        if end < position:
            # a step without a statement would be a snapshot, which may send the rows again
            lineage.steps.append(Step(end, before, (Clear(),), "DROP TABLE"))
        created = (Clear(), *replaced(before, following))
        lineage.steps.append(Step(position, following, created, ddl or "CREATE TABLE"))
        lineage.intervals.append(Interval(name, position, None))
        lineage.key_names = lineage.key_names or self._named_key(name, schema, ddl)
        lineage.end, self.live[name] = None, lineage
        return lineage

    def _named_key(self, name: Name, schema: TableSchema, ddl: str | None) -> tuple[str, ...]:
        """The key that messages name, for schema records without one. A CREATE and an inferred schema have
        the key of their own time: another table may have had the name, or this one another key.
        """
        return () if ddl is not None or schema.inferred else self.sightings.key_names(name)

    def settle_keys(self) -> None:
        """Where several tables have had one name, the key that messages name is that of each one's own
        rows: of an exchange of names one table may have a key and the other none. So it is where a later
        snapshot begins anew: the table may have been another one by then.
        """
        holders = Counter(
            name for one in self.lineages for name in {interval.name for interval in one.intervals}
        )
        for lineage in self.lineages:
            first = lineage.steps[0]
            if first.ddl is not None or first.schema.inferred:
                continue
            end = next((step.position for step in lineage.steps[1:] if step.ddl is None), None)
            if end or any(holders[one.name] > 1 for one in lineage.intervals):
                lineage.key_names = self._key_of_rows(lineage, end)

    def _key_of_rows(self, lineage: Lineage, end: Position | None) -> tuple[str, ...]:
        for one in lineage.intervals:
            high = min(filter(None, (one.high, end)), default=None)
            if (end is None or one.low < end) and self.sightings.maybe(one.name, one.low, high):
                shape = self.sightings.shape(one.name, one.low, high)
                if shape is not None and shape.key_names:
                    return shape.key_names
        return ()

    def drop(self, name: Name, position: Position) -> None:
        """End the table of a name, if there is one."""
        lineage = self.find(name, position)
        if lineage is not None:
            self.anchor(lineage, position)
            lineage.end = position
            self._close(name, position)
            self.ended[name] = lineage

    def _close(self, name: Name, position: Position) -> Lineage:
        lineage = self.live.take(name)
        last = lineage.intervals[-1]
        lineage.intervals[-1] = replace(last, high=position)
        self.free_since[name] = position
        return lineage

    def find(self, name: Name, position: Position) -> Lineage | None:
        """The live lineage of a name, or a new one where rows of it were seen before `position`."""
        if name in self.live:
            return self.live[name]
        low = self.free_since.get(name, MIN_POSITION)
        if not self.sightings.maybe(name, low, position):
            return None
        shape = self.sightings.shape(name, low, position)
        return None if shape is None else self.adopt(name, low, shape)

    def present(self, position: Position, database: str | None = None) -> list[Name]:
        """The tables of a database, or of all: the live ones, and those of which only rows came before
        `position`.
        """
        low, maybe = self.free_since, self.sightings.maybe
        unseen = [
            name
            for name in sorted(self.sightings.names())
            if name not in self.live and maybe(name, low.get(name, MIN_POSITION), position)
        ]
        names = [*self.live, *unseen] if database is None else of_database([*self.live, *unseen], database)
        return [name for name in names if self.find(name, position) is not None]

    def adopt(self, name: Name, low: Position, shape: Shape) -> Lineage:
        """Rows under a name without a live table: the last one reopened, else a table that was there before
        the feed.
        """
        if name in self.ended:
            return self.reopen(
                name, max(low, just_below(shape.first)), "rows came after its DROP: it was recovered upstream"
            )
        lineage = self.begin(name, low, inferred_schema(shape))
        lineage.since = shape.first
        lineage.notes.append(NO_CREATE)
        if set(_SEQUENCE_COLUMNS.split()) == shape.types.keys():
            lineage.incomplete.append((lineage.start, SEQUENCE))
        if name in self.free_since:  # renamed away: a table that the feed leaves out has got its name
            lineage.incomplete.append((lineage.start, UNSEEN))
        return lineage

    def is_unnamed(self, name: Name, position: Position) -> bool:
        """Whether rows of a name came before `position`, though no statement has named a table so."""
        return not {name} & (self.live.keys() | self.ended.keys()) and self.sightings.maybe(
            name, self.free_since.get(name, MIN_POSITION), position
        )

    def has_rows_between(self, name: Name, low: Position, high: Position | None) -> bool:
        """Whether rows of a name may come between two places; where places do not compare, anywhere, unless
        a later CREATE has the name.
        """
        if not self.ordered:
            return high is None and self.sightings.maybe(name, MIN_POSITION, None)
        return self.sightings.maybe(name, low, high)

    def adopt_unseen(self) -> None:
        """Begin a table for each name with rows that no statement names."""
        for name in self.sightings.names():
            low = self.free_since.get(name, MIN_POSITION)
            if name not in self.live and self.sightings.maybe(name, low, None):
                shape = self.sightings.shape(name, low, None)
                if shape is not None:
                    self.adopt(name, low, shape)

    def reopen(self, name: Name, position: Position, why: str) -> Lineage:
        lineage = self.ended.pop(name)
        lineage.end = None
        lineage.intervals.append(Interval(name, position, None))
        lineage.incomplete.append((position, why))
        self.live[name] = lineage
        return lineage

    def get(self, name: Name, position: Position) -> Lineage:
        """The lineage that a DDL of a name is about; one without columns where nothing was seen of it."""
        found = self.find(name, position)
        if found is not None:
            return found
        lineage = self.begin(name, self.free_since.get(name, MIN_POSITION), EMPTY)
        lineage.since = position
        lineage.notes.append(NO_CREATE)
        return lineage

    def rename(self, old: Name, new: Name, position: Position, *, tells_all: bool = False) -> None:
        """Give a table another name; a table that has that name ends. `tells_all`: statements come of tables
        too whose rows the producer leaves out.
        """
        lineage = self.get(old, position)
        unknown = NO_CREATE in lineage.notes and self._was_known(new, lineage)
        if unknown or (tells_all and self._may_be_left_out(lineage, new)):
            lineage.incomplete.append((position, UNSEEN))
        if new in self.live and self.live[new] is not lineage:
            self.drop(new, position)
        if not self._rename_anchored(lineage, position):
            lineage.notes.append(f"its shape before the rename from {'.'.join(old)} is not known")
        self._close(old, position)
        lineage.intervals.append(Interval(new, self.low(new, position), None))
        self.live[new] = lineage
        self.ended.pop(new, None)
        lineage.key_names = lineage.key_names or self._named_key(
            new, lineage.steps[-1].schema, lineage.steps[0].ddl
        )

    def _was_known(self, name: Name, besides: Lineage) -> bool:
        """Whether the table that has a name, or had it last, is known since its CREATE: a ghost table that
        the feed leaves out takes its place with rows that no message has told.
        """
        lows = [
            (interval.low, NO_CREATE not in one.notes)
            for one in self.lineages
            for interval in one.intervals
            if interval.name == name and one is not besides
        ]
        return max(lows, default=(MIN_POSITION, False))[1]

    def _may_be_left_out(self, lineage: Lineage, new: Name) -> bool:
        """Whether no row of a table's own names has ever come, though some have of the name that it takes: an
        empty table, or a ghost table whose rows are left out.
        """
        names = {interval.name for interval in lineage.intervals}
        maybe = self.sightings.maybe
        return maybe(new, MIN_POSITION, None) and not any(maybe(name, MIN_POSITION, None) for name in names)

    def low(self, name: Name, position: Position) -> Position:
        """From where on rows of a name are those of the table that has it since `position`."""
        return position if self.ordered else self.free_since.get(name, MIN_POSITION)

    def _rename_anchored(self, lineage: Lineage, position: Position) -> bool:
        self.anchor(lineage, position)
        return bool(lineage.steps[-1].schema.columns) or lineage.steps[-1].position == MIN_POSITION

    def anchor(self, lineage: Lineage, position: Position | None) -> None:
        """Give a lineage without columns the schema that its rows since its last step show.

        Only rows up to `position` count, so that the schema never depends on how far silver had come: of
        INSERT (a), ALTER … ADD b, INSERT (a, b) the first step has a alone, and the ALTER adds b.
        """
        last = lineage.steps[-1]
        interval = lineage.intervals[-1]
        if last.schema.columns or not self.sightings.maybe(interval.name, interval.low, position):
            return
        shape = self.sightings.shape(interval.name, max(interval.low, last.position), position)
        if shape is not None:
            lineage.steps[-1] = replace(last, schema=inferred_schema(shape))


def without_virtual_keys(steps: list[Step]) -> list[Step]:
    """The steps without the unique keys of VIRTUAL columns, by which no row can be told where rows lack them:
    TiCDC's handle key is another one then.
    """
    found = []
    for step in steps:
        virtual = {column.id for column in step.schema.columns if column.generated == "virtual"}
        keys = tuple(key for key in step.schema.unique_keys if not virtual.intersection(key))
        is_same = len(keys) == len(step.schema.unique_keys)
        found.append(step if is_same else replace(step, schema=replace(step.schema, unique_keys=keys)))
    return found


def with_virtual(steps: list[Step]) -> list[Step]:
    """The steps with what each does to VIRTUAL columns; a table that was created again has no row yet."""
    following = [
        after
        if any(isinstance(effect, Clear) for effect in after.effects)
        else replace(
            after, effects=(*recomputed_virtual(before.schema, after.schema, after.effects), *after.effects)
        )
        for before, after in pairwise(steps)
    ]
    return [*steps[:1], *following]
