"""Effects of a DDL on existing rows: no change event has them, so gold computes them.

A statement's effects are applied in order. They name columns by id.
"""

from dataclasses import dataclass

from lakehouse.schema import ColumnType, PartitionRule

VERSIONED = "WITH SYSTEM VERSIONING: a DELETE is logged as an UPDATE, and history as INSERTs"


@dataclass(frozen=True, slots=True)
class Fill:
    """A new column whose default existing rows get. `default` is SQL text, or None where there is none."""

    column_id: int
    default: str | None
    type: ColumnType
    not_null: bool = False


@dataclass(frozen=True, slots=True)
class ImpliedFill:
    """A new column of which the server decides what existing rows read: a TIMESTAMP without NULL and DEFAULT,
    by explicit_defaults_for_timestamp (`first`: no TIMESTAMP column stands before it), or a TEXT or BLOB with
    DEFAULT '', which MariaDB keeps, and MySQL and TiDB drop where they are lax.
    """

    column_id: int
    name: str
    type: ColumnType
    not_null: bool
    first: bool

    @property
    def about(self) -> str:
        """How what is wrong begins, where there is a row."""
        return f"column {self.name}, new: "

    def unknown(self, server: str, version: tuple[int, ...]) -> str | None:
        """Why the value is not known on a server, None where it is."""
        if self.type.family != "timestamp":
            return _BY_SERVER if _keeps_empty(self.type.base, server, version) is None else None
        explicit = _is_explicit(server, version)
        if explicit or (not self.first and (self.not_null or explicit is False)):
            return None
        return _BY_VERSION if explicit is None else _STATEMENT_TIME

    def fill(self, server: str, version: tuple[int, ...]) -> Fill:
        """The fill on a server of which the value is known."""
        if self.type.family != "timestamp":
            default = "''" if _keeps_empty(self.type.base, server, version) else None
            return Fill(self.column_id, default, self.type)
        not_null = self.not_null or not _is_explicit(server, version)
        return Fill(self.column_id, None, self.type, not_null)


@dataclass(frozen=True, slots=True)
class UnknownFill:
    """A new column of which no message tells what the rows have that are there: an expression, a number, the
    statement's time.
    """

    column_id: int
    name: str
    why: str

    @property
    def problem(self) -> str:
        """What is wrong where there is a row."""
        return f"column {self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class NullsLost:
    """A column that may be NULL no more, where its type's zero need not take the place of a NULL: a TIMESTAMP
    gets the statement's time, in a strict sql_mode too (`implied`: only servers without
    explicit_defaults_for_timestamp take it for NOT NULL). Of a column with a DEFAULT a lax MariaDB makes
    that where it changes the table in place, and zero where it copies it.
    """

    column_id: int
    name: str
    type: ColumnType
    implied: bool = False

    @property
    def about(self) -> str:
        """How what is wrong begins, where there is such a row."""
        return f"column {self.name}, NOT NULL: "

    def unknown(self, server: str, version: tuple[int, ...]) -> str | None:
        """Why it is not known on a server what takes their place, None where it is. TiDB refuses NULLs."""
        if server == "tidb":
            return None
        if self.type.family != "timestamp":
            return _BY_ALGORITHM if server == "mariadb" or (server == "mysql" and not version) else None
        explicit = self.implied and _is_explicit(server, version)
        if explicit:
            return None
        return _NULLS_BY_VERSION if explicit is None else _STATEMENT_TIME


_EXPLICIT_SINCE = {"mysql": (8,), "mariadb": (10, 10)}
_BY_VERSION = (
    "a TIMESTAMP without NULL and DEFAULT, whose existing rows get NULL or the statement's time: the version "
    "of the server says which"
)
_STATEMENT_TIME = "the time of the statement fills existing rows"
_NULLS_BY_VERSION = (
    "a TIMESTAMP without NULL and DEFAULT, whose NULLs stay or become the statement's time: the version of "
    "the server says which"
)
_BY_ALGORITHM = (
    "a lax MariaDB gives NULLs the DEFAULT or the type's zero, as it changes the table in place or copies it"
)
_BY_SERVER = (
    "a TEXT or BLOB with DEFAULT '', which existing rows get in MariaDB, and MySQL drops: the server is not "
    "said with its version"
)


def _is_explicit(server: str, version: tuple[int, ...]) -> bool | None:
    """Whether explicit_defaults_for_timestamp is on, as it is by default in the server's version; None where
    that is not known.
    """
    if server == "tidb":
        return True
    return version >= _EXPLICIT_SINCE[server] if version else None


def _keeps_empty(base: str, server: str, version: tuple[int, ...]) -> bool | None:
    """Whether a lax server keeps the DEFAULT '' of a type; None where that is not known: "mysql" without a
    version may be nobody's word.
    """
    if server == "tidb":
        return base not in ("text", "longtext", "blob", "longblob")
    if server == "mariadb":
        return not version or version >= (10, 2)
    return False if version else None


@dataclass(frozen=True, slots=True)
class Drop:
    """A column is removed."""

    column_id: int


@dataclass(frozen=True, slots=True)
class Forget:
    """The source computed a column's values again, which no message shows: they are unknown from here on."""

    column_id: int


@dataclass(frozen=True, slots=True)
class Retype:
    """A column's values are converted to another type by the server's rules. `not_null`: it may be NULL no
    more, and a lax server has made every NULL the type's zero (a strict one refuses such a statement).
    """

    column_id: int
    old: ColumnType
    new: ColumnType
    not_null: bool = False


@dataclass(frozen=True, slots=True)
class Numbered:
    """A column that was not AUTO_INCREMENT became it: rows that have 0 there get the next numbers, in an
    order that no message tells.
    """

    column_id: int
    name: str

    @property
    def problem(self) -> str:
        """What is wrong where there is such a row."""
        return f"column {self.name}: AUTO_INCREMENT numbers the rows that have 0"


@dataclass(frozen=True, slots=True)
class Rekey:
    """Other columns identify a row from here on."""

    old: tuple[int, ...]
    new: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """The rows of these partitions are removed (TRUNCATE PARTITION, DROP PARTITION), under a rule that
    decides membership.
    """

    rule: PartitionRule
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """Every row is removed (TRUNCATE TABLE, or a complete snapshot that replaces the table)."""


@dataclass(frozen=True, slots=True)
class Unknowable:
    """Rows changed in a way that no rule decides: the table is incomplete until it is snapshotted again."""

    reason: str


Effect = (
    Fill
    | ImpliedFill
    | UnknownFill
    | Drop
    | Forget
    | Retype
    | Numbered
    | NullsLost
    | Rekey
    | RemoveRows
    | Clear
    | Unknowable
)
