"""Offsets that recordings lack between others. Of a topic the broker tells what is a loss and what
transactions and compaction have left; a recording has no broker, so all that it lacks counts as lost until
somebody dismisses it.
"""

from collections.abc import Mapping

from lakehouse.ops.progress import Place
from lakehouse.ops.records.bronze import Gap, OffsetsLost
from lakehouse.ops.records.operators import Dismissed
from lakehouse.sources.kafka_offsets import Lost
from lakehouse.sources.recording import holes
from lakehouse.spark.bronze.landed import held, note_left_out
from lakehouse.spark.change_log.dead_letters import open_losses
from lakehouse.spark.ops.run_context import RunContext


def note_holes(context: RunContext, seen: Mapping[Place, list[tuple[int, int]]], *, landed: bool) -> None:
    """Say which offsets are in no recording: `seen` are those that the recordings of a pass have, and
    `landed` whether some of them are new, which may be what earlier recordings lacked.
    """
    if landed:
        _close_filled(context)
    told: dict[Place, list[tuple[int, int]]] = {}
    for gap in context.log.all(Gap):
        if isinstance(gap, OffsetsLost):
            told.setdefault(_place(gap), []).append((gap.first, gap.last))
    for hole in holes(seen, told):
        note_left_out(context, Lost(hole.place, hole.first, hole.last + 1))


def _close_filled(context: RunContext) -> None:
    """Close the holes that are open where any of them has been filled, and tell the rest anew: a closing is
    of all losses before it.
    """
    told = open_losses(context.log)
    ours = [gap for gap in told if isinstance(gap, OffsetsLost) and gap.read is False]
    ranges = [Lost(_place(gap), gap.first, gap.last + 1) for gap in ours]
    lacking = [one.end - one.first - held(context, one) for one in ranges]
    if len(ours) < len(told) or lacking == [gap.missing for gap in ours]:
        return
    gaps = len(context.log.all(Gap))
    context.log.add(Dismissed(code="lost", batch=-1, gaps=gaps, why="they have landed since"))
    for one in ranges:
        note_left_out(context, one)


def _place(gap: OffsetsLost) -> Place:
    return gap.topic, gap.incarnation, gap.partition
