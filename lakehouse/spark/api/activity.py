"""How much changed when, how late it was, and what was published: counted in Spark, small pandas tables."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.lineage import History, Name
from lakehouse.ops.records.gold import Manifest
from lakehouse.reporting.text.values import place
from lakehouse.spark.api.moments import time_of
from lakehouse.spark.api.row_changes import counted
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.readers.timeline import batches
from lakehouse.spark.readers.views import commit_millis_of

# the lengths that an interval may have, in milliseconds, and their names
WIDTHS = (
    (1, "ms"), (10, "10 ms"), (100, "100 ms"), (1_000, "second"), (10_000, "10 seconds"), (60_000, "minute"),
    (600_000, "10 minutes"), (3_600_000, "hour"), (21_600_000, "6 hours"), (86_400_000, "day"),
    (604_800_000, "week"), (2_592_000_000, "30 days"),
)  # fmt: skip
ACTIVITY = ("at", "table", "op", "changes")
STATES = ("exact", "incomplete", "behind", "retired")


class Interval(NamedTuple):
    """The intervals in which changes are counted: milliseconds, and the word for them."""

    millis: int
    word: str


def interval_for(first: int, last: int, most: int) -> Interval:
    """The shortest interval of which at most so many lie between two times."""
    fitting = (Interval(*width) for width in WIDTHS if (last - first) / width[0] < most)
    return next(fitting, Interval(*WIDTHS[-1]))


class Span(NamedTuple):
    """Times in milliseconds, of which the first is in it and the last is not; None: no limit."""

    since: int | None = None
    until: int | None = None


def activity_of(readers: Sequence[Reader], names: Sequence[str], span: Span, most: int) -> pd.DataFrame:
    """Changes by time, table and kind, of all tables or those named; `attrs["per"]` is the word for the
    interval.
    """
    frames = [(reader, _timed(reader, span)) for reader in readers if reader.done is not None]
    ends = [frame.agg(F.min("millis"), F.max("millis")).first() for _, frame in frames]
    known = [(one[0], one[1]) for one in ends if one is not None and one[0] is not None]
    if not known:
        return pd.DataFrame(columns=list(ACTIVITY))
    interval = interval_for(min(one for one, _ in known), max(one for _, one in known), most)
    rows = [row for reader, frame in frames for row in _counts(reader, frame, interval)]
    found = pd.DataFrame(rows, columns=list(ACTIVITY))
    found = found[found["table"].isin(names)] if names else found
    found = found.groupby(["at", "table", "op"], as_index=False)["changes"].sum()
    found = found.assign(at=pd.to_datetime(found["at"], unit="ms", utc=True))
    found.attrs.update(per=interval.word, millis=interval.millis)
    return found


def _timed(reader: Reader, span: Span) -> DataFrame:
    rows = counted(reader).withColumn("millis", commit_millis_of(reader.settings)).where("millis IS NOT NULL")
    rows = rows if span.since is None else rows.where(F.col("millis") >= span.since)
    return rows if span.until is None else rows.where(F.col("millis") < span.until)


def _counts(reader: Reader, frame: DataFrame, interval: Interval) -> list[tuple[int, str, str, int]]:
    begin = (F.floor(F.col("millis") / interval.millis) * interval.millis).alias("begin")
    newest = newest_names(reader.history)
    rows = frame.groupBy(begin, "database", "table", "op").count().collect()
    names = [(row.database, row.table) for row in rows]
    return [
        (row.begin, ".".join(newest.get(name, name)), row.op, row["count"])
        for row, name in zip(rows, names, strict=True)
    ]


def newest_names(history: History) -> dict[Name, Name]:
    """Today's name of each former name that only one table has had."""
    owners: dict[Name, set[Name]] = defaultdict(set)
    for lineage in history.lineages:
        for interval in lineage.intervals:
            owners[interval.name].add(lineage.intervals[-1].name)
    return {name: next(iter(today)) for name, today in owners.items() if len(today) == 1}


def lag_of(readers: Sequence[Reader]) -> pd.DataFrame:
    """Silver's last batches: when each was finished, and how old the newest change was that it made
    complete.
    """
    rows = [
        {"source": reader.source, **batch}
        for reader in readers
        for batch in batches(reader.log, reader.settings, newest={})
    ]
    names = ["source", "batch", "at", "fresh", "seconds", "messages", "inserted", "duplicate", "ddl", "dead"]
    frame = pd.DataFrame(rows, columns=names).rename(columns={"fresh": "upto", "inserted": "changes"})
    frame["lag_seconds"] = (frame["at"] - frame["upto"].astype("float")) / 1000
    times = {name: pd.to_datetime(frame[name], unit="ms", utc=True) for name in ("at", "upto")}
    return frame.assign(**times).sort_values("at", ignore_index=True)


def published(readers: Sequence[Reader]) -> list[tuple[Reader, int, Manifest]]:
    """Every manifest of the sources with when it was published, oldest first."""
    found = [
        (reader, at, manifest) for reader in readers for at, manifest in reader.log.whole().dated(Manifest)
    ]
    return sorted(found, key=lambda one: (one[1], one[0].source))


def manifests_frame(every: Sequence[tuple[Reader, int, Manifest]], last: int) -> pd.DataFrame:
    """The last manifests, each with its number and how many tables are in which state."""
    rows = [_manifest_row(number, *each) for number, each in list(enumerate(every))[-last:]]
    names = ["number", "source", "published_at", "upto", "upto_time", "position", *STATES]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(upto_time=pd.to_datetime(frame["upto_time"], utc=True))


def _manifest_row(number: int, reader: Reader, at: int, manifest: Manifest) -> dict[str, object]:
    states = [entry.state for entry in manifest.tables]
    return {
        "number": number,
        "source": reader.source,
        "published_at": datetime.fromtimestamp(at / 1000, UTC),
        "upto": place(manifest.watermark, reader.settings.order),
        "upto_time": time_of(manifest.watermark),
        "position": manifest.watermark,
        **{state: states.count(state) for state in STATES},
    }
