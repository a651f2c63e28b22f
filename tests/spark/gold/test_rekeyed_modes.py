"""Windows of tables whose key is younger than their rows: gold has rows side by side that lived under one key
before it was the key. Needs Spark's package, but no session.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.fold.row_edits import row_key
from lakehouse.gold.columns import gold_columns
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import GoldOptions
from lakehouse.spark.gold import merge, window
from tests.fold.test_versions import lineages
from tests.support.engine import TSO
from tests.support.feeds import TiCDC

HISTORY, APPEND = GoldOptions(mode="history"), GoldOptions(mode="append")


def told(second: int) -> TiCDC:
    """A row that goes on under the new key, and another with `second` as its id, which is gone by then."""
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT NOT NULL, v VARCHAR(9))")
    feed.row(2, "INSERT", {"id": 1, "v": "a"}, key=()).row(3, "INSERT", {"id": second, "v": "b"}, key=())
    feed.row(4, "DELETE", {"id": second, "v": "b"}, key=()).ddl(5, "ALTER TABLE t ADD PRIMARY KEY (id)")
    return feed.row(6, "UPDATE", {"id": 1, "v": "c"}, {"v": "a"})


@pytest.mark.parametrize("options", [HISTORY, APPEND])
@pytest.mark.parametrize("second", [1, 2])
def test_a_key_that_two_rows_had_is_folded_whole_and_not_gone_on_from_the_wrong_one(
    monkeypatch: pytest.MonkeyPatch, options: GoldOptions, second: int
) -> None:
    feed = told(second)
    [(lineage, changes)] = lineages(feed.memory)
    upstream, before, at = feed.memory.upstream, (0, 5, 2, 0, 0, 0), feed.memory.reach
    earlier = Mode(lineage, before, upstream, TSO, options).rows(changes).rows
    mode = Mode(lineage, at, upstream, TSO, options)

    def known_rows(*_: Any, mode: Mode, columns: Any, keys: Any) -> merge.Known:
        found = [row for row in earlier if row_key(row, mode.ids) in keys]
        return merge.Known(found[-1:] if mode.word == "append" else found, exact=True)

    monkeypatch.setattr(merge, "known_rows", known_rows)
    table: Any = SimpleNamespace(
        ids=mode.ids,
        mode=mode,
        lineage=lineage,
        step=mode.target,
        options=options,
        columns=gold_columns(lineage.steps[mode.target].schema, virtual=False, options=options),
        gate=None,
        reads_back=True,
        gold="d__t",
        run=SimpleNamespace(
            settings=SimpleNamespace(upstream=upstream),
            spark=None,
            lake=SimpleNamespace(read=lambda *_: None),
        ),
    )
    mine = [change for change in changes if change.position > before]
    outcome = window.outcome_of(table, mine, before, 1)

    assert (outcome is None) == (second == 1)
    if outcome is not None:
        assert len(outcome.puts) == (1 if options is APPEND else 2)
