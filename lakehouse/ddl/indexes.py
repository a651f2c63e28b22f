"""Keys and indexes of the next schema: by id, by name where DDL names them, and with MySQL's names for unnamed ones."""

from collections.abc import Iterable, Sequence

from lakehouse.ddl import edits as e
from lakehouse.errors import DdlError
from lakehouse.schema import Column, Index, TableSchema

Ids = tuple[int, ...]


class Keys:
    """The keys while a statement is applied; columns are looked up among those of the *next* schema."""

    def __init__(self, columns: Sequence[Column], inferred: bool = False) -> None:
        self.columns = {column.name.casefold(): column for column in columns}
        self.names = {column.id: column.name for column in columns}
        self.inferred = inferred
        self.primary: Ids = ()
        self.indexes: list[Index] = []

    @property
    def unique(self) -> tuple[Ids, ...]:
        return tuple(index.columns for index in self.indexes if index.unique)

    def ids(self, names: Iterable[str]) -> Ids:
        """The ids of these columns; DdlError for one that is not there."""
        found = []
        for name in names:
            column = self.columns.get(name.casefold())
            if column is None:
                raise DdlError(f"key column {name}: expected a column of the table, got none of that name")
            found.append(column.id)
        return tuple(found)

    def set_primary(self, names: Iterable[str]) -> None:
        if self.primary and not self.inferred:
            raise DdlError("primary key: expected none before another is added, got one")
        self.primary = self.ids(names)

    def add(self, names: tuple[str, ...], name: str | None, unique: bool, taken: Iterable[str] = ()) -> None:
        known = tuple(column for column in names if column.casefold() in self.columns)
        unique = unique and not (self.inferred and known != names)
        ids = self.ids(names) if unique else self.ids(known)
        self.indexes.append(Index(name or self._free_name(names, taken), ids, unique and bool(ids)))

    def _free_name(self, names: tuple[str, ...], taken: Iterable[str]) -> str:
        """The first column's name, with _2, _3 … where an index has that already."""
        used = {index.name.casefold() for index in self.indexes} | {name.casefold() for name in taken} | {"primary"}
        first = names[0] if names else "functional_index"
        number, name = 1, first
        while name.casefold() in used:
            number += 1
            name = f"{first}_{number}"
        return name

    def keep(self, old: TableSchema) -> None:
        """Take over what the table has, without the columns that are gone."""
        self.primary = self._living(old.primary_key)
        self.indexes = [Index(index.name, self._living(index.columns), index.unique) for index in named_indexes(old)]

    def _living(self, ids: Ids) -> Ids:
        return tuple(column for column in ids if column in self.names)

    def forget_empty(self) -> None:
        """MySQL drops an index with its last column."""
        self.indexes = [index for index in self.indexes if index.columns]


def named_indexes(schema: TableSchema) -> tuple[Index, ...]:
    """The schema's indexes; unique keys whose names no one told get those that MySQL would have given."""
    if tuple(index.columns for index in schema.indexes if index.unique) == schema.unique_keys:
        return schema.indexes
    keys = Keys(schema.columns)
    keys.indexes = [index for index in schema.indexes if not index.unique]
    for key in schema.unique_keys:
        keys.add(tuple(keys.names[column] for column in key), None, True)
    return tuple(keys.indexes)


def drop_and_rename(keys: Keys, edits: Iterable[e.Edit]) -> None:
    """The clauses that take keys away, which come before those that add."""
    for edit in edits:
        match edit:
            case e.DropPrimaryKey(if_exists):
                _drop_primary(keys, if_exists)
            case e.DropIndex(name, if_exists) if name.casefold() == "primary":
                _drop_primary(keys, if_exists)
            case e.DropIndex(name):
                keys.indexes = [index for index in keys.indexes if index.name.casefold() != name.casefold()]
            case e.RenameIndex(name, to):
                keys.indexes = [
                    Index(to, index.columns, index.unique) if index.name.casefold() == name.casefold() else index for index in keys.indexes
                ]


def _drop_primary(keys: Keys, if_exists: bool) -> None:
    if not keys.primary and not if_exists and not keys.inferred:
        raise DdlError("DROP PRIMARY KEY: expected a table with a primary key, got one without")
    keys.primary = ()


def add_keys(keys: Keys, edits: Iterable[e.Edit]) -> None:
    """The clauses that add keys, in their order; a column's own PRIMARY KEY and UNIQUE too."""
    for edit in edits:
        match edit:
            case e.AddColumn(column) | e.ModifyColumn(column) | e.ChangeColumn(_, column):
                if column.primary_key:
                    keys.set_primary((column.name,))
                if column.unique:
                    keys.add((column.name,), None, True)
            case e.AddPrimaryKey(columns, condition) if not (condition and keys.primary):
                keys.set_primary(columns)
            case e.AddUniqueKey(columns, name, condition) if not (condition and _named(keys, name)):
                keys.add(columns, name, True)
            case e.AddIndex(columns, name, condition) if not (condition and _named(keys, name)):
                keys.add(columns, name, False)


def _named(keys: Keys, name: str | None) -> bool:
    return name is not None and any(index.name.casefold() == name.casefold() for index in keys.indexes)
