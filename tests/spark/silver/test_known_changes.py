"""What silver is looked through for when a batch may hold changes that it has: by whole identities, where the
batch's positions lie.
"""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.events import POSITION_PARTS, SNAPSHOT_TOPIC
from lakehouse.ops.progress import OffsetRange
from lakehouse.ops.records.silver import Planned
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.silver.dedupe import _firsts, highest_known, known_afters
from lakehouse.spark.silver.driver_batch import identity_of
from lakehouse.spark.silver.tables import SilverSettings, silver_schema

TOP = (1, 40, 0, 0, 0, 0)
Change = dict[str, Any]


def changes(chance: random.Random, count: int) -> list[Change]:
    """Changes of few keys: most of them of one, some without any."""
    return [
        {
            "database": "d",
            "table": chance.choice(["t", "t", "u"]),
            "key": chance.choice([b"[1]", b"[1]", b"[1]", b"[]", b"[2]"]),
            "position": (
                chance.randint(0, 2),
                chance.choice([chance.randint(0, 30), 10**12]),
                chance.randint(0, 1),
                0,
                0,
                0,
            ),
            "row_id": chance.choice([None, "", "a", "b"]),
            "physical_table": chance.choice([None, 5, 5, 6]),
            "topic": chance.choice(["x", "y"]),
            "incarnation": "",
            "partition": chance.randint(0, 1),
            "after": f"{chance.random()}",
        }
        for _ in range(count)
    ]


def append(spark: Any, lake: Lake, known: list[Change], batch: int) -> None:
    schema = silver_schema("changes")
    rows = [
        {
            "database": one["database"],
            "table": one["table"],
            "key": one["key"].decode(),
            "position": dict(zip(POSITION_PARTS, one["position"], strict=True)),
            "row_id": one["row_id"],
            "physical_table": one["physical_table"],
            "origin": {name: one[name] for name in ("topic", "incarnation", "partition")},
            "after": one["after"],
            "batch": batch,
        }
        for one in known
    ]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=to_arrow_schema(schema)), schema)
    lake.append(frame.coalesce(1), "silver", "s_changes")


def test_of_a_hot_key_and_of_rows_without_one_only_the_same_changes_come(spark: Any, tmp_path: Path) -> None:
    chance, lake = random.Random(3), Lake(str(tmp_path))
    known = [changes(chance, 150) for _ in range(3)]
    for batch, rows in enumerate(known, 1):
        append(spark, lake, rows, batch)
    log = OpsLog(spark, lake, "s")
    for order in ("tidb", "arrival") * 2:
        mine = [*chance.sample([one for rows in known for one in rows], 6), *changes(chance, 6)]
        wanted = {identity_of(one, order) for one in mine}

        rows = list(known_afters(log, SilverSettings("s", "ticdc-open", order), mine, batch=3))

        expected = [one for batch in known[:2] for one in batch if identity_of(one, order) in wanted]
        found = [identity_of({**row, "position": tuple(row["position"].values())}, order) for row in rows]
        assert sorted(found, key=repr) == sorted((identity_of(one, order) for one in expected), key=repr)
        assert sorted(row["after"] for row in rows) == sorted(one["after"] for one in expected)


@pytest.mark.parametrize(
    ("order", "again", "topic", "known"),
    [
        ("tidb", False, "t", TOP),
        ("arrival", False, "t", None),
        ("arrival", True, "t", TOP),
        ("arrival", False, SNAPSHOT_TOPIC, TOP),
        ("files", False, "t", TOP),
    ],
)
def test_a_feed_in_order_of_arrival_that_goes_on_has_nothing_that_silver_has(
    order: str, again: bool, topic: str, known: Any
) -> None:
    ranges = (OffsetRange("other", "", 0, 5, last=9), OffsetRange(topic, "", 1, 900, last=901))
    plan = Planned(batch=4, generation="g", small=True, ranges=ranges, again=again)

    assert highest_known(order, plan, TOP) == known


def test_in_spark_too_a_message_with_one_identity_twice_has_one_twin_per_message_that_repeats_it(
    spark: Any,
) -> None:
    place = ("d", "t", "[1]", (0,), "", "x", "", 0)
    rows = [(*place, offset, index, None, None, f"{index}") for offset in range(3) for index in range(2)]
    columns = (
        "database string, `table` string, key string, position struct<epoch:bigint>, row_id string, "
        "topic string, incarnation string, partition int, offset bigint, index int, path string, "
        "physical_table bigint, after string"
    )

    [first] = _firsts(spark.createDataFrame(rows, columns), "tidb").collect()

    assert (first["offset"], first["after"]) == (0, "1")
    assert sorted((twin["offset"], twin["after"]) for twin in first["_twins"]) == [(1, "1"), (2, "1")]
