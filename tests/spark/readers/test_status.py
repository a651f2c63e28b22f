"""What `status` says of a source beyond its tables."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lakehouse.config.load import load
from lakehouse.ops.progress import Counts
from lakehouse.ops.records.bronze import Read
from lakehouse.spark.readers.status import is_deleted, reconciliation, status
from tests.spark.gold.test_modes import run_all
from tests.support.feeds import Canal
from tests.support.lakes import write_recording


def test_a_feed_that_sends_no_watermarks_waits_for_none(spark: Any, tmp_path: Path) -> None:
    feed = Canal().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)").insert(2, id=1)
    run_all(tmp_path, "canal", write_recording(tmp_path / "r.jsonl", feed.messages), {})

    by_yaml, by_manifest = status(load(tmp_path / "configs"), None), status(None, str(tmp_path / "lake"))

    assert [entry["no_watermark_seen"] for entry in (*by_yaml, *by_manifest)] == [[], []]
    assert {entry["consistency"] for entry in (*by_yaml, *by_manifest)} == {"eventual"}


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
