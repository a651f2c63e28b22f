"""Where a layer's time goes: its functions, measured while they run, each without those it calls that are
measured too.

What the JVM does for a job counts for the function that waits for it. Several gold tables are written at
once: their functions overlap, so gold is told apart only where it has one table.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench.measure import Excluded, by_program
from lakehouse.spark.bronze import kafka as topics
from lakehouse.spark.gold import merge as write_gold
from lakehouse.spark.gold import run as gold
from lakehouse.spark.gold import table as gold_table
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver import run as silver
from lakehouse.spark.silver import spark_batch

# what it is, and the function that does it
PARTS: tuple[tuple[str, Any, str], ...] = (
    ("bronze: where to read on", topics, "_reading"),
    ("bronze: the stream", topics, "_pass"),
    ("bronze: hold its rows against the stream's", topics, "appended_above"),
    ("bronze: its version before a pass", topics, "bronze_version"),
    ("silver: what is new", silver, "next_ranges"),
    ("silver: decode", spark_batch, "read_books"),
    ("silver: dedupe", spark_batch, "is_distinct"),
    ("silver: write changes", spark_batch.Writer, "changes"),
    ("silver: write changes", spark_batch.Writer, "files"),
    ("silver: new schema changes", spark_batch.Writer, "schema_changes"),
    ("silver: write schema changes and watermarks", spark_batch, "append_rows"),
    ("gold: schema history", gold, "load_history"),
    ("gold: reconcile the layers", gold, "reconciled"),
    ("gold: what silver has of each table", gold, "counts_of"),
    ("gold: fold and type", gold_table, "fold_large"),
    ("gold: fold, type and write", gold_table, "fold_into_files"),
    ("gold: write the table", write_gold, "replace_frame"),
    ("gold: merge into the table", write_gold, "merge_frame"),
    ("progress records", OpsLog, "add_all"),
    ("read the progress", OpsLog, "load"),
)


class Spent(NamedTuple):
    """Wall seconds, and CPU seconds of the JVM and of Python (driver and workers)."""

    wall: float
    jvm: float
    python: float

    def plus(self, other: "Spent", sign: int = 1) -> "Spent":
        return Spent(*(one + sign * two for one, two in zip(self, other, strict=True)))


NOTHING = Spent(0.0, 0.0, 0.0)


@contextmanager
def watched(
    layer: str, keep: Callable[[dict[str, Spent]], None], excluded: Excluded = frozenset()
) -> Iterator[None]:
    """Measure the block, a run of one layer, by its parts; what none of them did is the layer's `everything
    else`.
    """
    spent: dict[str, Spent] = {}
    inner = [NOTHING]  # of each call that is going on: what its own measured calls have spent

    def measured(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            before = now(excluded)
            inner.append(NOTHING)
            try:
                return function(*args, **kwargs)
            finally:
                whole = now(excluded).plus(before, -1)
                spent[label] = spent.get(label, NOTHING).plus(whole.plus(inner.pop(), -1))
                inner[-1] = inner[-1].plus(whole)

        return call

    originals = [(owner, name, getattr(owner, name)) for _, owner, name in PARTS]
    for (label, owner, name), (_, _, function) in zip(PARTS, originals, strict=True):
        setattr(owner, name, measured(label if label.startswith(layer) else f"{layer}: {label}", function))
    try:
        before = now(excluded)
        yield
        spent[f"{layer}: everything else"] = now(excluded).plus(before, -1).plus(inner[0], -1)
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)
    keep(spent)


def now(excluded: Excluded) -> Spent:
    programs = by_program(os.getpid(), excluded)
    jvm = programs.pop("java", 0.0)
    return Spent(time.monotonic(), jvm, sum(programs.values()))
