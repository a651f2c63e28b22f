"""What `status` says of a source beyond its tables."""

import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from lakehouse.config.load import load
from lakehouse.errors import LakehouseError
from lakehouse.ops.progress import (
    Counts,
    Mark,
    NextOffset,
    OpenTransaction,
    TableSnapshot,
    TableSnapshots,
    Transactions,
)
from lakehouse.ops.records.bronze import Read
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Retired
from lakehouse.ops.records.runs import Run, standing_failures
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark.change_log.watermark import snapshots_above, waiting_transaction
from lakehouse.spark.readers.status import age, is_deleted, reconciliation, status
from tests.spark.gold.test_modes import run_all
from tests.support.feeds import Canal
from tests.support.lakes import write_recording
from tests.support.records import log_of


def test_a_feed_that_sends_no_watermarks_waits_for_none(spark: Any, tmp_path: Path) -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)").insert(2, id=1)
    run_all(tmp_path, "canal", write_recording(tmp_path / "r.jsonl", feed.messages), {})

    by_yaml, by_manifest = status(load(tmp_path / "configs"), None), status(None, str(tmp_path / "lake"))

    assert [entry["no_watermark_seen"] for entry in (*by_yaml, *by_manifest)] == [[], []]
    assert {entry["consistency"] for entry in (*by_yaml, *by_manifest)} == {"eventual"}


def test_a_run_that_failed_is_told_until_its_layers_run_again(spark: Any, tmp_path: Path) -> None:
    """Elsewhere a run that finds nothing to do leaves no record: the failure would be the last for ever."""
    feed = Canal().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)").insert(2, id=1)
    recording = write_recording(tmp_path / "r.jsonl", feed.messages)
    told: list[list[str]] = []

    for there in (True, False, True, True):
        with nullcontext() if there else pytest.raises(LakehouseError, match="nowhere"):
            run_all(tmp_path, "canal", recording if there else tmp_path / "nowhere.jsonl", {})
        entry = status(None, str(tmp_path / "lake"), 9)[0]
        told.append([run["outcome"][:9] for run in entry["failed_runs"]])

    assert [len(failed) for failed in told] == [0, 1, 0, 0]
    assert [run["outcome"] == "ok" for run in entry["runs"]] == [True, False, True]


def test_a_failed_run_stands_until_all_of_its_layers_have_run() -> None:
    """Needs no session."""
    layers = ("bronze", "silver", "gold")
    base = Run(layers=layers, begun=0, ended=1, landed=0, batches=0, published=0, seconds={}, error="first")
    single = [replace(base, layers=(layer,), error=None) for layer in layers]

    def standing(*runs: Run) -> list[str | None]:
        return [run.error for run in standing_failures(reversed(runs), layers)]

    assert standing(base) == ["first"]
    assert standing(base, replace(base, error="second")) == ["second"]
    assert standing(base, *single[:2]) == ["first"]
    assert standing(base, *single) == standing(base, replace(base, error=None)) == []
    assert standing(base, replace(single[0], error="third")) == ["third", "first"]


def test_a_batch_whose_changes_are_not_all_accounted_for_is_open_by_their_number() -> None:
    """Needs no session."""
    whole = Counts(messages=20, decoded=10, inserted=4, duplicate=3, conflict=2, below=1)

    assert reconciliation(whole) == "closed"
    for name in ("inserted", "duplicate", "conflict", "below"):
        fewer = replace(whole, **{name: getattr(whole, name) - 1})
        assert reconciliation(fewer) == "open: 1 decoded changes are not accounted for"
    assert reconciliation(replace(whole, decoded=9)) == "open: -1 decoded changes are not accounted for"


def test_a_topic_that_was_read_and_is_read_no_more_is_taken_for_deleted() -> None:
    """Needs no session."""
    read = Read(stream=0, topics=("new",), ids={}, incarnations={"old": "x", "new": "y"}, next=())

    assert [is_deleted(read, topic) for topic in ("old", "new", "other")] == [True, False, False]
    assert not is_deleted(None, "old")


def test_tables_whose_snapshot_is_above_what_is_published_are_named() -> None:
    """Needs no session."""
    tables = tuple(TableSnapshot("d", name, (0, 1, at, 0, 0, 0)) for name, at in (("below", 5), ("above", 7)))
    snapshots = TableSnapshots(begun=(*tables, TableSnapshot("d", "half", (0, 1, 8, 0, 0, 0))), whole=tables)
    told: Any = {"top": None, "reach": None, "next": (), "marks": (), "dead": (), "tables": ()}
    done = Done(batch=1, counts=Counts(), snapshots=snapshots, **told)

    def above(at: int) -> list[str]:
        published: Any = {
            "watermark": (0, 1, at, 0, 0, 0),
            "batch": 1,
            "consistency": "resolved",
            "tables": (),
        }
        return snapshots_above(log_of(done, Manifest(**published)))

    assert [above(at) for at in (5, 7)] == [["d.above"], []]
    assert snapshots_above(log_of(replace(done, snapshots=UNSET))) == []


def test_a_transaction_whose_rows_did_not_come_is_named_once_a_later_batch_has_left_nothing_unread() -> None:
    """Needs no session."""

    waits = (("1/0-1-57", 3),)

    def after(*, whole: bool, batches: int, ends: tuple[tuple[str, int], ...] = waits) -> str | None:
        known = {"1/0-1-57": OpenTransaction(((2, 2),), (1, 1, 4, 1, 0, 1))}
        told: Any = {"top": None, "reach": None, "next": (), "marks": (), "dead": (), "tables": ()}
        records: list[Any] = []
        for number in range(1, batches + 1):
            records.append(Planned(batch=number, generation="1", small=True, ranges=(), whole=whole))
            state = Transactions(open=known, ends=ends)
            records.append(Done(batch=number, counts=Counts(), transactions=state, **told))
        return waiting_transaction(log_of(*records))

    stands = "the watermark stands at transaction 0-1-57: 2 of its 3 rows did not come"
    assert after(whole=True, batches=2) == stands
    assert after(whole=True, batches=1) is None, "they may be on their way"
    assert after(whole=False, batches=2) is None
    assert after(whole=True, batches=2, ends=()) is None


def test_the_age_of_a_watermark_is_not_that_of_a_partition_that_is_retired() -> None:
    """Needs no session."""
    now, source = int(time.time()), SimpleNamespace(silver=SimpleNamespace(order="tidb"))
    read = tuple(NextOffset("t", "", number, 5) for number in (0, 1))
    marks = tuple(
        Mark("t", number, (0, at * 1000 << 18, 0, 0, 0, 0)) for number, at in ((0, now), (1, now - 9000))
    )
    done = Done(batch=1, counts=Counts(), top=None, reach=None, next=read, marks=marks, dead=(), tables=())
    retired = Retired(topic="t", partitions=(1,), why="nothing is written to it", read=read)

    def seconds(*records: Any) -> int:
        of_source: Any = source
        return age(done, log_of(*records), of_source)["lag_seconds"]

    assert seconds(done) >= 9000
    assert seconds(done, retired) < 60
