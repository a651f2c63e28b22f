"""Lands table snapshots in bronze: records in their order, so that one that died goes on where it stopped."""

import time
from collections.abc import Iterable, Iterator

from lakehouse.events import Message
from lakehouse.ops.progress import Place
from lakehouse.spark import limits
from lakehouse.spark.bronze.epochs import bronze_ends
from lakehouse.spark.bronze.recordings import append_messages
from lakehouse.spark.ops.run_context import RunContext

# written at once, or what has come in so many seconds
COMMIT_BYTES = 32 * limits.MIB
COMMIT_SECONDS = 30.0


def land_snapshot(context: RunContext, messages: Iterable[Message]) -> int:
    """Append the records that bronze does not have yet; returns how many."""
    ends: dict[Place, int] = bronze_ends(context.spark, context.lake, context.source)
    landed = 0
    for chunk in _chunks(messages, ends):
        append_messages(context, chunk, ends)
        landed += len(chunk)
    return landed


def _chunks(messages: Iterable[Message], ends: dict[Place, int]) -> Iterator[list[Message]]:
    """New records, so many bytes or seconds at a time."""
    chunk: list[Message] = []
    size, begun = 0, time.monotonic()
    for message in messages:
        if message.offset < ends.get((message.topic, message.incarnation, message.partition), 0):
            continue
        chunk.append(message)
        size += len(message.value or b"")
        if size >= COMMIT_BYTES or time.monotonic() - begun >= COMMIT_SECONDS:
            yield chunk
            chunk, size, begun = [], 0, time.monotonic()
    if chunk:
        yield chunk
