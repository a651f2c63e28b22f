"""Several source tables merged into one gold table: which lineages they are, and their common columns.

Gold's rows say in `_shard` which table they come from, and that is part of their key. So no shard's row
stands in the way of another's: a key that two shards have is two rows, which is reported. Where shards have
different columns, gold has all of them, null where a shard has none; where a column's types differ it has the
wider integer, else text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from msgspec import structs

from lakehouse.events import Position
from lakehouse.gold.columns import GoldColumn, gold_column
from lakehouse.gold.options import PLAIN, ColumnOptions, GoldOptions
from lakehouse.lineage import Lineage, Name

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def options_for(name: Name, said: Mapping[Name, GoldOptions]) -> GoldOptions | None:
    """The options of a name: its own YAML's, else those of a pattern that it matches."""
    if name in said:
        return said[name]
    patterns = (pattern for pattern in sorted(said) if "*" in pattern[0] + pattern[1])
    return next(
        (
            said[pattern]
            for pattern in patterns
            if fnmatchcase(name[0], pattern[0]) and fnmatchcase(name[1], pattern[1])
        ),
        None,
    )


def misspelled(said: Mapping[Name, GoldOptions], names: Iterable[Name]) -> list[str]:
    """The names and patterns of YAMLs that mean no table of the source, but would in other letters: what they
    say, such as a mask, holds for none.
    """
    known = sorted(set(names))
    folded = {(name[0].casefold(), name[1].casefold()): name for name in known}
    found = []
    for name in sorted(said):
        if any(options_for(one, {name: PLAIN}) is not None for one in known):
            continue
        likely = {(name[0].casefold(), name[1].casefold()): PLAIN}
        meant = next((one for other, one in folded.items() if options_for(other, likely) is not None), None)
        if meant is not None:
            found.append(
                f"{'.'.join(name)}: its YAML means no table, for the source has {'.'.join(meant)}: upper and "
                "lower case are told apart"
            )
    return found


def names_until(lineage: Lineage, at: Position | None) -> list[Name]:
    """The names that a table has had up to `at` (None: to the end), the newest first; its first one in any
    case.
    """
    first, *others = lineage.intervals
    had = [interval.name for interval in others if at is None or interval.low <= at]
    return [*reversed(had), first.name]


def said_of(lineage: Lineage, said: Mapping[Name, GoldOptions], at: Position | None = None) -> GoldOptions:
    """What the YAML of a table says: of the newest of its names up to `at` that has one."""
    candidates = (options_for(name, said) for name in names_until(lineage, at))
    return next((options for options in candidates if options is not None), PLAIN)


def options_of(lineage: Lineage, said: Mapping[Name, GoldOptions], at: Position | None = None) -> GoldOptions:
    """The options of a table: what its YAML says, but that what hides a column hides it under
    every name that it ever had, but for names of which the YAML says something else: a RENAME at the source
    shows nothing. A RENAME above `at` is still to come.
    """
    options = said_of(lineage, said, at)
    hiding = {
        name.lower(): ColumnOptions(exclude=one.exclude, mask=one.mask, hash=one.hash)
        for name, one in options.columns.items()
        if one.exclude or one.mask or one.hash
    }
    if not hiding:
        return options
    columns = [column for step in lineage.steps for column in step.schema.columns]
    hidden = {column.id: hiding[column.name.lower()] for column in columns if column.name.lower() in hiding}
    named = {name.lower() for name in options.columns}
    others = {
        column.name: hidden[column.id]
        for column in columns
        if column.id in hidden and column.name.lower() not in named
    }
    return structs.replace(options, columns={**options.columns, **others}) if others else options


def is_displaced(
    lineage: Lineage, name: Name, live: Iterable[Name | None], said: Mapping[Name, GoldOptions]
) -> bool:
    """Whether a YAML means a table, `name` by now, by a former name alone, which another one of the `live`
    names is today: the old table of an online schema change.
    """
    former = {interval.name for interval in lineage.intervals} - {name}
    return options_for(name, said) is None and not former.isdisjoint(live)


def living_shards(
    shards: Iterable[tuple[Lineage, Position]], said: Mapping[Name, GoldOptions]
) -> list[Lineage]:
    """The shards that live right after a position, each at its own, in the order of their names."""
    named = sorted((name, one.id, one) for one, at in shards if (name := one.name_at(at)) is not None)
    names = [name for name, *_ in named]
    return [one for name, _, one in named if not is_displaced(one, name, names, said)]


def shards_id(options: GoldOptions) -> str:
    """What stands for the lineage in the entry of a table of several shards."""
    return f"shards of {options.merged}"


def split_shards(
    lineages: Iterable[Lineage],
    said: Mapping[Name, GoldOptions],
    end: Position | None = None,
    places: Mapping[str, Position] = {},
) -> tuple[list[Lineage], list[tuple[list[Lineage], GoldOptions]]]:
    """The lineages that are tables of their own at `end`, and those that form a table together. `places`:
    where those stand, by id, that are held before it. One that is to be merged by a later RENAME is a table
    of its own there, and the merged one has it too, since it waits for it.
    """
    alone: list[Lineage] = []
    together: dict[str, tuple[list[Lineage], GoldOptions]] = {}
    for lineage in lineages:
        then = options_of(lineage, said, end)
        now = options_of(lineage, said, places[lineage.id]) if lineage.id in places else then
        if not now.merged:
            alone.append(lineage)
        for options in {one.merged: one for one in (then, now) if one.merged}.values():
            others, shared = together.get(options.merged, ([], options))
            shared = structs.replace(shared, columns={**shared.columns, **options.columns})
            together[options.merged] = ([*others, lineage], shared)
    return alone, list(together.values())


def aligned(shards: Mapping[str, list[GoldColumn]]) -> tuple[dict[str, list[GoldColumn]], list[str]]:
    """Each shard's columns in the one order and types that gold has, and how the shards differ."""
    spellings: dict[str, GoldColumn] = {}
    for columns in shards.values():
        for column in columns:
            spellings.setdefault(column.name.lower(), column)
    order = sorted(spellings.values(), key=lambda column: column.column.id < 0)
    held = {shard: {column.name.lower(): column for column in columns} for shard, columns in shards.items()}
    notes: list[str] = []
    types = {column.name.lower(): _one_type(column.name, held, notes) for column in order}
    for column in order:
        missing = [shard for shard, columns in held.items() if column.name.lower() not in columns]
        if missing:
            notes.append(f"{', '.join(missing)}: no column {column.name}, which other shards have")
    return {
        shard: [
            _aligned(column, columns.get(column.name.lower()), types[column.name.lower()]) for column in order
        ]
        for shard, columns in held.items()
    }, notes


def _one_type(name: str, held: Mapping[str, Mapping[str, GoldColumn]], notes: list[str]) -> str:
    types = {shard: columns[name.lower()].spark for shard, columns in held.items() if name.lower() in columns}
    different = sorted(set(types.values()))
    if len(different) == 1:
        return different[0]
    chosen = max(different, key=INTEGERS.index) if set(different) <= set(INTEGERS) else "STRING"
    notes.append(
        f"column {name}: {', '.join(f'{type_} in {shard}' for shard, type_ in types.items())}; gold has "
        f"{chosen}"
    )
    return chosen


def _aligned(wanted: GoldColumn, own: GoldColumn | None, spark: str) -> GoldColumn:
    """The column of one shard as gold has it: under gold's name and type; a column that the shard has not has
    no id.
    """
    column = own or replace(wanted, column=replace(wanted.column, id=0))
    renamed = replace(column, column=replace(column.column, name=wanted.name), companion=wanted.companion)
    if spark == column.spark or column.column.id < 0:
        return renamed
    typed = gold_column(renamed.column, spark, wanted.companion, renamed.mask)
    return typed if spark in INTEGERS else replace(typed, to_canonical=lambda value: value)
