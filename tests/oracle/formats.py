"""The same history in every format: what a format carries of it, how it is encoded and read, and whether each
commit is the database's.

    judge_in(runner, format) → Judged: how many commits were compared, the first difference,
                               and why the history was cut, if it was

A history is cut before the first transaction that holds a value which the format's producer does not send as
it is (`lost`).
"""

import json
import random
import tempfile
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from lakehouse.events import Message, Position
from lakehouse.formats import FORMATS as ROWS
from lakehouse.sources.storage_tree import read_tree
from tests.oracle.cases import Case
from tests.oracle.check import Judged, compare, judge, on_the_way, options_of, place, same, told
from tests.oracle.database import Table
from tests.oracle.losses import lost
from tests.oracle.program import CHARSET, ZONE
from tests.oracle.runner import Event, Runner, State
from tests.support.arrivals import DISPATCHERS, Feed
from tests.support.encode_binlog import Logged, binlog, feed
from tests.support.encode_tidb import canal_json, debezium, storage_tree
from tests.support.engine import Memory

STORAGE = {
    "ticdc-storage-csv": {"protocol": "csv", "include-commit-ts": "true", "output-old-value": "true"},
    "ticdc-storage-canal-json": {"protocol": "canal-json", "enable-tidb-extension": "true"},
}
BINLOG = ("canal", "canal-protobuf", "debezium", "tencent-dts")
OPEN = "ticdc-open"
FORMATS = (OPEN, "ticdc-canal-json", "ticdc-debezium", *STORAGE, *BINLOG)
States = list[tuple[int, State]]


def formats_of(server: str) -> tuple[str, ...]:
    """The formats that tell a server's history: a TiDB has no binlog."""
    return tuple(name for name in FORMATS if server != "tidb" or name not in BINLOG)


def judge_in(runner: "Runner | Case", format_: str, again: int = 0) -> Judged:
    """`again` chooses another feed for the same history."""
    if format_ == OPEN:
        return judge(runner, again)
    judged = Judged()
    with told(judged):
        events, states, judged.cut = carried(runner, format_)
        if events:
            chance, options = random.Random(f"{runner.seed} {format_} {again}"), options_of(runner)
            if format_ in BINLOG and "charset" in ROWS[format_].options:
                options["charset"] = CHARSET
            _judge(format_, events, states, judged, chance=chance, options=options)
    return judged


def carried(runner: "Runner | Case", format_: str) -> tuple[list[Event], States, str | None]:
    """The history up to the first transaction that the format can't carry, and what it is that it can't."""
    events = list(logged(runner.events)) if format_ in BINLOG else runner.events
    for event in events:
        why = lost(format_, event) if event["kind"] == "row" else None
        if why is not None:
            end = event["commit_ts"]
            return [e for e in events if e["commit_ts"] < end], [s for s in runner.states if s[0] < end], why
    return events, runner.states, None


def logged(events: list[Event]) -> Iterator[Event]:
    """As a binlog has them: statements as they were run, once each, and rows with their virtual columns."""
    for event in events:
        if event["kind"] == "ddl" and event.get("run"):
            schema, table, query, session = event["run"]
            yield {**event, "schema": schema, "table": table, "query": query, "session": session}
        elif event["kind"] == "ddl" and "run" not in event:
            yield event
        elif event["kind"] == "row":
            sides: dict[str, Any] = {
                side: {**event[side], **event.get(f"virtual {side}", {})}
                for side in ("before", "after")
                if side in event
            }
            if sides.get("before") != sides.get("after"):  # an update that changes nothing is not logged
                yield {**event, **sides}


def _judge(
    format_: str,
    events: list[Event],
    states: States,
    judged: Judged,
    *,
    chance: random.Random,
    options: dict[str, str],
) -> None:
    """The whole feed at every commit, and where it tells a watermark for each message, what has come at each
    watermark.
    """
    live = None
    if format_ in BINLOG:
        log = list(told_apart(binlog(events, chance)))
        messages, at = feed(format_, log, chance, ZONE), places(format_, log)
        silver = Memory(format_, options, tidb=False).add(messages)
        live = Memory(format_, options, tidb=False) if format_ == "debezium" else None
    else:
        messages, at = [], {ts: place(ts) for ts, _ in states}
        if format_ in STORAGE:
            silver = stored(events, states, {**options, **STORAGE[format_]})
        else:
            messages = delivered(format_, events, states, chance)
            silver, live = Memory(format_, options).add(messages), Memory(format_, options)
        same("the watermark", silver.watermark, place(events[-1]["commit_ts"]))
    for ts, state in states:
        if ts in at:
            compare(silver, at[ts], state, judged)
    if live is not None:
        on_the_way(live, batches(messages), at, states, judged)


def told_apart(log: list[Logged]) -> Iterator[Logged]:
    """One statement twice within a second looks as if Canal had sent it again, which it says of the table:
    here it is a second later.
    """
    seen: set[tuple[str, int]] = set()
    for event in log:
        while event.op == "ddl" and (event.query, event.time) in seen:
            event = event._replace(time=event.time + 1)
        seen.add((event.query, event.time))
        yield event


def batches(messages: list[Message]) -> Iterator[list[Message]]:
    """One by one; but the parts into which a connector cuts a statement over several databases come together:
    nothing in the first ones tells that there are others.
    """
    places: dict[int, tuple[str, int]] = {}
    databases: dict[tuple[str, int], set[str]] = {}
    for number, message in enumerate(messages):
        if message.topic == "s":
            source = json.loads(message.value or b"")["source"]
            place = places[number] = source["file"], source["pos"]
            databases.setdefault(place, set()).add(source["db"])
    together = {place for place, names in databases.items() if len(names) > 1}

    def place_of(numbered: tuple[int, Message]) -> Any:
        return place if (place := places.get(numbered[0])) in together else numbered[0]

    yield from ([message for _, message in found] for _, found in groupby(enumerate(messages), key=place_of))


def stored(events: list[Event], states: States, options: dict[str, str]) -> Memory:
    """What the files of a storage sink tell."""
    with tempfile.TemporaryDirectory() as folder:
        for path, data in storage_tree(with_shapes(events, states), options["protocol"]).items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_bytes(data)
        return Memory("ticdc-storage", options).add(read_tree(Path(folder), options))


def delivered(format_: str, events: list[Event], states: States, chance: random.Random) -> list[Message]:
    """TiCDC's messages in one order of arrival: partitions, crashes and repeats as in Open Protocol. Equal
    rows can be told apart only where whole runs come again; canal-json names no other key than the primary
    key.
    """
    keyed = (lambda table: table.primary) if format_ == "ticdc-canal-json" else Table.handle
    exact = any(not keyed(table) for _, state in states for table in state.values())
    plan = Feed(events, chance, chance.choice((1, 2, 3)), chance.choice(DISPATCHERS))
    for _ in range(chance.choice((0, 1, 1, 2))):
        plan.restart(at_resolved=exact, losing=not exact and chance.random() < 0.5)
    if not exact:
        plan.repeat()
    if format_ == "ticdc-canal-json":
        return plan.arrival_of(
            chance, lambda event: (None, canal_json(event, event.get("shape"))), one_ddl=False
        )
    return plan.arrival_of(chance, lambda event: debezium(event, event.get("shape"), ZONE), one_ddl=False)


def with_shapes(events: list[Event], states: States) -> Iterator[Event]:
    """Each statement with the table's shape after it, where the table lives on. TiDB has no job for a table
    that exists already, and a tree no file.
    """
    known = dict(states)
    before = {ts: state for (_, state), (ts, _) in pairwise(states)}
    for event in events:
        again = event["kind"] == "ddl" and event["query"].startswith("CREATE TABLE IF NOT EXISTS")
        if again and (event["schema"], event["table"]) in before[event["commit_ts"]]:
            yield {"kind": "resolved", "commit_ts": event["commit_ts"]}
            continue
        table = (
            known[event["commit_ts"]].get((event["schema"], event["table"]))
            if event["kind"] == "ddl"
            else None
        )
        yield event if table is None else {**event, "shape": table.shape()}


def places(format_: str, log: list[Logged]) -> dict[int, Position]:
    """The position right behind what each commit did; Canal's flat messages have but their offsets."""
    found: dict[int, Position] = {}
    events = (event for event in log if event.op not in ("begin", "commit"))
    for offset, event in enumerate(events):
        found[event.commit_ts] = (0, offset, 2**31, 1, 0, 0) if format_ == "canal" else event.place
    return found
