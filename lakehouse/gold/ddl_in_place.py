"""DDL that changes a gold table in place: columns are added, dropped, renamed, moved and widened as Delta's
metadata, a constant fills a new one, and the cells of one are converted, both in one pass over gold's rows.
The cost does not follow their log.

Everything else (keys, partitions, TRUNCATE, fills that no rule decides, conversions whose outcome gold may
not hold) folds the table again. Both ways give the same table: the rows of a table that is exact differ by
nothing but these effects.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.ddl_effects import Drop, Effect, Fill, ImpliedFill, Retype
from lakehouse.fold.steps import changes_key
from lakehouse.fold.upcast import LOST, Row, Upstream, compile_moves, may_lose
from lakehouse.gold.columns import GoldColumn
from lakehouse.gold.converted_cells import Conversion
from lakehouse.gold.options import GoldOptions
from lakehouse.gold.shards import INTEGERS
from lakehouse.lineage import Lineage
from lakehouse.schema import GoldKeeps
from lakehouse.values.convert import is_identity

# of a cell of these types that has no companion gold has what the source has; and gold holds all values of
# those, a zero for NULL included
_READ_BACK = ("integer", "decimal", "text", "date", "datetime")
_ALWAYS_HELD = ("integer", "decimal", "text", "double")


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A new column, and the value of existing rows as Python has it; None is NULL."""

    column: GoldColumn
    value: Any = None


@dataclass(frozen=True, slots=True)
class InPlace:
    """What turns a gold table's columns into those of a later schema, in this order: columns are dropped,
    renamed, widened and described anew, and added; `columns` are all of them then. `retyped` are those
    whose type at the source is another one, as they were, and those of which cells are converted.
    """

    dropped: tuple[GoldColumn, ...] = ()
    renamed: tuple[tuple[GoldColumn, GoldColumn], ...] = ()
    widened: tuple[GoldColumn, ...] = ()
    described: tuple[GoldColumn, ...] = ()
    added: tuple[AddedColumn, ...] = ()
    retyped: tuple[GoldColumn, ...] = ()
    converted: tuple[Conversion, ...] = ()
    columns: tuple[GoldColumn, ...] = ()

    @property
    def rewrites(self) -> bool:
        """Whether the rows are written anew."""
        return bool(self.converted) or any(one.value is not None for one in self.added)

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
        parts += [f"converted {one.new[0].name}" for one in self.converted]
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
    added = [_added(column, fills) for each, column in after.items() if each not in before]
    stays = [(before[each], column) for each, column in after.items() if each in before]
    become = _converted_ids(lineage, first, last)
    if any(one is None for one in added) or not all(
        _goes_on(old, new, converted=old.column.id in become) for old, new in stays
    ):
        return None
    found = replace(
        _metadata_changes(stays, become),
        dropped=tuple(column for each, column in before.items() if each not in after),
        added=tuple(one for one in added if one is not None),
        converted=tuple(
            Conversion(lineage, steps, upstream, old=(old.column, old.spark), new=(new.column, new.spark))
            for old, new in stays
            if old.column.id in become
        ),
        columns=tuple(columns[1]),
    )
    return found if _is_free(found, columns[0]) else None


def _metadata_changes(stays: Sequence[tuple[GoldColumn, GoldColumn]], become: Collection[int]) -> InPlace:
    """What changes about columns that stay, each as it was and as it will be; the cells of those in `become`
    are converted.
    """
    return InPlace(
        renamed=tuple((old, new) for old, new in stays if old.name != new.name),
        widened=tuple(new for old, new in stays if old.spark != new.spark and new.column.id not in become),
        described=tuple(new for old, new in stays if _comment(old) != _comment(new)),
        retyped=tuple(
            old for old, new in stays if old.column.type != new.column.type or old.column.id in become
        ),
    )


def _comment(column: GoldColumn) -> str:
    return column.column.comment or ""


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
        if not all(_keeps_rows(effect, present) for effect in effects):
            return None
    row: Row = {}
    for move in compile_moves(lineage, first, last, upstream):
        moved = move(row)
        if moved is None or LOST in moved:
            return None
        row = moved
    return row


def _keeps_rows(effect: Effect, present: set[int]) -> bool:
    """Whether the cells that rows have stay as they are, or become what they alone tell."""
    match effect:
        case Fill() | ImpliedFill() | Drop():
            return True
        case Retype():
            is_new = effect.column_id not in present
            return is_new or not _converts(effect) or _is_told(effect)
        case _:
            return False


def _converts(effect: Retype) -> bool:
    return effect.not_null or not is_identity(effect.old, effect.new)


def _is_told(effect: Retype) -> bool:
    """Whether gold's cells tell the source's, and gold holds whatever the server has made of them."""
    old, new = effect.old, effect.new
    if new.family == "datetime":  # a fraction of more digits: no date becomes another, or none
        return old.family == "datetime" and (new.length or 0) >= (old.length or 0) and not effect.not_null
    return old.family in _READ_BACK and new.family in _ALWAYS_HELD


def _converted_ids(lineage: Lineage, first: int, last: int) -> set[int]:
    """The columns whose cells become others."""
    effects = (effect for step in lineage.steps[first + 1 : last + 1] for effect in step.effects)
    return {one.column_id for one in effects if isinstance(one, Retype) and _converts(one)}


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


def _goes_on(old: GoldColumn, new: GoldColumn, *, converted: bool) -> bool:
    """Whether Delta makes the one of the other without a look at the values, or it is converted."""
    return (
        old.mask == new.mask
        and old.column.generated == new.column.generated
        and (old.name != new.name or old.companion == new.companion)  # renamed along, not by itself
        and (old.mask is None if converted else old.spark == new.spark or _widens(old.spark, new.spark))
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
