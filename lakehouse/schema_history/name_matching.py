"""Matching the table names in statements with the names in messages, which may be spelled differently.

A statement is logged as its author wrote it, while rows carry the server's own spelling. Where names are not
case-sensitive (TiDB; MySQL with lower_case_table_names=1), `ALTER TABLE ORDERS` is about `orders`; where they
are, both are tables. And TiCDC names a renamed table's new database only, so an old name without a database
may belong to another one. Hence a name is taken literally wherever something of that spelling is known, and
only else as the one table it can mean.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from lakehouse.events import Position
from lakehouse.lineage import Lineage, Name
from lakehouse.schema import name_key
from lakehouse.schema_history.schema_records import Record


def folded(name: Name) -> Name:
    """The name without its case."""
    return (name_key(name[0]), name_key(name[1]))


def of_database(names: Iterable[Name], database: str) -> list[Name]:
    """The names in a database, spelled as it is or, where there are none, in another case."""
    names = list(names)
    return [name for name in names if name[0] == database] or [
        name for name in names if name_key(name[0]) == name_key(database)
    ]


class LiveTables(dict[Name, Lineage]):
    """Lineages by name, of which those are found at once that a name in another case may mean: there are
    thousands of tables, and feeds with a DROP TABLE IF EXISTS before each CREATE.
    """

    def __init__(self) -> None:
        super().__init__()
        self._spelled: dict[Name, dict[Name, None]] = {}

    def __setitem__(self, name: Name, lineage: Lineage) -> None:
        super().__setitem__(name, lineage)
        self._spelled.setdefault(folded(name), {})[name] = None

    def take(self, name: Name) -> Lineage:
        """Remove a name that is there; gives its lineage."""
        del self._spelled[folded(name)][name]
        return super().pop(name)

    def alike(self, name: Name) -> list[Name]:
        """The names that differ from this one in case at most."""
        return list(self._spelled.get(folded(name), ()))


def _alike(tables: Iterable[Name], name: Name) -> list[Name]:
    return [table for table in tables if folded(table) == folded(name)]


class Spelling:
    """The names that rows have, and those that a CREATE TABLE has, each with its places in order. `lowered`
    are names of rows that no statement has spelled so. `rows_between`: whether rows of a name may come
    between two places.
    """

    def __init__(
        self,
        sighted: Iterable[Name],
        records: Iterable[Record],
        rows_between: Callable[[Name, Position, Position | None], bool],
    ) -> None:
        self.sighted, self.rows_between = frozenset(sighted), rows_between
        self.alike: dict[Name, list[Name]] = defaultdict(list)
        for name in sorted(self.sighted):
            self.alike[folded(name)].append(name)
        self.lowered: set[Name] = set()
        self.created: dict[Name, list[Position]] = defaultdict(list)
        for record in records:
            if record.table is not None and (record.ddl or "").lstrip()[:6].upper() == "CREATE":
                self.created[record.database, record.table].append(record.position)

    def existing(self, record: Record, written: tuple[str | None, str], tables: Collection[Name]) -> Name:
        """The one of `tables` that a name in a statement means, or of which only rows are known; the name
        itself if it means none of them.
        """
        name = (written[0] or record.database, written[1])
        if name in tables:
            return name
        spelled = self.of_message(record, name)
        if spelled in tables or {name, spelled} <= self.sighted:
            return spelled
        if name in self.sighted:  # a storage sink's path lowers names that no other file spells
            return name
        known = tables.alike(name) if isinstance(tables, LiveTables) else _alike(tables, name)
        alike = known or self.alike.get(folded(name), [])
        return alike[0] if len(alike) == 1 else spelled

    def of_new(
        self,
        record: Record,
        written: tuple[str | None, str],
        tables: Collection[Name],
        old: Name | None,
        *,
        there: bool,
    ) -> Name:
        """How rows will spell the name of a table that a statement creates, or to which it renames `old`: a
        server that lowers names sends rows under one that no statement has.
        """
        name = self.of_message(record, (written[0] or record.database, written[1]))
        alike = self.alike.get(folded(name), [])
        if old is not None and folded(old) == folded(name):
            self.lowered.discard(name)  # a server that lowers names has no such RENAME
        if name in self.sighted or len(alike) != 1:
            return name
        if alike[0] in tables and alike[0] != old:
            return alike[0] if there and alike[0] in self.lowered else name
        following = (place for place in self.created.get(alike[0], ()) if place > record.position)
        if not self.rows_between(alike[0], record.position, next(following, None)):
            return name
        if alike[0] != name:  # whoever lowers this name lowers it in every statement
            self.lowered.add(alike[0])
        return alike[0]

    def of_message(self, record: Record, name: Name) -> Name:
        """The name as the message's own fields spell it, where they have it."""
        fields = (record.database, record.table or "")
        return fields if folded(fields) == folded(name) else name
