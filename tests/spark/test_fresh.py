"""Gold looks at silver once for all small tables, when they are made and when a large window is merged into them."""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from arrivals import Feed
from source_model import History

from lakehouse.spark import fresh, gold_table

sys.path.insert(0, str(Path(__file__).parent))
from test_pipeline import engine, run, shown, write_recording


def test_small_tables_are_read_together(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, lake = Feed(History(2, 60).events, random.Random(1), 1, "table").arrival(random.Random(2)), tmp_path / "lake"
    read_lot, collect_changes = fresh.read_lot, gold_table.collect_changes
    lots: list[int] = []
    alone: list[str] = []

    def noted(shares: Sequence[fresh.Share]) -> list[fresh.Read]:
        lots.append(len(shares))
        return read_lot(shares)

    monkeypatch.setattr(fresh, "read_lot", noted)
    monkeypatch.setattr(gold_table, "collect_changes", lambda frame: [alone.append("a table"), collect_changes(frame)][1])
    monkeypatch.setattr(fresh, "SMALL_CHANGES", 0)
    by_run = []
    for part in (0.5, 1.0):
        landed = told[: int(len(told) * part)]
        run(write_recording(tmp_path / "feed.jsonl", landed), lake)
        assert shown(lake, tmp_path / "shown") == engine(landed)
        by_run.append(lots[sum(map(len, by_run)) :])

    # at first one lot of all tables; then one of those that are folded anew, and one of those that are merged into
    assert len(by_run[0]) == 1
    assert by_run[0][0] > 2
    assert all(len(lots) <= 2 for lots in by_run)
    assert alone == []


def test_a_lot_holds_what_fits_and_at_least_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "LOT_CHANGES", 10)
    monkeypatch.setattr(fresh, "LOT_BYTES", 100)
    one, other = object(), object()
    sizes = [(one, 4, 1), (one, 6, 1), (one, 1, 1), (one, 20, 1), (one, 1, 90), (other, 1, 1), (one, 1, 20)]
    shares = [fresh.Share((), frame, gold_table.Size(rows, size), lambda _: None) for frame, rows, size in sizes]  # type: ignore[arg-type]

    found = [[number for number, _ in lot] for lot in fresh.lots(enumerate(shares))]

    assert sorted(found) == [[0, 1], [2], [3], [4], [5], [6]]
