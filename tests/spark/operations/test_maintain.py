"""`lakehouse maintain`: what it leaves to the next run of gold, and sources that run beside others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import Intent
from lakehouse.ops.records.operators import Dismissed, Floor, Generation
from lakehouse.ops.records.record import Record
from lakehouse.spark import table_versions
from lakehouse.spark.gold.run import unpublished
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations import maintain as operation
from lakehouse.spark.operations.maintain import (
    hours_of,
    is_awaited,
    maintain,
    maintain_each,
    optimize_gold,
    own_tables,
)
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.table_versions import history_of
from tests.support.lakes import quiet, run, write_recording
from tests.support.open_feed import OpenFeed
from tests.support.records import log_of, manifest, table_entry

ZERO = (0, 0, 0, 0, 0, 0)
PUBLISHED = manifest()
WRITES = Intent(batch=2, watermark=ZERO, tables=("shop__t",))
FLOOR = Floor(generation=1, place=ZERO, names=(), why="", batch=1)
GIVEN_UP = Dismissed(code="lost", batch=1, gaps=0, why="")


@pytest.mark.parametrize("after", [WRITES, FLOOR, GIVEN_UP])
def test_what_counts_from_the_last_manifest_on_is_not_hidden_by_another_manifest(after: Record) -> None:
    log = log_of(PUBLISHED, after)

    assert is_awaited(log)
    assert not optimize_gold(log, 0, quiet)
    assert unpublished(log) == (frozenset({"shop__t"}) if after is WRITES else frozenset())


def test_what_others_write_to_a_table_while_it_is_maintained_is_not_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Needs no session."""

    class Wrote(Exception):
        pass

    def write(log: OpsLog, record: Record) -> int:
        raise Wrote(record)

    log = log_of(manifest(table_entry(version=4)))
    alike: list[int | None] = [4, None, 4, 5]
    monkeypatch.setattr(operation, "keep_history", lambda *_: None)
    monkeypatch.setattr(operation, "optimize", lambda *_: None)
    monkeypatch.setattr(operation, "capabilities", lambda _: SimpleNamespace(keys=False))
    monkeypatch.setattr(table_versions, "newest_alike", lambda *_: alike.pop(0))
    monkeypatch.setattr(operation, "newest_alike", table_versions.newest_alike)
    monkeypatch.setattr(OpsLog, "add", write)

    assert not optimize_gold(log, 0, quiet)
    with pytest.raises(Wrote) as told:
        optimize_gold(log, 0, quiet)
    (published,) = told.value.args
    assert published.tables == (table_entry(version=5),)


def test_of_the_sources_of_a_schedule_one_that_runs_keeps_no_other_from_being_maintained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each may have a lake of its own. Needs no session."""
    session: Any = None
    shaped: list[str] = []

    def maintained(spark: Any, lake: Lake, source: str, snapshots: float, progress: Any) -> dict[str, Any]:
        if source == "first":
            raise LakehouseError("first: a gold run is going on already")
        return {"source": source}

    monkeypatch.setattr(operation, "maintain_source", maintained)
    monkeypatch.setattr(operation, "keep_in_shape", lambda _, lake, *__, **___: shaped.append(lake.root))
    chosen = [(Lake("/a"), "first"), (Lake("/a"), "second"), (Lake("/b"), "third")]

    assert maintain_each(session, chosen[1:], 0, quiet) == [{"source": "second"}, {"source": "third"}]
    with pytest.raises(LakehouseError, match="first: a gold run is going on already"):
        maintain_each(session, chosen, 0, quiet)

    assert shaped == ["/a", "/b"] * 2


def test_a_source_whose_last_run_has_published_is_maintained() -> None:
    assert not is_awaited(log_of(WRITES, FLOOR, GIVEN_UP, PUBLISHED))
    assert not is_awaited(log_of())


def test_the_staging_tables_of_all_generations_are_maintained() -> None:
    tables = own_tables(log_of(Generation(number=2)))

    assert [name for _, name in tables if "staging" in name] == ["_shop_staging", "_shop_staging_g2"]


def test_no_vacuum_takes_the_files_of_a_commit_that_is_being_made() -> None:
    """Operators write to the ops log while a source is maintained, and other sources to what all share."""
    assert [hours_of(seconds) for seconds in (0, 1, 3600, 3601, 7 * 86400)] == [1, 1, 1, 2, 168]


def operations(spark: Any, lake: Lake, source: str) -> list[str]:
    return [row.operation for row in history_of(spark, lake.ref("silver", f"{source}_changes"))]


def test_a_source_that_runs_keeps_no_other_from_being_maintained(spark: Any, tmp_path: Path) -> None:
    for source in ("first", "second"):
        feed = OpenFeed()
        feed.ddl(1, source, f"CREATE TABLE `shop`.`{source}` (id INT PRIMARY KEY)")
        for number in range(2):
            feed.row(2 + number, source, number)
            feed.resolved(10 + number)
            run(write_recording(tmp_path / f"{source}.jsonl", feed.messages), tmp_path / "lake")
    lake = Lake(str(tmp_path / "lake"))

    with (
        layer_lock(spark, lake, "first", ["gold"]),
        pytest.raises(LakehouseError, match="first"),
    ):
        maintain(lake.root, None, 0, quiet)

    assert "OPTIMIZE" not in operations(spark, lake, "first")
    assert "OPTIMIZE" in operations(spark, lake, "second")
