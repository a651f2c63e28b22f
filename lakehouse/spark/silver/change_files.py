"""Changes of a large batch as files of silver's own table, written by the workers that decode them, where
these run on the lake's machine: Spark neither carries the rows nor writes them.

    decoded ──ChangeWriter──▶ files in the table's folder ──all new──▶ added by a commit (Lake.append_files)
                                                         └─otherwise─▶ read back, deduped, deleted

A file that a dead worker has left is in no version of the table; `lakehouse maintain` deletes it with those
of former versions (VACUUM).
"""

import json
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType

from lakehouse.spark.plain.files import Added, FileWriter, discard, discarding
from lakehouse.spark.silver.columns import CHANGE_COLUMNS, ORIGIN
from lakehouse.spark.silver.tables import INDEXED, silver_schema

# which of the two halves of an update without a key a row is: number_halves needs it, silver does not have it
_HALF = "half"
# a value of these hardly comes twice
_TEXTS = {"key", "before", "after"}


class Target(NamedTuple):
    """Where a batch's changes are written: the folder of silver's table, and what all rows have."""

    folder: str
    source: str
    batch: int


class ChangeWriter:
    """Writes a worker's changes: one file, and another one of those that come with halves."""

    def __init__(self, target: Target) -> None:
        self._target, self._folder = target, Path(target.folder)
        self._schema = to_arrow_schema(silver_schema("changes"))
        self._files: dict[bool, FileWriter] = {}

    def write(self, changes: pa.RecordBatch) -> None:
        """Add changes, in CHANGE_COLUMNS."""
        has_halves = changes.column(_HALF).null_count < changes.num_rows
        if has_halves not in self._files:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files[has_halves] = FileWriter(self._folder, INDEXED, repeated=_repeated(self._schema))
        rows = pa.table([self._column(changes, field) for field in self._schema], schema=self._schema)
        if has_halves:
            rows = rows.append_column(_HALF, changes.column(_HALF))
        self._files[has_halves].write(rows)

    def close(self) -> str | None:
        """What commits say of the files, as JSON; None where there are none."""
        return json.dumps([file.close() for file in self._files.values()]) if self._files else None

    def discard(self) -> None:
        """Delete the files."""
        for file in self._files.values():
            file.discard()

    def _column(self, changes: pa.RecordBatch, field: pa.Field) -> pa.Array:
        match field.name:
            case "source":
                return pa.repeat(pa.scalar(self._target.source, field.type), changes.num_rows)
            case "batch":
                return pa.repeat(pa.scalar(self._target.batch, field.type), changes.num_rows)
            case "origin":
                parts = [changes.column(name) for name in ORIGIN]
                return pa.StructArray.from_arrays(parts, fields=list(field.type))
            case name:
                return changes.column(name).cast(field.type)


def change_writer(target: Target | None) -> AbstractContextManager[ChangeWriter | None]:
    """A worker's writer, whose files are deleted where it fails; None where Spark writes."""
    return nullcontext() if target is None else discarding(ChangeWriter(target))


def added_of(texts: Iterable[str | None]) -> list[Added]:
    """What workers say of their files."""
    return [one for text in texts if text is not None for one in json.loads(text)]


def staged_changes(spark: SparkSession, target: Target, added: list[Added]) -> DataFrame:
    """The changes of files that no commit has added yet, in CHANGE_COLUMNS."""
    schema = silver_schema("changes").add(_HALF, StringType())
    rows = spark.read.schema(schema).parquet(*(f"{target.folder}/{one['path']}" for one in added))
    return rows.select(*(F.col(f"origin.{name}") if name in ORIGIN else name for name in CHANGE_COLUMNS))


def discard_staged(target: Target, added: list[Added]) -> None:
    """Delete files that no commit has added."""
    discard(Path(target.folder), *(one["path"] for one in added))


def _repeated(schema: pa.Schema) -> list[str]:
    """The paths of the columns whose values come again and again."""
    paths: list[str] = []
    for field in schema:
        if pa.types.is_struct(field.type):
            paths += [f"{field.name}.{member.name}" for member in field.type]
        elif pa.types.is_list(field.type):
            paths.append(f"{field.name}.list.element")
        elif field.name not in _TEXTS:
            paths.append(field.name)
    return paths
