"""What runs of any layer write: what a run did, and what the records of old batches said."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

import msgspec

from lakehouse.ops.progress import Counts, OffsetRange
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Closing


class RunInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What bronze reads: brokers and topics, or paths."""

    bootstrap: str | None = None
    topics: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class Run(Record, frozen=True, kw_only=True):
    """A run that did something or failed. `landed` records, `batches` of silver, `published` manifests;
    `seconds` by layer; `error` is one sentence, or the type of an error that is not ours."""

    kind: ClassVar[str] = "run"
    layers: tuple[str, ...]
    read: RunInput = RunInput()
    begun: int
    ended: int
    landed: int
    batches: int
    published: int
    seconds: dict[str, float]
    error: str | None


def standing_failures(newest_first: Iterable[Run], layers: Iterable[str]) -> Iterator[Run]:
    """The failed runs of these layers, newest first, that no later run of the same layers stands behind."""
    waiting = set(layers)
    for run in newest_first:
        if run.error is not None and waiting & set(run.layers):
            yield run
        waiting -= set(run.layers)
        if not waiting:
            return


class Summary(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What the records of batches said that stood below `seq` in the log and were taken out of it
    (lakehouse/ops/pruning.py). Of two, the one with the greater `seq` counts.

    generation   of silver, whose batches they are
    batch        the last of them
    ranges       from the first to the last offset that they have read of each partition, and how many
                 `messages` they counted there
    counts       of all of them, batches that decoded dead letters again among them
    inserted     how many rows the batches above `above` have inserted: a retention floor has replaced the
                 others' rows
    closed       the dead letters that they have closed, by code
    whole        the last two of them that left nothing unread
    """

    kind: ClassVar[str] = "summary"
    seq: int
    generation: int = 1
    batch: int = 0
    ranges: tuple[OffsetRange, ...] = ()
    messages: int = 0
    counts: Counts = Counts()
    above: int = 0
    inserted: int = 0
    closed: tuple[Closing, ...] = ()
    whole: tuple[int, ...] = ()
