"""Dead letters that are decoded again: on the driver where they are few, else in Spark jobs."""

from pathlib import Path
from typing import Any

import cramjam
import msgspec
import pytest

from lakehouse.events import Message
from lakehouse.formats.open_frames import framed, frames
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.requeue import decode_again, ranges_of
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.tables import SilverSettings
from tests.support.lakes import run, silver_rows, write_recording
from tests.support.open_feed import OpenFeed


def compressed(message: Message) -> Message:
    keys, values = frames(message.key, message.value)
    key, value = framed(keys, [bytes(cramjam.lz4.compress(each)) for each in values])
    return msgspec.structs.replace(message, key=key, value=value)


@pytest.mark.parametrize("most", [100, 0], ids=["few", "many"])
def test_what_could_not_be_read_is_read_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    feed = OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))")
    for number in range(3):
        feed.row(2 + number, "t", number, v=str(number))
    told = [feed.messages[0], *map(compressed, feed.messages[1:])]
    run(write_recording(tmp_path / "shop.jsonl", told), tmp_path / "lake")
    letters = silver_rows(spark, tmp_path / "lake", "shop", "dead_letters")
    assert len(letters) == 3
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", most)
    log = OpsLog(spark, Lake(str(tmp_path / "lake")), "shop").load()
    source = SilverSettings("shop", "ticdc-open", "ticdc", {"compression": "lz4"})

    counts = decode_again(log, source, ranges_of(letter["origin"] for letter in letters), None)

    plan, done = log.last(Planned), log.last(Done)
    assert plan is not None and plan.small == (most > 0)
    assert done is not None and done.batch == plan.batch and done.requeued == plan.requeue
    assert (counts["inserted"], counts["dead"]) == (3, 0)
    images = [change["after"] for change in silver_rows(spark, tmp_path / "lake", "shop", "changes")]
    assert sorted(images) == [f'{{"id":{number},"v":"{number}"}}' for number in range(3)]
