"""DDL that changes a gold table in place: columns are added, dropped, renamed, moved and widened as Delta's
metadata, and a constant fills a new one, so that the cost does not follow the rows or their log.

Everything else (lossy types, keys, partitions, TRUNCATE, fills that no rule decides) folds the table again.
Both ways give the same table: the rows of a table that is exact differ by nothing but these effects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.ddl_effects import Drop, Effect, Fill, ImpliedFill, Retype
from lakehouse.fold.steps import changes_key
from lakehouse.fold.upcast import LOST, Row, Upstream, compile_moves, may_lose
from lakehouse.gold.columns import GoldColumn
from lakehouse.gold.options import GoldOptions
from lakehouse.gold.shards import INTEGERS
from lakehouse.lineage import Lineage
from lakehouse.schema import GoldKeeps
from lakehouse.values.convert import is_identity


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A new column, and the value of existing rows as Python has it; None is NULL."""

    column: GoldColumn
    value: Any = None


@dataclass(frozen=True, slots=True)
class InPlace:
    """What turns a gold table's columns into those of a later schema, in this order: columns are dropped,
    renamed, widened and described anew, and added; `columns` are all of them then. `retyped` are those
    whose type at the source is another one, as they were.
    """

    dropped: tuple[GoldColumn, ...] = ()
    renamed: tuple[tuple[GoldColumn, GoldColumn], ...] = ()
    widened: tuple[GoldColumn, ...] = ()
    described: tuple[GoldColumn, ...] = ()
    added: tuple[AddedColumn, ...] = ()
    retyped: tuple[GoldColumn, ...] = ()
    columns: tuple[GoldColumn, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """The names of all columns then."""
        return tuple(column.name for column in self.columns)

    @property
    def words(self) -> str:
        """What is done, for people; "" where nothing is."""
        parts = [f"added {one.column.name}" for one in self.added]
        parts += [f"dropped {column.name}" for column in self.dropped]
        parts += [f"renamed {old.name} to {new.name}" for old, new in self.renamed]
        parts += [f"widened {column.name}" for column in self.widened]
        return ", ".join(parts)


def in_place(
    lineage: Lineage,
    steps: tuple[int, int],
    columns: tuple[Sequence[GoldColumn], Sequence[GoldColumn]],
    *,
    options: GoldOptions,
    upstream: Upstream,
) -> InPlace | None:
    """What takes a table from one step of its lineage to a later one in place; None where it has to be folded
    again. `columns` are gold's at both. The table's rows are those of the first step, and nothing is lacking.
    """
    first, last = steps
    if not _is_simple(options) or any(lineage.steps[at].schema.keeps != GoldKeeps() for at in steps):
        return None
    fills = _fills(lineage, first, last, upstream)
    if fills is None:
        return None
    before = {column.column.id: column for column in columns[0]}
    after = {column.column.id: column for column in columns[1]}
    added = [_added(after[each], fills) for each in after if each not in before]
    stays = [(before[each], after[each]) for each in after if each in before]
    if any(one is None for one in added) or not all(_goes_on(*pair) for pair in stays):
        return None
    found = InPlace(
        dropped=tuple(column for each, column in before.items() if each not in after),
        renamed=tuple((old, new) for old, new in stays if old.name != new.name),
        widened=tuple(new for old, new in stays if old.spark != new.spark),
        described=tuple(
            new for old, new in stays if (old.column.comment or "") != (new.column.comment or "")
        ),
        added=tuple(one for one in added if one is not None),
        retyped=tuple(old for old, new in stays if old.column.type != new.column.type),
        columns=tuple(columns[1]),
    )
    return found if _is_free(found, columns[0]) else None


def _is_simple(options: GoldOptions) -> bool:
    """Whether the table has one row per live row, and nothing of it stands on the names of columns."""
    named = options.cluster_by or options.partition_by or options.computed or options.merged
    return options.plain and not (named or options.primary_key or options.change_data_feed)


def _fills(lineage: Lineage, first: int, last: int, upstream: Upstream) -> Row | None:
    """What the steps' statements make of every row beside its own cells; None where that depends on the row,
    or is not known.
    """
    present = {column.id for column in lineage.steps[first].schema.columns}
    for index in range(first + 1, last + 1):
        effects = lineage.steps[index].effects
        if changes_key(lineage, index) or may_lose(lineage, index, upstream):
            return None
        if not all(_keeps_rows(effect, present, upstream) for effect in effects):
            return None
    row: Row = {}
    for move in compile_moves(lineage, first, last, upstream):
        moved = move(row)
        if moved is None or LOST in moved:
            return None
        row = moved
    return row


def _keeps_rows(effect: Effect, present: set[int], upstream: Upstream) -> bool:
    """Whether the cells that rows have stay as they are."""
    match effect:
        case Fill() | ImpliedFill() | Drop():
            return True
        case Retype():
            is_new = effect.column_id not in present
            same = is_identity(effect.old, effect.new, upstream.server)
            return is_new or (same and not effect.not_null)
        case _:
            return False


def _added(column: GoldColumn, fills: Mapping[int, Any]) -> AddedColumn | None:
    """A new column with what existing rows get; None where gold's type can't hold it as it is."""
    if column.column.id not in fills or column.column.generated or column.mask:
        return None
    value = fills[column.column.id]
    if value is None:
        return AddedColumn(column)
    try:
        return AddedColumn(column, column.to_python(value))
    except ValueError:
        return None


def _goes_on(old: GoldColumn, new: GoldColumn) -> bool:
    """Whether Delta makes the one of the other without a look at the values."""
    return (
        old.mask == new.mask
        and old.column.generated == new.column.generated
        and (old.name != new.name or old.companion == new.companion)  # renamed along, not by itself
        and (old.spark == new.spark or _widens(old.spark, new.spark))
    )


def _widens(old: str, new: str) -> bool:
    if old in INTEGERS and new in INTEGERS:  # Delta widens each of these to those behind it
        return INTEGERS.index(old) < INTEGERS.index(new)
    if not (old.startswith("DECIMAL(") and new.startswith("DECIMAL(")):
        return False
    (digits, scale), (more, same) = (_digits(spark) for spark in (old, new))
    return more > digits and same == scale


def _digits(spark: str) -> tuple[int, int]:
    precision, scale = spark.removeprefix("DECIMAL(").removesuffix(")").split(",")
    return int(precision), int(scale)


def _is_free(found: InPlace, before: Sequence[GoldColumn]) -> bool:
    """Whether no name is given to a column while another one has it: a swap needs names in between."""
    held = {name.lower() for column in before for name in (column.name, column.companion)}
    held -= {name.lower() for column in found.dropped for name in (column.name, column.companion)}
    given = [new for _, new in found.renamed] + [one.column for one in found.added]
    names = [name.lower() for column in given for name in (column.name, column.companion)]
    return len(set(names)) == len(names) and not held & set(names)
