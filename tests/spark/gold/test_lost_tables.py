"""Gold tables that somebody has dropped, or made again under the same name, or of whose log Delta has cleaned
up what was published: they are folded again, and nobody reads other rows as the published ones.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.operators import Rebuild
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.maintain import out_of_reach
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.table_versions import is_another, is_there, read_published, table_id, version_of
from tests.spark.gold.test_modes import resolved, run_all
from tests.support.feeds import TiCDC
from tests.support.lakes import run, shown, write_recording
from tests.support.open_feed import OpenFeed
from tests.support.records import table_entry

TABLES = ("cleaned", "dropped", "swapped")


def feed_of(tables: tuple[str, ...]) -> OpenFeed:
    feed = OpenFeed()
    for number, table in enumerate(tables):
        feed.ddl(1 + number, table, f"CREATE TABLE `shop`.`{table}` (id INT PRIMARY KEY)")
        feed.row(10 + number, table, 1)
    return feed


def published(log: OpsLog) -> Manifest:
    manifest = log.load().last(Manifest)
    assert manifest is not None
    return manifest


def entries(log: OpsLog) -> dict[str, TableEntry]:
    return {entry.table: entry for entry in published(log).tables}


def clean_log(spark: Any, lake: Lake, table: str) -> None:
    """What Delta leaves of a log after 30 days in which others have maintained the table."""
    ref = lake.ref("gold", table)
    for value in range(2, 5):
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('delta.checkpointInterval' = '{value}')").collect()
    newest = version_of(spark, lake, table)
    spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')").collect()
    spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('a' = 'b')").collect()
    for version in range(newest + 1):
        for path in Path(lake.path("gold", table), "_delta_log").glob(f"{version:020d}.*"):
            path.unlink()


def test_tables_that_are_not_those_that_were_published_are_folded_again(spark: Any, tmp_path: Path) -> None:
    feed, path, place = feed_of(TABLES), tmp_path / "shop.jsonl", tmp_path / "lake"
    feed.resolved(20)
    run(write_recording(path, feed.messages), place)
    lake = Lake(str(place))
    log = OpsLog(spark, lake, "shop")
    before, told = entries(log), list[str]()

    swapped = before["swapped"]
    shutil.rmtree(lake.path("gold", swapped.gold))
    for _ in range(swapped.version + 1):
        lake.append(spark.sql("SELECT 99L AS id"), "gold", swapped.gold)
    clean_log(spark, lake, before["cleaned"].gold)
    shutil.rmtree(lake.path("gold", before["dropped"].gold))

    assert is_another(spark, lake, swapped)
    for entry, why in ((swapped, "another Delta table has its name"), (before["cleaned"], "cleaned up")):
        with pytest.raises(LakehouseError, match=why):
            read_published(spark, lake, entry)
    feed.row(21, "swapped", 2)
    feed.resolved(22)
    run(write_recording(path, feed.messages), place)
    assert entries(log)["swapped"].table_id == table_id(spark, lake, swapped.gold) != swapped.table_id

    lost = out_of_reach(log, published(log), told.append)
    assert lost == {before["cleaned"].gold, before["dropped"].gold}
    assert out_of_reach(log, published(log), told.append) == lost
    assert len(log.load().all(Rebuild)) == 2, "each is asked for once"
    assert [text.endswith("the next run folds it again") for text in told] == [True] * 4

    run(write_recording(path, feed.messages), place)
    rows = shown(place, tmp_path / "out")
    assert {name: [row["id"] for row in rows[f"shop.{name}"]] for name in TABLES} == {
        "cleaned": [1],
        "dropped": [1],
        "swapped": [1, 2],
    }
    assert {entry.state for entry in entries(log).values()} == {"exact"}
    assert out_of_reach(log, published(log), told.append) == frozenset()


@pytest.mark.parametrize("said", ["", "tables: d.o_*"])
def test_a_dropped_table_is_made_as_a_new_one_by_the_next_change(
    spark: Any, tmp_path: Path, said: str
) -> None:
    """Names of columns that Delta takes under a mapping alone."""
    feed = TiCDC().ddl(1 << 18, "CREATE TABLE `o_1` (`id` INT PRIMARY KEY, `a b` VARCHAR(9))", "o_1")
    yamls = {"d.orders": said} if said else {}
    for number in range(1, 3):
        feed.row((10 * number) << 18, "INSERT", {"id": number, "a b": "x"}, table="o_1")
        resolved(feed, 10 * number + 1)
        path = write_recording(tmp_path / "r.jsonl", feed.messages)
        (told,) = run_all(tmp_path, "ticdc-canal-json", path, yamls)["tables"]
        assert (told["state"], told["why"]) == ("exact", None)
        rows = shown(tmp_path / "lake", tmp_path / "out")[told["table"]]
        assert [(row["id"], row["a b"]) for row in rows] == [(one, "x") for one in range(1, number + 1)]
        shutil.rmtree(told["location"])


def test_a_published_table_whose_folder_is_gone_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needs no session: a table that is there is not looked at."""
    no_session: Any = None
    monkeypatch.setattr("lakehouse.spark.lake.reads_own_files", lambda _: True)
    lake = Lake(str(tmp_path))
    (tmp_path / "gold/shop__t/_delta_log").mkdir(parents=True)

    assert is_there(no_session, lake, "shop__t", published=True)
    assert not is_there(no_session, lake, "shop__u", published=True)
    assert not is_there(no_session, lake, "shop__u", published=False)
    assert is_there(no_session, Lake("s3://bucket/lake"), "shop__u", published=True)


def test_a_lake_that_knows_no_ids_of_tables_goes_on() -> None:
    no_session: Any = None
    assert not is_another(no_session, Lake("lake"), table_entry())
