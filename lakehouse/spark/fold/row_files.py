"""A folded table as files of a Delta table, written by the workers that fold it, where these run on the
lake's machine: Spark neither carries the rows nor writes them. A commit adds the files (Lake.create_files).

    gold's columns (typed_rows.py) ──RowWriter──▶ files, and one row that says what was found
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField

from lakehouse.spark.arrow import Worker
from lakehouse.spark.fold.typed_rows import OP
from lakehouse.spark.plain.files import Added, FileWriter, discard, discarding
from lakehouse.spark.plain.merge import physical

# what a worker says: the kinds of its rows and its notes, the places of the companions that some row needs,
# and what a commit says of its files
TOLD = "kinds array<string>, companions array<int>, files string"
_TOLD = pa.schema(
    [("kinds", pa.list_(pa.string())), ("companions", pa.list_(pa.int32())), ("files", pa.string())]
)
_PUT = pa.array(["put", "patch"])


class RowFiles(NamedTuple):
    """Where rows are written: a folder, and the column of the table that each column of a typed frame is,
    gold's columns and then a companion for each, with their ids and names in files.
    """

    folder: str
    fields: list[StructField]

    def used(self, companions: Iterable[int]) -> list[StructField]:
        """The columns that a table has which needs these companions."""
        count = len(self.fields) // 2
        return [*self.fields[:count], *(self.fields[count + place] for place in sorted(companions))]

    def discard(self, added: Iterable[Added]) -> None:
        """Delete files that no commit has added."""
        discard(Path(self.folder), *(one["path"] for one in added))


class RowWriter:
    """Writes a worker's rows but those that are deleted: one file, and another one from the first row on that
    needs one more companion.
    """

    def __init__(self, target: RowFiles) -> None:
        self._folder, self._target = Path(target.folder), target
        self._files: dict[frozenset[int], FileWriter] = {}
        self._kinds: set[str] = set()
        self._companions: frozenset[int] = frozenset()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows of a typed frame."""
        kinds, count = batch.column(OP), len(self._target.fields) // 2
        self._kinds.update(pc.unique(kinds).to_pylist())
        rows = batch.filter(pc.is_in(kinds, _PUT))
        if not rows.num_rows:
            return
        needed = (i for i in range(count) if rows.column(count + i).null_count < rows.num_rows)
        self._companions |= frozenset(needed)
        if self._companions not in self._files:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files[self._companions] = FileWriter(self._folder, None)
        columns = [*rows.columns[:count], *(rows.column(count + i) for i in sorted(self._companions))]
        table = pa.table(columns, names=list(map(str, range(len(columns)))))
        self._files[self._companions].write(physical(table, self._target.used(self._companions)))

    def told(self) -> pa.RecordBatch:
        """What was found, as a row of TOLD."""
        added = [file.close() for file in self._files.values()]
        row = {
            "kinds": sorted(self._kinds),
            "companions": sorted(self._companions),
            "files": json.dumps(added),
        }
        return pa.RecordBatch.from_pylist([row], schema=_TOLD)

    def discard(self) -> None:
        """Delete the files."""
        for file in self._files.values():
            file.discard()


def into_files(worker: Worker, target: RowFiles) -> Worker:
    """A worker that writes the typed rows which another one gives, and tells what it has found."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.spark.fold.row_files import RowWriter

        with discarding(RowWriter(target)) as writer:
            for batch in worker(batches):
                writer.write(batch)
            yield writer.told()

    return work
