"""Gold asks Delta whether silver has all that its batches have written, before it calls a table exact."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ops.records.gold import Manifest
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from tests.spark.gold.test_unpublished import feed_of_one_row
from tests.support.lakes import run, write_recording

LOST = (
    "silver has lost 1 of 3 changes since they were decoded: restore its changes table to its newest "
    "version, or decode everything again with `lakehouse rebuild silver`"
)


def restore(spark: Any, ref: str) -> None:
    spark.sql(f"RESTORE TABLE {ref} TO VERSION AS OF 0")


def delete(spark: Any, ref: str) -> None:
    spark.sql(f"DELETE FROM {ref} WHERE commit_ts % 10 = 4")


@pytest.mark.parametrize("damage", [restore, delete])
def test_changes_that_silver_has_lost_make_every_table_incomplete_until_they_are_back(
    spark: Any, tmp_path: Path, damage: Callable[[Any, str], None]
) -> None:
    place, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", feed_of_one_row()
    lake = Lake(str(place))
    changes = lake.ref("silver", "shop_changes")

    def states() -> list[tuple[str, str | None]]:
        manifest = OpsLog(spark, lake, "shop").load().last(Manifest)
        assert manifest is not None
        return [(entry.state, entry.why) for entry in manifest.tables]

    run(write_recording(path, feed.messages), place)
    feed.row(4, "t", 2, v="two")
    feed.resolved(5)
    run(write_recording(path, feed.messages), place)
    assert states() == [("exact", None)]

    damage(spark, changes)
    feed.row(6, "t", 3, v="three")
    feed.resolved(7)
    run(write_recording(path, feed.messages), place)
    assert states() == [("incomplete", LOST)]

    spark.sql(f"RESTORE TABLE {changes} TO VERSION AS OF 1")
    feed.row(8, "t", 4, v="four")
    feed.resolved(9)
    run(write_recording(path, feed.messages), place)
    assert states()[0][0] == "incomplete"  # the row of 6 is gone now
