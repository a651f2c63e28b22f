"""Partition rules by column id, through the partition clauses of ALTER TABLE.

A clause that the rule can't follow leaves its method alone, so that a later DROP PARTITION is unknowable, not
wrong.
"""

from collections.abc import Callable, Iterable

from lakehouse.ddl import edits as e
from lakehouse.ddl.definitions import Partitioning
from lakehouse.errors import DdlError
from lakehouse.schema import PartitionRule, name_key

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
    rule: PartitionRule | None,
    edits: Iterable[e.Edit],
    ids: Callable[[Iterable[str]], tuple[int, ...]],
    living: set[int],
) -> PartitionRule | None:
    """The partition rule after a statement."""
    for edit in edits:
        if isinstance(edit, e.Repartition):
            rule = make_rule(edit.partition, ids)
        elif rule is not None and rule.partitions:
            rule = _edited(rule, edit)
    if rule is not None and not set(rule.columns) <= living:
        raise DdlError("DROP COLUMN: expected a column that the partitions do not need, got one that they do")
    return rule


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
