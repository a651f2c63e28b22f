"""The names of gold's Delta tables, and which of them a source table's rows are in, from run to run.

    the last manifest's tables, the tables that live now ─holders─▶ lineage → Delta table

A Delta table is made for a name, and it goes on under that name: of DROP and CREATE the new table takes it
over, and so does a table that a RENAME brings under the name (gh-ost, a swap). Else whoever reads it would
read what the source had yesterday. A table that is renamed while nobody takes its name keeps its Delta table.

    DROP t, CREATE t               the second t takes the first one's Delta table
    RENAME t TO u                  u stays in the Delta table of t
    RENAME t TO u, CREATE t        t takes it, u gets one of its own
    RENAME t TO x, u TO t, x TO u  both take each other's
"""

import hashlib
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from msgspec import UNSET

from lakehouse.events import Position
from lakehouse.lineage import Held, Lineage, Name
from lakehouse.ops.records.gold import TableEntry

# of a folder's name on most file systems 255 are allowed; what is appended to a taken name needs some
NAME_BYTES = 200


class Made(NamedTuple):
    """A Delta table of the last manifest: its name in gold, the lineage whose rows it has, the source's name
    that it was made for, and the name in gold that it would have if that were free.
    """

    gold: str
    lineage: str
    made_for: Name
    wanted: str


class Live(NamedTuple):
    """A table that lives: its lineage, its name now, and the name in gold that a new Delta table of it would
    have if that were free.
    """

    lineage: str
    name: Name
    wanted: str


def made_of(entry: TableEntry) -> Made:
    """The Delta table of an entry. Older manifests do not say for which of the table's names it was made."""
    wanted = entry.wanted or entry.gold
    likely = (name for name in entry.names if plain_name(name, None) == wanted)
    made_for = next(likely, entry.names[0]) if entry.made_for is UNSET else entry.made_for
    return Made(entry.gold, entry.lineage, made_for, wanted)


def holders(made: Sequence[Made], live: Sequence[Live]) -> dict[str, str]:
    """The Delta table of each lineage that lives and has one, or takes one over; no two have the same."""
    own = {table.lineage: table for table in made}
    has = {one.lineage: own[one.lineage].gold for one in live if _fits(one, own.get(one.lineage))}
    for one in live:
        if one.lineage not in has and (table := _left(one, made, has.values())) is not None:
            has[one.lineage] = table.gold
    for one in live:
        if one.lineage not in has and one.lineage in own and own[one.lineage].gold not in has.values():
            has[one.lineage] = own[one.lineage].gold
    return has


def _fits(one: Live, table: Made | None) -> bool:
    """Whether a Delta table was made for the table's name, and is no copy of a dropped one that stays
    aside.
    """
    return table is not None and (table.made_for, table.wanted) == (one.name, one.wanted)


def _left(one: Live, made: Iterable[Made], taken: Iterable[str]) -> Made | None:
    """The Delta table that was made for the table's name, and that no table of this name has; of several the
    one that came last.
    """
    held = set(taken)
    fits = [table for table in made if _fits(one, table) and table.gold not in held]
    return fits[-1] if fits else None


class NamesHeld(NamedTuple):
    """`kept`: names of tables that a policy holds right before the statement that takes their names away.
    `waits`: what holds the tables that have those names since; both by lineage.
    """

    kept: dict[str, Name]
    waits: dict[str, Held]


def names_held(lineages: Sequence[Lineage], at: Position, made: Container[str]) -> NamesHeld:
    """The names that stay with held tables, of lineages that gold has (`made`), up to `at`: whoever holds a
    DROP or RENAME keeps the table's rows where readers look for them, whatever has its name at the source.
    """
    found = NamesHeld({}, {})
    for old in lineages:
        held = old.held
        if held is None or held.by not in ("hold", "reject") or held.position > at or old.id not in made:
            continue
        for interval in old.intervals:
            if interval.high == held.position:
                found.kept[old.id] = interval.name
                found.waits.update(_waits(old, interval.name, lineages, made))
    return found


def _waits(
    old: Lineage, name: Name, lineages: Iterable[Lineage], made: Container[str]
) -> Iterator[tuple[str, Held]]:
    held = old.held
    assert held is not None
    for other in lineages:
        lows = [one.low for one in other.intervals if one.name == name and one.low >= held.position]
        if other is old or not lows or (other.id in made and min(lows) <= other.start):
            continue  # one that was published as the table of that name stays it
        why = f"it has the name of {'.'.join(name)}, which is held: {held.why}"
        yield other.id, Held(min(lows), why, None, "name")


# --- names


def plain_name(name: Name, target: str | None) -> str:
    """The gold name that a table takes if it is free: its YAML's, else `db__table`, shortened where a folder
    could not have it.
    """
    joined = f"{name[0]}__{name[1]}"
    return target or shortened("".join(char if char.isalnum() or char == "_" else "_" for char in joined))


def shortened(name: str) -> str:
    """The name, or where a folder or file could not have it its beginning and a hash of all of it."""
    encoded = name.encode()
    if len(encoded) <= NAME_BYTES:
        return name
    digest = hashlib.blake2b(encoded, digest_size=6).hexdigest()
    return f"{encoded[: NAME_BYTES - len(digest) - 1].decode(errors='ignore')}_{digest}"


def free_of(taken: set[str], names: Iterable[str]) -> str:
    """The first name that is not taken, in any case of letters; it is taken from now on."""
    name = next(name for name in names if name.casefold() not in taken)
    taken.add(name.casefold())
    return name


def numbered(wanted: str) -> Iterator[str]:
    """The name, then the name with numbers behind it."""
    yield wanted
    yield from (f"{wanted}_{number}" for number in count(2))
