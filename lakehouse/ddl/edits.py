"""Statements and their edits as plain values, from the parser to the modules that apply them.

Names are (database or None, table) pairs, so that names with dots are never confused. SQL texts (defaults,
expressions, partition bounds) stand as the statement wrote them. Conditions are part of an edit: servers log
`CREATE TABLE IF NOT EXISTS` for tables that exist, and an edit whose condition is false has no effect.
"""

from dataclasses import dataclass
from typing import ClassVar

from lakehouse.ddl.definitions import ColumnDef, IndexDef, Partitioning

Name = tuple[str | None, str]


# --- edits: the clauses of ALTER TABLE


class Clause:
    """The names of a clause: `word` in the JSON of `lakehouse ddl`, `on_ddl` in a table's YAML.

    "no_effect" is a clause that changes nothing that gold shows. MODIFY and CHANGE fall under their `on_ddl`
    only where they change values (lakehouse.ddl.policy.kinds_of).
    """

    __slots__ = ()
    word: ClassVar[str] = "no_effect"
    on_ddl: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class AddColumn(Clause):
    """`position` is "first", "after NAME" or None: the end."""

    word = "add_column"
    on_ddl = "add_column"

    column: ColumnDef
    position: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn(Clause):
    word = "drop_column"
    on_ddl = "drop_column"

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyColumn(Clause):
    word = "modify_column"
    on_ddl = "modify_column"

    column: ColumnDef
    position: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn(Clause):
    word = "change_column"
    on_ddl = "modify_column"

    name: str
    column: ColumnDef
    position: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn(Clause):
    word = "rename_column"
    on_ddl = "rename_column"

    name: str
    to: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTo(Clause):
    """ALTER TABLE … RENAME TO; without a database the table stays in its own."""

    word = "rename_table"
    on_ddl = "rename_table"

    to: Name


@dataclass(frozen=True, slots=True)
class AlterDefault(Clause):
    """SET DEFAULT, or DROP DEFAULT where `default` is None. It touches no existing row."""

    word = "alter_default"
    on_ddl = "alter_default"

    name: str
    default: str | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddPrimaryKey(Clause):
    word = "add_primary_key"
    on_ddl = "add_primary_key"

    columns: tuple[str, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPrimaryKey(Clause):
    word = "drop_primary_key"
    on_ddl = "drop_primary_key"

    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddUniqueKey(Clause):
    columns: tuple[str, ...]
    name: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddIndex(Clause):
    """An index that identifies no rows; it matters only because its name is taken."""

    columns: tuple[str, ...]
    name: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex(Clause):
    """DROP INDEX or CONSTRAINT; the name PRIMARY is the primary key."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameIndex(Clause):
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class AddPartition(Clause):
    partitions: tuple[tuple[str, tuple[str | None, ...]], ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartition(Clause):
    word = "drop_partition"
    on_ddl = "drop_partition"

    partitions: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropFirstPartitions(Clause):
    """TiDB's FIRST PARTITION LESS THAN: the partitions below a bound go, under names that TiDB has given."""

    word = "drop_partition"
    on_ddl = "drop_partition"


@dataclass(frozen=True, slots=True)
class TruncatePartition(Clause):
    """`all`: TRUNCATE PARTITION ALL, which names none."""

    word = "truncate_partition"
    on_ddl = "truncate_partition"

    partitions: tuple[str, ...]
    all: bool = False


@dataclass(frozen=True, slots=True)
class ExchangePartition(Clause):
    """Rows of the partition and of the *other table* change places; that table's rows change as well."""

    word = "exchange_partition"
    on_ddl = "exchange_partition"

    partition: str
    table: Name


@dataclass(frozen=True, slots=True)
class ReorganizePartition(Clause):
    """Some partitions are replaced by others that hold the same rows; without names, all of them by the same
    rule.
    """

    names: tuple[str, ...]
    partitions: tuple[tuple[str, tuple[str | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class Repartition(Clause):
    """A new rule for the same rows, or none."""

    partition: Partitioning | None


@dataclass(frozen=True, slots=True)
class TableCharset(Clause):
    """The default of columns to come; `convert` also converts those that exist. `charset` is None for
    DEFAULT, the database's.
    """

    charset: str | None
    convert: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceRows(Clause):
    """Rows are exchanged below the logs (DISCARD or IMPORT TABLESPACE)."""


@dataclass(frozen=True, slots=True)
class DropDuplicates(Clause):
    """The effect of IGNORE on a statement behind which a key, check or partition may not admit some rows:
    those are removed, which no message shows.
    """


@dataclass(frozen=True, slots=True)
class SystemVersioning(Clause):
    """MariaDB's ADD or DROP SYSTEM VERSIONING: the table keeps its history among its rows, or no more."""

    on: bool


@dataclass(frozen=True, slots=True)
class NoEffect(Clause):
    """A clause or statement without effect on tables, columns, keys or rows; `what` names it."""

    what: str


Edit = (
    AddColumn
    | DropColumn
    | ModifyColumn
    | ChangeColumn
    | RenameColumn
    | RenameTo
    | AlterDefault
    | AddPrimaryKey
    | DropPrimaryKey
    | AddUniqueKey
    | AddIndex
    | DropIndex
    | RenameIndex
    | AddPartition
    | DropPartition
    | DropFirstPartitions
    | TruncatePartition
    | ExchangePartition
    | ReorganizePartition
    | Repartition
    | TableCharset
    | ReplaceRows
    | DropDuplicates
    | SystemVersioning
    | NoEffect
)


# --- statements


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`as_select`: rows and maybe columns come from a query, so `columns` may not be all. `charset` is the
    table's default. `versioned`: WITH SYSTEM VERSIONING, of the table or a column.
    """

    database: str | None
    table: str
    columns: tuple[ColumnDef, ...]
    primary_key: tuple[str, ...] = ()
    indexes: tuple[IndexDef, ...] = ()
    partition: Partitioning | None = None
    charset: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    as_select: bool = False
    versioned: bool = False


@dataclass(frozen=True, slots=True)
class CreateTableLike:
    database: str | None
    table: str
    like: Name
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterTable:
    """`index_statement`: it was written as CREATE INDEX or DROP INDEX."""

    database: str | None
    table: str
    edits: tuple[Edit, ...]
    if_exists: bool = False
    index_statement: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    pairs: tuple[tuple[Name, Name], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    tables: tuple[Name, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    database: str | None
    table: str


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """Also CREATE OR REPLACE DATABASE, which drops first."""

    database: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DatabaseCharset:
    """CREATE or ALTER DATABASE: the charset of its tables to come, None for the server's."""

    database: str | None
    charset: str | None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class RecoverTable:
    """RECOVER or FLASHBACK TABLE: rows return that no change brought."""

    database: str | None
    table: str
    to: str | None = None


@dataclass(frozen=True, slots=True)
class RecoverDatabase:
    """FLASHBACK DATABASE: all its tables return."""

    database: str
    to: str | None = None


Statement = (
    CreateTable
    | CreateTableLike
    | AlterTable
    | RenameTable
    | DropTable
    | TruncateTable
    | DropDatabase
    | DatabaseCharset
    | RecoverTable
    | RecoverDatabase
    | NoEffect
)
