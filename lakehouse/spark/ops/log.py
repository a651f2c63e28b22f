"""The log of a source's progress: one small append-only Delta table, `ops.<source>_log`, of JSON records.

    kind      planned   a silver batch's offset ranges, before anything of it is written
              done      the same batch after its last write: what is not done does not exist for gold
              manifest  one published gold state: watermark, and per lineage its Delta table, version and
                        state
              epoch, retired, decision, imported, dismissed, rebuild, generation    what operators said
              inferred  columns that rows have and no DDL has added; gap: what bronze noticed

`seq` grows by one per record. Layers in processes of their own may give one number twice; records of one kind
come from one layer, whose run lock keeps its writers apart, so the order within a kind is never in doubt.
"""

import json
import time
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakehouse.spark.lake import Lake

SCHEMA = StructType(
    [
        StructField("seq", LongType()),
        StructField("kind", StringType()),
        StructField("at", LongType()),
        StructField("body", StringType()),
    ]
)
Record = dict[str, Any]
# a run reads the whole log, in which each record is a file of its own: after so many they are put together
TIDY = 256
# the kinds of what operators say, and of what topics lost: gold runs again when there is more of it
OPERATORS = (
    "epoch",
    "retired",
    "decision",
    "imported",
    "dismissed",
    "rebuild",
    "generation",
    "inferred",
    "accepted",
    "gap",
)


@dataclass(slots=True)
class OpsLog:
    """The records of one source, read once and kept in step with what this run appends."""

    spark: SparkSession
    lake: Lake
    source: str
    records: list[tuple[int, str, int, Record]] = field(default_factory=list)
    suffix: str = ""

    @property
    def table(self) -> str:
        return f"{self.source}_log{self.suffix}"

    @property
    def generation(self) -> int:
        """Which of silver's generations counts; the first is 1."""
        return int((self.last("generation") or {"number": 1})["number"])

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self.records[-1][0] if self.records else 0

    def load(self) -> "OpsLog":
        if self.lake.exists(self.spark, "ops", self.table):
            rows = self.lake.read(self.spark, "ops", self.table).toArrow().to_pylist()
            self.records = sorted(
                ((row["seq"], row["kind"], row["at"], json.loads(row["body"])) for row in rows),
                key=lambda record: (record[0], record[2]),
            )
        if self.generation > 1:
            self.lake.use_generation(self.source, self.generation)
        return self

    def add(self, kind: str, body: Record) -> int:
        """Append a record; returns its seq."""
        return self.add_all([(kind, body)])

    def add_all(self, records: list[tuple[str, Record]]) -> int:
        """Append records in one commit; returns the seq of the last."""
        seq = self.seq
        now = int(time.time() * 1000)
        numbered = [(seq + number, kind, now, body) for number, (kind, body) in enumerate(records, 1)]
        rows = [
            {"seq": number, "kind": kind, "at": now, "body": json.dumps(body)}
            for number, kind, now, body in numbered
        ]
        self.lake.append(
            self.spark.createDataFrame(pa.Table.from_pylist(rows), SCHEMA).coalesce(1), "ops", self.table
        )
        self.records += numbered
        return numbered[-1][0]

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

    def last(self, kind: str) -> Record | None:
        return next((body for _, found, _, body in reversed(self.records) if found == kind), None)

    def all(self, kind: str) -> list[Record]:
        return [body for _, found, _, body in self.records if found == kind]
