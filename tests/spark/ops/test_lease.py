"""Runs kept apart: by the kernel where files can be locked, else by a lease in the lake."""

import errno
import fcntl
import functools
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.file_lock import has_flock, is_remote
from lakehouse.ops.records.bronze import Scan
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations import rebuild
from lakehouse.spark.ops.lease import Hold, Table, layer_lock, lease
from lakehouse.spark.ops.log import OpsLog
from tests.support.lakes import quiet, run, write_recording
from tests.support.open_feed import OpenFeed

SECONDS = 20.0


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def test_a_lease_is_refused_while_its_holder_lives_taken_over_when_it_died_and_free_when_it_ended(
    spark: Any, lake: Lake
) -> None:
    with (
        lease(spark, lake, "shop", ["bronze", "silver"], SECONDS),
        lease(spark, lake, "shop", ["gold"], SECONDS),
        pytest.raises(
            LakehouseError,
            match=(
                rf"^shop: a silver run is going on already \(pid {os.getpid()} on .*\); wait for it or "
                r"stop it$"
            ),
        ),
        lease(spark, lake, "shop", ["silver"], SECONDS),
    ):
        pass
    table = Table(spark, lake, "shop_lease")
    assert table.rows(["bronze", "silver", "gold"]) == {}

    assert table.take(["silver"], "one that dies at once", {})
    assert not table.take(["silver", "gold"], "another", {})
    assert set(table.rows(["silver", "gold"])) == {"silver"}
    with lease(spark, lake, "shop", ["silver"], 2.0):
        assert table.rows(["silver"])["silver"][0] != "one that dies at once"


def test_a_job_that_holds_all_task_slots_stops_no_heartbeat(spark: Any, lake: Lake) -> None:
    def sleep(rows: Any) -> Any:
        time.sleep(12)
        return rows

    slots = spark.sparkContext.defaultParallelism
    with (
        lease(spark, lake, "shop", ["silver"], 4.0) as hold,
        ThreadPoolExecutor(1) as pool,
    ):
        job = pool.submit(
            lambda: spark.sparkContext.parallelize(range(slots), slots).mapPartitions(sleep).count()
        )
        time.sleep(2)
        before = hold.count
        beaten = (hold.holder, before)
        while beaten[1] <= before and not job.done():
            time.sleep(0.2)
            beaten = hold.table.beats(["silver"])["silver"]
        assert not job.done()
        assert beaten[0] == hold.holder


def test_a_holder_whose_lease_was_taken_over_writes_no_more(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.spark.ops.lease.has_flock", lambda _: False)
    monkeypatch.setattr("lakehouse.spark.ops.lease.lease", functools.partial(lease, seconds=1000.0))
    table = Table(spark, lake, "shop_lease")
    with layer_lock(spark, lake, "shop", ["silver"]) as mine:
        log = OpsLog(spark, mine, "shop")
        log.add(Scan(checkpoint=1))

        assert table.take(["silver"], "thief", table.rows(["silver"]))
        table.beat(["silver"], "thief", 0)
        hold: Any = mine.before_write
        hold.__self__.beaten -= 1001  # so long no heartbeat got through

        with pytest.raises(LakehouseError, match="this run's lease lapsed, and another run of silver has"):
            log.add(Scan(checkpoint=2))
    assert set(table.rows(["silver"])) == {"silver"}
    assert OpsLog(spark, lake, "shop").load().all(Scan) == [Scan(checkpoint=1)]


def test_a_heartbeat_that_another_holders_overtook_is_not_set_over_it(lake: Lake) -> None:
    """It belongs to a run that stood still for so long that the other took its lease. Needs no session."""

    class Session:
        def __init__(self) -> None:
            self.holder, self.tried = "mine", 0

        def sql(self, text: str) -> Any:
            if text.startswith("SHOW"):
                beat = SimpleNamespace(key="lakehouse.beat.silver", value=f"{self.holder}:0")
                return SimpleNamespace(collect=lambda: [beat])
            self.tried += 1
            self.holder = "thief"
            raise ValueError("[DELTA_METADATA_CHANGED] another one was quicker")

    session: Any = Session()
    hold = Hold(Table(session, lake, "shop_lease"), "shop", ["silver"], "mine", seconds=1.0, beaten=0.0)

    with pytest.raises(LakehouseError, match="this run's lease lapsed, and another run of silver has"):
        hold.beat()

    assert session.tried == 1
    assert hold.beaten == 0.0


def test_of_several_that_begin_at_one_moment_one_gets_the_lease(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake, "shop_lease")
    table.create()

    with ThreadPoolExecutor(3) as pool:
        taken = list(pool.map(lambda holder: table.take(["bronze", "gold"], holder, {}), "abc"))

    held = table.rows(["bronze", "gold"])
    assert taken.count(True) <= 1
    assert len({row[0] for row in held.values()}) == taken.count(True)


def test_a_file_system_without_locks_is_guarded_by_a_lease(
    spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    assert has_flock(lake.root)
    monkeypatch.setattr(fcntl, "flock", refuse)

    assert not has_flock(lake.root)
    with layer_lock(spark, lake, "shop", ["gold"]):
        assert set(Table(spark, lake, "shop_lease").rows(["gold"])) == {"gold"}


@pytest.mark.parametrize(
    ("root", "remote"),
    [("s3a://b/l", True), ("dbfs:/l", True), ("/Volumes/c/s/v", True), ("./lake", False), ("/l", False)],
)
def test_roots_of_other_machines_are_no_folders_here(root: str, remote: bool) -> None:
    assert is_remote(root) == remote


def test_a_command_that_has_lost_its_lease_writes_nothing_more(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))")
    feed.row(2, "t", 1, v="a")
    feed.resolved(3)
    run(write_recording(tmp_path / "shop.jsonl", feed.messages), tmp_path / "lake")

    def lapsed() -> None:
        raise LakehouseError("the lease lapsed")

    @contextmanager
    def taken_over(spark: Any, lake: Lake, source: str, layers: Any) -> Iterator[Lake]:
        yield replace(lake, before_write=lapsed)

    monkeypatch.setattr(rebuild, "layer_lock", taken_over)

    found = rebuild.rebuild_table(str(tmp_path / "lake"), "shop.t", None, yes=True, progress=quiet)

    assert found["replaced"] == "requested: the lease lapsed"
