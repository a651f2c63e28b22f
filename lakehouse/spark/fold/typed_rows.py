"""Folded rows as gold's columns, typed by the workers that fold them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.events import Position
from lakehouse.fold.continuity import Breaks
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import GoldColumn, gold_column, lacking_cells, type_rows
from lakehouse.spark.column_types import data_type
from lakehouse.spark.fold.notes import NOTE, found_in, note

# a column of folded frames: what is done with the row. No source's column has so long a name
OP = "_lakehouse_put_or_delete_" + "_" * 64


@dataclass(frozen=True, slots=True)
class LargeFold:
    """A folded table as a frame of gold's columns (c0 …), a companion for each (r0 …), and the kind of each
    row in the column OP; the kinds that there are, the companions that at least one row needs, and what the
    fold found: columns that no DDL has declared, what the changes lack, which do not fit those before them,
    whether deletes in a table without a key did not find rows of their image, and how many changes it has
    folded (None: they were not counted).
    """

    frame: DataFrame
    kinds: frozenset[str]
    companions: list[str]
    unknown: dict[str, Position]
    problems: frozenset[str]
    breaks: Breaks
    guessed: bool = False
    taken: int | None = None


class RowTyper:
    """Makes gold's columns of rows, in a worker."""

    def __init__(self, typing: "Typing") -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._columns = [gold_column(*each) for each in typing.told]
        self._arrow, self._needed = to_arrow_schema(typing.schema), typing.needed

    def batch(self, rows: Sequence[tuple[str, Row]]) -> pa.RecordBatch:
        """Rows with their kinds, and notes of the needed columns that some of them lack."""
        there = (row for kind, row in rows if kind in ("put", "patch"))
        notes = list(map(note, sorted(lacking_cells(there, self._needed))))
        typed = type_rows([*(row for _, row in rows), *({} for _ in notes)], self._columns)
        nothing = [None] * typed.count
        values = [typed.columns[column.name] for column in self._columns] + [
            typed.raw.get(column.companion, nothing) for column in self._columns
        ]
        values.append([*(kind for kind, _ in rows), *notes])
        arrays = [pa.array(v, f.type) for v, f in zip(values, self._arrow, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)


@dataclass(frozen=True, slots=True)
class Typing:
    """What makes gold's columns of netted rows: the columns as plain data, their schema, and the columns of
    which every row has to have a cell.
    """

    told: list[tuple[Any, str, str, str | None]]
    schema: StructType
    needed: dict[int, str]

    def typer(self) -> RowTyper:
        """The columns' rules, compiled."""
        return RowTyper(self)

    def worker(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gold's columns of netted rows."""
        from lakehouse.spark.fold.deltas import decode_row

        typer = self.typer()
        for batch in batches:
            rows = map(decode_row, batch.column("image").to_pylist())
            yield typer.batch(list(zip(batch.column("kind").to_pylist(), rows, strict=True)))


def typing_of(columns: list[GoldColumn], needed: Mapping[int, str]) -> Typing:
    """Gold's columns, a companion for each, and the kind as column OP; names are positional until the
    caller renames them. Notes say which of the `needed` columns some row lacks.
    """
    fields = [StructField(f"c{i}", data_type(column.spark)) for i, column in enumerate(columns)]
    fields += [StructField(f"r{i}", StringType()) for i in range(len(columns))]
    schema = StructType([*fields, StructField(OP, StringType())])
    told = [(column.column, column.spark, column.companion, column.mask) for column in columns]
    return Typing(told, schema, dict(needed))


def looked_over(typed: DataFrame, columns: list[GoldColumn], without: str = "") -> LargeFold:
    """A typed frame after one look at all of it, which computes it: its rows without the notes, and what
    there is to know of them. Rows of the kind `without` need no companions.
    """
    needed = F.col(OP) != without
    counts = [F.count(F.when(needed, F.col(f"r{i}"))).alias(f"r{i}") for i in range(len(columns))]
    row = typed.agg(F.collect_set(OP).alias("kinds"), *counts).first()
    assert row is not None
    notes = found_in(row["kinds"])
    kinds = frozenset(kind for kind in row["kinds"] if not kind.startswith(NOTE))
    companions = [column.companion for i, column in enumerate(columns) if row[f"r{i}"]]
    rows = typed if len(kinds) == len(row["kinds"]) else typed.where(~F.col(OP).startswith(NOTE))
    return LargeFold(
        rows,
        kinds,
        companions,
        notes.unknown,
        problems=notes.problems,
        breaks=notes.breaks,
        taken=notes.taken,
    )
