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
    """A new TIMESTAMP column without NULL and DEFAULT: what existing rows read depends on the server's
    explicit_defaults_for_timestamp. `first`: no TIMESTAMP column stands before it.
    """

    column_id: int
    name: str
    type: ColumnType
    not_null: bool
    first: bool


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


Effect = Fill | ImpliedFill | Drop | Forget | Retype | Rekey | RemoveRows | Clear | Unknowable
