"""Sources of one lake that have tables of the same name: each has gold tables of its own, and a command asks
which one is meant.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config.load import Config, load
from lakehouse.demo.run import RECORDING
from lakehouse.errors import LakehouseError
from lakehouse.events import Message
from lakehouse.sources.recording import read_recording, write_recording
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.ddl_decisions import table_now
from lakehouse.spark.operations.rebuild import rebuild_table
from lakehouse.spark.operations.rejected_rows import requeue
from lakehouse.spark.ops import gold_names as table_names
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.ops.run_record import RunRecord
from lakehouse.spark.pipeline.continuous import Round, _land_or_wait
from lakehouse.spark.pipeline.one_pass import Stop
from lakehouse.spark.pipeline.run import run, runs
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.readers.show import show_table
from lakehouse.spark.source import selected_sources
from tests.support.engine import Memory
from tests.support.lakes import in_order, quiet, shown

MESSAGES = list(read_recording(RECORDING))
# the second source's changefeed began later and is not as far: other rows under the same names
FEEDS = {"one": MESSAGES, "two": [message for message in MESSAGES if message.offset < 14]}


def expected(messages: list[Message]) -> dict[str, list[dict[str, Any]]]:
    silver = Memory("ticdc-open").add(messages)
    return in_order(silver.tables(silver.watermark))


def configured(folder: Path) -> Config:
    (folder / "configs/sources").mkdir(parents=True, exist_ok=True)
    for name in FEEDS:
        text = f"format: ticdc-open\ntime_zone: UTC\ntables: auto\nrecording: {folder}/{name}.jsonl\n"
        (folder / f"configs/sources/{name}.yml").write_text(text)
    return load(folder / "configs")


def rows(lake: Path, table: str) -> list[dict[str, Any]]:
    lines = show_table(str(lake), table, "gold", None).lines
    return in_order({"t": [json.loads(line) for line in lines]})["t"]


def test_sources_with_the_same_tables_never_share_one(spark: Any, tmp_path: Path) -> None:
    lake, told = tmp_path / "lake", {name: expected(messages) for name, messages in FEEDS.items()}
    assert told["one"]["shop.orders"] != told["two"]["shop.orders"]
    for name, messages in FEEDS.items():
        write_recording(messages, tmp_path / f"{name}.jsonl")
        outcome = try_recording(tmp_path / f"{name}.jsonl", "ticdc-open", {}, str(lake), "resolved", quiet)
        assert {entry["state"] for entry in outcome["tables"] if entry["state"] != "retired"} == {"exact"}

    assert shown(lake, tmp_path / "out") == {
        **told["one"],
        **{f"two:{name}" if name in told["one"] else name: table for name, table in told["two"].items()},
    }
    orders = next(entry for entry in outcome["tables"] if entry["table"] == "shop.orders")
    assert orders["location"] == str(lake / "gold/shop__orders__two")
    assert orders["notes"] == ["shop__orders is another table's name in gold, this one is shop__orders__two"]

    # a command asks which one is meant
    asked = "shop.orders: expected the table of one source, one, two have one; write one:shop.orders"
    for command in (
        lambda: rows(lake, "shop.orders"),
        lambda: rebuild_table(str(lake), "shop.orders", None, yes=False),
        lambda: table_now(str(lake), "shop.orders"),
        lambda: requeue(configured(tmp_path), "shop.orders", str(lake), False, None),
    ):
        with pytest.raises(LakehouseError, match=f"^{asked}$"):
            command()
    assert {name: rows(lake, f"{name}:shop.orders") for name in FEEDS} == {
        name: told[name]["shop.orders"] for name in FEEDS
    }
    requeued = requeue(configured(tmp_path), "two:shop.orders", str(lake), False, None)
    assert (requeued["rejected_now"], requeued["state"]) == (0, "exact")
    assert rows(lake, "one:shop.orders") == told["one"]["shop.orders"]
    rebuilt = rebuild_table(str(lake), "two:shop.orders", None, yes=False)
    assert (rebuilt["equal"], rebuilt["only_live"], rebuilt["only_rebuilt"]) == (
        len(told["two"]["shop.orders"]),
        0,
        0,
    )


def test_a_target_that_another_source_has_is_left_to_it(spark: Any, tmp_path: Path) -> None:
    for name, messages in FEEDS.items():
        write_recording(messages, tmp_path / f"{name}.jsonl")
    configured(tmp_path)
    (tmp_path / "configs/tables").mkdir()
    (tmp_path / "configs/tables/shop.orders.yml").write_text("source: two\ngold: {target: Shop__Orders}\n")

    _, second = run(
        load(tmp_path / "configs"), ("bronze", "silver", "gold"), True, (), str(tmp_path / "lake"), quiet
    )

    assert "shop.orders" not in {entry["table"] for entry in second["tables"]}
    assert second["problems"] == [
        "gold.target: Shop__Orders is another source's table, or none of lakehouse's; choose another name"
    ]
    assert rows(tmp_path / "lake", "shop.orders") == expected(FEEDS["one"])["shop.orders"]

    (tmp_path / "configs/tables/shop.orders.yml").write_text("source: two\ngold: {target: orders_of_two}\n")
    _, second = run(
        load(tmp_path / "configs"), ("bronze", "silver", "gold"), True, (), str(tmp_path / "lake"), quiet
    )
    assert second["problems"] == []
    assert rows(tmp_path / "lake", "two:shop.orders") == expected(FEEDS["two"])["shop.orders"]


def test_a_source_that_fails_stops_no_other(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "configs/sources").mkdir(parents=True)
    write_recording(MESSAGES, tmp_path / "one.jsonl")
    lost, away = "recording: nowhere.jsonl", "kafka: {bootstrap_servers: '127.0.0.1:1', topics: [t]}"
    for name, read in {"away": away, "lost": lost, "one": f"recording: {tmp_path}/one.jsonl"}.items():
        (tmp_path / f"configs/sources/{name}.yml").write_text(
            f"format: ticdc-open\ntime_zone: UTC\ntables: auto\n{read}\n"
        )
    config = load(tmp_path / "configs")
    said: list[str] = []
    done: list[dict[str, Any]] = []

    with pytest.raises(LakehouseError, match=r"^2 of 3 sources failed: away, lost$"):
        done += runs(config, ("bronze", "silver", "gold"), True, (), str(tmp_path / "lake"), said.append)
    with pytest.raises(LakehouseError, match=r"^nowhere.jsonl: "):
        run(config, ("bronze", "silver", "gold"), True, ("lost", "one"), str(tmp_path / "lake"), quiet)

    assert [outcome["source"] for outcome in done] == ["one"]
    assert [line.split(":")[1] for line in said if line.startswith("problem: ")] == [" away", " lost"]
    assert rows(tmp_path / "lake", "shop.orders") == expected(MESSAGES)["shop.orders"]


def test_a_continuous_run_of_several_sources_begins_without_a_broker_that_is_away(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "configs/sources").mkdir(parents=True)
    text = (
        "format: ticdc-open\ntime_zone: UTC\ntables: auto\nkafka: {bootstrap_servers: "
        "'127.0.0.1:1', topics: [t]}\n"
    )
    (tmp_path / "configs/sources/away.yml").write_text(text)
    (source,) = selected_sources(load(tmp_path / "configs"), (), str(tmp_path / "lake"))
    said: list[str] = []
    context = RunContext(OpsLog(spark, source.lake, source.name), said.append)

    assert _land_or_wait(Round(source, context, RunRecord(("bronze",)), alone=False), Stop()) == 0
    assert [line.partition(",")[0] for line in said] == ["warning: 127.0.0.1:1: expected a Kafka broker"]
    with pytest.raises(LakehouseError, match=r"^127.0.0.1:1: expected a Kafka broker"):
        _land_or_wait(Round(source, context, RunRecord(("bronze",)), alone=True), Stop())


def test_two_that_claim_a_name_at_the_same_moment_both_leave_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, looks = Lake(str(tmp_path)), iter(range(9))
    look = table_names.claims

    def between(spark: Any, lake: Lake) -> dict[str, set[str]]:
        if next(looks) == 1:  # after the first claim is written, the other source's stands there too
            lake.append(
                spark.createDataFrame(pa.table({"name": ["T"], "source": ["other"]}), table_names.CLAIMS),
                "ops",
                "gold_names",
            )
        return look(spark, lake)

    monkeypatch.setattr(table_names, "claims", between)
    assert table_names.claim(spark, lake, "mine", [("t", False), ("u", False)], {"t", "u", "t__mine"}) == [
        "t__mine_2",
        "u",
    ]
    assert table_names.claim(spark, lake, "other", [("T", True), ("T", False)], {"t"}) == [None, "T__other"]
    assert table_names.claim(
        spark, lake, "mine", [("u", True), ("t__mine_2", False)], {"u", "t__mine_2"}
    ) == ["u", "t__mine_2"]


def test_a_table_that_nobody_claimed_is_not_written_over(spark: Any, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.append(spark.createDataFrame([(1,)], "id INT"), "gold", "t")
    assert table_names.claim(spark, lake, "mine", [("t", False)], {"t"}) == ["t__mine"]
    assert table_names.claim(spark, lake, "mine", [("t", True)], {"t"}) == [None]
