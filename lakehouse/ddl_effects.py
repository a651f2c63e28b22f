"""What a DDL does to rows that exist already. No change event tells it, so gold computes it.

A statement's effects are applied in order. They name columns by id.
"""

from dataclasses import dataclass

from lakehouse.schema import ColumnType, PartitionRule


@dataclass(frozen=True, slots=True)
class Fill:
    """A new column: existing rows read its default. `default` is SQL text, or None where there is none."""

    column_id: int
    default: str | None
    type: ColumnType
    not_null: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """A column is gone."""

    column_id: int


@dataclass(frozen=True, slots=True)
class Forget:
    """The source computed a column's values anew, which no message tells: not known is another thing than
    what they were.
    """

    column_id: int


@dataclass(frozen=True, slots=True)
class Retype:
    """A column's values become those of another type by MySQL's conversion rules. `not_null`: it may be NULL
    no more, and a lax server has made every NULL the type's zero (a strict one refuses the statement where
    there is one).
    """

    column_id: int
    old: ColumnType
    new: ColumnType
    not_null: bool = False


@dataclass(frozen=True, slots=True)
class Rekey:
    """The columns that identify a row are others from here on."""

    old: tuple[int, ...]
    new: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """Rows of these partitions are gone (TRUNCATE PARTITION, DROP PARTITION) under a rule that decides
    membership.
    """

    rule: PartitionRule
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """Every row is gone (TRUNCATE TABLE, or a complete snapshot that starts the table anew)."""


@dataclass(frozen=True, slots=True)
class Unknowable:
    """Rows changed in a way that no rule decides: the table is incomplete until it is snapshotted again."""

    reason: str


Effect = Fill | Drop | Forget | Retype | Rekey | RemoveRows | Clear | Unknowable
