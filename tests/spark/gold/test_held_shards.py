"""Merged tables of which a shard is held: the table is behind, and says what ends that. Needs no session."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lakehouse.ddl.policy import Rules
from lakehouse.events import Position
from lakehouse.fold.compaction import folded_under
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.modes import Clock
from lakehouse.gold.options import PLAIN, GoldOptions, to_plain
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.operators import Epoch
from lakehouse.reporting.text.remedies import Where, of_reason
from lakehouse.schema_history.table_lives import UNSEEN
from lakehouse.spark.change_log.change_counts import NO_COUNTS
from lakehouse.spark.gold.entries import kept_entry, shards_entry, without_shards
from lakehouse.spark.gold.entries import table_entry as table_entry_of
from lakehouse.spark.gold.new_changes import NewChanges
from lakehouse.spark.gold.plan import ShardsPlan, TablePlan, plan_tables
from lakehouse.spark.gold.results import Written
from lakehouse.spark.gold.shards import held_for_rows, open_shards, write_shards
from lakehouse.spark.ops.retention_floors import BelowFloors, left_lacking
from lakehouse.spark.readers.show import Reader
from tests.support.feeds import TiCDC
from tests.support.records import table_entry

MERGED = GoldOptions(merged="d.orders")
ROW = {"id": 1, "a": "x"}
UNREAD = "CREATE TABLE o_1 AS GARBLED ("


def at(ts: int) -> Position:
    return (0, ts, 2, 0, 0, 0)


def shard(feed: TiCDC, number: int, ts: int) -> TiCDC:
    return feed.ddl(ts, f"CREATE TABLE o_{number} (id INT PRIMARY KEY, a VARCHAR(9))", table=f"o_{number}")


def run_over(feed: TiCDC, end: int, before: int = 1, known: TableEntry | None = None, **more: Any) -> Any:
    """A run of gold over d.o_* as one table."""
    settings = SimpleNamespace(
        tables=None,
        options={("d", "o_*"): MERGED},
        upstream=Upstream(),
        virtual=False,
        clock=Clock(True, True),
        old_rows="",
    )
    facts = {
        "window": SimpleNamespace(position=at(end), position_before=at(before)),
        "settings": settings,
        "entries": {known.lineage: known} if known else {},
        "history": feed.memory.history(),
        "gates": SimpleNamespace(of=lambda _: None),
        "size": lambda _: SimpleNamespace(small=True, rows=1, bytes=1),
        "counts": NO_COUNTS,
        "floors": BelowFloors(),
        **{key: {} for key in ("stops", "dead", "disproved")},
        **dict.fromkeys(("void", "epochs", "missing", "losses", "rebuild", "unpublished", "returned"), ()),
        **dict.fromkeys(("refresh", "silver", "spark", "lake"), None),
    }
    return SimpleNamespace(**{**facts, **more})


def entry_of(run: Any) -> TableEntry:
    """What the run publishes of the merged table."""
    return shards_entry(run, plan_of(run), Written(1), [], ())


def plan_of(run: Any) -> ShardsPlan:
    (plan,) = plan_tables(run)
    assert isinstance(plan, ShardsPlan)
    return plan


def test_moments_of_a_shard_that_holds_a_merged_table_stand_where_that_does() -> None:
    feed = shard(TiCDC(), 0, 1).ddl(5, UNREAD, table="o_1").row(7, "INSERT", ROW, table="o_1")
    run = run_over(feed, 9)
    entry = entry_of(run)
    reader = Reader.__new__(Reader)
    reader.manifest = Manifest(batch=1, watermark=at(9), consistency="resolved", auto=True, tables=(entry,))
    reader.settings = SimpleNamespace(tables=[(("d", "o_*"), to_plain(MERGED))])  # type: ignore[assignment]

    assert [one.id for one in run.history.lineages if one.id in entry.lineages] == ["d.o_0@0.1.2"]
    for lineage in run.history.lineages:
        assert reader.stands_at(lineage, at(8)) == entry.since


@pytest.mark.parametrize("statement", [UNREAD, "ALTER TABLE o_0 GARBLED x"])
def test_a_merged_table_is_behind_where_a_shard_is_held_be_it_one_that_is_not_there_yet(
    statement: str,
) -> None:
    """It stands where it was: rows of the other shards behind that are not in it."""
    name = "o_1" if statement == UNREAD else "o_0"
    feed = shard(TiCDC(), 0, 1).ddl(5, statement, table=name).row(7, "INSERT", ROW, table="o_0")
    entry = entry_of(run_over(feed, 9))

    assert (entry.state, entry.since) == ("behind", (*at(5)[:5], -1))
    assert entry.why is not None and entry.why.startswith(f"d.{name}: held by a DDL: ")
    held = entry.held
    assert held is not None, "`ddl skip` decides on it"
    assert (held.position, held.ddl, held.by, held.shard) == (at(5), statement, "reader", ("d", name))
    assert entry_of(run_over(feed, 4)).state == "exact"


def test_a_merged_table_of_which_no_shard_lives_is_retired_or_waits_for_one_that_is_held() -> None:
    feed = shard(TiCDC(), 0, 1).row(2, "INSERT", ROW, table="o_0")
    known = entry_of(run_over(feed, 3))
    dropped = run_over(feed.ddl(5, "DROP TABLE o_0", table="o_0"), 6, before=3, known=known)
    assert without_shards(dropped, plan_of(dropped)).state == "retired"

    held = run_over(feed.ddl(7, UNREAD, table="o_1"), 9, before=3, known=known)
    entry = without_shards(held, plan_of(held))
    assert (entry.state, entry.since) == ("behind", at(3)), "it stays as it was"
    assert entry.held is not None and entry.held.shard == ("d", "o_1")
    later = run_over(feed, 12, before=9, known=entry)
    assert without_shards(later, plan_of(later)) == entry


def test_a_merged_table_that_comes_back_is_folded_whole_for_what_its_last_window_had() -> None:
    """Its DROP is ignored from now on, and its schema history is the one that was published."""
    feed = shard(TiCDC(), 0, 1).row(2, "INSERT", ROW, table="o_0")
    known = entry_of(run_over(feed, 3))
    feed.row(4, "INSERT", {**ROW, "id": 2}, table="o_0").ddl(5, "DROP TABLE o_0", table="o_0")
    dropped = run_over(feed, 6, before=3, known=known)
    retired = without_shards(dropped, plan_of(dropped))
    ignoring = Rules({("d", "o_0"): {"drop_table": "ignore"}})

    history = feed.memory.ruled(ignoring).history()
    plan = plan_of(run_over(feed, 9, before=6, known=retired, history=history))

    assert (plan.shape, plan.whole) == (retired.shape, True)


def test_rows_with_a_column_that_no_ddl_has_added_hold_a_merged_table_until_it_comes() -> None:
    feed = shard(shard(TiCDC(), 0, 1), 1, 2).row(5, "INSERT", {**ROW, "b": "y"}, table="o_1")
    known = entry_of(run_over(feed, 3))
    run = run_over(feed, 9, before=3, known=known)
    plan = plan_of(run)
    changes = feed.memory._lineages()[1]
    new = NewChanges(None, small=True, changes=changes)  # type: ignore[arg-type]

    waits = write_shards(run, plan, open_shards(run, plan, {})[0], new)
    assert isinstance(waits, dict)
    held = held_for_rows(run, plan, waits)

    assert held is not None and (held.at, held.whole) == ((0, 5, 1, 0, 0, -1), True)
    entry = shards_entry(run, held, Written(2, whole=True), [], ())
    assert entry.state == "behind" and entry.held is not None
    assert (entry.held.by, entry.held.columns, entry.held.shard) == ("rows", ("b",), ("d", "o_1"))
    later = run_over(feed, 12, before=9, known=entry)
    assert plan_of(later).at == held.at, "it waits on"
    for restored_to, waits_on in ((4, False), (5, True)):
        window = SimpleNamespace(position=(1, 12, 2, 0, 0, 0), position_before=at(9))
        epochs = (Epoch(epoch=1, places=(), restored_to=restored_to, why="restored"),)
        restored = plan_of(run_over(feed, 12, known=entry, window=window, epochs=epochs))
        assert restored.at == (held.at if waits_on else window.position), "the rows may count no more"
    feed.ddl(4, "ALTER TABLE o_1 ADD b VARCHAR(9)", table="o_1")
    assert plan_of(run_over(feed, 12, before=9, known=entry)).at == at(12)


def test_dead_letters_of_a_shard_of_which_nothing_else_has_come_keep_a_merged_table_from_being_exact() -> (
    None
):
    feed = shard(TiCDC(), 0, 1)

    entry = entry_of(run_over(feed, 9, before=7, dead={("d", "o_9"): 2, ("d", "x"): 1}))
    assert (entry.state, entry.since, entry.why) == ("incomplete", at(7), "d.o_9: 2 dead letters")
    assert entry_of(run_over(feed, 9, dead={("d", "x"): 1})).state == "exact"
    since = entry_of(run_over(feed, 12, before=9, known=entry, dead={("d", "o_0"): 1})).since
    assert since == at(7), "since when something is missing does not move on"
    assert entry.shards is not msgspec.UNSET


def test_a_table_that_a_rename_above_the_watermark_makes_a_shard_is_one_from_the_rename_on() -> None:
    """Gold stands before the RENAME: the source's shards are those of then, and the table is its own."""
    feed = shard(TiCDC(), 0, 1).ddl(2, "CREATE TABLE x (id INT PRIMARY KEY, a VARCHAR(9))", table="x")
    feed.row(3, "INSERT", ROW, table="x").ddl(8, "RENAME TABLE x TO o_1", table="o_1")

    alone, merged = plan_tables(run_over(feed, 5))
    assert [(one.gold, [lineage.id for lineage in one.lineages]) for one in (alone, merged)] == [
        ("d__x", ["d.x@0.2.2"]),
        ("d__orders", ["d.o_0@0.1.2"]),
    ]
    assert alone.options == PLAIN
    assert [one.id for one in plan_of(run_over(feed, 9)).lineages] == ["d.o_0@0.1.2", "d.x@0.2.2"]


def test_a_merged_table_waits_for_one_that_is_held_before_the_rename_that_makes_it_a_shard() -> None:
    """That one keeps its Delta table, and none of its rows is a shard's."""
    feed = shard(TiCDC(), 0, 1).ddl(2, "CREATE TABLE x (id INT PRIMARY KEY, a VARCHAR(9))", table="x")
    feed.row(3, "INSERT", ROW, table="x")
    known = next(one for one in plan_tables(run_over(feed, 5)) if isinstance(one, ShardsPlan))
    feed.ddl(8, "RENAME TABLE x TO o_1", table="o_1")
    holding = Rules({("d", "x"): {"rename_table": "hold"}})
    run = run_over(feed, 9, history=feed.memory.ruled(holding).history())

    alone, merged = plan_tables(run)

    assert (alone.gold, alone.at, alone.options) == ("d__x", (*at(8)[:5], -1), PLAIN)
    assert isinstance(merged, ShardsPlan)
    assert ([one.id for one in merged.lineages], merged.at) == (["d.o_0@0.1.2"], alone.at)
    assert merged.shape == known.shape
    entry = shards_entry(run, merged, Written(1), [], ())
    assert (entry.state, entry.why) == ("behind", "d.o_1: held by a DDL: on_ddl says hold for rename_table")


def test_what_a_table_lacks_below_a_floor_stays_when_a_yaml_merges_it_with_others() -> None:
    """Nothing below the floor is left that would show it again; of a table that is folded from its log the
    fold does.
    """
    feed = shard(shard(TiCDC(), 0, 1), 1, 1).row(5, "INSERT", ROW, table="o_1")
    lineages = feed.memory.history().lineages
    lacking = {"a change lacks something": at(5)}
    alone = {one.id: table_entry(lineage=one.id, state="incomplete", lacking=lacking) for one in lineages[1:]}

    def merged(floors: dict[Any, Any]) -> TableEntry:
        run = run_over(feed, 9, before=7, entries=alone, floors=BelowFloors(floors))
        return shards_entry(run, plan_of(run), Written(1, whole=True), [], ())

    assert (merged({}).state, merged({}).lacking) == ("exact", {})
    floor = merged({("d", "o_1"): at(6)})
    assert (floor.state, floor.since, floor.lacking) == ("incomplete", at(5), lacking)
    parted = run_over(feed, 9, before=7, known=floor, floors=BelowFloors({("d", "o_1"): at(6)}))
    parted.settings.options = {}
    plans = [one for one in plan_tables(parted) if isinstance(one, TablePlan)]
    entries = [table_entry_of(parted, one, Written(1, whole=True), []) for one in plans]
    assert {entry.table: entry.lacking for entry in entries} == {"o_0": {}, "o_1": lacking}


def test_what_a_table_lacks_below_a_floor_stays_while_gold_does_not_have_it() -> None:
    """A YAML that goes and comes back, or another choice of `tables`, would else leave it exact."""
    feed = shard(shard(TiCDC(), 0, 1), 1, 1).row(5, "INSERT", ROW, table="o_1")
    run = run_over(feed, 9, before=7, floors=BelowFloors({("d", "o_1"): at(6)}))
    run.settings.options = {}
    lineages = {one.id: one for one in run.history.lineages}
    gone = next(id_ for id_, one in lineages.items() if one.name_at(at(9)) == ("d", "o_1"))
    lacking = {"a change lacks something": at(5)}
    before = [table_entry(lineage=one, state="incomplete", lacking=lacking) for one in lineages]
    others = [one for one in before if one.lineage != gone]

    def left(known: Sequence[TableEntry], now: Sequence[TableEntry]) -> dict[str, Any]:
        return left_lacking(run.floors, lineages.values(), known, now)

    assert left(before, others) == {gone: lacking}
    assert left(before, before) == {}
    run.floors = run.floors._replace(lacking=left(before, others))
    assert left(others, others) == {gone: lacking}, "for as long as it takes"
    without = [one for one in lineages.values() if one.id != gone]
    assert left_lacking(run.floors, without, others, others) == {gone: lacking}

    again = {
        plan.lineages[0].id: table_entry_of(run, plan, Written(1, whole=True), []) for plan in plans(run)
    }
    assert (again[gone].state, again[gone].lacking) == ("incomplete", lacking)
    run.floors = run.floors._replace(places={})
    assert left(others, others) == {}, "another generation of silver has its log"


@pytest.mark.parametrize(
    ("said", "shows"),
    [
        (GoldOptions(mode="history"), "mode history"),
        (GoldOptions(mode="append"), "mode append"),
        (GoldOptions(deletes="soft"), "deletes: soft"),
        (GoldOptions(), None),
    ],
)
@pytest.mark.parametrize("merged", ["", "d.all"])
def test_a_table_whose_log_is_gone_is_exact_in_no_mode_that_shows_it(
    said: GoldOptions, shows: str | None, merged: str
) -> None:
    """Its YAML said upsert when the floor was raised. A TRUNCATE brings nothing of the log back."""
    feed = shard(TiCDC(), 1, 1).row(5, "INSERT", ROW, table="o_1").ddl(7, "TRUNCATE TABLE o_1", table="o_1")
    why = f"a retention floor has taken the changes below it, which {shows} shows too"

    def entry(end: int, floors: BelowFloors) -> TableEntry:
        run = run_over(feed, end, before=end - 1, floors=floors)
        run.settings.options = {("d", "o_1"): msgspec.structs.replace(said, merged=merged)}
        (plan,) = plan_tables(run)
        if isinstance(plan, ShardsPlan):
            return shards_entry(run, plan, Written(1, whole=True), [], ())
        return table_entry_of(run, plan, Written(1, whole=True), [])

    assert entry(8, BelowFloors()).state == entry(8, BelowFloors({("d", "o_1"): at(1)})).state == "exact"
    floors = BelowFloors({("d", "o_1"): at(6)})
    for end, since in ((6, 6), (8, 7)):
        found = entry(end, floors)
        assert (found.state, found.since) == (("incomplete", at(since)) if shows else ("exact", None))
        assert shows is None or (found.why or "").endswith(why)
        assert found.lacking == {}, "another mode is exact again"


def test_a_table_that_a_floor_has_folded_under_another_yaml_is_incomplete_until_it_is_emptied() -> None:
    feed = shard(TiCDC(), 1, 1).row(5, "INSERT", ROW, table="o_1").ddl(9, "TRUNCATE TABLE o_1", table="o_1")
    (lineage,) = feed.memory.history().lineages
    under = folded_under(lineage, at(6), Upstream())

    def entry(end: int, *folded: tuple[Position, str]) -> TableEntry:
        floors = BelowFloors({("d", "o_1"): at(6)}, folded={lineage.id: folded})
        run = run_over(feed, end, before=end - 1, floors=floors)
        run.settings.options = {}
        (plan,) = plans(run)
        return table_entry_of(run, plan, Written(1), [])

    other = entry(8, (at(6), "another"), (at(7), under))
    assert (other.state, other.since, other.lacking) == ("incomplete", at(6), {})
    assert of_reason(other.why or "", Where("shop", "d.o_1"))[0].command == "lakehouse rebuild silver shop"
    assert entry(8, (at(6), under), (at(7), under)).state == "exact"
    assert entry(10, (at(6), "another")).state == "exact"


@pytest.mark.parametrize("merged", ["", "d.all"])
def test_a_table_that_is_held_below_a_floor_by_now_stays_as_it_was_published(merged: str) -> None:
    """A fold of what is left up to there would be empty."""
    feed = shard(TiCDC(), 1, 1).ddl(3, "ALTER TABLE o_1 DROP COLUMN a", table="o_1")
    feed.row(7, "INSERT", {"id": 2}, table="o_1")
    options = {("d", "o_1"): GoldOptions(merged=merged)}
    holding = Rules({("d", "o_1"): {"drop_column": "hold"}})
    floors = BelowFloors({("d", "o_1"): at(6)})
    lineage = feed.memory.history().lineages[0].id
    known = table_entry(
        lineage=f"shards of {merged}" if merged else lineage, state="exact", shape="of before", version=4
    )

    def kept(rules: Rules, before: int = 8, **more: Any) -> TableEntry | None:
        history = feed.memory.ruled(rules).history()
        run = run_over(feed, 9, before, **{"known": known, "history": history, "floors": floors, **more})
        run.settings.options = options
        (plan,) = plan_tables(run)
        return kept_entry(run, plan)

    entry = kept(holding)
    assert entry is not None
    assert (entry.state, entry.since, entry.version, entry.shape) == ("behind", at(8), 4, "")
    assert entry.why == "held by a DDL: on_ddl says hold for drop_column"
    assert entry.held is not None and entry.held.position == at(3), "`ddl approve` decides on it"
    assert kept(holding, known=entry, before=9) == entry
    assert kept(Rules()) is None
    assert kept(holding, floors=BelowFloors()) is None
    assert kept(holding, known=None) is None


def plans(run: Any) -> list[TablePlan]:
    """What the run does with tables that are not merged."""
    return [plan for plan in plan_tables(run) if isinstance(plan, TablePlan)]


def migrated(feed: TiCDC) -> TiCDC:
    """An online schema change of a shard: its ghost table takes its name."""
    feed.ddl(5, "RENAME TABLE o_0 TO _o_0_del", table="_o_0_del")
    return feed.ddl(5, "RENAME TABLE _o_0_gho TO o_0", table="o_0")


def test_the_old_table_of_a_shard_whose_ghost_took_its_name_is_no_shard_any_more() -> None:
    feed = shard(shard(TiCDC(), 0, 1), 1, 1).row(2, "INSERT", ROW, table="o_0")
    feed.ddl(3, "CREATE TABLE _o_0_gho LIKE o_0", table="_o_0_gho").row(4, "INSERT", ROW, table="_o_0_gho")
    run = run_over(migrated(feed), 6)

    assert [one.name_at(at(6)) for one in plan_of(run).lineages] == [("d", "o_0"), ("d", "o_1")]
    assert entry_of(run).state == "exact"
    renamed = run_over(feed.ddl(7, "RENAME TABLE o_1 TO elsewhere", table="elsewhere"), 8)
    assert [one.name_at(at(8)) for one in plan_of(renamed).lineages] == [("d", "elsewhere"), ("d", "o_0")]


def test_a_shard_whose_ghost_the_feed_leaves_out_is_incomplete_from_the_rename_on() -> None:
    feed = shard(shard(TiCDC(), 0, 1), 1, 1).row(2, "INSERT", ROW, table="o_0")
    entry = entry_of(run_over(migrated(feed), 6))

    assert (entry.state, entry.why, entry.lineages) == ("incomplete", f"d.o_0: {UNSEEN}", ("d.o_1@0.1.2",))
