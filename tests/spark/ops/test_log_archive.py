"""A log that is pruned after every run: all that ask it get what a log that never is would give."""

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lakehouse.events import Message
from lakehouse.ops.records.bronze import Scan
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.runs import Summary
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.audit import audit
from lakehouse.spark.operations.dead_letters import dismiss_dead_letters
from lakehouse.spark.operations.maintain import maintain
from lakehouse.spark.operations.rebuild import rebuild_silver
from lakehouse.spark.ops import log as ops_log
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.log_archive import Archive
from lakehouse.spark.readers.status import source_status
from lakehouse.spark.readers.timeline import totals
from lakehouse.spark.readers.views import manifest_of
from tests.support.lakes import quiet, run, shown, write_recording
from tests.support.open_feed import OpenFeed, T


@dataclass(frozen=True)
class Runs:
    """A feed that came in several runs."""

    root: Path
    lake: Lake
    moments: list[int]

    def log(self, spark: Any) -> OpsLog:
        return OpsLog(spark, self.lake, "shop").load()


def run_often(folder: Path) -> Runs:
    """Four runs, with a dead letter, and a message that comes late below the others."""
    place, path, feed = folder / "lake", folder / "shop.jsonl", OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))")
    moments = []
    for turn in range(4):
        at = 10 * (turn + 1)
        feed.row(at, "t", turn, v=f"row {turn}")
        feed.row(at + 1, "t", turn // 2, v=f"changed in {turn}")
        if turn == 1:
            feed.messages.append(Message("shop", 0, len(feed.messages), None, b"no message"))
        feed.resolved(at + 2)
        moments.append(T + at + 2)
        late = {2} if turn < 2 else set()
        run(write_recording(path, [one for one in feed.messages if one.offset not in late]), place)
    return Runs(place, Lake(str(place)), moments)


@pytest.fixture(scope="module")
def as_ever(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return run_often(tmp_path_factory.mktemp("as_ever"))


@pytest.fixture(scope="module")
def pruned(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops_log, "TIDY", 1)
        patch.setattr(limits, "OPS_LOG_RUNS", 1)
        return run_often(tmp_path_factory.mktemp("pruned"))


@pytest.fixture
def copied(pruned: Runs, tmp_path: Path) -> Runs:
    shutil.copytree(pruned.root, tmp_path / "lake")
    return Runs(tmp_path / "lake", Lake(str(tmp_path / "lake")), pruned.moments)


def told(spark: Any, runs: Runs) -> dict[str, Any]:
    """All that a lake tells, without the times of day and Delta's random ids of tables."""
    log = runs.log(spark)
    status = source_status(spark, runs.lake, "shop", None)
    return {
        "status": {name: value for name, value in status.items() if name != "last_run"},
        "totals": totals(log),
        "audit": list(audit(str(runs.root), None, quiet)),
        "manifests": [without_ids(one) for _, one in log.whole().dated(Manifest)],
        "at": [without_ids(manifest_of(log, str(moment))) for moment in runs.moments],
        "rows": [shown(runs.root, runs.root.parent / "shown", moment) for moment in runs.moments[::2]],
    }


def without_ids(manifest: Manifest | None) -> Manifest | None:
    if manifest is None:
        return None
    # `asked` is a digest of operators' words too, which have times
    tables = tuple(replace(one, table_id=None) for one in manifest.tables)
    return replace(manifest, tables=tables, asked=None)


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


@pytest.fixture(scope="module")
def told_by_all(spark: Any, as_ever: Runs) -> Any:
    """What the lake tells whose log has all of its records."""
    return plain(told(spark, as_ever))


def test_a_pruned_log_is_short_and_tells_what_the_whole_one_tells(
    spark: Any, as_ever: Runs, pruned: Runs, told_by_all: Any
) -> None:
    whole, short = as_ever.log(spark), pruned.log(spark)

    assert len(whole.all(Manifest)) == 4
    assert len(short.all(Manifest)) <= 2
    assert len(short.all(Done)) <= 3
    found = plain(told(spark, pruned))
    assert found["audit"][0]["findings"] == []
    assert found == told_by_all


def test_a_dead_letter_stays_open_until_it_is_dismissed(spark: Any, copied: Runs) -> None:
    assert source_status(spark, copied.lake, "shop", None)["dead_letters"] == 1

    dismiss_dead_letters(str(copied.root), "shop", None, "it is garbage")

    assert source_status(spark, copied.lake, "shop", None)["dead_letters"] == 0


def test_what_bronze_or_silver_has_lost_of_old_batches_is_found(spark: Any, copied: Runs) -> None:
    spark.sql(f"DELETE FROM {copied.lake.ref('bronze', 'shop')} WHERE offset = 1")
    spark.sql(f"DELETE FROM {copied.lake.ref('silver', 'shop_changes')} WHERE batch = 2")
    summary = copied.log(spark).summary
    assert summary.batch > 2

    [entry] = audit(str(copied.root), None, quiet, fold=False)

    bronze, silver = entry["findings"]
    assert bronze.startswith(f"bronze: batch up to {summary.batch} of silver counted ")
    assert silver.startswith(f"silver: the batches up to {summary.batch} inserted {summary.inserted} changes")


def test_silver_is_built_again_and_the_new_generation_is_audited(spark: Any, copied: Runs) -> None:
    rows = shown(copied.root, copied.root.parent / "shown")

    assert rebuild_silver(str(copied.root), "shop", True, "because")["switched"]

    log = copied.log(spark)
    assert (log.generation, log.summary.generation) == (2, 2)
    [entry] = audit(str(copied.root), None, quiet, fold=False)
    assert entry["findings"] == []
    assert shown(copied.root, copied.root.parent / "shown") == rows


def test_a_prune_that_dies_before_its_end_is_done_by_the_next(
    spark: Any, as_ever: Runs, told_by_all: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(as_ever.root, tmp_path / "lake")
    runs = Runs(tmp_path / "lake", Lake(str(tmp_path / "lake")), as_ever.moments)
    monkeypatch.setattr(limits, "OPS_LOG_RUNS", 1)
    records = runs.log(spark).records
    with monkeypatch.context() as patch:
        patch.setattr(Archive, "take_out", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runs.log(spark).prune()
    assert plain(told(spark, runs)) == told_by_all

    assert runs.log(spark).prune()

    assert plain(told(spark, runs)) == told_by_all
    log = runs.log(spark)
    assert len(log.records) < len(records)
    assert [one for one in log.whole().records if one.kind != "summary"] == records


def test_a_run_that_was_there_first_goes_on_in_a_log_that_another_prunes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_ever: Runs
) -> None:
    shutil.copytree(as_ever.root, tmp_path / "lake")
    runs = Runs(tmp_path / "lake", Lake(str(tmp_path / "lake")), as_ever.moments)
    monkeypatch.setattr(limits, "OPS_LOG_RUNS", 1)
    earlier, reader = runs.log(spark), runs.log(spark)
    assert runs.log(spark).prune()

    earlier.add(Scan(checkpoint=5))

    assert earlier.last(Scan) == runs.log(spark).last(Scan) == Scan(checkpoint=5)
    assert reader.refresh()
    assert reader.records == runs.log(spark).records
    assert runs.log(spark).all(Planned)[0].batch != 1


def test_maintain_forgets_what_is_older_than_the_manifests_that_stay_readable(
    spark: Any, copied: Runs
) -> None:
    log = copied.log(spark)
    assert len(log.whole().all(Manifest)) == 4
    log.archive.forget(int((time.time() - 7 * 86400) * 1000))
    assert len(copied.log(spark).whole().all(Manifest)) == 4

    maintain(str(copied.root), None, 0, quiet)
    kept = copied.log(spark)
    assert [row["kind"] for row in kept.archive.rows()] == ["manifest"]
    before, after = log.last(Manifest), kept.last(Manifest)
    assert before is not None
    assert after is not None
    assert [entry.state for entry in after.tables] == [entry.state for entry in before.tables]
    assert len(kept.all(Summary)) >= 1
    [entry] = audit(str(copied.root), None, quiet)
    assert entry["findings"] == []
