"""Random programs through a real Canal: gold against the database after every commit.

    judge_all(server, seeds, settings) → one line per program and output
"""

import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehouse.events import Position
from tests.oracle.check import Judged, _columns, _rows, compare, told
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
    strict = OUTPUTS[output][1]
    silver = Memory(format_, options, tidb=False)
    if strict:
        silver.add([one.message for one in sent])
        for place, state in moments:
            at = position(format_, sent, place)
            if at is not None:
                compare(silver, at, state, judged)
    elif moments:
        place, state = moments[-1]
        mine = [one.message for one in sent if one.place < place]
        if not mine:
            return
        silver.add(mine)
        compare_sure(silver, silver.reach, state, judged, tally)


def position(format_: str, sent: list[Sent], place: Place) -> Position | None:
    """Where the feed is when it has sent all before a place in the binlog."""
    if format_ == "canal-protobuf":
        return (0, place[0], place[1] - 1, 1, 2**31, 1)
    before = [one.message.offset for one in sent if one.place < place]
    return (0, before[-1], 2**31, 1, 0, 0) if before else None


def compare_sure(silver: Memory, at: Position, state: State, judged: Judged, tally: Counter[str]) -> None:
    """Only what gold calls exact."""
    history = silver.lineages()
    if silver.dead:
        tally[f"dead {silver.dead[0]}"[:150]] += 1
    if history.problems:
        tally[f"problem {history.problems[0]}"[:150]] += 1
    live = history.live(at)
    rows = silver.tables(at)
    if silver.dead or history.problems:
        return
    for name, lineage in live.items():
        problems = silver.problems.get(".".join(name), frozenset())
        held = lineage.held if lineage.held and lineage.held[0] <= at else None
        missing = lineage.incomplete_at(at, [(at, problem) for problem in problems])
        broken = silver.breaks.get(".".join(name))
        if held or missing or broken:
            tally[str(held or missing or broken)[:200].partition("'")[2][:100]] += 1
            continue
        assert name in state, f"{name} is no table of the source, and is called exact"
        table = state[name]
        assert not table.unknown, f"{name} claims to be exact, but {table.unknown}"
        _columns(name, __import__("lakehouse.gold.columns").gold.columns.gold_columns(live[name].schema_at((*at[:5], at[5] + 1)), {}, virtual=True), table.columns, at)
        _rows(name, rows[".".join(name)], table, table.columns, at, True)
        tally["exact"] += 1
        judged.tables += 1
    tally["absent"] += len(set(state) - set(live))
