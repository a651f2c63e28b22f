"""The effects of an edit on existing rows, as far as the statement determines them.

New columns are filled from their default, types converted, partitions removed by their rule. What the
statement alone does not decide is Unknowable beside the effect that goes as far as it can: the table is
incomplete from there on.
"""

import re

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.generated_columns import forgotten, spaceless
from lakehouse.ddl.definitions import ColumnDef
from lakehouse.ddl_effects import (
    VERSIONED,
    Clear,
    Drop,
    Effect,
    Fill,
    ImpliedFill,
    NullsLost,
    Numbered,
    RemoveRows,
    Retype,
    Unknowable,
    UnknownFill,
)
from lakehouse.schema import BINARIES, TEXTS, Column, ColumnType, PartitionRule, name_key
from lakehouse.values.defaults import default_reason, default_value, zero_value
from lakehouse.values.partition_membership import decidable

Effects = tuple[Effect, ...]
_WITHOUT_DEFAULT = (*TEXTS[2:], *BINARIES[2:])
_EMPTY = re.compile(r"(?:_\w+\s*)?(?:''|\"\")", re.ASCII)
_ORDERED_BY_VALUE = ("integer", "date", "datetime", "year", "binary")


def added(column: Column, auto_increment: bool) -> Effects:
    """The effects of ADD COLUMN. A virtual generated column is not stored, so it fills nothing;
    `recomputed_virtual` is for feeds whose rows carry it.
    """
    if column.generated == "virtual":
        return ()
    fill = Fill(column.id, column.default, column.type, column.not_null)
    why = _unknown_fill(column, auto_increment)
    return (fill,) if why is None else (UnknownFill(column.id, column.name, why), fill)


def is_implied(definition: ColumnDef, column: Column) -> bool:
    """Whether some servers take the definition for another one: a TIMESTAMP those without
    explicit_defaults_for_timestamp, a TEXT or BLOB with DEFAULT '' all that are lax but MariaDB.
    """
    if column.generated is not None:
        return False
    if column.type.base in _WITHOUT_DEFAULT:
        return not column.not_null and _EMPTY.fullmatch(column.default or "") is not None
    return column.type.base == "timestamp" and not (definition.null or column.default is not None)


def implied(column: Column, *, is_first: bool) -> ImpliedFill:
    """ADD COLUMN of what `is_implied` is about."""
    return ImpliedFill(column.id, column.name, column.type, column.not_null, first=is_first)


def _unknown_fill(column: Column, auto_increment: bool) -> str | None:
    if auto_increment:
        return "AUTO_INCREMENT numbers existing rows in an order that no message tells"
    if column.generated is not None:
        return "the source computes a stored generated column for existing rows"
    return default_reason(
        column.default, column.type, column.not_null, zone=None
    )  # the zone is its session's, which no message tells


def redefined(old: Column, new: Column, definition: ColumnDef, *, inferred: bool) -> Effects:
    """The effects of MODIFY and CHANGE; a new name, default or place has none. `inferred`: whether the old
    column was AUTO_INCREMENT is not known.
    """
    auto_increment = definition.auto_increment and not inferred
    effects = nulls_lost(old, new, implied=is_implied(definition, new))
    effects += () if same_type(old.type, new.type) else (Retype(old.id, old.type, new.type),)
    families = (old.type.family, new.type.family)
    if families[0] != families[1] and "timestamp" in families:
        effects += (
            Unknowable(f"column {new.name}: a session's time zone decides what TIMESTAMP is in another type"),
        )
    elif families in (("time", "date"), ("time", "datetime")):
        effects += (Unknowable(f"column {new.name}: the day of the statement becomes the date of a TIME"),)
    computed = new.generated == "stored" and (old.generated != "stored" or spaceless(old) != spaceless(new))
    if computed or (old.generated == "virtual" and new.generated is None):
        effects += forgotten(new)
    if auto_increment and old.not_null and not old.auto_increment:
        effects += (Numbered(new.id, new.name),)
    elif auto_increment and not old.not_null:
        effects += (Unknowable(f"column {new.name}: AUTO_INCREMENT numbers the rows that have NULL"),)
    return effects


def nulls_lost(old: Column, new: Column, *, implied: bool = False) -> Effects:
    """The effect of NOT NULL where the type's zero need not take the place of a NULL. A TIMESTAMP that
    becomes one is unknowable as it is.
    """
    is_stamp = old.type.family == new.type.family == "timestamp"
    implied = implied and is_stamp and not new.not_null
    if old.not_null or new.generated is not None or not (new.not_null or implied):
        return ()
    zero, default = zero_value(new.type, server="mariadb"), new.default
    is_zero = default is None or default_value(default, new.type, True, server="mariadb") in (None, zero)
    if not is_stamp and (is_zero or new.type.family == "timestamp"):
        return ()
    return (NullsLost(old.id, new.name, new.type, implied),)


def same_type(old: ColumnType, new: ColumnType) -> bool:
    """Whether values of the old type are unchanged values of the new one: YEAR's width does not matter, nor
    does a charset that is not known to lack characters.
    """
    if old.family == "year" == new.family:
        return True
    if new.charset is None or (old.charset is None and new.charset == "utf8mb4"):
        return _bare(old) == _bare(new)
    return old == new


def _bare(column_type: ColumnType) -> ColumnType:
    return ColumnType(
        column_type.base,
        column_type.length,
        column_type.scale,
        column_type.unsigned,
        charset=None,
        members=column_type.members,
    )


def dropped(column: Column) -> Effects:
    return () if column.generated == "virtual" else (Drop(column.id),)


def partition_effects(edit: e.Edit, rule: PartitionRule | None, types: dict[int, ColumnType]) -> Effects:
    """The effects of DROP, TRUNCATE and EXCHANGE PARTITION under the rule in force before the statement."""
    match edit:
        case e.TruncatePartition(_, True):
            return (Clear(),)
        case e.TruncatePartition(names, _):
            return _removed(names, rule, types)
        case e.DropPartition(names, if_exists):
            known = set() if rule is None else {name_key(name) for name, _ in rule.partitions}
            there = tuple(name for name in names if not (if_exists and known) or name_key(name) in known)
            return _removed(there, rule, types) if there else ()
        case e.DropFirstPartitions():
            return (Unknowable("FIRST PARTITION LESS THAN: no message tells the rows that it removed"),)
        case e.ExchangePartition(partition):
            return (Unknowable(f"EXCHANGE PARTITION {partition}: no message tells the rows that came"),)
        case e.ReplaceRows():
            return (Unknowable("TABLESPACE: rows were exchanged below the logs"),)
        case e.SystemVersioning(True):
            return (Unknowable(VERSIONED),)
        case e.DropDuplicates():
            return (Unknowable("ALTER IGNORE: no message tells the rows that it removed"),)
        case _:
            return ()


def _removed(names: tuple[str, ...], rule: PartitionRule | None, types: dict[int, ColumnType]) -> Effects:
    known = {} if rule is None else {name_key(name): name for name, _ in rule.partitions}
    found = tuple(known[name_key(name)] for name in names if name_key(name) in known)
    if rule is None or len(found) < len(names):
        return (
            Unknowable(f"partition {', '.join(names)}: no rule over plain columns tells which rows it held"),
        )
    if not decidable(rule, [types[column] for column in rule.columns]):
        return (
            Unknowable(f"partition {', '.join(names)}: its bounds are no values of its columns, or tuples"),
        )
    removed: Effects = (RemoveRows(rule, found),)
    if any(types[column].family not in _ORDERED_BY_VALUE for column in rule.columns):
        return (*removed, Unknowable(f"partition {', '.join(names)}: its bounds compare by a collation"))
    return removed
