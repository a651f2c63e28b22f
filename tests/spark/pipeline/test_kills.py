"""A run that dies, at any write of any layer, and is started again: the same gold, nothing twice in bronze or
silver.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakehouse.demo.kafka_broker import Broker
from lakehouse.demo.run import RECORDING
from lakehouse.events import Message
from lakehouse.sources.kafka_produce import produce
from lakehouse.sources.recording import read_recording
from lakehouse.spark.lake import Lake
from lakehouse.spark.pipeline.run import run as run_layers
from tests.spark.operations.test_operators import CREATE
from tests.support.killable import Killed, config_of, killing
from tests.support.lakes import engine, run, shown, silver_rows, write_recording
from tests.support.open_feed import OpenFeed

TOLD = list(read_recording(RECORDING))


def duplicates(spark: Any, lake: Path) -> Counter[str]:
    """Rows that bronze or silver hold twice."""
    place = Lake(str(lake))
    bronze = (
        place.read(spark, "bronze", "shop")
        .select("topic", "incarnation", "partition", "offset")
        .toArrow()
        .to_pylist()
    )
    changes = silver_rows(spark, lake, "shop", "changes")
    keys = [
        repr([row[name] for name in ("database", "table", "key", "position", "row_id")]) for row in changes
    ]
    schemas = [
        repr((row["position"], row["database"], row["ddl"]))
        for row in silver_rows(spark, lake, "shop", "schema_changes")
    ]
    letters = [repr(row["origin"]) for row in silver_rows(spark, lake, "shop", "dead_letters")]
    return Counter(
        {row: n - 1 for row, n in Counter([*map(repr, bronze), *keys, *schemas, *letters]).items() if n > 1}
    )


def two_parts() -> tuple[list[Message], list[Message]]:
    """What a lake holds, and what comes then: rows to merge, a value that needs a companion column, DDL, a
    new table, garbage.
    """
    told = OpenFeed()
    told.ddl(1, "t", CREATE)
    told.ddl(2, "u", "CREATE TABLE `shop`.`u` (id INT PRIMARY KEY, at DATETIME)")
    told.row(3, "t", 1, v="one")
    told.row(4, "t", 2, v="two")
    told.row(5, "u", 1, at="2026-01-02 03:04:05")
    told.resolved(6)
    first = list(told.messages)
    told.row(7, "u", 2, at="0000-00-00 00:00:00")
    told.row(8, "t", 1, "d", v="one")
    told.ddl(9, "t", "ALTER TABLE `shop`.`t` ADD COLUMN w INT DEFAULT 7")
    told.row(10, "t", 3, v="three", w=3)
    told.ddl(11, "n", "CREATE TABLE `shop`.`n` (id INT PRIMARY KEY, v VARCHAR(20))")
    told.row(12, "n", 1, v="new")
    told.resolved(13)
    garbage = Message("shop", 0, len(told.messages), b"noise", b"noise")
    return first, [*told.messages, garbage]


def test_a_run_that_dies_after_each_of_its_writes_in_turn_comes_to_the_same_lake(
    spark: Any, tmp_path: Path
) -> None:
    first, everything = two_parts()
    lake, path = tmp_path / "lake", tmp_path / "shop.jsonl"
    run(write_recording(path, first), lake)
    write_recording(path, everything)
    died: list[str] = []

    while True:
        with killing(type(spark), lambda name: name not in died) as writes:
            try:
                run(path, lake)
                break
            except Killed:
                died.append(writes.seen[-1])

    assert set(died) >= {
        "bronze shop",
        "ops planned",
        "silver shop_changes",
        "silver shop_schema_changes",
        "silver shop_watermarks",
        "silver shop_dead_letters",
        "ops done+lineages+intent",
        "gold shop__t",
        "gold shop__n",
        "ALTER gold/shop__u",
        "MERGE gold/shop__u",
        "ops manifest+run",
    }
    assert shown(lake, tmp_path / "shown") == engine(everything)
    assert (duplicates(spark, lake), len(silver_rows(spark, lake, "shop", "changes"))) == (Counter(), 7)
    with killing(type(spark)) as again:
        assert run(path, lake)["gold"] == "nothing new"
    assert again.seen == []


def _begins(name: str, commit: str) -> bool:
    return commit.startswith(name)


@pytest.mark.long  # a minute and more
def test_a_run_that_dies_right_before_its_manifest_or_its_done_record_comes_to_the_same_lake(
    spark: Any, tmp_path: Path
) -> None:
    _, everything = two_parts()
    lake = tmp_path / "lake"

    for name in ("ops done", "ops manifest"):
        with (
            killing(type(spark), partial(_begins, name), after=False),
            pytest.raises(Killed),
        ):
            run(write_recording(tmp_path / "shop.jsonl", everything), lake)
    run(tmp_path / "shop.jsonl", lake)

    assert shown(lake, tmp_path / "shown") == engine(everything)
    assert duplicates(spark, lake) == Counter()


@pytest.mark.long
def test_random_sigkills_of_a_run_over_a_topic_change_nothing(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """LAKEHOUSE_KILLS says how many; every fourth one is followed by a run to the end and a comparison with
    the source.
    """
    wanted, chance, kills, cycle = int(os.environ.get("LAKEHOUSE_KILLS", "200")), random.Random(1), 0, 0
    took = 10.0
    while kills < wanted:
        cycle += 1
        topic, lake = f"kills{cycle}-{os.getpid()}", tmp_path / f"lake{cycle}"
        for start in range(0, len(TOLD), 6):
            produce(TOLD[start : start + 6], broker.bootstrap, topic, partitions=3)
            when = killed_child(broker.bootstrap, topic, lake, chance.uniform(0, 1.2 * took))
            kills += 1
            if kills % 4 == 0 or start + 6 >= len(TOLD) or kills >= wanted:
                begun = time.monotonic()
                run_layers(
                    config_of(broker.bootstrap, topic),
                    ("bronze", "silver", "gold"),
                    True,
                    (),
                    str(lake),
                    print,
                )
                took = max(5.0, time.monotonic() - begun)
                assert shown(lake, tmp_path / "shown") == engine(TOLD[: start + 6]), (kills, when)
                assert duplicates(spark, lake) == Counter(), (kills, when)
                rows = Lake(str(lake)).read(spark, "bronze", "shop").count()
                assert rows == len(TOLD[: start + 6])
                print(
                    (
                        f"{kills} kills: the same tables, nothing twice; the last one {when:.1f} s after its "
                        "session had started"
                    ),
                    flush=True,
                )
            if kills >= wanted:
                return


def killed_child(bootstrap: str, topic: str, lake: Path, seconds: float) -> float:
    """A process that runs the layers over a topic, killed so many seconds after its session has started."""
    command = [sys.executable, "-m", "tests.support.killable", bootstrap, topic, str(lake)]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
    return seconds
