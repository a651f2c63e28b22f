"""A batch of silver on the driver and in Spark jobs: the same rows, and the same `done` record, which the
next batch and gold go on from (docs/decisions/0007-steps-that-exist-twice.md).
"""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakehouse.events import Message
from lakehouse.formats import order_of
from lakehouse.ops.records.silver import Done
from lakehouse.spark import limits
from lakehouse.spark.bronze.recordings import land_messages
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.silver.run import run_silver
from lakehouse.spark.silver.tables import SilverSettings
from tests.support.arrivals import Feed
from tests.support.encode_binlog import binlog, feed
from tests.support.encode_open import Wire
from tests.support.lakes import quiet, silver_rows
from tests.support.source_model import History
from tests.support.wires import ZONE
from tests.whole_path.test_delivery import delivered

SEEDS = (3,)


def by_commit(seed: int) -> list[Message]:
    """Open Protocol in two partitions, rows without a key or an id, and all since some moment again."""
    chance, history = random.Random(seed), History(seed, 25)
    return (
        Feed(history.events, chance, 2, "table", Wire(row_ids=False))
        .restart(at_resolved=True)
        .arrival(chance)
    )


def by_arrival(seed: int) -> list[Message]:
    """Canal, which begins again at an earlier place of its binlog."""
    chance = random.Random(seed)
    log = binlog(History(seed, 20).events, chance)
    begin = next(number for number in range(len(log) // 2, len(log)) if log[number].op in ("begin", "ddl"))
    sent = [feed("canal", log, chance, ZONE), feed("canal", log[begin:], chance, ZONE)]
    return delivered("canal", sent, chance)


def by_transaction(seed: int) -> list[Message]:
    """Debezium, with a message that can't be read."""
    chance = random.Random(seed)
    told = feed("debezium", binlog(History(seed, 15, raw_updates=True).events, chance), chance, ZONE)
    bad = len(told) // 3
    told[bad] = msgspec.structs.replace(told[bad], value=b"\0")
    return told


FEEDS = {
    "ticdc-open": (by_commit, {}),
    "canal": (by_arrival, {"time_zone": ZONE}),
    "debezium": (by_transaction, {}),
}


def silver(spark: Any, folder: Path, format: str, options: dict[str, str], told: list[Message]) -> Any:
    """Two batches; what silver's tables hold after them, and both `done` records."""
    lake = Lake(str(folder))
    log = OpsLog(spark, lake, "s").load()
    context = RunContext(log, quiet)
    settings = SilverSettings("s", format, order_of(format, options), options)
    done: list[Done | None] = []
    for end in (len(told) * 2 // 3, len(told)):
        land_messages(context, told[:end])
        run_silver(context, settings)
        done.append(apart_from_time(log.last(Done)))
    names = ("changes", "schema_changes", "watermarks", "dead_letters")
    return {name: silver_rows(spark, folder, "s", name) for name in names}, done


def apart_from_time(done: Done | None) -> Done | None:
    """Without the time of bronze's commit, which is the only thing that two lakes can't share."""
    assert done is not None
    assert done.bronze is not msgspec.UNSET
    return msgspec.structs.replace(done, bronze=(done.bronze[0], 0))


@pytest.mark.parametrize("format", FEEDS)
def test_a_batch_in_spark_jobs_is_the_batch_on_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    make, options = FEEDS[format]
    told = {seed: make(seed) for seed in SEEDS}
    driver = {seed: silver(spark, tmp_path / f"a{seed}", format, options, told[seed]) for seed in SEEDS}
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", 0)

    for seed in SEEDS:
        rows, done = silver(spark, tmp_path / f"b{seed}", format, options, told[seed])

        assert done == driver[seed][1], seed
        for name, found in rows.items():
            assert [said(row, name) for row in found] == [said(row, name) for row in driver[seed][0][name]], (
                seed,
                name,
            )


def said(row: dict[str, Any], name: str) -> dict[str, Any]:
    """Without the origin where several messages say the same: any of them may be named."""
    return {key: value for key, value in row.items() if key != "origin" or name != "schema_changes"}
