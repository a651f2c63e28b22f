"""Partition rules by column id, through the partition clauses of ALTER TABLE.

A clause that the rule can't follow leaves its method alone, so that a later DROP PARTITION is unknowable, not
wrong.
"""

from collections.abc import Callable, Iterable, Mapping

from lakehouse.ddl import edits as e
from lakehouse.ddl.definitions import Partitioning
from lakehouse.errors import DdlError
from lakehouse.schema import PartitionRule, TableSchema, name_key

Partitions = tuple[tuple[str, tuple[str | None, ...]], ...]
_COMPUTED = ("?",)


def make_rule(
    partitioning: Partitioning | None, ids: Callable[[Iterable[str]], tuple[int, ...]]
) -> PartitionRule | None:
    """The rule with ids for names; DdlError for a column that is not there."""
    if partitioning is None:
        return None
    return PartitionRule(partitioning.method, ids(partitioning.columns), partitioning.partitions)


def next_rule(
    before: TableSchema,
    edits: Iterable[e.Edit],
    ids: Callable[[Iterable[str]], tuple[int, ...]],
    *,
    living: set[int],
) -> PartitionRule | None:
    """The partition rule after a statement."""
    rule = before.partition
    old = {name_key(column.name): column.id for column in before.columns if column.id in living}
    for edit in edits:
        if isinstance(edit, e.Repartition):
            rule = _made(edit.partition, ids, old)
        elif rule is not None and rule.partitions:
            rule = _edited(rule, edit)
    if rule is not None and not set(rule.columns) <= living:
        raise DdlError("DROP COLUMN: expected a column that the partitions do not need, got one that they do")
    return rule


def _made(
    partitioning: Partitioning | None,
    ids: Callable[[Iterable[str]], tuple[int, ...]],
    old: Mapping[str, int],
) -> PartitionRule | None:
    """The rule of PARTITION BY in an ALTER; of columns that can't be told it is the method alone."""
    if partitioning is None:
        return None
    found = [_column_of(name, ids, old) for name in partitioning.columns]
    known = tuple(column for column in found if column is not None)
    if len(known) < len(found):
        return PartitionRule(partitioning.method)
    return PartitionRule(partitioning.method, known, partitioning.partitions)


def _column_of(
    name: str, ids: Callable[[Iterable[str]], tuple[int, ...]], old: Mapping[str, int]
) -> int | None:
    """MySQL looks for a column by its name behind the statement, MariaDB first by the one before it (run):
    None where these are two columns.
    """
    own = old.get(name_key(name))
    try:
        new = ids((name,))[0]
    except DdlError:
        if own is None:
            raise
        return own
    return new if own in (None, new) else None


def _edited(rule: PartitionRule, edit: e.Edit) -> PartitionRule:
    match edit:
        case e.AddPartition(partitions, condition):
            known = {name_key(name) for name, _ in rule.partitions}
            new = tuple(part for part in partitions if not (condition and name_key(part[0]) in known))
            return _with(rule, (*rule.partitions, *new))
        case e.DropPartition(names):
            return _with(rule, tuple(part for part in rule.partitions if not _among(part[0], names)))
        case e.DropFirstPartitions():
            return PartitionRule(rule.method)
        case e.ReorganizePartition(names, partitions):
            return _reorganized(rule, names, partitions)
        case _:
            return rule


def _reorganized(rule: PartitionRule, names: tuple[str, ...], partitions: Partitions) -> PartitionRule:
    places = [place for place, part in enumerate(rule.partitions) if _among(part[0], names)]
    if len(places) < len(names):
        return PartitionRule(rule.method)
    kept = tuple(part for part in rule.partitions if not _among(part[0], names))
    return _with(rule, (*kept[: places[0]], *partitions, *kept[places[0] :]))


def _among(name: str, names: tuple[str, ...]) -> bool:
    return name_key(name) in {name_key(other) for other in names}


def _with(rule: PartitionRule, partitions: Partitions) -> PartitionRule:
    if any(bounds == _COMPUTED for _, bounds in partitions):
        return PartitionRule(rule.method)
    return PartitionRule(rule.method, rule.columns, partitions)
