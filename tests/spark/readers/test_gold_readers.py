"""What gold's readers get beside the rows, where the YAML asks for it: Delta's record of changes, and the key
as a catalog shows it.
"""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import Position
from lakehouse.lineage import Interval, Lineage, Step
from lakehouse.ops.records.operators import Generation
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.schema import make_schema
from lakehouse.spark.gold import layout
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.logged import Logged
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import Capabilities
from lakehouse.spark.table_versions import history_of, version_of
from tests.spark.gold.test_modes import resolved, run_all, shop
from tests.support.feeds import TiCDC
from tests.support.lakes import write_recording
from tests.support.records import log_of, manifest, table_entry


def run_with(folder: Path, feed: TiCDC, text: str) -> dict[str, Any]:
    return run_all(
        folder, "ticdc-canal-json", write_recording(folder / "r.jsonl", feed.messages), {"d.t": text}
    )


def test_readers_of_table_changes_get_what_a_merge_changed_and_no_more_once_it_is_switched_off(
    spark: Any, tmp_path: Path
) -> None:
    place, feed = Lake(str(tmp_path / "lake")), shop()

    run_with(tmp_path, feed, "gold: {change_data_feed: true}")
    feed.row(12 << 18, "UPDATE", {"id": 1, "a": "new", "b": "x"}, {"a": "a1"}).row(
        13 << 18, "DELETE", {"id": 0, "a": "a0", "b": "x"}
    )
    resolved(feed, 14)
    run_with(tmp_path, feed, "gold: {change_data_feed: true}")
    version = version_of(spark, place, "d__t")
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
    changes = reader.load(place.path("gold", "d__t"))
    told = sorted((row._change_type, row.id, row.a) for row in changes.collect())
    run_with(tmp_path, feed, "on_ddl: {add_column: hold}")

    assert told == [("delete", 0, "a0"), ("update_postimage", 1, "new"), ("update_preimage", 1, "a1")]
    assert property_of(spark, place) == "false"


def property_of(spark: Any, place: Lake) -> str:
    return str(
        spark.sql(f"DESCRIBE DETAIL {place.ref('gold', 'd__t')}").first().properties[layout.CHANGE_FEED]
    )


def test_a_key_is_declared_on_databricks_and_taken_back_before_the_table_is_replaced(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unity Catalog alone takes the statements: here they are looked at, and everything else is run."""
    place, feed, said = Lake(str(tmp_path / "lake")), shop(), "gold: {primary_key: true}"
    elsewhere = run_with(tmp_path, feed, said)
    told: list[str] = []
    run_sql = type(spark).sql

    def sql(self: Any, query: str, *arguments: Any, **named: Any) -> Any:
        if "PRIMARY KEY" in query or "SET NOT NULL" in query:
            told.append(query.replace(place.ref("gold", "d__t"), "T"))
            if "SET NOT NULL" not in query:
                return None
            query = query.replace("SET NOT NULL", "COMMENT 'key'")  # a commit of the same kind
        return run_sql(self, query, *arguments, **named)

    monkeypatch.setattr(type(spark), "sql", sql)
    monkeypatch.setattr(
        layout,
        "capabilities",
        lambda _: Capabilities(persist=True, continuous=True, connect=False, keys=True),
    )
    run_with(tmp_path, feed, said)
    resolved(feed.insert(12 << 18, id=7, a="seven", b="x"), 13)
    run_with(tmp_path, feed, said)
    merged = len(told)
    resolved(feed.ddl(14 << 18, "ALTER TABLE `t` DROP PRIMARY KEY, ADD PRIMARY KEY (`id`, `a`)"), 15)
    run_with(tmp_path, feed, said)
    run_with(tmp_path, feed, "gold: {cluster_by: [a]}")

    assert (elsewhere["tables"], place.exists(spark, "gold", "d__t")) == ([], True)
    assert told[:merged] == [
        "ALTER TABLE T ALTER COLUMN `id` SET NOT NULL",
        "ALTER TABLE T ADD CONSTRAINT `d__t_pk` PRIMARY KEY (`id`)",
    ]
    assert told[merged:] == [
        "ALTER TABLE T DROP PRIMARY KEY IF EXISTS",
        "ALTER TABLE T ALTER COLUMN `id` SET NOT NULL",
        "ALTER TABLE T ALTER COLUMN `a` SET NOT NULL",
        "ALTER TABLE T ADD CONSTRAINT `d__t_pk` PRIMARY KEY (`id`, `a`)",
        "ALTER TABLE T DROP PRIMARY KEY IF EXISTS",
    ]
    commits = {row.operation for row in history_of(spark, place.ref("gold", "d__t"))}
    assert "CHANGE COLUMN" in commits
    assert "RESTORE" not in commits, "of a table that has its key nothing is taken back"


def test_a_moment_of_a_table_that_is_behind_lies_no_further_than_the_table() -> None:
    """Whatever a DDL that gold does not apply made of its rows. Needs no session."""
    low, early, held, watermark = ((0, at, 0, 0, 0, 0) for at in (10, 20, 30, 40))
    behind, other = (
        Lineage(f"{name}@10", [Step(low, make_schema([]))], [Interval(("d", name), low, None)])
        for name in "to"
    )
    entry = table_entry(lineage=behind.id, state="behind", since=held)
    reader = object.__new__(Reader)
    reader.manifest = manifest(entry, watermark=watermark)
    reader.settings = SourceSettings(format="open-protocol", order="commit_ts", options={}, virtual=False)

    def stands(position: Position) -> tuple[Position, Position]:
        return reader.stands_at(behind, position), reader.stands_at(other, position)

    assert stands(early) == (early, early)
    assert stands(watermark) == (held, watermark)


def test_a_reader_stays_with_the_silver_of_its_log_whatever_others_read_of_the_lake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches of a silver that was built again have other numbers. Needs no session."""
    session: Any = None
    lake, stored = Lake("/lake"), list[Logged]()
    monkeypatch.setattr(OpsLog, "_stored", lambda *_: list(stored))
    settings = SourceSettings(format="ticdc-open", order="tidb", options={}, virtual=False)
    reader = Reader(session, lake, "shop", settings)

    stored += log_of(Generation(number=2)).records
    OpsLog(session, lake, "shop").load()
    later = Reader(session, lake, "shop", settings)

    paths = [one.lake.path("silver", "shop_changes") for one in (reader, later)]
    assert paths == ["/lake/silver/shop_changes", "/lake/silver/shop_changes_g2"]
