"""Random programs through a real Canal: gold against the database after every commit.

    judge_all(server, seeds, settings) → one line per program and output
"""

import re
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehouse.events import Position
from lakehouse.gold.columns import gold_columns
from lakehouse.lineage import NAMES_MIXED
from lakehouse.schema_history.statements import DROPPED, MOVED, UNPLACED
from tests.oracle.check import Judged, _columns, _rows, told
from tests.oracle.database import Database
from tests.oracle.formats import carried
from tests.oracle.program import CHARSET
from tests.oracle.runner import State
from tests.producers.canal import Canal, Sent, start_canal
from tests.producers.judging import Place, PlacedRunner, end_of_binlog, placed
from tests.support.engine import Memory

# what Canal is told of an output, and whether every table must be sure of itself
OUTPUTS: dict[str, tuple[dict[str, str], bool]] = {
    "flat": ({}, True),
    "proto": ({"flat": "false"}, True),
    "proto-tx": ({"flat": "false", "filterTransactionEntry": "false"}, True),
    "proto-pk": ({"flat": "false", "partitionsNum": "3", "partitionHash": r".*\..*:$pk$"}, True),
    "proto-table": ({"flat": "false", "partitionsNum": "3", "partitionHash": r".*\..*"}, True),
    "proto-topics": ({"flat": "false", "dynamicTopic": r".*\..*"}, True),
    "flat-pk": ({"partitionsNum": "3", "partitionHash": r".*\..*:$pk$"}, False),
    "flat-table": ({"partitionsNum": "3", "partitionHash": r".*\..*"}, False),
    "flat-topics": ({"dynamicTopic": r".*\..*"}, False),
}
Line = dict[str, Any]


def settings_of(outputs: Sequence[str], more: Mapping[str, str]) -> dict[str, str]:
    told = {"outputs": ",".join(outputs)}
    for output in outputs:
        settings = {"flat": "true", **OUTPUTS[output][0]}
        told.update({f"{output}.{name}": value for name, value in settings.items()})
    return {**told, **more}


def judge_all(
    database: Database,
    port: int,
    folder: Path,
    seeds: Sequence[int],
    outputs: Sequence[str],
    *,
    more: Mapping[str, str],
    zone: str = "GMT+8",
    restarts: bool = False,
) -> Iterator[Line]:
    name, offset, *_ = database.ask("SHOW MASTER STATUS")[0]
    settings = {
        "canal.instance.master.journal.name": str(name),
        "canal.instance.master.position": str(offset),
        **settings_of(outputs, more),
    }
    with start_canal(folder, port, settings, zone) as canal:
        for seed in seeds:
            started = time.monotonic()
            if restarts and seed % 3 == 0:
                # Canal dies while the program runs
                import threading

                def crash() -> None:
                    time.sleep(0.3)
                    canal.stop(at_once=True)
                    canal.start()

                thread = threading.Thread(target=crash)
                thread.start()
                runner = placed(database, seed)
                thread.join()
            else:
                runner = placed(database, seed)
            last = end_of_binlog(database)
            database.run(f"CREATE DATABASE zz{seed}")
            whole = canal.wait(last)
            end = end_of_binlog(database)
            stalled = None if whole else canal._last
            judging = time.monotonic()
            for output in outputs:
                sent = [one for one in canal.sent(output) if runner.begun <= one.place < end]
                yield judged_output(runner, output, sent, stalled, seed)
            if not whole:
                canal.stop(at_once=True)
                canal.start_at(end)
            yield {"seed": seed, "ran": round(judging - started, 1), "judged": round(time.monotonic() - judging, 1)}


def judged_output(
    runner: PlacedRunner, output: str, sent: list[Sent], stalled: Place | None, seed: int
) -> Line:
    format_ = "canal" if output.startswith("flat") else "canal-protobuf"
    judged, tally = Judged(), Counter[str]()
    with told(judged):
        _judge(runner, output, format_, sent, stalled, judged, tally)
    line: Line = {"seed": seed, "output": output, "messages": len(sent), "tables": judged.tables,
            "moments": judged.watermarks, "cut": judged.cut, "stalled": bool(stalled),
            "tally": dict(tally), "wrong": judged.wrong}
    if (error := getattr(judged, "error", None)) is not None:
        line["trace"] = "".join(traceback.format_exception(error)[-6:])
    return line


def _judge(runner, output, format_, sent, stalled, judged, tally) -> None:
    options = {"time_zone": "Etc/GMT-8", "server": runner.program.server, "charset": CHARSET}
    _, states, judged.cut = carried(runner, format_)
    known = {ts for ts, _ in states}
    moments = [(place, state) for place, state in runner.placed if runner.times[place] in known]
    if stalled:
        moments = [(place, state) for place, state in moments if place <= stalled]
    if not moments:
        return
    if format_ == "canal":  # a message of several entries may reach behind the moment that is asked for
        sent = [one for one in sent if one.place < moments[-1][0]]
    silver = Memory(format_, options, tidb=False).add([one.message for one in sent])
    doubted = not OUTPUTS[output][1] or (stalled and format_ == "canal")
    for place, state in moments[-1:] if doubted else moments:
        at = silver.reach if doubted else position(format_, sent, place)
        if at is not None:
            if judged.cut and format_ != "canal":
                silver.dead = []  # of what is behind the cut
            compare_sure(silver, at, state, judged, tally, runner.program.database, doubted)


def position(format_: str, sent: list[Sent], place: Place) -> Position | None:
    """Where the feed is when it has sent all before a place in the binlog."""
    if format_ == "canal-protobuf":
        return (0, place[0], place[1] - 1, 1, 2**31, 1)
    before = [one.message.offset for one in sent if one.place < place]
    return (0, before[-1], 2**31, 1, 0, 0) if before else None


def compare_sure(silver, at, state: State, judged: Judged, tally, database: str, doubted) -> None:
    """What gold calls exact is the database's table, and what it does not has a true reason."""
    history = silver.lineages()
    assert not silver.dead, f"dead letter: {silver.dead[0]}"
    assert not history.problems, f"problem: {history.problems[0]}"
    names = (database, f"{database}_2")
    live = {name: lineage for name, lineage in history.live(at).items() if name[0] in names}
    rows = silver.tables(at)
    for name in sorted(live.keys() | state.keys()):
        why = doubt(silver, name, live.get(name), at)
        table = state.get(name)
        if why is not None:
            known = any(text in why for text in REASONS) or (table and (table.maybe or table.computed))
            assert known or doubted, f"{name} at {at[1:3]} is not sure of itself without a reason: {why}"
            tally[re.sub(r"'[^']*'|[\d(), ]+", "", why)[:70]] += 1
            continue
        assert table is not None, f"{name} at {at[1:3]} is no table of the source, and is called exact"
        assert not table.unknown, f"{name} claims to be exact, but {table.unknown}"
        columns = gold_columns(live[name].schema_at((*at[:5], at[5] + 1)), {}, virtual=True)
        _columns(name, columns, table.columns, at)
        _rows(name, rows[".".join(name)], table, table.columns, at, True)
        tally["exact"] += 1
        judged.tables += 1
    judged.watermarks += 1


def doubt(silver, name, lineage, at) -> str | None:
    """Why gold does not call a table exact."""
    if lineage is None:
        return "absent"
    problems = silver.problems.get(".".join(name), frozenset())
    held = lineage.held if lineage.held and lineage.held[0] <= at else None
    missing = lineage.incomplete_at(at, [(at, problem) for problem in problems])
    found = held or missing or silver.breaks.get(".".join(name))
    return None if found is None else str(found)


# of statements that Canal could not read, or whose unqualified names are of a database that it does not tell
REASONS = (NAMES_MIXED, DROPPED, MOVED, UNPLACED)
