"""Gold goes on from what its last manifest names, whatever has been written to its tables since."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.gold.options import GoldOptions
from lakehouse.lineage import Interval, Lineage, Step
from lakehouse.ops.records.gold import Intent, Manifest
from lakehouse.reporting.steps import Steps
from lakehouse.schema import make_schema
from lakehouse.spark.gold import run as gold_run
from lakehouse.spark.gold import tables
from lakehouse.spark.gold.entries import table_entry as table_entry_of
from lakehouse.spark.gold.new_changes import NewChanges, Seen
from lakehouse.spark.gold.plan import TablePlan
from lakehouse.spark.gold.results import Size, TableResult
from lakehouse.spark.gold.settings import GoldSettings
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.table_versions import history_of
from tests.spark.gold.test_modes import expected, run_all
from tests.support.killable import Killed, killing
from tests.support.lakes import engine, run, shown, write_recording
from tests.support.open_feed import OpenFeed, T
from tests.support.records import log_of, manifest, table_entry

SAID: dict[str, dict[str, Any]] = {
    "gold: {mode: history}": {"mode": "history"},
    "gold: {deletes: soft}": {"deletes": "soft"},
    "gold: {mode: append}": {"mode": "append"},
}
CREATE = "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))"


def feed_of_one_row() -> OpenFeed:
    feed = OpenFeed()
    feed.ddl(1, "t", CREATE)
    feed.row(2, "t", 1, v="one")
    feed.resolved(3)
    return feed


def ids(spark: Any, lake: Path) -> list[int]:
    return sorted(row.id for row in Lake(str(lake)).read(spark, "gold", "shop__t").collect())


def operations(spark: Any, lake: Path) -> list[str]:
    ref = Lake(str(lake)).ref("gold", "shop__t")
    return [row.operation for row in reversed(history_of(spark, ref))]


def test_a_smaller_watermark_after_a_death_before_the_manifest_takes_back_what_was_merged(
    spark: Any, tmp_path: Path
) -> None:
    lake, path, feed, other = tmp_path / "lake", tmp_path / "shop.jsonl", feed_of_one_row(), OpenFeed(1)
    run(write_recording(path, feed.messages), lake)
    feed.row(10, "t", 2, v="two")
    feed.row(11, "t", 1, v="changed")
    feed.resolved(12)
    with (
        killing(type(spark), lambda name: name.startswith("ops manifest"), after=False),
        pytest.raises(Killed),
    ):
        run(write_recording(path, feed.messages), lake)
    log = OpsLog(spark, Lake(str(lake)), "shop").load()
    assert isinstance(log.records[-1].record, Intent)
    assert ids(spark, lake) == [1, 2]

    other.resolved(6)
    everything = [*feed.messages, *other.messages]
    run(write_recording(path, everything), lake)

    published = OpsLog(spark, Lake(str(lake)), "shop").load().last(Manifest)
    assert published is not None and published.watermark[1] == T + 6
    assert shown(lake, tmp_path / "shown") == engine(everything)
    assert ids(spark, lake) == [1]
    assert operations(spark, lake)[-1] == "RESTORE"

    other.resolved(13)
    run(write_recording(path, [*feed.messages, *other.messages]), lake)

    assert ids(spark, lake) == [1, 2]


@pytest.mark.parametrize("said", list(SAID))
def test_a_death_between_the_write_and_the_manifest_hides_no_version_of_a_row(
    spark: Any, tmp_path: Path, said: str
) -> None:
    path, feed, tables = tmp_path / "shop.jsonl", feed_of_one_row(), {"shop.t": said}
    run_all(tmp_path, "ticdc-open", write_recording(path, feed.messages), tables)
    feed.row(4, "t", 2, v="two")
    feed.row(5, "t", 1, "d", v="one")
    feed.resolved(6)

    def is_written(name: str) -> bool:
        return name in ("MERGE gold/shop__t", "gold shop__t")

    with killing(type(spark), is_written), pytest.raises(Killed):
        run_all(tmp_path, "ticdc-open", write_recording(path, feed.messages), tables)
    run_all(tmp_path, "ticdc-open", path, tables)

    options = {("shop", "t"): GoldOptions(**SAID[said])}
    assert shown(tmp_path / "lake", tmp_path / "shown") == expected(feed.messages, options)


def test_what_a_dead_run_did_for_a_yaml_that_was_taken_back_is_taken_back_too(
    spark: Any, tmp_path: Path
) -> None:
    path, feed, lake = tmp_path / "shop.jsonl", feed_of_one_row(), tmp_path / "lake"
    feed.row(4, "t", 2, v="two")
    feed.row(5, "t", 2, "d", v="two")
    feed.resolved(6)
    write_recording(path, feed.messages)
    run_all(tmp_path, "ticdc-open", path, {"shop.t": ""})
    with killing(type(spark), lambda name: name == "gold shop__t"), pytest.raises(Killed):
        run_all(tmp_path, "ticdc-open", path, {"shop.t": "gold: {deletes: soft}"})
    assert ids(spark, lake) == [1, 2]

    run_all(tmp_path, "ticdc-open", path, {"shop.t": ""})

    assert ids(spark, lake) == [1]
    assert operations(spark, lake)[-1] == "RESTORE"


def test_rows_stay_rejected_though_a_dead_run_let_them_pass_by_a_suite_that_was_taken_back(
    spark: Any, tmp_path: Path
) -> None:
    path, feed = tmp_path / "shop.jsonl", feed_of_one_row()
    write_recording(path, feed.messages)
    words = "expect: expect_column_values_to_not_be_in_set, column: v"
    ones, twos = (
        {"shop.t": f"quality: [{{{words}, args: {{value_set: [{one}]}}, action: reject}}]"}
        for one in ("one", "two")
    )
    (before,) = run_all(tmp_path, "ticdc-open", path, ones)["tables"]
    assert before["state"] == "incomplete"
    with (
        killing(type(spark), lambda name: name.startswith("ops manifest"), after=False),
        pytest.raises(Killed),
    ):
        run_all(tmp_path, "ticdc-open", path, twos)

    (told,) = run_all(tmp_path, "ticdc-open", path, ones)["tables"]

    assert ids(spark, tmp_path / "lake") == []
    assert (told["state"], told["why"]) == (before["state"], before["why"])


@pytest.mark.parametrize("stays", ["its YAML does not fit", "it is dropped"])
def test_a_table_that_stays_as_it_was_has_no_rows_of_a_run_that_died(
    spark: Any, tmp_path: Path, stays: str
) -> None:
    path, feed, lake = tmp_path / "shop.jsonl", feed_of_one_row(), tmp_path / "lake"
    run_all(tmp_path, "ticdc-open", write_recording(path, feed.messages), {"shop.t": ""})
    feed.row(4, "t", 2, v="two")
    feed.resolved(5)
    write_recording(path, feed.messages)
    with (
        killing(type(spark), lambda name: name.startswith("ops manifest"), after=False),
        pytest.raises(Killed),
    ):
        run_all(tmp_path, "ticdc-open", path, {"shop.t": ""})
    assert ids(spark, lake) == [1, 2]

    dropped = stays == "it is dropped"
    if dropped:
        feed.ddl(6, "t", "DROP TABLE `shop`.`t`")
        feed.resolved(7)
    write_recording(path, feed.messages)
    said = "" if dropped else "gold: {cluster_by: [nothing]}"
    (told,) = run_all(tmp_path, "ticdc-open", path, {"shop.t": said})["tables"]

    assert (told["state"], ids(spark, lake)) == ("retired" if dropped else "behind", [1])


def test_a_table_whose_run_fails_behind_its_write_has_the_rows_that_were_published(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, feed, lake = tmp_path / "shop.jsonl", feed_of_one_row(), tmp_path / "lake"
    feed.ddl(1, "u", CREATE.replace("`t`", "`u`"))
    run_all(tmp_path, "ticdc-open", write_recording(path, feed.messages), {"shop.t": ""})
    feed.row(4, "t", 2, v="two")
    feed.resolved(5)

    def failing(run: Any, plan: Any, *more: Any) -> Any:
        if plan.gold == "shop__t":
            raise RuntimeError("what is told of the commit can't be read")
        return table_entry_of(run, plan, *more)

    monkeypatch.setattr(tables, "table_entry", failing)
    told = run_all(tmp_path, "ticdc-open", write_recording(path, feed.messages), {"shop.t": ""})["tables"]

    assert {entry["table"]: entry["state"] for entry in told} == {
        "shop.t": "behind",
        "shop.u": "exact",
    }
    assert ids(spark, lake) == [1]
    monkeypatch.undo()
    run_all(tmp_path, "ticdc-open", path, {"shop.t": ""})
    assert ids(spark, lake) == [1, 2]


@pytest.mark.parametrize("died", [True, False])
def test_a_run_that_died_is_news_though_nothing_else_is(monkeypatch: pytest.MonkeyPatch, died: bool) -> None:
    """Needs no session."""
    nothing: Any = None
    intent = Intent(batch=1, watermark=(0,) * 6, tables=("shop__t",))
    log = log_of(manifest(), intent) if died else log_of(intent, manifest())

    class Ran(Exception):
        pass

    def ran(*_: Any, **__: Any) -> Any:
        raise Ran

    monkeypatch.setattr(gold_run, "infer_columns", lambda *_: 0)
    monkeypatch.setattr(gold_run, "is_published", lambda *_, **__: True)
    monkeypatch.setattr(gold_run, "prepared", ran)
    again = frozenset[str]()

    def publish() -> Any:
        return gold_run.publish_next(
            GoldSettings("shop"), log, nothing, progress=nothing, again=again, unread=False
        )

    if died:
        with pytest.raises(Ran):
            publish()
    else:
        assert publish() is None


def test_rows_that_somebody_deleted_by_hand_are_back_with_the_next_change(spark: Any, tmp_path: Path) -> None:
    lake, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", feed_of_one_row()
    run(write_recording(path, feed.messages), lake)
    spark.sql(f"DELETE FROM {Lake(str(lake)).ref('gold', 'shop__t')}")

    feed.row(4, "t", 2, v="two")
    feed.resolved(5)
    run(write_recording(path, feed.messages), lake)

    assert ids(spark, lake) == [1, 2]


def test_a_table_that_was_only_maintained_is_merged_into_as_it_is(spark: Any, tmp_path: Path) -> None:
    lake, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", feed_of_one_row()
    run(write_recording(path, feed.messages), lake)
    spark.sql(f"ALTER TABLE {Lake(str(lake)).ref('gold', 'shop__t')} SET TBLPROPERTIES ('team' = 'sales')")

    feed.row(4, "t", 2, v="two")
    feed.resolved(5)
    run(write_recording(path, feed.messages), lake)

    assert operations(spark, lake)[1:] == ["SET TBLPROPERTIES", "MERGE"]
    assert ids(spark, lake) == [1, 2]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_table_whose_published_version_is_gone_is_not_folded_from_a_window_alone(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Of a large window a small table's changes are read with other tables'. Needs no session."""
    name, low = ("shop", "t"), (0, 1, 2, 0, 0, 0)
    lineage = Lineage("t@1", [Step(low, make_schema([]))], [Interval(name, low, None)])
    known = table_entry(database="shop", gold="shop__t", version=3, shape="as it is", names=(name,))
    plan = TablePlan(
        lineage,
        (0, 9, 2, 0, 0, 0),
        "shop__t",
        name,
        wanted="shop__t",
        shape="as it is",
        known=known,
        before=known,
        held=None,
        retired=False,
        whole=False,
    )
    size = Size(1, 10)
    run: Any = SimpleNamespace(
        spark=None, lake=None, silver=None, unpublished=(), returned=(), size=lambda _: size
    )
    frame: Any = object()
    new = NewChanges(frame, small=False, seen={name: Seen(size, 0)})
    given: list[tuple[bool, Any]] = []

    def noted(_: Any, plan: TablePlan, new: Any, read: Any) -> TableResult:
        given.append((plan.whole, dict(read)))
        return TableResult(known)

    monkeypatch.setattr(tables, "is_there", lambda *_, **__: True)
    monkeypatch.setattr(tables, "returned_to", lambda *_: known.version if is_there else None)
    monkeypatch.setattr(tables, "apply_table", noted)

    work = tables.table_work(run, plan, new, Steps(lambda _: None, 1, "tables"))
    assert work.frame is frame
    rows: Any = "the window's rows"
    work.work({lineage.id: rows})

    assert given == ([(False, {lineage.id: rows})] if is_there else [(True, {})])


def test_what_is_published_is_read_after_others_have_put_its_files_together_and_vacuumed(
    spark: Any, tmp_path: Path
) -> None:
    lake, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", feed_of_one_row()
    run(write_recording(path, feed.messages), lake)
    feed.row(4, "t", 2, v="two")
    feed.resolved(5)
    run(write_recording(path, feed.messages), lake)
    ref, check = (
        Lake(str(lake)).ref("gold", "shop__t"),
        "spark.databricks.delta.retentionDurationCheck.enabled",
    )
    spark.sql(f"OPTIMIZE {ref}").collect()
    spark.conf.set(check, "false")
    try:
        spark.sql(f"VACUUM {ref} RETAIN 0 HOURS").collect()
    finally:
        spark.conf.unset(check)

    assert len(list((lake / "gold/shop__t").glob("*.parquet"))) == 1
    assert shown(lake, tmp_path / "shown") == engine(feed.messages)

    feed.row(6, "t", 1, "d", v="one")
    feed.resolved(7)
    run(write_recording(path, feed.messages), lake)

    assert shown(lake, tmp_path / "shown") == engine(feed.messages)
