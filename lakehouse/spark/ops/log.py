"""The log of a source's progress: one small append-only Delta table, `ops.<source>_log`, of JSON records.

What the records are, and who writes them, is in lakehouse/ops/records/.

`seq` grows by one per record, and a number exists once: it is the version of the append's Delta transaction,
so that Delta skips an append whose number is taken. A writer reads back what it has appended, which it knows
by a mark of its own: two writers may say the same in the same millisecond. Where another process was quicker,
it takes the next number, unless that process runs the same layer: then a lease has lapsed and was taken over,
and this run stops before it writes anything else; one of gold says once more which tables it has written.
A run of gold stops where silver was built again, too.

An append costs several times what its rows cost. So records that nobody else has to know at once wait for the
next one, and are appended with it: while a run gathers them, they are in `records` and not in the table.

A run loads the whole log, so it is pruned (lakehouse/ops/pruning.py) by each run that passes a multiple of
TIDY or has made it long: old records go to the archive, what batches said that anybody needs goes into a
summary. `whole` has them all.

Lakes of older versions may have one number twice.
"""

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakehouse.errors import LakehouseError
from lakehouse.ops.gist import Gist
from lakehouse.ops.pruning import OLD, known_summary, pruned
from lakehouse.ops.records.gold import Intent, Manifest
from lakehouse.ops.records.kinds import encode
from lakehouse.ops.records.operators import Dismissed, Generation
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.runs import Summary
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark import limits
from lakehouse.spark.commit_files import newest_commits
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log_archive import Archive
from lakehouse.spark.ops.logged import Logged, logged_rows

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
# how often a number is looked for while others append too
TRIES = 50
# the member of a stored record that says who has appended it
MARK = "append"
Kind = TypeVar("Kind", bound=Record)
OfBatch = TypeVar("OfBatch", Planned, Done)


@dataclass(slots=True)
class OpsLog:
    """The records of one source, read once and kept in step with what this run appends. The last `waiting` of
    them are not in the table yet."""

    spark: SparkSession
    lake: Lake
    source: str
    records: list[Logged] = field(default_factory=list)
    suffix: str = ""
    waiting: int = 0
    depth: int = 0
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

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
        """The number of the last record in the table."""
        stored = len(self.records) - self.waiting
        return self.records[stored - 1].seq if stored else 0

    def load(self) -> "OpsLog":
        self.waiting = 0
        self.records = self._stored(-1)
        self._use_generation()
        return self

    def refresh(self) -> bool:
        """Read what others have appended since; returns whether there is anything."""
        before = self.seq
        if not self.records:
            self.load()
        else:
            newer = self._newer()
            self.records += newer
            if any(one.kind == Summary.kind for one in newer):
                self.load()  # it is shorter now
            self._use_generation()
        return self.seq > before

    def _use_generation(self) -> None:
        if self.generation > 1:
            self.lake.use_generation(self.source, self.generation)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """In here the records of `add_along` wait for the next one of `add`; the rest of them is appended at
        the end of the outermost of such blocks, but not where an error ends it: what is to be kept then, the
        record of the error takes along.
        """
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
        self.flush()

    def flush(self) -> None:
        """Append what waits, unless a block is left that gathers."""
        if self.waiting and not self.depth:
            self.add_all(())

    def add_along(self, record: Record) -> None:
        """Append a record that only this run has to know at once: with the next one, in its commit."""
        self.records.append(self._logged(record, self.records[-1].seq + 1 if self.records else 1))
        self.waiting += 1
        self.flush()

    def add(self, record: Record) -> int:
        """Append a record, and those that wait before it; returns its seq."""
        return self.add_all([record])

    def add_all(self, records: Sequence[Record]) -> int:
        """Append records in one commit, behind those that wait; returns the seq of the last. LakehouseError
        where another run of the same layer has written since this one read the log.
        """
        records = [*self._taken(), *records]
        is_last = any(isinstance(one, Manifest) for one in records)  # of what its run writes
        written = self._written() if is_last else None
        for _ in range(TRIES):
            mine = [self._logged(record, self.seq + number) for number, record in enumerate(records, 1)]
            if self._append(mine):
                self.records += mine
                return self.seq
            newer = self._newer()
            self.records += newer
            own = {one.stored for one in mine}
            if own <= {one.stored for one in newer}:
                if not is_last:
                    self._refuse_rival(records, [one for one in newer if one.stored not in own])
                return self.seq
            if not newer:
                raise LakehouseError(
                    f"{self.lake.ref('ops', self.table)}: expected to append record {mine[0].seq}, but the "
                    "table has had more records before: it was restored to an older version; restore it to "
                    "its newest one"
                )
            try:
                self._refuse_rival(records, newer)
            except LakehouseError:
                # what was written may stand in gold above the versions that the other run's manifest names
                if written is not None:
                    self.add(written)
                raise
        raise LakehouseError(
            f"{self.lake.ref('ops', self.table)}: too many writers at one time; run it again"
        )

    def _written(self) -> Intent | None:
        """What this run has said to write to gold, and no manifest has followed."""
        for one in reversed(self.records):
            if one.kind == Manifest.kind:
                return None
            if isinstance(one.record, Intent):
                return one.record
        return None

    def _taken(self) -> list[Record]:
        """The records that wait, which no longer do."""
        first = len(self.records) - self.waiting
        waited = [one.record for one in self.records[first:] if one.record is not None]
        del self.records[first:]
        self.waiting = 0
        return waited

    def _logged(self, record: Record, seq: int) -> Logged:
        marked = json.dumps({**json.loads(encode(record)), MARK: self.mark})
        now = int(time.time() * 1000)
        return Logged.of(record, seq, now, marked)

    def _append(self, logged: Sequence[Logged]) -> bool:
        """Append under the first record's number; nothing is appended where that is taken. True where the
        table's newest commit is seen to be this one, on a machine's own disk; else the table has to be asked.
        """
        rows = [{"seq": one.seq, "kind": one.kind, "at": one.at, "body": one.text} for one in logged]
        commit, txn = uuid.uuid4().hex, (f"log:{self.table}", logged[0].seq)
        try:
            self.lake.append_rows(self.spark, "ops", self.table, rows, schema=SCHEMA, txn=txn, mark=commit)
        except Exception as error:
            # somebody else appends at this moment, or makes the table: Delta's error, which each kind of
            # session shows in its way
            if "DELTA_CONCURRENT" not in str(error) and "DELTA_PROTOCOL_CHANGED" not in str(error):
                raise
            return False
        folder = self.lake.folder(self.spark, "ops", self.table)
        newest = None if folder is None else next(newest_commits(folder), None)
        return newest is not None and newest.info.get("userMetadata") == commit

    def _newer(self) -> list[Logged]:
        """The records behind the last one that is known."""
        return self._stored(self.seq)

    def _stored(self, above: int) -> list[Logged]:
        table = self.lake.rows(self.spark, "ops", self.table, SCHEMA.names, above=("seq", above))
        return [] if table is None else logged_rows(table.to_pylist())

    def _refuse_rival(self, records: Sequence[Record], newer: Sequence[Logged]) -> None:
        writers = {record.writer for record in records if record.writer}
        rival = next((one for one in newer if one.record and one.record.writer in writers), None)
        if rival is not None and rival.record is not None:
            raise LakehouseError(
                f"{self.source}: another {rival.record.writer} run has written record {rival.seq} "
                f"({rival.kind}) while this one ran; this one stops, and nothing of it is published"
            )
        names_batches = Manifest.writer in writers or any(isinstance(one, Dismissed) for one in records)
        if names_batches and any(one.kind == Generation.kind for one in newer):
            # what it has read are batches of another numbering, which it would name as the new ones
            raise LakehouseError(
                f"{self.source}: silver was built again while this run read the former one; this one stops, "
                "and nothing of it is kept: run it again"
            )

    def tidy(self, began: int) -> None:
        """Prune the log, and put the table's files together, where a run, which began at seq `began`, has
        passed another multiple of TIDY, or the log has become twice as long as it is to be. Of old
        records the texts alone stay in memory.
        """
        if self.seq != began:
            self._forget()
        is_passed = self.seq // TIDY != began // TIDY
        if not is_passed and sum(one.size for one in self.records) <= 2 * limits.OPS_LOG_SIZE:
            return
        try:
            if self.prune() or is_passed:
                with self.lake.committing("ops", self.table):
                    self.spark.sql(f"OPTIMIZE {self.lake.ref('ops', self.table)}").collect()
        except Exception as error:
            # somebody else puts them together at this moment: Delta's own error, which each kind of session
            # shows in its way
            if "DELTA_CONCURRENT" not in str(error):
                raise

    def _forget(self) -> None:
        newest = {one.kind: one for one in self.records}
        for one in self.records:
            if one.kind in OLD and one is not newest[one.kind]:
                one.forget()

    @property
    def archive(self) -> Archive:
        return Archive(self.spark, self.lake, self.table)

    @property
    def summary(self) -> Summary:
        """What the log's batches said that are no longer in it."""
        return known_summary(self.records)

    def prune(self) -> bool:
        """Move the records that runs no longer need to the archive; returns whether there were any. What it
        did before it died it does again: the summary says from which record on batches count.
        """
        found = pruned(self.records, runs=limits.OPS_LOG_RUNS, size=limits.OPS_LOG_SIZE)
        if found is None:
            return False
        self.archive.put(found.condition)
        self.add(found.summary)
        self.archive.take_out(found.condition)
        self.records = [one for one in self.records if not found.takes(one)]
        return True

    def whole(self) -> "OpsLog":
        """The log with all records that its archive has. Only for reading."""
        if not any(one.kind == Summary.kind for one in self.records):
            return self
        found = {one.stored: one for one in (*logged_rows(self.archive.rows()), *self.records)}
        return replace(self, records=sorted(found.values(), key=lambda one: (one.seq, one.at)))

    def last(self, kind: type[Kind]) -> Kind | None:
        """The last record of a kind."""
        return next(self.newest_first(kind), None)

    def all(self, kind: type[Kind]) -> list[Kind]:
        """The records of a kind, oldest first."""
        return [record for _, record in self._of(kind, self.records)]

    def counted(self, kind: type[Kind]) -> list[Kind]:
        """The records of a kind that the summary does not have, oldest first."""
        first = self.summary.seq
        return [record for _, record in self._of(kind, (one for one in self.records if one.seq >= first))]

    def dated(self, kind: type[Kind]) -> list[tuple[int, Kind]]:
        """The records of a kind, each after the moment at which it was written."""
        return list(self._of(kind, self.records))

    def newest_first(self, kind: type[Kind], since: int = 0) -> Iterator[Kind]:
        """The records of a kind from a number on, each read when it is asked for."""
        found = (one for one in reversed(self.records) if one.seq >= since)
        return (record for _, record in self._of(kind, found))

    def above(self, kind: type[OfBatch], batch: int) -> list[OfBatch]:
        """The records of a kind of the batches above one, oldest first; no others are read."""
        later = (one for one in self.records if one.kind == kind.kind and one.gist.batch > batch)
        return [record for _, record in self._of(kind, later)]

    def gists(self, kind: type[OfBatch]) -> list[Gist]:
        """Of each record of a kind that the summary does not have, what is asked of every batch."""
        first = self.summary.seq
        return [one.gist for one in self.records if one.kind == kind.kind and one.seq >= first]

    def _of(self, kind: type[Kind], records: Iterable[Logged]) -> Iterator[tuple[int, Kind]]:
        for one in records:
            if one.kind == kind.kind and isinstance(record := one.record, kind):
                yield one.at, record

    def stored(self, kind: type[Record]) -> list[Any]:
        """The records of a kind as JSON has them, unknown members included, without the writers' marks."""
        members = [json.loads(one.text) for one in self.records if one.kind == kind.kind]
        return [{name: value for name, value in each.items() if name != MARK} for each in members]
