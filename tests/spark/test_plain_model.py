"""Rows that are found and merged without Spark, held to a multiset in memory: tables of random columns,
whose files lack some, have narrower ones, short row groups and statistics in part, with deletion vectors or
without.
"""

import datetime as dt
import json
import random
import struct
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.spark.commit_files import live_files
from lakehouse.spark.plain import find
from lakehouse.spark.plain.create import create_mapped, mapped_fields
from lakehouse.spark.plain.deletion_vectors import counts_of, read_vector
from lakehouse.spark.plain.mark import merge_marked
from lakehouse.spark.plain.merge import PHYSICAL, Wanted, merge_plain

Cells = tuple[Any, ...]
UTC = dt.UTC
# of each type some values, and a narrower type that older files may have
VALUES: list[tuple[T.DataType, list[Any], pa.DataType | None]] = [
    (T.ByteType(), [-128, 0, 127], None),
    (T.IntegerType(), [-(2**31), 0, 1, 2**31 - 1], pa.int16()),
    (T.LongType(), [-(2**63), 0, 5, 2**63 - 1], pa.int32()),
    (T.StringType(), ["", "a", "A", "\x00", "\uffff", "\U0001f600" * 33, "y" * 40, "y" * 40 + "z"], None),
    (T.BinaryType(), [b"", b"\0", b"\xff"], None),
    (T.DateType(), [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)], None),
    (T.DecimalType(38, 10), [Decimal("0E-10"), Decimal("1.5"), Decimal("-123456789.0123456789")], None),
    (T.DecimalType(10, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("99999999.99")], pa.decimal128(8, 2)),
    (T.TimestampNTZType(), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)], None),
    (T.FloatType(), [0.0, -0.0, 1.5, float("inf")], None),
    (T.DoubleType(), [0.0, -0.0, 5e-324, 1.5], pa.float32()),
    (T.BooleanType(), [True, False], None),
    (T.TimestampType(), [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2038, 1, 19, 3, tzinfo=UTC)], None),
]
OF_KEYS = 9  # so many of them can be a key
PROPERTIES = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}


@pytest.fixture(autouse=True)
def reads_few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "_AT_ONCE", 7)
    monkeypatch.setattr(find, "_TEXTS_AT_ONCE", 3)


def image(row: Cells) -> Cells:
    """A row such that Python compares it exactly."""
    return tuple(struct.pack("d", value) if isinstance(value, float) else value for value in row)


class Table:
    """A table in a folder, and the rows that it has to have."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        kinds = [chance.randrange(len(VALUES)) for _ in range(chance.randint(1, 5))]
        able = [number for number, kind in enumerate(kinds) if kind < OF_KEYS]
        self.key = chance.sample(able, chance.randint(1, len(able))) if able and chance.random() < 0.4 else []
        self.values: list[list[Any]] = [VALUES[kind][1] for kind in kinds]
        self.narrow = [VALUES[kind][2] for kind in kinds]
        columns = [T.StructField(f"c{number}", VALUES[kind][0]) for number, kind in enumerate(kinds)]
        fields = mapped_fields(T.StructType(columns), PROPERTIES)
        assert fields is not None
        self.physical = [field.metadata[PHYSICAL] for field in fields]
        self.schema = to_arrow_schema(T.StructType(fields)).remove_metadata()
        folder.mkdir()
        self.rows = Counter[Cells]()
        self.cells: dict[Cells, Cells] = {}
        parts = [self.some_rows(chance.randint(1, 20)) for _ in range(chance.randint(0, 4))]
        added = [self.file(number, rows) for number, rows in enumerate(self.told_apart(parts))]
        assert create_mapped(folder, fields, added, PROPERTIES)
        self.marks = chance.random() < 0.6
        self.allow(marks=self.marks)

    def allow(self, *, marks: bool) -> None:
        """No version is Delta's; with `marks` the table has deletion vectors."""
        (path,) = (self.folder / "_delta_log").glob("*.crc")
        told = json.loads(path.read_text())
        told["metadata"]["configuration"]["delta.checkpointInterval"] = "1000000"
        if marks:
            told["metadata"]["configuration"]["delta.enableDeletionVectors"] = "true"
            for features in ("readerFeatures", "writerFeatures"):
                told["protocol"][features].append("deletionVectors")
        path.write_text(json.dumps(told))

    def some_rows(self, count: int) -> list[Cells]:
        return [
            tuple(self.chance.choice([None, *values]) for values in self.values)
            if self.chance.random() < 0.5 or not self.cells
            else self.chance.choice(list(self.cells.values()))
            for _ in range(count)
        ]

    def key_of(self, row: Cells) -> Cells:
        return tuple(row[number] for number in self.key) if self.key else image(row)

    def told_apart(self, parts: list[list[Cells]]) -> Iterable[list[Cells]]:
        """The rows of files: with a key one of each."""
        seen = set[Cells]()
        for rows in parts:
            mine = [row for row in rows if not self.key or self.key_of(row) not in seen]
            mine = list({self.key_of(row): row for row in mine}.values()) if self.key else mine
            seen |= {self.key_of(row) for row in mine}
            if mine:
                self.put(mine)
                yield mine

    def put(self, rows: list[Cells]) -> None:
        self.rows.update(map(image, rows))
        self.cells |= {image(row): row for row in rows}

    def file(self, number: int, rows: list[Cells]) -> dict[str, Any]:
        """A file of these rows; columns that are NULL in all of them it may lack."""
        chance, cells = self.chance, dict[str, pa.Array]()
        for name, field, narrow, values in zip(
            self.physical, self.schema, self.narrow, zip(*rows, strict=True), strict=True
        ):
            if any(value is not None for value in values) or chance.random() < 0.3:
                cells[name] = pa.array(values, field.type)
                if narrow is not None and chance.random() < 0.6:
                    cells[name] = narrowed(cells[name], narrow)
        cells = cells or {self.physical[0]: pa.nulls(len(rows), self.schema.field(0).type)}
        names = chance.sample(list(cells), len(cells))
        table = pa.table({name: cells[name] for name in names})
        path = self.folder / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=chance.choice([1, 3, 100]), data_page_size=16)
        stats: dict[str, Any] = {"numRecords": len(rows)}
        whole = {name: column for name, column in cells.items() if pa.types.is_integer(column.type)}
        for part, bound in (("minValues", min), ("maxValues", max)):
            stats[part] = {
                name: bound(value for value in column.to_pylist() if value is not None)
                for name, column in whole.items()
                if column.null_count < len(rows) and chance.random() < 0.8
            }
        stats["nullCount"] = {name: cells[name].null_count for name in names if chance.random() < 0.8}
        size = path.stat().st_size
        return {
            "path": path.name,
            "partitionValues": {},
            "size": size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps(stats),
        }

    @property
    def version(self) -> int:
        return max(int(path.stem) for path in (self.folder / "_delta_log").glob("*.json"))

    def read(self) -> Counter[Cells]:
        """The rows that the files have, all of them read."""
        found = Counter[Cells]()
        for path, file in (live_files(self.folder) or {}).items():
            gone, rows = (
                read_vector(self.folder, file.get("deletionVector")),
                pq.read_table(self.folder / path),
            )
            columns = [
                rows.column(name).cast(field.type).to_pylist()
                if name in rows.column_names
                else [None] * rows.num_rows
                for name, field in zip(self.physical, self.schema, strict=True)
            ]
            found.update(
                image(row) for number, row in enumerate(zip(*columns, strict=True)) if number not in gone
            )
        return found

    def wanted(self, rows: list[Cells], deleted: list[bool]) -> Wanted:
        columns = list(zip(*rows, strict=True)) or [()] * len(self.schema)
        cells = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        names = [self.schema.names[number] for number in self.key] or self.schema.names
        table = pa.table(cells, schema=self.schema)
        return Wanted(table, deleted, names, 1 << 30, keyless=not self.key)


def narrowed(cells: pa.Array, narrow: pa.DataType) -> pa.Array:
    """The cells in a narrower type, if it can hold them."""
    try:
        fewer = cells.cast(narrow)
    except pa.ArrowInvalid:
        return cells
    return fewer if fewer.cast(cells.type).equals(cells) else cells


def looked(table: Table, rows: list[Cells]) -> find.Hits | None:
    """What is found of these rows, held to the model."""
    wanted = table.wanted(rows, [True] * len(rows))
    if not table.key:
        hits = find.equal_rows(table.folder, wanted, table.version)
        assert hits is not None
        assert [hits.met[key] for key in hits.asked] == [table.rows[image(row)] for row in rows]
        return hits
    found = find.rows_of_keys(table.folder, wanted, table.version, table.schema.names)
    if found is None:  # a file has no column of the key
        return None
    keys, (read, hits) = {table.key_of(row) for row in rows}, found
    met = Counter(map(image, zip(*(column.to_pylist() for column in read.columns), strict=True)))
    assert met == {one: n for one, n in table.rows.items() if table.key_of(table.cells[one]) in keys}
    return hits


@pytest.mark.parametrize("seed", range(100))
def test_tables_have_the_rows_of_the_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = Table(tmp_path / "t", chance)
    assert table.read() == table.rows
    for step in range(4):
        gone, put = table.some_rows(chance.choice([0, 1, 5])), table.some_rows(chance.choice([0, 1, 3]))
        if table.key:
            one_each = {table.key_of(row): (row, number < len(gone)) for number, row in enumerate(gone + put)}
            gone = [row for row, is_gone in one_each.values() if is_gone]
            put = [row for row, is_gone in one_each.values() if not is_gone]
        gone = list({image(row): row for row in gone}.values())
        hits = looked(table, gone)
        asked = {table.key_of(row) for row in (gone + put if table.key else gone)}
        wanted = table.wanted([*put, *gone], [False] * len(put) + [True] * len(gone))
        done = merge_plain(table.folder, wanted) or merge_marked(table.folder, wanted, hits)
        if done is None:
            assert table.key and hits is None
            break
        met = {one: n for one, n in table.rows.items() if table.key_of(table.cells[one]) in asked}
        table.rows -= Counter(met)
        table.put(put)
        assert (done.matched, done.written) == (sum(met.values()), len(put))
        assert table.read() == table.rows, step
        files = (live_files(table.folder) or {}).values()
        told = json.loads((table.folder / f"_delta_log/{done.version:020d}.crc").read_text())
        assert (told["numFiles"], told["tableSizeBytes"]) == (len(files), sum(one["size"] for one in files))
        if table.marks and done.version:
            assert counts_of(files).items() <= told.items()


def test_rows_of_a_key_twice_are_no_rows_to_merge(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", random.Random(4))
    rows = table.some_rows(1) * 2
    wanted = table.wanted(rows, [True, True])
    assert find.rows_of_keys(table.folder, wanted, table.version, table.schema.names) is None
    assert (merge_plain(table.folder, wanted), merge_marked(table.folder, wanted)) == (None, None)
    assert table.read() == table.rows
