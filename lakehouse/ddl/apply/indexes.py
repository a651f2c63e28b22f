"""Keys and indexes of the next schema: by column id, by name where DDL names them, with MySQL's names for
unnamed ones.
"""

from collections.abc import Iterable, Mapping, Sequence

from lakehouse.ddl import edits as e
from lakehouse.ddl.definitions import ColumnDef
from lakehouse.errors import DdlError
from lakehouse.schema import Column, Index, TableSchema, name_key

Ids = tuple[int, ...]


class Keys:
    """The keys while a statement is applied; columns are looked up in the *next* schema."""

    def __init__(self, columns: Sequence[Column], inferred: bool = False) -> None:
        self.columns = {name_key(column.name): column for column in columns}
        self.names = {column.id: column.name for column in columns}
        self.inferred = inferred
        self.primary: Ids = ()
        self.indexes: list[Index] = []
        self.known: set[str] = (
            set()
        )  # the names that conditions look at: those before the statement, and those that it adds

    @property
    def unique(self) -> tuple[Ids, ...]:
        return tuple(index.columns for index in self.indexes if index.unique)

    def ids(self, names: Iterable[str]) -> Ids:
        """The ids of these columns; DdlError for one that is not there."""
        found = []
        for name in names:
            column = self.columns.get(name_key(name))
            if column is None:
                raise DdlError(f"key column {name}: expected a column of the table, got none of that name")
            found.append(column.id)
        return tuple(found)

    def set_primary(self, names: Iterable[str]) -> None:
        if self.primary and not self.inferred:
            raise DdlError("primary key: expected none before another is added, got one")
        self.primary = self.ids(names)

    def add(self, names: tuple[str, ...], name: str | None, unique: bool, taken: Iterable[str] = ()) -> None:
        known = tuple(column for column in names if name_key(column) in self.columns)
        unique = unique and not (self.inferred and known != names)
        ids = self.ids(names) if unique else self.ids(known)
        name = name or self._free_name(names, taken)
        self.known.add(name_key(name))
        self.indexes.append(Index(name, ids, unique and bool(ids)))

    def _free_name(self, names: tuple[str, ...], taken: Iterable[str]) -> str:
        """The first column's name, with _2, _3 … where an index has that already."""
        used = (
            {name_key(index.name) for index in self.indexes}
            | {name_key(name) for name in taken}
            | {"primary"}
        )
        first = names[0] if names else "functional_index"
        number, name = 1, first
        while name_key(name) in used:
            number += 1
            name = f"{first}_{number}"
        return name

    def keep(self, old: TableSchema) -> None:
        """Add the keys that the table has, over columns that may be dropped."""
        self.primary, self.indexes = old.primary_key, list(named_indexes(old))
        self.known = {name_key(index.name) for index in self.indexes} | (
            {"primary"} if old.primary_key else set()
        )

    def follow(self, successors: Mapping[int, int]) -> None:
        """Give the kept keys the columns that took the place of theirs; an index goes with its last
        column.
        """
        self.primary = _followed(self.primary, successors)
        moved = [
            Index(index.name, _followed(index.columns, successors), index.unique) for index in self.indexes
        ]
        self.indexes = [index for index in moved if index.columns]

    def exists(self, columns: Sequence[str], name: str | None) -> bool:
        """Does IF NOT EXISTS find the index? An unnamed one is looked for by its first column's name."""
        return name_key(name or next(iter(columns), "")) in self.known


def _followed(ids: Ids, successors: Mapping[int, int]) -> Ids:
    return tuple(successors[column] for column in ids if column in successors)


def named_indexes(schema: TableSchema) -> tuple[Index, ...]:
    """The schema's indexes; unnamed unique keys get the names that MySQL would have given them."""
    if tuple(index.columns for index in schema.indexes if index.unique) == schema.unique_keys:
        return schema.indexes
    keys = Keys(schema.columns)
    keys.indexes = [index for index in schema.indexes if not index.unique]
    for key in schema.unique_keys:
        keys.add(tuple(keys.names[column] for column in key), None, True)
    return tuple(keys.indexes)


def drop_and_rename(keys: Keys, edits: Iterable[e.Edit]) -> None:
    """The clauses that take keys away, which come before those that add; all name indexes as they are before
    the statement.
    """
    gone: set[str] = set()
    renamed: dict[str, str] = {}
    for edit in edits:
        match edit:
            case e.DropPrimaryKey(if_exists):
                _drop_primary(keys, if_exists)
            case e.DropIndex(name, if_exists) if name_key(name) == "primary":
                _drop_primary(keys, if_exists)
            case e.DropIndex(name):
                gone.add(name_key(name))
            case e.RenameIndex(name, to):
                renamed[name_key(name)] = to
    kept = [index for index in keys.indexes if name_key(index.name) not in gone]
    keys.indexes = [
        Index(renamed.get(name_key(index.name), index.name), index.columns, index.unique) for index in kept
    ]


def _drop_primary(keys: Keys, if_exists: bool) -> None:
    if not keys.primary and not if_exists and not keys.inferred:
        raise DdlError("DROP PRIMARY KEY: expected a table with a primary key, got one without")
    keys.primary = ()


def add_keys(keys: Keys, edits: Iterable[e.Edit]) -> None:
    """The clauses that add keys, in their order; a column's own PRIMARY KEY and UNIQUE too."""
    for edit in edits:
        match edit:
            case (
                e.AddColumn(column, _, condition)
                | e.ModifyColumn(column, _, condition)
                | e.ChangeColumn(_, column, _, condition)
            ):
                add_keys(keys, keys_of(column, condition))
            case e.AddPrimaryKey(columns, condition) if not (condition and "primary" in keys.known):
                keys.set_primary(columns)
            case e.AddUniqueKey(columns, name, condition) if not (condition and keys.exists(columns, name)):
                keys.add(columns, name, True)
            case e.AddIndex(columns, name, condition) if not (condition and keys.exists(columns, name)):
                keys.add(columns, name, False)


def keys_of(column: ColumnDef, condition: bool) -> list[e.Edit]:
    """The keys that a column's own definition asks for. They share its clause's condition, IF EXISTS too (run
    on MariaDB).
    """
    primary: list[e.Edit] = [e.AddPrimaryKey((column.name,), condition)] if column.primary_key else []
    return [*primary, e.AddUniqueKey((column.name,), None, condition)] if column.unique else primary
