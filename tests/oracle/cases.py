"""A program with its history, as a file: what the server did is kept, so that the case is judged without a
server.

{"story",
 "seed", "strict", "raw", "server", "database", "steps", "shapes": [table…], "events": [{… "shape": n}],
 "states": [[commit_ts, [[database, table, n, rows, unknown, maybe, computed]…]]…]}
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.oracle.database import Column, Table
from tests.oracle.dialects import MARIADB
from tests.oracle.program import Program
from tests.oracle.runner import Event, Runner, State


class Case:
    """What a runner knows after a run: enough to be judged."""

    def __init__(self, program: Program, events: list[Event], states: list[tuple[int, State]]) -> None:
        self.program, self.events, self.states = program, events, states
        self.seed, self.raw = program.seed, program.raw


def save_case(runner: "Runner | Case", path: Path, story: str) -> None:
    shapes: list[Any] = []

    def number(table: Table) -> int:
        told = [
            [[c.name, c.type, c.not_null, c.charset, c.generated] for c in table.columns],
            table.primary,
            table.indexes,
        ]
        told = json.loads(json.dumps(told))
        if told not in shapes:
            shapes.append(told)
        return shapes.index(told)

    program = runner.program
    events = [
        {**event, **({"shape": number(event["of"])} if "of" in event else {})} for event in runner.events
    ]
    states = [
        [
            ts,
            [
                [*name, number(table), table.rows, sorted(table.unknown), table.maybe, table.computed]
                for name, table in state.items()
            ],
        ]
        for ts, state in runner.states
    ]
    head = {
        "story": story,
        "seed": program.seed,
        "strict": program.strict,
        "raw": program.raw,
        "server": program.server,
        "database": program.database,
    }
    parts = {
        "steps": program.steps,
        "shapes": shapes,
        "events": [_told(event) for event in events],
        "states": states,
    }
    lines = [f"{json.dumps(name)}: [\n{_lines(items)}\n]" for name, items in parts.items()]
    path.write_text(
        json.dumps(head, ensure_ascii=False)[:-1] + ",\n" + ",\n".join(lines) + "}\n", encoding="utf-8"
    )


def _told(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != "of"}


def _lines(items: list[Any]) -> str:
    return ",\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items)


def load_case(path: Path) -> Case:
    told = json.loads(path.read_text(encoding="utf-8"))
    shapes = [_table(*shape) for shape in told["shapes"]]
    events = [_event(event, shapes) for event in told["events"]]
    states = [
        (ts, {(db, name): _full(shapes[n], *rest) for db, name, n, *rest in tables})
        for ts, tables in told["states"]
    ]
    return Case(
        Program(
            told["seed"],
            told["strict"],
            told["steps"],
            told["database"],
            raw=told["raw"],
            server=told.get("server", MARIADB.rules),
        ),
        events,
        states,
    )


def _table(columns: Any, primary: Any, indexes: Any) -> Table:
    return Table(
        tuple(Column(*column) for column in columns),
        tuple(primary),
        tuple((name, tuple(names), unique) for name, names, unique in indexes),
    )


def _full(shape: Table, rows: Any, unknown: Any, maybe: bool, computed: bool = False) -> Table:
    return replace(shape, rows=tuple(rows), unknown=frozenset(unknown), maybe=maybe, computed=computed)


def _event(event: Event, shapes: list[Table]) -> Event:
    if "shape" not in event:
        return event
    table = shapes[event["shape"]]
    return {**event, "shape": table.shape(), "of": table}
