"""The changes of some rows of a table, found by Spark's workers in all that silver has of it.

Gold's rows match by key values, in the schema that is in force when gold is written, and silver's text of a
key is the message's: a column may have been renamed or retyped since. So each change is read as the fold
reads it, and kept where one of its rows has one of the keys, or where it can't be said which row it is of.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.fold.row_edits import Change, ChangeReader, Key, row_key
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Lineage, key_ids
from lakehouse.spark.change_log.changes import FOLD_COLUMNS

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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


def may_be_of(reading: Reading, changes: Sequence[Change], keys: Collection[Key]) -> list[bool]:
    """Of each change whether it may be of rows of these keys."""
    ids = key_ids(reading.lineage, reading.step)
    edits = ChangeReader(reading.lineage, reading.step, reading.upstream, ids).read(changes).edits
    read = {edit.position for edit in edits}
    found = {edit.position for edit in edits if (key := row_key(edit.row, ids)) is None or key in keys}
    return [one.position in found or (reading.cleared and one.position not in read) for one in changes]


def _keeping(reading: Reading, keys: frozenset[Key]) -> Worker:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.change_log.changes import changes_of
        from lakehouse.spark.change_log.key_changes import may_be_of

        for batch in batches:
            kept = may_be_of(reading, list(changes_of(batch)), keys)
            yield batch.filter(pa.array(kept, pa.bool_()))

    return work
