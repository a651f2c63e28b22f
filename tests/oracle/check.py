"""What gold makes of a program's feed, against the database's own states.

    judge(runner) → Judged: how many watermarks were compared, and the first difference, as text, or None

One feed of the seed's own kind is made of the events: partitions, dispatcher, batches, crashes with replay,
repeated messages, classic or new architecture, what old images it carries. Every state is compared by the
whole feed (any T), and at watermarks on the way by the messages that had come by then (live); both must be
the database's own.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lakehouse.events import MIN_POSITION, Message, Position
from lakehouse.gold.columns import RAW, GoldColumn, gold_columns
from lakehouse.lineage import NAMES_MIXED, Lineage
from lakehouse.schema import parse_type
from lakehouse.schema_history.table_lives import UNSEEN
from tests.oracle.cases import Case
from tests.oracle.database import Column, Name, Table
from tests.oracle.dialects import MARIADB
from tests.oracle.in_place import check_in_place
from tests.oracle.program import ZONE
from tests.oracle.runner import Event, Runner, State
from tests.oracle.truth import canonical, gold_type
from tests.support.arrivals import DISPATCHERS, Feed
from tests.support.encode_open import Wire
from tests.support.engine import Memory

Line = dict[str, Any]


def options_of(runner: "Runner | Case") -> dict[str, str]:
    """A source's: the server that the oracle asks. TiCDC's feeds, whose own rules are TiDB's, carry its
    history too.
    """
    return {"time_zone": ZONE, "server": runner.program.server}


OPTIONS = {"time_zone": ZONE, "server": MARIADB.rules}


@dataclass
class Judged:
    watermarks: int = 0
    tables: int = 0
    in_place: int = 0
    wrong: str | None = None
    cut: str | None = None


def judge(runner: "Runner | Case", again: int = 0) -> Judged:
    """As Open Protocol; `again` chooses another feed for the same history."""
    judged = Judged()
    with told(judged):
        _judge(runner, judged, again)
    return judged


@contextmanager
def told(judged: Judged) -> Iterator[None]:
    """What fails inside is the difference."""
    try:
        yield
    except AssertionError as found:
        judged.wrong = str(found) or "an assertion without text"
    except Exception as error:  # any error of the product is a finding
        judged.wrong = f"{type(error).__name__}: {error}"
        judged.error = error  # type: ignore[attr-defined]


def _judge(runner: "Runner | Case", judged: Judged, again: int) -> None:
    chance = random.Random(f"{runner.seed} feed {again}")
    messages, row_ids = delivered(runner.events, chance, keyless=has_keyless(runner), raw=runner.raw)
    options = options_of(runner)
    whole = Memory("ticdc-open", options, row_ids=row_ids).add(messages)
    if runner.events:
        same("the watermark", whole.watermark, place(runner.states[-1][0]))
    for ts, state in runner.states:
        compare(whole, place(ts), state, judged)
    silver = Memory("ticdc-open", options, row_ids=row_ids)
    on_the_way(
        silver,
        ([message] for message in messages),
        {ts: place(ts) for ts, _ in runner.states},
        runner.states,
        judged,
    )
    from tests.oracle.modes import check_modes  # it needs this module

    check_modes(whole, runner)
    judged.in_place += check_in_place(whole)


def has_keyless(runner: "Runner | Case") -> bool:
    return any(not table.handle() for _, state in runner.states for table in state.values())


def delivered(
    events: list[Event], chance: random.Random, *, keyless: bool, raw: bool
) -> tuple[list[Message], bool]:
    """The messages in one order of arrival, and whether the feed's row ids are to be used."""
    classic = chance.random() < 0.5
    row_ids = keyless and classic
    before = "full" if keyless or raw else chance.choice(("full", "full", "none", "changed-only"))
    wire = Wire(
        row_ids=classic,
        before=before,
        key_only_deletes=not keyless and not raw and chance.random() < 0.3,
        sorted_columns=classic,
    )
    feed = Feed(events, chance, chance.choice((1, 2, 3)), chance.choice(DISPATCHERS), wire)
    for _ in range(chance.choice((0, 1, 1, 2))):
        exact = keyless and not row_ids  # without row ids only whole runs can be told apart
        feed.restart(at_resolved=exact, losing=not exact and chance.random() < 0.5)
    if not keyless or row_ids:
        feed.repeat()
    return feed.arrival(chance), row_ids


def on_the_way(
    silver: Memory,
    batches: Iterable[list[Message]],
    at: Mapping[int, Position],
    states: list[tuple[int, State]],
    judged: Judged,
) -> None:
    """At each watermark that is reached, the batches so far give that moment's tables. `at` are the places of
    the commits; a binlog's watermark may stand between two that have one time, of which the truth knows what
    was behind both.
    """
    before, known = MIN_POSITION, {position[:3] for position in at.values()}
    batches = list(batches)
    parts = (
        1
        if silver.format == "debezium"
        else len({(message.topic, message.partition) for batch in batches for message in batch})
    )
    for batch in batches:
        silver.add(batch)
        if len(silver.marks) >= parts and silver.watermark > before:
            before = silver.watermark
            reached = [state for ts, state in states if ts not in at or at[ts][:3] <= before[:3]]
            if silver.format != "debezium" or before[:3] in known:
                compare(silver, before, reached[-1], judged)


def place(ts: int) -> Position:
    return (0, ts, 2, 0, 0, 0)


def same(what: str, found: Any, expected: Any) -> None:
    assert found == expected, f"{what}: expected {expected!r}, got {found!r}"


def compare(silver: Memory, at: Position, state: State, judged: Judged) -> None:
    """Every table right after `at`. A feed of a binlog carries virtual columns too."""
    virtual = not silver.format.startswith("ticdc")
    assert not silver.dead, f"dead letter: {silver.dead[0]}"
    history = silver.lineages()
    assert not history.problems, f"problem: {history.problems[0]}"
    live = history.live(at)
    same(f"tables at {at[1]}", sorted(live), sorted(state))
    rows = silver.tables(at)
    for name, table in state.items():
        problems = silver.problems.get(".".join(name), frozenset())
        sure = _is_sure(name, live[name], table, at, virtual, problems=problems)
        broken = silver.breaks.get(".".join(name)) if sure else None
        assert broken is None, f"{'.'.join(name)} at {at[1]}: {broken}"
        told = table.columns if virtual else table.sent()
        columns = gold_columns(live[name].schema_at((*at[:5], at[5] + 1)), virtual=virtual)
        _columns(name, columns, told, at)
        _rows(name, rows[".".join(name)], table, told, at, sure)
        judged.tables += 1
    judged.watermarks += 1


def _is_sure(
    name: Name, lineage: Lineage, table: Table, at: Position, virtual: bool, *, problems: frozenset[str]
) -> bool:
    """Whether gold claims that the table is exact; that it claims so, or not, must have a reason."""
    held = lineage.held if lineage.held and lineage.held[0] <= at else None
    assert held is None, f"{'.'.join(name)} is held: {held}"
    missing = lineage.incomplete_at(at, [(at, problem) for problem in problems])
    # the encoders here are a Canal without this fault, and producers that leave no table out
    doubted = missing is not None and missing[1] in ((NAMES_MIXED, UNSEEN) if virtual else (NAMES_MIXED,))
    assert missing is None or table.maybe or doubted or (virtual and table.computed), (
        f"{'.'.join(name)} at {at[1]} is not sure of itself without a reason: {missing}"
    )
    assert missing is not None or not table.unknown, (
        f"{'.'.join(name)} at {at[1]} claims to be exact, but no message tells {sorted(table.unknown)}"
    )
    return missing is None


def _columns(name: Name, columns: list[GoldColumn], told: Sequence[Column], at: Position) -> None:
    what = f"columns of {'.'.join(name)} at {at[1]}"
    same(
        what,
        [(c.name, c.spark, c.column.not_null) for c in columns],
        [(c.name, gold_type(c.type), c.not_null) for c in told],
    )
    same(
        f"charsets, {what}",
        # a MariaDB's own CREATE TABLE has a JSON column as text
        [_charset(c.column.type) for c, own in zip(columns, told, strict=True) if own.base != "json"],
        [c.charset for c in told if c.base != "json"],
    )


def _charset(kind: Any) -> str | None:
    return (kind.charset or "utf8mb4") if kind.family in ("text", "enum", "set") else None


def _rows(
    name: Name, lines: list[Line], table: Table, columns: Sequence[Column], at: Position, sure: bool
) -> None:
    found = [_line(line, columns) for line in lines]
    expected = [{column.name: canonical(row[column.name]) for column in columns} for row in table.rows]
    if "rows" in table.unknown:
        return
    computed = () if sure else [column.name for column in columns if column.generated]
    open_ = table.unknown | frozenset(computed)
    one, other = _counted(found, open_), _counted(expected, open_)
    if one != other:
        raise AssertionError(
            f"rows of {'.'.join(name)} at {at[1]}: missing {_few(other - one)}, too many {_few(one - other)}"
        )


def _line(line: Line, columns: Sequence[Column]) -> Line:
    """A gold row; a raw companion stands for the value that gold's type can't hold."""
    return {
        c.name: line[RAW + c.name] if line[c.name] is None and RAW + c.name in line else line[c.name]
        for c in columns
    }


def _counted(lines: list[Line], open_: frozenset[str]) -> Counter[str]:
    return Counter(
        json.dumps({name: value for name, value in line.items() if name not in open_}, sort_keys=True)
        for line in lines
    )


def _few(lines: Counter[str]) -> str:
    return " | ".join(sorted(lines.elements())[:3])


__all__ = ["OPTIONS", "Judged", "compare", "delivered", "judge", "options_of", "parse_type"]
