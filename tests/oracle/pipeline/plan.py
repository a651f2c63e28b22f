"""What is in a lake of the oracle: programs dealt to sources, each source's one history, and its feed.

The programs of a source are told as if one server had run them all: their commits are mixed in any order that
keeps each program's own, at new commit times.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tests.oracle.check import has_keyless
from tests.oracle.formats import STORAGE, carried
from tests.oracle.runner import Event, State

States = list[tuple[int, State]]
FIRST_TS = 400000000000000000


@dataclass(frozen=True)
class History:
    """What one source of a lake has done: events in order of commit, and the tables after every commit."""

    events: list[Event]
    states: States
    keyless: bool
    raw: bool

    def state_at(self, ts: int) -> State:
        """The tables right after everything at or below `ts`."""
        return next((state for moment, state in reversed(self.states) if moment <= ts), {})


@dataclass(frozen=True)
class SourcePlan:
    """A source before it is delivered. `format` is a word of tests.oracle.formats, which says how a storage
    sink writes; `name` is the source's in the lake, `seeds` are those of its programs.
    """

    name: str
    format: str
    seeds: tuple[int, ...]
    history: History

    @property
    def decoder(self) -> str:
        return "ticdc-storage" if self.format in STORAGE else self.format


def sources_of(programs: Sequence[Any], formats: Sequence[str], chance: random.Random) -> list[SourcePlan]:
    """The programs dealt to one source for each format. Some feeds can leave out more where every table has
    a key, so programs that have none without come to sources of their own, as far as it goes.
    """
    ordered = sorted(programs, key=lambda program: (has_keyless(program), program.raw, program.seed))
    share = -(-len(ordered) // len(formats))
    found = []
    for number, format_ in enumerate(chance.sample(formats, k=len(formats))):
        mine = ordered[number * share : (number + 1) * share]
        history = mixed(mine, format_, chance)
        if history.events:
            name = f"s{number}_{format_.replace('-', '_')}"
            found.append(SourcePlan(name, format_, tuple(program.seed for program in mine), history))
    return found


def mixed(programs: Sequence[Any], format_: str, chance: random.Random) -> History:
    """One history of all the programs, each as far as the format can carry it."""
    told = [(program, *carried(program, format_)[:2]) for program in programs]
    commits = {number: list(_commits(events, states)) for number, (_, events, states) in enumerate(told)}
    events: list[Event] = []
    states: States = [(FIRST_TS, {})]
    current: dict[int, State] = {}
    ts = FIRST_TS
    while any(commits.values()):
        number = chance.choice([number for number, left in commits.items() if left])
        for mine, state in commits[number][: (count := chance.choice((1, 1, 3, 9)))]:
            ts += chance.choice((1, 2, 262144))
            events += [{**event, "commit_ts": ts} for event in mine]
            current[number] = state
            states.append((ts, {name: table for one in current.values() for name, table in one.items()}))
        del commits[number][:count]
    return History(
        events,
        states,
        any(has_keyless(program) for program in programs),
        any(program.raw for program in programs),
    )


def _commits(events: list[Event], states: States) -> Iterator[tuple[list[Event], State]]:
    """Each commit's events, and the program's tables after it."""
    after = dict(states)
    for ts, group in groupby(events, key=lambda event: event["commit_ts"]):
        yield list(group), after[ts]
