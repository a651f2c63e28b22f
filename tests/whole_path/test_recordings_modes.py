"""Every TiCDC recording in every mode: at each state of the truth, history, change log and soft deletes agree
with the table itself.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import Position
from lakehouse.fold.steps import rekeyings, target_step
from lakehouse.gold.options import GoldOptions
from lakehouse.gold.own_columns import _TYPES
from tests.support.engine import Memory
from tests.support.judging import format_of, messages, name_of, options, recordings, states
from tests.whole_path.test_recordings import place

OWN = {name for name, _ in _TYPES.values()}
Rows = list[dict[str, Any]]


def in_mode(silver: Memory, at: Position, said: GoldOptions) -> dict[str, Rows]:
    names = {interval.name for lineage in silver.lineages().lineages for interval in lineage.intervals}
    return silver.tables(at, dict.fromkeys(names, said))


def plain(rows: Rows) -> Counter[str]:
    return Counter(repr({name: value for name, value in row.items() if name not in OWN}) for row in rows)


@pytest.mark.parametrize("recording", recordings(), ids=name_of)
def test_every_mode_agrees_with_the_table_at_every_state(recording: Path) -> None:
    silver = Memory(format_of(recording), options(recording)).add(messages(recording))

    for at in (place(recording, state) for state in [*states(recording)[::4], states(recording)[-1]]):
        tables, live = silver.tables(at), silver.lineages().live(at)
        history, soft, log = (
            in_mode(silver, at, GoldOptions(mode=mode, deletes=deletes))
            for mode, deletes in (("history", "hard"), ("upsert", "soft"), ("append", "hard"))
        )
        for name, rows in tables.items():
            assert plain([row for row in history[name] if row["_current"]]) == plain(rows), (name, at)
            assert all(row["_to_ts"] is None or row["_from_ts"] < row["_to_ts"] for row in history[name])
            assert plain([row for row in soft[name] if not row["_deleted"]]) == plain(rows), (name, at)
            lineage = live[name.split(".", 1)[0], name.split(".", 1)[1]]
            if not rekeyings(lineage, target_step(lineage, at)) and (keys := key_names(silver, lineage, at)):
                assert plain(last_rows(log[name], keys)) == plain(rows), (name, at)


def key_names(silver: Memory, lineage: Any, at: Position) -> list[str]:
    from lakehouse.lineage import key_ids

    step = target_step(lineage, at)
    return [
        column.name for column in lineage.steps[step].schema.columns if column.id in key_ids(lineage, step)
    ]


def last_rows(log: Rows, keys: list[str]) -> Rows:
    """The table as anybody would fold it from its log."""
    last = {
        repr([row[key] for key in keys] + [row.get(f"_raw_{key}") for key in keys]): row
        for row in sorted(log, key=lambda row: row["_position"])
    }
    return [row for row in last.values() if row["_op"] != "delete"]
