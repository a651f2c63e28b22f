"""The log of a source's progress: one small append-only Delta table, `ops.<source>_log`, of JSON records.

What the records are, and who writes them, is in lakehouse/ops/records.py.

`seq` grows by one per record. Layers in processes of their own may give one number twice; records of one kind
come from one layer, whose run lock keeps its writers apart, so the order within a kind is never in doubt.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakehouse.ops.records import Generation, Record, decode, encode
from lakehouse.spark.lake import Lake

SCHEMA = StructType(
    [
        StructField("seq", LongType()),
        StructField("kind", StringType()),
        StructField("at", LongType()),
        StructField("body", StringType()),
    ]
)
# a run reads the whole log, in which each record is a file of its own: after so many they are put together
TIDY = 256
Kind = TypeVar("Kind", bound=Record)


class Logged(NamedTuple):
    """A record as the table has it. `record` is None for a kind that only a newer lakehouse knows."""

    seq: int
    kind: str
    at: int
    text: str
    record: Record | None


@dataclass(slots=True)
class OpsLog:
    """The records of one source, read once and kept in step with what this run appends."""

    spark: SparkSession
    lake: Lake
    source: str
    records: list[Logged] = field(default_factory=list)
    suffix: str = ""

    @property
    def table(self) -> str:
        return f"{self.source}_log{self.suffix}"

    @property
    def generation(self) -> int:
        """Which of silver's generations counts; the first is 1."""
        last = self.last(Generation)
        return last.number if last else 1

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self.records[-1].seq if self.records else 0

    def load(self) -> "OpsLog":
        if self.lake.exists(self.spark, "ops", self.table):
            rows = self.lake.read(self.spark, "ops", self.table).toArrow().to_pylist()
            rows.sort(key=lambda row: (row["seq"], row["at"]))
            self.records = [_logged(**row) for row in rows]
        if self.generation > 1:
            self.lake.use_generation(self.source, self.generation)
        return self

    def add(self, record: Record) -> int:
        """Append a record; returns its seq."""
        return self.add_all([record])

    def add_all(self, records: Sequence[Record]) -> int:
        """Append records in one commit; returns the seq of the last."""
        now = int(time.time() * 1000)
        logged = [
            Logged(self.seq + number, record.kind, now, encode(record), record=record)
            for number, record in enumerate(records, 1)
        ]
        rows = [{"seq": one.seq, "kind": one.kind, "at": one.at, "body": one.text} for one in logged]
        self.lake.append(
            self.spark.createDataFrame(pa.Table.from_pylist(rows), SCHEMA).coalesce(1), "ops", self.table
        )
        self.records += logged
        return self.seq

    def tidy(self, began: int) -> None:
        """Put the table's files together where a run, which began at seq `began`, has passed another multiple
        of TIDY.
        """
        if self.seq // TIDY == began // TIDY:
            return
        try:
            self.spark.sql(f"OPTIMIZE {self.lake.ref('ops', self.table)}").collect()
        except Exception as error:
            # somebody else puts them together at this moment: Delta's own error, which each kind of session
            # shows in its way
            if "DELTA_CONCURRENT" not in str(error):
                raise

    def last(self, kind: type[Kind]) -> Kind | None:
        """The last record of a kind."""
        return next((one.record for one in reversed(self.records) if isinstance(one.record, kind)), None)

    def all(self, kind: type[Kind]) -> list[Kind]:
        """The records of a kind, oldest first."""
        return [one.record for one in self.records if isinstance(one.record, kind)]

    def dated(self, kind: type[Kind]) -> list[tuple[int, Kind]]:
        """The records of a kind, each after the moment at which it was written."""
        return [(one.at, one.record) for one in self.records if isinstance(one.record, kind)]

    def stored(self, kind: type[Record]) -> list[Any]:
        """The records of a kind as JSON has them, unknown members included."""
        return [json.loads(one.text) for one in self.records if one.kind == kind.kind]


def _logged(seq: int, kind: str, at: int, body: str) -> Logged:
    return Logged(seq, kind, at, body, record=decode(kind, body))
