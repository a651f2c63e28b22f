"""A TiDB that is restored from a backup on the way: the feed up to some commit, then one of the cluster as it
was a little before, in a new epoch.

The restored cluster does again what it had done since the backup, at commit times of its own, and goes on
from there. So what the first feed says above the backup is void, and the end is the same.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from lakehouse.events import Message
from tests.oracle.pipeline.plan import FIRST_TS, History
from tests.oracle.runner import Event, State

# as TiCDC tells events: the messages, and whether the feed's row ids are to be used
Tell = Callable[[History, random.Random], tuple[list[Message], bool]]


@dataclass(frozen=True)
class Restore:
    """The epoch is raised before `run`, restored to `to`; `states` are those of the restored cluster."""

    run: int
    to: int
    states: list[tuple[int, State]]

    def state_at(self, ts: int) -> State:
        """The restored cluster's tables right after everything at or below `ts`."""
        return next(state for moment, state in reversed(self.states) if moment <= ts)


def restored(
    history: History, runs: int, tell: Tell, chance: random.Random
) -> tuple[Restore, list[Message], list[Message], bool] | None:
    """The restore, the messages of both epochs and whether row ids are used; None where two feeds of one kind
    can't be had.
    """
    before, after, to = _halves(history, chance)
    if not before.events or not after.events:
        return None
    first, row_ids = tell(before, chance)
    ends = _ends(first)
    for _ in range(50):
        second, ids = tell(after, chance)
        if ids == row_ids and _ends(second).keys() == ends.keys():
            moved = [
                msgspec.structs.replace(one, offset=one.offset + ends[one.topic, one.partition], epoch=1)
                for one in second
            ]
            return Restore(chance.randrange(1, runs), to, after.states), first, moved, row_ids
    return None


def _halves(history: History, chance: random.Random) -> tuple[History, History, int]:
    """What the first cluster does, and what the restored one does; and the backup's commit time."""
    states = history.states
    end = chance.randrange(len(states) // 4, len(states))
    backup = max(0, end - chance.choice((0, 1, 3, 20)))
    last, to = states[end][0], states[backup][0]
    shift = chance.choice((0, 1, -262144 * 1000, 262144 * 1000))
    events: list[Event] = [
        {**event, "commit_ts": event["commit_ts"] + shift}
        for event in history.events
        if event["commit_ts"] > to
    ]
    later = [(ts + shift, state) for ts, state in states[backup + 1 :]]
    before = [event for event in history.events if event["commit_ts"] <= last]
    return (
        History(before, states[: end + 1], history.keyless, history.raw),
        History(events, [(FIRST_TS // 2, states[backup][1]), *later], history.keyless, history.raw),
        to,
    )


def _ends(messages: Sequence[Message]) -> dict[tuple[str, int], int]:
    """The next offset of each partition."""
    return {(one.topic, one.partition): one.offset + 1 for one in messages}
