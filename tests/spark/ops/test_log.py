"""The log of a source's progress: a number exists once, whoever writes; the files stay few."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.progress import OffsetRange
from lakehouse.ops.records.bronze import Scan
from lakehouse.ops.records.gold import Intent, Manifest
from lakehouse.ops.records.operators import Dismissed, Generation, Rebuilding, Retired
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Planned
from lakehouse.spark.gold.run import unpublished
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops import log as ops_log
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.logged import Logged
from tests.support.records import manifest, table_entry


def files(spark: Any, lake: Lake) -> int:
    return len(lake.read(spark, "ops", "shop_log").inputFiles())


def test_the_files_of_a_log_are_put_together_by_the_run_that_passes_the_next_multiple(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops_log, "TIDY", 3)
    log = OpsLog(spark, Lake(str(tmp_path)), "shop")
    log.add(Scan(checkpoint=1))
    log.add(Rebuilding(number=2))
    log.tidy(0)
    assert files(spark, log.lake) == 2

    log.add(Scan(checkpoint=2))
    log.tidy(2)

    assert files(spark, log.lake) == 1
    assert OpsLog(spark, log.lake, "shop").load().records == log.records


def test_a_run_that_goes_on_holds_old_records_as_texts(spark: Any, tmp_path: Path) -> None:
    log = OpsLog(spark, Lake(str(tmp_path)), "shop")
    log.add_all([Scan(checkpoint=1), Rebuilding(number=2), Scan(checkpoint=2)])

    def read() -> list[bool]:
        return [one.is_read for one in log.records]

    log.tidy(log.seq)
    assert read() == [True, True, True]
    log.tidy(0)

    assert read() == [False, True, True]
    assert log.all(Scan) == [Scan(checkpoint=1), Scan(checkpoint=2)]


def plan(last: int) -> Planned:
    ranges = (OffsetRange("t", "", 0, first=3, last=last),)
    return Planned(batch=2, generation="g", small=True, ranges=ranges)


def test_of_two_runs_that_plan_the_same_batch_the_second_stops(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    OpsLog(spark, lake, "shop").add(Scan(checkpoint=1))
    first, second = (OpsLog(spark, lake, "shop").load() for _ in range(2))

    first.add(plan(4))
    with pytest.raises(LakehouseError, match=r"^shop: another silver run has written record 2 \(planned\)"):
        second.add(plan(6))

    assert OpsLog(spark, lake, "shop").load().all(Planned) == [plan(4)]


def test_a_run_of_gold_that_another_one_has_overtaken_says_what_it_has_written(
    spark: Any, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    OpsLog(spark, lake, "shop").add(Scan(checkpoint=1))
    slow = OpsLog(spark, lake, "shop").load()
    slow.add(Intent(batch=1, watermark=(0, 1, 2, 0, 0, 0), tables=("d__t",)))
    quick = OpsLog(spark, lake, "shop").load()
    quick.add(manifest(table_entry(version=1)))
    assert unpublished(quick) == frozenset()

    with pytest.raises(LakehouseError, match="another gold run"):
        slow.add(manifest(table_entry(version=2)))

    after = OpsLog(spark, lake, "shop").load()
    assert after.all(Manifest) == quick.all(Manifest)
    assert unpublished(after) == {"d__t"}


def test_layers_and_operators_that_write_at_one_time_get_numbers_of_their_own(
    spark: Any, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    OpsLog(spark, lake, "shop").add(Scan(checkpoint=1))
    bronze, silver, operator = (OpsLog(spark, lake, "shop").load() for _ in range(3))

    silver.add(plan(4))
    bronze.add_all([Scan(checkpoint=2), Scan(checkpoint=3)])
    operator.add(Retired(topic="t", partitions=(1,), why="gone"))
    silver.add(Retired(topic="t", partitions=(2,), why="gone"))

    stored = OpsLog(spark, lake, "shop").load()
    assert [one.seq for one in stored.records] == [1, 2, 3, 4, 5, 6]
    assert silver.records == stored.records
    assert bronze.all(Planned) == [plan(4)]


def test_writers_of_one_moment_get_numbers_of_their_own(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.spark.ops.log.time.time", lambda: 1.0)  # and they say the same
    lake = Lake(str(tmp_path))
    OpsLog(spark, lake, "shop").add(Scan(checkpoint=1))
    logs = [OpsLog(spark, lake, "shop").load() for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda log: log.add(Rebuilding(number=7)), logs))

    assert [one.seq for one in OpsLog(spark, lake, "shop").load().records] == [1, 2, 3, 4, 5]


def test_writers_of_one_moment_make_a_log_on_a_store_without_locks(spark: Any, tmp_path: Path) -> None:
    lake, at_once = Lake(f"file://{tmp_path}"), Barrier(3)

    def write(number: int) -> int:
        at_once.wait()
        return OpsLog(spark, lake, "shop").add(Rebuilding(number=number))

    with ThreadPoolExecutor(3) as pool:
        numbers = list(pool.map(write, range(3)))

    assert sorted(numbers) == [1, 2, 3]
    assert sorted(one.number for one in OpsLog(spark, lake, "shop").load().all(Rebuilding)) == [0, 1, 2]


def test_a_log_that_was_restored_to_an_older_version_takes_no_record(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    log = OpsLog(spark, lake, "shop")
    log.add(Scan(checkpoint=1))
    log.add(Scan(checkpoint=2))
    spark.sql(f"RESTORE TABLE {lake.ref('ops', 'shop_log')} TO VERSION AS OF 0")

    with pytest.raises(LakehouseError, match="restore it to its newest one"):
        OpsLog(spark, lake, "shop").load().add(Scan(checkpoint=2))


def commits(lake: Lake) -> int:
    return len(list(Path(lake.path("ops", "shop_log"), "_delta_log").glob("*.json")))


def test_what_a_run_gathers_is_known_to_it_at_once_and_appended_with_the_next_record(
    spark: Any, tmp_path: Path
) -> None:
    log = OpsLog(spark, Lake(str(tmp_path)), "shop")
    with log.gathering():
        log.add_along(Scan(checkpoint=1))
        with log.gathering():
            log.add_along(Scan(checkpoint=2))
        assert log.last(Scan) == Scan(checkpoint=2)
        assert not log.lake.exists(spark, "ops", "shop_log")
        log.add(Rebuilding(number=2))
        assert commits(log.lake) == 1
        log.add_along(Scan(checkpoint=3))

    assert commits(log.lake) == 2
    stored = OpsLog(spark, log.lake, "shop").load()
    assert stored.records == log.records
    assert [one.seq for one in stored.records] == [1, 2, 3, 4]


def test_what_an_error_leaves_waiting_goes_with_the_record_of_the_error(spark: Any, tmp_path: Path) -> None:
    log = OpsLog(spark, Lake(str(tmp_path)), "shop")
    with pytest.raises(ValueError, match="gold"), log.gathering():
        log.add_along(Scan(checkpoint=1))
        raise ValueError("gold")
    assert not log.lake.exists(spark, "ops", "shop_log")

    log.add(Rebuilding(number=2))

    assert [one.record for one in OpsLog(spark, log.lake, "shop").load().records] == log.all(Scan) + log.all(
        Rebuilding
    )


def test_what_waits_behind_a_run_that_was_quicker_is_never_appended(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    OpsLog(spark, lake, "shop").add(Scan(checkpoint=1))
    first, second = (OpsLog(spark, lake, "shop").load() for _ in range(2))
    first.add(Scan(checkpoint=4))
    with pytest.raises(LakehouseError, match="another bronze run"), second.gathering():
        second.add_along(Scan(checkpoint=3))
        second.add(Rebuilding(number=2))

    second.add(Rebuilding(number=3))

    stored = OpsLog(spark, lake, "shop").load()
    assert stored.all(Scan) == [Scan(checkpoint=1), Scan(checkpoint=4)]
    assert stored.all(Rebuilding) == [Rebuilding(number=3)]


def test_a_log_reads_what_others_have_appended_since_and_takes_up_a_new_generation(
    spark: Any, tmp_path: Path
) -> None:
    lake, reader = Lake(str(tmp_path)), Lake(str(tmp_path))
    log = OpsLog(spark, reader, "shop")
    nothing = log.refresh()
    OpsLog(spark, lake, "shop").add(Scan(checkpoint=1))
    first = log.refresh()
    OpsLog(spark, lake, "shop").load().add(Generation(number=2))
    second, third = log.refresh(), log.refresh()

    assert [nothing, first, second, third] == [False, True, True, False]
    assert log.records == OpsLog(spark, lake, "shop").load().records
    assert reader.path("silver", "shop_changes") == f"{tmp_path}/silver/shop_changes_g2"


WRITES = Intent(batch=7, watermark=(0,) * 6, tables=("d__t",))
GIVEN_UP = Dismissed(code=None, batch=7, gaps=0, why="")


@pytest.mark.parametrize(("record", "stops"), [(WRITES, True), (GIVEN_UP, True), (Scan(checkpoint=1), False)])
def test_who_names_batches_stops_where_silver_was_built_again_meanwhile(
    monkeypatch: pytest.MonkeyPatch, record: Record, stops: bool
) -> None:
    """A manifest would name a batch of the former silver as one of the new, and a dismissal would close dead
    letters of the new that are still to come. Needs no session.
    """
    nothing: Any = None
    log = OpsLog(nothing, Lake("lake"), "shop")
    stored = [log._logged(Generation(number=2), 1)]

    def append(_: OpsLog, rows: list[Logged]) -> None:
        stored.extend(one for one in rows if one.seq > stored[-1].seq)

    monkeypatch.setattr(OpsLog, "_append", append)
    monkeypatch.setattr(OpsLog, "_newer", lambda log: [one for one in stored if one.seq > log.seq])

    if stops:
        with pytest.raises(LakehouseError, match="shop: silver was built again while this run read"):
            log.add(record)
    else:
        assert log.add(record) == 2
    assert [one.record for one in stored[1:]] == ([] if stops else [record])


@pytest.mark.parametrize(
    ("record", "behind", "stops"),
    [
        (WRITES, Generation(number=2), True),
        (WRITES, manifest(), True),
        (plan(4), plan(6), True),
        (WRITES, plan(6), False),
        (manifest(), WRITES, False),
    ],
)
def test_who_finds_a_rival_right_behind_its_own_record_stops_too(
    monkeypatch: pytest.MonkeyPatch, record: Record, behind: Record, stops: bool
) -> None:
    """Both are read back at once: the next record would not meet it any more, and a manifest would name the
    former silver's batches as those of the new. Needs no session.
    """
    nothing: Any = None
    log = OpsLog(nothing, Lake("lake"), "shop")
    stored = list[Logged]()

    def append(_: OpsLog, rows: list[Logged]) -> None:
        stored.extend([*rows, log._logged(behind, rows[-1].seq + 1)])

    monkeypatch.setattr(OpsLog, "_append", append)
    monkeypatch.setattr(OpsLog, "_newer", lambda log: [one for one in stored if one.seq > log.seq])

    if stops:
        with pytest.raises(LakehouseError, match="this one stops"):
            log.add(record)
    else:
        assert log.add(record) == 2
