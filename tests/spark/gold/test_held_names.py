"""Which tables are planned while a RENAME waits for an operator's decision."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.events import Position
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.options import PLAIN
from lakehouse.lineage import Lineage
from lakehouse.spark.gold import plan
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"
HOLDING = Rules({("d", "t"): {"rename_table": "hold"}})


def published(lineage: Lineage) -> Any:
    """The entry of d.t in the last manifest."""
    return SimpleNamespace(
        gold="d__t",
        lineage=lineage.id,
        wanted="d__t",
        made_for=("d", "t"),
        shards=msgspec.UNSET,
        names=[("d", "t")],
        state="exact",
        since=None,
        shape="x",
        options=None,
        database="d",
        table="t",
        lacking=(),
        held=None,
    )


def run_over(silver: Any, position: Position) -> Any:
    """A run of gold that wants d.t alone, and has published it."""
    history = silver.ruled(HOLDING).history()
    settings = SimpleNamespace(
        tables=frozenset({("d", "t")}),
        options={("d", "t"): PLAIN},
        upstream=Upstream(),
        policies={},
        virtual=False,
    )
    return SimpleNamespace(
        window=SimpleNamespace(position=position, position_before=(0, 1, 2, 0, 0, 0)),
        settings=settings,
        entries={history.lineages[0].id: published(history.lineages[0])},
        history=history,
        stops={},
        gates=SimpleNamespace(of=lambda _: None),
        void=[],
        epochs=[],
        refresh=False,
        rebuild=(),
        unpublished=(),
        size=lambda _: SimpleNamespace(small=True),
        returned=(),
    )


def test_a_ghost_table_gets_no_gold_table_while_its_rename_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is wanted under the name alone that it will have."""
    feed = TiCDC().ddl(1, CREATE)
    feed.ddl(2, CREATE.replace(" t ", " `_t_gho` "), table="_t_gho")
    feed.ddl(3, "RENAME TABLE t TO _t_del, _t_gho TO t", table=None)
    monkeypatch.setattr(plan, "still_waiting", lambda *_: None)

    planned = plan.plan_tables(run_over(feed.memory, (0, 9, 2, 0, 0, 0)))

    assert [one.gold for one in planned] == ["d__t"]
