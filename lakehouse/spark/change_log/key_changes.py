"""The changes of some rows of a table, found by Spark's workers in all that silver has of it.

Gold's rows match by key values in the schema in force when gold is written. Silver has the key as the message
had it, and a column may have been renamed or retyped since. So each change is read as the fold reads it, and
kept if one of its rows has one of the keys, or if its row is unknown.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.fold.row_edits import Change, ChangeReader, Key, row_key
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Lineage, key_ids
from lakehouse.spark.arrow import Worker
from lakehouse.spark.change_log.changes import FOLD_COLUMNS


class Reading(NamedTuple):
    """How changes are read: in the schema of the lineage's `step`, up to which no DDL needs the rows
    themselves. With `cleared` changes are kept too whose rows a later DDL has removed.
    """

    lineage: Lineage
    step: int
    upstream: Upstream
    cleared: bool


def of_keys(changes: DataFrame, reading: Reading, keys: Collection[Key]) -> DataFrame:
    """The changes, in FOLD_COLUMNS, that may be of rows of these keys."""
    mine = changes.select(*FOLD_COLUMNS)
    return mine.mapInArrow(_keeping(reading, frozenset(keys)), mine.schema)


def may_be_of(reading: Reading, changes: Iterable[Change], keys: Collection[Key]) -> list[bool]:
    """Of each change whether it may be of rows of these keys."""
    read = _row_keys(reading, changes)
    return [any(key is None or key in keys for key in found) if found else reading.cleared for found in read]


def move_others(reading: Reading, changes: Iterable[Change], keys: Collection[Key]) -> bool:
    """Whether some of the changes are of rows of other keys too: what else silver has of those is not among
    them.
    """
    return any(key is not None and key not in keys for found in _row_keys(reading, changes) for key in found)


def _row_keys(reading: Reading, changes: Iterable[Change]) -> Iterator[list[Key | None]]:
    """The keys of each change's rows. Each is read by itself: all changes of a transaction may have one
    position, by which their edits can't be told apart.
    """
    ids = key_ids(reading.lineage, reading.step)
    reader = ChangeReader(reading.lineage, reading.step, reading.upstream, ids)
    for change in changes:
        yield [row_key(edit.row, ids) for edit in reader.read((change,)).edits]


def _keeping(reading: Reading, keys: frozenset[Key]) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.change_log.changes import changes_of
        from lakehouse.spark.change_log.key_changes import may_be_of

        for batch in batches:
            kept = may_be_of(reading, list(changes_of(batch)), keys)
            yield batch.filter(pa.array(kept, pa.bool_()))

    return work
