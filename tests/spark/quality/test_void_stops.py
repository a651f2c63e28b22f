"""Where a check stops a table, once the upstream was restored. Needs no session."""

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
    told: Any = {"judges": {"t@10": judge}}
    judges, silver = SimpleNamespace(**told), SimpleNamespace(where=lambda _: None)

    def stops(*restores: int) -> dict[str, Stop]:
        epochs = tuple(Epoch(epoch=1, places=(), restored_to=one, why="restored") for one in restores)
        return Gates.stops(judges, silver, {"t@10": entry}, None, epochs)  # type: ignore[arg-type]

    assert stops() == stops(350) == {"t@10": Stop(STOPPED, "total")}
    assert stops(300) == ({} if later is None else {"t@10": later})
