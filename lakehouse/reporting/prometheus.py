"""A lake's state as Prometheus metrics in text format 0.0.4, for node_exporter's textfile collector or any
other reader.

Gauges have the values that `status` shows; counters (`…_total`) grow with the lake and fall only when a new
lake is made.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.errors import EnvironmentError_
from lakehouse.ops.records.bronze import OffsetsLost

STATES = ("exact", "incomplete", "behind", "retired")
Observed = Mapping[str, Any]


class Sample(NamedTuple):
    """One value of a metric."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


# name → (type, help), in the order in which they are written
METRICS = {
    "lakehouse_broker_up": ("gauge", "Whether the source's broker answered."),
    "lakehouse_lag_messages": ("gauge", "Messages of the topics that silver has not done."),
    "lakehouse_partition_lag_messages": ("gauge", "The same, by partition."),
    "lakehouse_watermark_timestamp_seconds": (
        "gauge",
        "The source's time up to which everything has arrived.",
    ),
    "lakehouse_watermark_lag_seconds": ("gauge", "Age of the watermark now."),
    "lakehouse_silent_partitions": ("gauge", "Partitions that have sent no watermark, and so hold it."),
    "lakehouse_missing_offsets": ("gauge", "Offsets that were deleted before they were read."),
    "lakehouse_dead_letters": (
        "gauge",
        "Messages and rows that can't be decoded and are neither dismissed nor requeued.",
    ),
    "lakehouse_book_open_changes": (
        "gauge",
        "Decoded changes of the last batch that are not accounted for; anything but 0 is a bug.",
    ),
    "lakehouse_table_state": ("gauge", "1 for the state that a gold table is in, 0 for the others."),
    "lakehouse_tables_not_configured": ("gauge", "Tables met in the feed that no YAML names."),
    "lakehouse_last_batch_timestamp_seconds": ("gauge", "When silver did its last batch."),
    "lakehouse_last_batch_seconds": ("gauge", "How long it took."),
    "lakehouse_last_run_timestamp_seconds": (
        "gauge",
        "When the last run that did something or failed ended.",
    ),
    "lakehouse_last_run_seconds": ("gauge", "How long it took."),
    "lakehouse_last_run_success": ("gauge", "1 if it succeeded, 0 if it failed."),
    "lakehouse_messages_total": ("counter", "Messages that silver has read."),
    "lakehouse_changes_total": ("counter", "Distinct changes that silver has kept."),
    "lakehouse_duplicates_total": ("counter", "Changes that were known already."),
    "lakehouse_conflicts_total": ("counter", "Changes of a known identity with other values."),
    "lakehouse_ddl_total": ("counter", "Statements and schema records read."),
}
_COUNTS = {
    "messages": "messages",
    "changes": "inserted",
    "duplicates": "duplicate",
    "conflicts": "conflict",
    "ddl": "ddl",
}


def exposition(sources: Iterable[Observed]) -> str:
    """All metrics of these sources, each with its help and type."""
    values = [sample for source in sources for sample in samples(source)]
    lines = []
    for name, (kind, help_) in METRICS.items():
        of_metric = [sample for sample in values if sample.name == name]
        if of_metric:
            lines += [
                f"# HELP {name} {help_}",
                f"# TYPE {name} {kind}",
                *(_line(sample) for sample in of_metric),
            ]
    return "".join(line + "\n" for line in lines)


def samples(source: Observed) -> Iterator[Sample]:
    """The metrics of one source, from the readings of lakehouse.spark.readers.timeline."""
    name, status = source["source"], source["status"]
    yield from _feed(name, source, status)
    yield from _health(name, source, status)
    for metric, counted in _COUNTS.items():
        yield _sample(f"lakehouse_{metric}_total", source["totals"].get(counted, 0), source=name)


def _feed(name: str, source: Observed, status: Mapping[str, Any]) -> Iterator[Sample]:
    if "broker" in status or "lag_messages" in status:
        yield _sample("lakehouse_broker_up", "broker" not in status, source=name)
    if "lag_messages" in status:
        yield _sample("lakehouse_lag_messages", status["lag_messages"], source=name)
    for place, behind in status.get("lag_by_partition", {}).items():
        topic, _, partition = place.rpartition("/")
        yield _sample(
            "lakehouse_partition_lag_messages", behind, source=name, topic=topic, partition=partition
        )
    fresh = source["batches"][-1]["fresh"] if source["batches"] else None
    if fresh is not None:
        yield _sample("lakehouse_watermark_timestamp_seconds", fresh / 1000, source=name)
        yield _sample(
            "lakehouse_watermark_lag_seconds", max(0.0, (source["now"] - fresh) / 1000), source=name
        )
    yield _sample("lakehouse_silent_partitions", len(status.get("no_watermark_seen", ())), source=name)
    missing: dict[tuple[str, int], int] = {}
    for gap in source["gaps"]:
        if isinstance(gap, OffsetsLost):  # of a topic that was created anew nobody knows how many
            place = gap.topic, gap.partition
            missing[place] = missing.get(place, 0) + gap.missing
    for (topic, number), lost in missing.items():
        yield _sample("lakehouse_missing_offsets", lost, source=name, topic=topic, partition=str(number))


def _health(name: str, source: Observed, status: Mapping[str, Any]) -> Iterator[Sample]:
    yield _sample("lakehouse_dead_letters", status.get("dead_letters", 0), source=name)
    if "books" in status:
        yield _sample(
            "lakehouse_book_open_changes",
            0 if status["books"] == "closed" else int(status["books"].split()[1]),
            source=name,
        )
    yield _sample("lakehouse_tables_not_configured", len(status.get("not_configured", ())), source=name)
    for table in status.get("tables", ()):
        for state in STATES:
            yield _sample(
                "lakehouse_table_state",
                table["state"] == state,
                source=name,
                table=table["table"],
                state=state,
            )
    if source["batches"]:
        last = source["batches"][-1]
        yield _sample("lakehouse_last_batch_timestamp_seconds", last["at"] / 1000, source=name)
        yield _sample("lakehouse_last_batch_seconds", last["seconds"], source=name)
    if source["runs"]:
        run = source["runs"][-1]
        yield _sample("lakehouse_last_run_timestamp_seconds", run["ended"] / 1000, source=name)
        yield _sample("lakehouse_last_run_seconds", (run["ended"] - run["begun"]) / 1000, source=name)
        yield _sample("lakehouse_last_run_success", run["error"] is None, source=name)


def _sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(name, tuple(labels.items()), float(value))


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels)
    value = int(sample.value) if sample.value.is_integer() else sample.value
    return f"{sample.name}{{{labels}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_metrics(text: str, to: Path) -> None:
    """Write the file atomically, as the textfile collector needs it, readable by its user."""
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=to.parent, prefix=f".{to.name}.", delete=False
        ) as file:
            file.write(text)
        Path(file.name).chmod(0o644)
        os.replace(file.name, to)  # noqa: PTH105 - the name is a text here
    except OSError as error:
        raise EnvironmentError_(
            f"{to}: expected a file that can be written, got: {error.strerror}"
        ) from error
