"""Which tables are planned while a RENAME waits for an operator's decision."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.events import Position
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.options import PLAIN, ColumnOptions, GoldOptions
from lakehouse.lineage import Lineage, Name
from lakehouse.spark.gold import plan
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"
HOLDING = Rules({("d", "t"): {"rename_table": "hold"}})
ALONE = {("d", "t"): PLAIN}


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


def run_over(silver: Any, position: Position, options: Mapping[Name, GoldOptions] = ALONE) -> Any:
    """A run of gold that wants these tables, and has published d.t."""
    history = silver.ruled(HOLDING).history()
    settings = SimpleNamespace(
        tables=frozenset(options),
        options=options,
        upstream=Upstream(),
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


@pytest.mark.parametrize("other", [PLAIN, GoldOptions(mode="history"), GoldOptions(merged="d.all")])
def test_what_a_yaml_says_of_the_name_to_come_waits_for_the_rename_too(
    other: GoldOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what the table's own YAML hides would be shown while nobody has decided."""
    feed = TiCDC().ddl(1, CREATE).ddl(3, "RENAME TABLE t TO u", table=None)
    hidden = GoldOptions(columns={"email": ColumnOptions(mask="nullify")})
    monkeypatch.setattr(plan, "still_waiting", lambda *_: None)

    run = run_over(feed.memory, (0, 9, 2, 0, 0, 0), {("d", "t"): hidden, ("d", "u"): other})
    (planned,) = plan.plan_tables(run)

    assert (planned.gold, planned.options, planned.at) == ("d__t", hidden, (0, 3, 2, 0, 0, -1))


def test_what_a_yaml_says_of_a_held_name_does_not_hold_for_the_table_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(2, CREATE.replace(" t ", " g "), table="g")
    feed.ddl(3, "RENAME TABLE t TO old, g TO t", table=None)
    mine, others = GoldOptions(mode="append"), GoldOptions(mode="history")
    monkeypatch.setattr(plan, "still_waiting", lambda *_: None)

    run = run_over(feed.memory, (0, 9, 2, 0, 0, 0), {("d", "t"): mine, ("d", "g"): others})
    run.entries["d.g@0.2.2"] = published(run.history.lineages[1])
    run.entries["d.g@0.2.2"].gold = "d__g"
    run.entries["d.g@0.2.2"].made_for = ("d", "g")
    run.entries["d.g@0.2.2"].wanted = "d__g"

    told = {one.gold: one.options for one in plan.plan_tables(run)}

    assert told == {"d__t": mine, "d__g": others}
