"""The main job through a real broker: Structured Streaming into bronze, and on to gold; again, it adds
nothing.
"""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.models import TableConfig
from lakehouse.demo.run import RECORDING, SOURCE, configuration, run_demo
from lakehouse.errors import LakehouseError
from lakehouse.ops.file_lock import run_lock
from lakehouse.sources.recording import read_recording
from lakehouse.spark.bronze.kafka import KafkaInput
from lakehouse.spark.lake import Lake
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.readers.status import plan, status


def quiet(_: str) -> None:
    pass


def test_the_demo_lands_a_topic_exactly_once_and_a_second_run_adds_nothing(
    spark: Any, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")

    first = run_demo(lake, 0, quiet)
    second = run_demo(lake, 0, quiet)

    told = list(read_recording(RECORDING))
    assert (first["published"], first["new_messages"], first["rows"]["bronze"]) == (
        len(told),
        len(told),
        len(told),
    )
    assert [(table["table"], table["state"]) for table in first["tables"]] == [
        ("shop.clients", "exact"),
        ("shop.orders", "exact"),
    ]
    assert len(first["ddl_applied"]) == 8
    assert (second["published"], second["new_messages"], second["silver_batches"], second["gold"]) == (
        0,
        0,
        0,
        "nothing new",
    )
    assert (second["rows"], second["watermark"]) == (first["rows"], first["watermark"])
    landed = Lake(lake).read(spark, "bronze", SOURCE).select("partition", "offset", "key", "value").collect()
    assert {(row.partition, row.offset): (bytes(row.key), bytes(row.value)) for row in landed} == {
        (message.partition, message.offset): (message.key, message.value) for message in told
    }


def test_status_and_plan_say_how_far_a_lake_is_and_change_nothing(spark: Any, tmp_path: Path) -> None:
    config = configuration("127.0.0.1:1")
    source = config.sources[SOURCE].model_copy(update={"kafka": None, "recording": [str(RECORDING)]})
    config.sources[SOURCE] = source
    lake = str(tmp_path / "lake")

    before = plan(config, lake)[0]
    run(config, ("bronze", "silver"), True, (), lake, quiet)
    between = plan(config, lake)[0]
    run(config, ("gold",), True, (), lake, quiet)
    told = status(config, lake)[0]
    behind = plan(config, lake)[0]
    config.tables["orders"] = TableConfig.model_validate(
        {"source": SOURCE, "table": "shop.orders", "gold": {"deletes": "soft"}}
    )
    changed = plan(config, lake)[0]

    assert (between["settings_changed"], behind["settings_changed"]) == (False, False)
    assert (changed["settings_changed"], changed["gold_would_apply"]) == (True, {})
    assert before["silver_would_read"] == []
    assert between["gold_would_apply"] == {"shop.customers": 7, "shop.clients": 2, "shop.orders": 10}
    assert between["tables_to_create"] == ["shop.clients", "shop.orders"]
    assert between["ddl_would_apply"][-1] == "TRUNCATE TABLE `shop`.`orders`"
    assert (told["books"], told["dead_letters"], told["not_configured"]) == ("closed", 0, [])
    assert {table["table"]: table["state"] for table in told["tables"]} == {
        "shop.clients": "exact",
        "shop.orders": "exact",
    }
    assert told["watermark"] == told["gold_watermark"]


def test_a_second_run_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    with (
        run_lock(str(tmp_path), "shop", "silver"),
        pytest.raises(LakehouseError) as refused,
        run_lock(str(tmp_path), "shop", "silver"),
    ):
        pass

    assert str(refused.value).startswith("shop: a silver run is going on already (pid ")


def test_a_kafka_input_shows_none_of_its_options() -> None:
    source = KafkaInput("broker:9092", ["shop"], options={"kafka.sasl.jaas.config": "username password"})

    assert "password" not in repr(source)
    assert "broker:9092" in repr(source)
