"""What bronze and silver hold, counted by batch against what silver's batches say they have read and written:
the part of `lakehouse audit` that compares layers.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.ops.progress import Place
from lakehouse.ops.pruning import floor_batch
from lakehouse.ops.records.operators import Floor
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.silver.backfill import joined
from lakehouse.spark.arrow import Worker, rows_batch
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.column_types import columns
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.columns import PLACE, RECORD
from lakehouse.spark.silver.tables import count_by_table, read_silver

# a finding names at most so many places
PLACES = 5
# the generation of what stands for the plans that the log no longer has
SUMMARY = ""
COUNTED = "topic string, incarnation string, partition int, group bigint, n bigint, first bigint"
_COUNTED = to_arrow_schema(columns(COUNTED))


def bronze_findings(log: OpsLog, done: Done) -> Iterator[str]:
    """What bronze lacks, or has too much of, against what silver's batches have read."""
    bronze = log.lake.read_or_empty(log.spark, "bronze", log.source, BRONZE_SCHEMA)
    counts = bronze.groupBy(*PLACE).agg(
        F.count(F.lit(1)).alias("rows"), F.countDistinct("offset").alias("offsets")
    )
    for row in counts.where("rows > offsets").collect():
        yield (
            f"bronze {_told((row.topic, row.incarnation, row.partition))}: "
            f"{row.rows - row.offsets} of {row.rows} records are there twice"
        )
    old = log.summary
    plans = [one for one in log.counted(Planned) if one.batch <= done.batch and not one.is_repeat]
    messages = {one.batch: one.counts.messages for one in log.counted(Done)}
    if old.ranges:
        plans.insert(0, Planned(batch=old.batch, generation=SUMMARY, small=False, ranges=old.ranges))
        messages[old.batch] = old.messages
    groups = overlapping(plans)
    held, below = counted(bronze, groups, {one.place: one.offset for one in done.next})
    for number, group in enumerate(groups):
        read = sum(messages.get(plan.batch, 0) for plan in group)
        if read != held.get(number, 0):
            batches = ", ".join(_batch(plan) for plan in group[:PLACES])
            mend = "restore bronze's table to its newest version, or land the topic again"
            yield (
                f"bronze: batch {batches} of silver counted {read} messages, and bronze holds "
                f"{held.get(number, 0)} in its ranges ({_ranges(group)}): "
                f"{mend if read > held.get(number, 0) else '`lakehouse rebuild silver`'}"
            )
    for place, (number, first) in sorted(below.items()):
        yield (
            f"bronze {_told(place)}: {number} records below where silver goes on were never decoded (first "
            f"{first}): `lakehouse rebuild silver`"
        )


def overlapping(plans: Sequence[Planned]) -> list[list[Planned]]:
    """The batches in groups whose ranges overlap: records that landed below a batch's own lie between them,
    and were read by a later batch.
    """
    groups: list[list[Planned]] = []
    for plan in plans:
        near: list[list[Planned]] = []
        if plan.again:  # others begin behind all that was read before
            near = [group for group in groups if any(_overlap(plan, one) for one in group)]
            groups = [group for group in groups if group not in near]
        groups.append([*(one for group in near for one in group), plan])
    return groups


def _overlap(plan: Planned, other: Planned) -> bool:
    return any(
        one.place == two.place and one.first <= two.last and two.first <= one.last
        for one in plan.ranges
        for two in other.ranges
    )


def counted(
    bronze: DataFrame, groups: Sequence[Sequence[Planned]], following: Mapping[Place, int]
) -> tuple[dict[int, int], dict[Place, tuple[int, int]]]:
    """How many records bronze has in the ranges of each group of batches; and of each partition how many
    records below the offset where silver goes on lie in none of them, and the first.
    """
    worker = count_worker(segments(groups), dict(following))
    records = bronze.select(*RECORD)
    held: dict[int, int] = {}
    below: dict[Place, tuple[int, int]] = {}
    for row in records.mapInArrow(worker, COUNTED).toArrow().to_pylist():
        place = (row["topic"], row["incarnation"], row["partition"])
        if row["group"] is not None:
            held[row["group"]] = held.get(row["group"], 0) + row["n"]
        else:
            n, first = below.get(place, (0, row["first"]))
            below[place] = n + row["n"], min(first, row["first"])
    return held, below


Segments = dict[Place, list[tuple[int, int, int]]]


def segments(groups: Iterable[Iterable[Planned]]) -> Segments:
    """By partition the first and last offsets of the groups' ranges, with the group's number, in order; no
    two overlap.
    """
    found: Segments = {}
    for number, group in enumerate(groups):
        for one in joined(each for plan in group for each in plan.ranges):
            found.setdefault(one.place, []).append((one.first, one.last, number))
    return {place: sorted(ranges) for place, ranges in found.items()}


def count_worker(known: Segments, following: Mapping[Place, int]) -> Worker:
    """Counts records by the group that has read them, each batch of rows by itself."""
    starts = {place: [first for first, _, _ in ranges] for place, ranges in known.items()}

    def group_of(place: Place, offset: int) -> int | None:
        at = bisect_right(starts.get(place, []), offset) - 1
        if at < 0:
            return None
        _, last, number = known[place][at]
        return number if offset <= last else None

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counts: dict[tuple[Place, int | None], tuple[int, int]] = {}
            for *place, offset in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                where: Place = (place[0], place[1], place[2])
                group = group_of(where, offset)
                if group is None and offset >= following.get(where, 0):
                    continue  # it waits to be decoded
                n, first = counts.get((where, group), (0, offset))
                counts[where, group] = n + 1, min(first, offset)
            rows = [(*where, group, n, first) for (where, group), (n, first) in counts.items()]
            yield rows_batch(rows, _COUNTED)

    return work


def silver_findings(log: OpsLog, done: Done) -> Iterator[str]:
    """What silver lacks, or has too much of, against what its batches have counted."""
    below, old = floor_batch(log.all(Floor), log.generation), log.summary
    changes = read_silver(log.spark, log.lake, log.source, "changes").where(F.col("batch") <= done.batch)
    held = {row["batch"]: row["count"] for row in changes.groupBy("batch").count().collect()}
    there = sum(rows for batch, rows in held.items() if old.above < batch <= old.batch)
    if below <= old.above and there != old.inserted:
        yield (
            f"silver: the batches up to {old.batch} inserted {old.inserted} changes, and silver holds "
            f"{there} of them: restore its changes table to its newest version, or "
            f"`lakehouse rebuild silver {log.source}`"
        )
    for one in log.counted(Done):
        if below < one.batch <= done.batch and held.get(one.batch, 0) != one.counts.inserted:
            yield (
                f"silver: batch {one.batch} inserted {one.counts.inserted} changes, and silver holds "
                f"{held.get(one.batch, 0)} of it: restore its changes table to its newest version, or "
                f"`lakehouse rebuild silver {log.source}`"
            )
    letters = read_silver(log.spark, log.lake, log.source, "dead_letters")
    letters = letters.where(F.col("batch") <= done.batch)
    stored: Mapping[Any, int] = count_by_table(letters)
    for name, number in sorted({one.name: one.n for one in done.dead}.items(), key=repr):
        kept, table = stored.get(name, 0), ".".join(filter(None, name)) or "no known table"
        if kept != number:
            yield f"silver: {number} dead letters of {table} were counted, and silver holds {kept}"


def _told(place: Place) -> str:
    topic, incarnation, partition = place
    return f"{topic}/{partition}" + (f" ({incarnation})" if incarnation else "")


def _batch(plan: Planned) -> str:
    return f"up to {plan.batch}" if plan.generation == SUMMARY else str(plan.batch)


def _ranges(plans: Iterable[Planned]) -> str:
    told = [f"{_told(one.place)} {one.first} to {one.last}" for plan in plans for one in plan.ranges]
    more = f", and {len(told) - PLACES} more" if len(told) > PLACES else ""
    return ", ".join(told[:PLACES]) + more
