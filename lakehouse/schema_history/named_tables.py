"""The tables that a statement changes: its message names one of them at most.

    database, table and text of a message ─tables_of─▶ Tables     RENAME a TO b, c TO d: a, b, c and d

Names are compared without case. A name without a database, in a statement that writes one elsewhere, is of
the session's, which no message tells: it may be of any.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from lakehouse.ddl import edits as E
from lakehouse.ddl.parse.recover import rewound
from lakehouse.ddl.parse.statements import read
from lakehouse.ddl.parse.targets import targets
from lakehouse.errors import DdlError
from lakehouse.lineage import Name
from lakehouse.schema import name_key
from lakehouse.schema_history.schema_records import Record

# a history is read in the same order each time, so that one of more statements would find none of them. A
# statement of 150 characters takes 2 KB
STATEMENTS = 65_536


@functools.lru_cache(maxsize=STATEMENTS)
def statements_of(sql: str) -> tuple[E.Statement, ...]:
    """The statements of a text; DdlError where it is not understood. The same ones are read run after run."""
    return tuple(map(_of_tables, read(sql)))


def _of_tables(statement: E.Statement) -> E.Statement:
    """A RENAME without its steps of temporary tables, which MariaDB logs too: of `a TO b, a TO c` the first
    is of the session's own a, which hides the other one until then.
    """
    if not isinstance(statement, E.RenameTable):
        return statement
    taken, pairs = set[E.Name](), list[tuple[E.Name, E.Name]]()
    for old, new in reversed(statement.pairs):
        if old not in taken:
            taken = taken - {new} | {old}
            pairs.insert(0, (old, new))
    return replace(statement, pairs=tuple(pairs))


_QUOTED = re.compile(r"`[^`]*`|((?:\b_\w+|\bCOMMENT )?)('(?:[^']|'')*')")
_PAIRED = re.compile(r"[^\\]|\\\\")


def as_parsed(ddl: str, server: str) -> str:
    """A statement as its server would write it. TiCDC, whose server is a TiDB, sends none as its author wrote
    it, but as TiDB's parser prints it: with quotes doubled, and backslashes in strings as they are. Those of
    a value (`_UTF8MB4'…'`) and a column's comment are doubled since TiDB 5.0, those of labels are not.
    """
    if server != "tidb" or "\\" not in ddl:
        return ddl
    return _QUOTED.sub(_escaped, ddl)


def _escaped(found: re.Match[str]) -> str:
    if not found[2] or (found[1] and _PAIRED.sub("", found[2]) == ""):
        return found[0]
    return found[0].replace("\\", 2 * "\\")


@dataclass(frozen=True, slots=True)
class Tables:
    """Names without case (None: any database), and databases of which it is every table (None: all are)."""

    names: frozenset[E.Name]
    databases: frozenset[str | None] = frozenset()

    def has(self, name: Name) -> bool:
        database, table = name_key(name[0]), name_key(name[1])
        if not self.databases.isdisjoint((database, None)):
            return True
        return not self.names.isdisjoint(((database, table), (None, table)))


def tables_of(database: str, table: str | None, ddl: str | None) -> Tables:
    """The tables that a record changes: its own and those that its statement names, none where that has no
    effect; all of its database where neither tells a table.
    """
    try:
        statements = [one for one in statements_of(ddl or "") if not isinstance(one, E.NoEffect)]
    except DdlError:
        return _of_unread(database, table, ddl or "")
    names = [name for statement in statements for name in _names(statement)]
    whole = [name for statement in statements for name in _databases(statement)]
    # a record without a statement is about its own table
    own = [(database, table)] if table and (statements or not ddl) else []
    return _tables(database, [*own, *names], whole)


def _of_unread(database: str, table: str | None, ddl: str) -> Tables:
    tables, whole = rewound(ddl)
    names = [*targets(ddl), *tables, *([(database, table)] if table else [])]
    if ddl.lstrip().upper().startswith("FLASHBACK CLUSTER"):
        return Tables(frozenset(), frozenset([None]))
    databases = [whole] if whole is not None else [] if names else [database]
    return _tables(database, names, databases)


def _tables(database: str, names: Sequence[E.Name], databases: Iterable[str]) -> Tables:
    anywhere = any(written is not None and written != database for written, _ in names)
    session = None if anywhere else name_key(database)
    found = ((session if own is None else name_key(own), name_key(table)) for own, table in names)
    return Tables(frozenset(found), frozenset(map(name_key, databases)))


def _databases(statement: E.Statement) -> list[str]:
    match statement:
        case E.DropDatabase(database):
            return [database]
        case E.RecoverDatabase(database, to):
            return [database, *([to] if to is not None else [])]
        case _:
            return []


def _names(statement: E.Statement) -> Iterator[E.Name]:
    match statement:
        case E.CreateTable() | E.CreateTableLike() | E.TruncateTable() | E.RecoverTable():
            yield statement.database, statement.table
            if isinstance(statement, E.RecoverTable) and statement.to is not None:
                yield statement.database, statement.to
        case E.AlterTable():
            yield statement.database, statement.table
            for edit in statement.edits:
                if isinstance(edit, E.RenameTo):
                    yield edit.to
                elif isinstance(edit, E.ExchangePartition):
                    yield edit.table
        case E.RenameTable(pairs):
            yield from (name for pair in pairs for name in pair)
        case E.DropTable(tables):
            yield from tables
        case _:
            pass


def names_of_hidden_session(statement: E.Statement) -> list[E.Name]:
    """The names of a RENAME of which some have no database, where the message has that of one that is
    written: of an ALTER with more clauses, and of the first new name of several.
    """
    names: list[E.Name] = []
    if isinstance(statement, E.AlterTable) and len(statement.edits) > 1:
        names = [(statement.database, statement.table)]
        names += [edit.to for edit in statement.edits if isinstance(edit, E.RenameTo)]
        is_first = statement.database is not None
    elif isinstance(statement, E.RenameTable):
        names = [name for pair in statement.pairs for name in pair]
        is_first = len(names) > 2 and names[1][0] is not None
    return names if names and is_first and any(database is None for database, _ in names) else []


# --- a RENAME over several names

Pair = tuple[Name, Name]


def _are_former_names(told: Mapping[Pair, str | None]) -> bool:
    """Whether these steps of one RENAME, with the table that each one's record names, all start from the
    names before the statement: a name is left twice, or names are exchanged (see `_are_in_turn`). A step from
    a name between is told under the table's last name, which is another one than the step's.
    """
    following = dict(told.keys())
    if any(name_key(table or "") != name_key(new[1]) for (_, new), table in told.items()):
        return False
    return len(following) < len(told) or any(_returns(old, following) for old in following)


def _returns(name: Name, following: Mapping[Name, Name]) -> bool:
    """Whether a name leads back to itself."""
    place = following.get(name)
    for _ in following:
        if place is None or place == name:
            break
        place = following.get(place)
    return place == name


def _are_in_turn(pairs: Iterable[Pair], is_taken: Callable[[Name], bool]) -> bool:
    """Whether steps can be done one after the other, in some order, each to a name that is free then, and
    leave no table with the name that it had. `is_taken`: before the statement.
    """
    left, before = list(pairs), dict[Name, Name]()
    held = {name for pair in left for name in pair if is_taken(name)}
    if len({old for old, _ in left}) < len(left):
        return False
    while left:
        coming = {new for _, new in left}
        ready = [one for one in left if one[1] not in held and (one[0] in held or one[0] not in coming)]
        if not ready or before.get(ready[0][0]) == ready[0][1]:
            return False
        old, new = ready[0]
        left.remove(ready[0])
        held = held - {old} | {new}
        before[new] = before.pop(old, old)
    return True


def in_steps(told: Mapping[Pair, str | None], is_taken: Callable[[Name], bool]) -> list[tuple[Pair, Pair]]:
    """Renames that start from the names before the statement, each with the step that it is: from the name
    that its table has by then. In their order where each new name is free then, else in one in which it is.
    Nothing of other renames. `told`: with the table of each one's record; `is_taken`: before the statement.
    """
    if not _are_former_names(told) or _are_in_turn(told, is_taken):
        return []
    pairs = list(told)
    return _walked(pairs, is_taken, in_order=True) or _walked(pairs, is_taken, in_order=False)


def _walked(
    pairs: Sequence[Pair], is_taken: Callable[[Name], bool], *, in_order: bool
) -> list[tuple[Pair, Pair]]:
    """Nothing where they can't be done in order. Names that are exchanged with none between go over one that
    no table has.
    """
    left, now, steps = list(pairs), dict[Name, Name](), list[tuple[Pair, Pair]]()
    olds = {old for old, _ in pairs}
    while left:
        times = Counter(old for old, _ in left)
        held = {*now.values(), *(old for old in olds if old not in now)}
        free = [pair for pair in left if pair[1] not in held and (pair[1] in now or not is_taken(pair[1]))]
        if in_order and left[0] not in free:
            return []
        pair = left[0] if in_order else max(free or left, key=lambda pair: times[pair[0]])
        old, new = now.get(pair[0], pair[0]), pair[1]
        if free:
            left.remove(pair)
        else:
            new = (new[0], f"{new[1]}#{len(steps)}")
        now[pair[0]] = new
        steps.append((pair, (old, new)))
    return steps


def at_one_place(records: Iterable[Record]) -> list[Record]:
    """The records in their order; such steps of one RENAME, which come one behind the other where order is
    arrival, at the place of the last one. Their time is one.
    """
    found: list[Record] = []
    for _, group in groupby(records, key=lambda one: (one.commit_ts, bool(_renamed(one)))):
        steps = list(group)
        told = {pair: one.table for one in steps for pair in _renamed(one)}
        if steps[0].commit_ts is not None and _are_former_names(told):
            steps = [replace(one, position=steps[-1].position) for one in steps]
        found += steps
    return found


def _renamed(record: Record) -> list[Pair]:
    """The one table that a record renames, its database said on both sides."""
    ddl = record.ddl or ""
    if not ddl.startswith("RENAME TABLE `"):
        return []
    try:
        (statement,) = statements_of(ddl)
    except (DdlError, ValueError):
        return []
    pairs = statement.pairs if isinstance(statement, E.RenameTable) else ()
    told = [((old[0], old[1]), (new[0], new[1])) for old, new in pairs if old[0] and new[0]]
    return told if len(told) == len(pairs) == 1 else []


def rename_of(old: Name, new: Name) -> str:
    """The statement of one step."""
    names = [".".join("`" + part.replace("`", "``") + "`" for part in name) for name in (old, new)]
    return f"RENAME TABLE {names[0]} TO {names[1]}"
