"""Where a check stops a table once the upstream was restored, or its schema history is another one. Needs no
session.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.events import Position
from lakehouse.ops.records.operators import Epoch
from lakehouse.spark.quality import gates
from lakehouse.spark.quality.gates import Gates, Stop
from tests.support.records import table_entry

STOPPED: Position = (0, 350, 1, 0, 0, 0)
LATER: Position = (1, 360, 1, 0, 0, 0)


@pytest.mark.parametrize("later", [None, Stop(LATER, "total")])
def test_a_row_that_counts_no_more_stops_no_table(
    later: Stop | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = SimpleNamespace(lineage=SimpleNamespace(id="t@10"), stops=True, mark="suite")
    entry = table_entry(lineage="t@10", state="behind", shape="of suite", stopped=(STOPPED, "total"))
    monkeypatch.setattr(gates, "of_lineage", lambda _: None)
    monkeypatch.setattr(gates, "_first_stop", lambda *_: later)
    monkeypatch.setattr("lakehouse.spark.quality.gates.F.lit", lambda _: "all")
    told: Any = {"judges": {"t@10": judge}}
    judges, silver = SimpleNamespace(**told), SimpleNamespace(where=lambda _: None)

    def stops(*restores: int, alike: bool = True) -> dict[str, Stop]:
        epochs = tuple(Epoch(epoch=1, places=(), restored_to=one, why="restored") for one in restores)
        return Gates.stops(judges, silver, {"t@10": entry}, None, epochs, is_alike=lambda *_: alike)  # type: ignore[arg-type]

    assert stops() == stops(350) == {"t@10": Stop(STOPPED, "total")}
    assert stops(300) == ({} if later is None else {"t@10": later})
    assert stops(alike=False) == stops(300), "the row may pass as another schema reads it"


def test_all_changes_are_judged_where_another_schema_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema that was imported, or a statement that came late: rows of before may fail what they passed."""
    judge = SimpleNamespace(lineage=SimpleNamespace(id="t@10"), stops=True, mark="suite")
    judges: Any = SimpleNamespace(judges={"t@10": judge})
    silver, looked_at = SimpleNamespace(where=lambda _: None), list[Any]()
    monkeypatch.setattr(gates, "of_lineage", lambda _: None)
    monkeypatch.setattr(gates, "_first_stop", lambda *told: looked_at.append(told[2]))
    monkeypatch.setattr("lakehouse.spark.quality.gates.F.lit", lambda _: "all")
    entry = table_entry(lineage="t@10", shape="of suite")

    for alike in (True, False):
        told: Any = (silver, {"t@10": entry}, "window")
        assert Gates.stops(judges, *told, is_alike=lambda *_, found=alike: found) == {}
    assert looked_at == ["window", "all"]
