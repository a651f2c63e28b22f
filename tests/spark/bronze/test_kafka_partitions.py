"""Partitions that are retired, written to again, or gone, and open transactions, with a real broker."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from msgspec import structs

from lakehouse.config.models import KafkaInput
from lakehouse.demo.kafka_broker import Broker
from lakehouse.events import MIN_POSITION, Message
from lakehouse.spark.bronze import kafka
from lakehouse.spark.operations.dead_letters import dismiss_dead_letters
from lakehouse.spark.operations.epochs import retire_partition
from lakehouse.spark.readers.status import status
from tests.spark.bronze.test_kafka_faults import TOLD, Shop, created_anew, engine
from tests.support.encode_open import encode, message

LATER = 470606995849740288 + (1 << 18)


@pytest.fixture
def shop(spark: Any, broker: Broker, topic: str, tmp_path: Path) -> Shop:
    return Shop(spark, broker, topic, tmp_path)


def resolved(partition: int, ts: int) -> Message:
    return message([encode({"kind": "resolved", "commit_ts": ts})], "", partition, 0)


def test_a_retired_partition_counts_again_when_written_to_and_one_that_a_new_topic_lacks_does_not(
    shop: Shop,
) -> None:
    shop.produce([one for one in TOLD if one.partition != 2])
    shop.run()
    retire_partition(shop.lake, "shop", shop.topic, 2, "nothing is written to it")
    shop.run("gold")
    shop.produce([*(one for one in TOLD if one.partition == 2), resolved(0, LATER), resolved(1, LATER)])
    shop.run()

    told = status(shop.config, shop.lake)[0]
    again = f"warning: {shop.topic}/2 was retired, and counts again: something has arrived in it"
    assert (told["held_by"], told["counts_again"], shop.said.count(again)) == (
        f"{shop.topic}/2",
        [f"{shop.topic}/2"],
        1,
    )
    assert shop.tables() == engine(TOLD)

    shop.wait(shop.admin.delete_topics([shop.topic]))
    shop.partitions = 2
    created_anew(shop, [resolved(0, LATER + 1), resolved(1, LATER + 2)])
    shop.run()
    dismiss_dead_letters(shop.lake, "shop", "lost", "sent again")
    shop.run("gold")

    told = status(shop.config, shop.lake)[0]
    assert (told["held_by"], told["gold_watermark"][1]) == (f"{shop.topic}/0", LATER + 1)
    assert (told["lag_messages"], told["counts_again"]) == (0, [])
    assert {state for state, _ in shop.states().values()} == {"exact"}


def test_a_record_in_each_of_many_partitions_is_landed_in_one_file(shop: Shop) -> None:
    shop.partitions = 24
    shop.produce(resolved(partition, LATER) for partition in range(shop.partitions))

    assert shop.run("bronze")["new_messages"] == shop.partitions
    assert len(shop.landed()) == shop.partitions
    assert len(list(Path(shop.lake, "bronze", "shop").glob("*.parquet"))) == 1


def test_no_small_batch_is_left_behind_large_ones() -> None:
    waiting = [1, 999, 1_000, 1_002, 1_499, 1_501, 2_490, 10_600]

    assert [kafka.batch_records(one, 1_000) for one in waiting] == [
        *(1_000, 1_000, 1_000, 1_002, 1_499),
        *(1_000, 1_245, 1_000),
    ]


def test_tasks_follow_the_records_and_hold_few_partitions() -> None:
    counts = [(1, 1), (1, 10**6), (60, 60), (60, 10**6), (10_000, 10_000), (300, 20_000)]

    assert [kafka.tasks_for(*one) for one in counts] == [1, 1, 2, 60, 200, 20]


@pytest.mark.parametrize("parts", [("offsets", "commits"), ("commits",), ("offsets",)])
def test_a_checkpoint_that_lost_a_part_is_begun_again_where_bronze_ends(
    shop: Shop, parts: tuple[str, ...]
) -> None:
    shop.produce(TOLD[:8])
    shop.run()
    for part in parts:
        shutil.rmtree(Path(shop.lake, "_checkpoints", "bronze_shop_0", part))
    shop.produce(TOLD[8:])
    shop.run()

    offsets = shop.offsets()
    assert shop.landed() == {
        (shop.listed().id, number): list(range(end)) for number, (_, end) in offsets.items() if end
    }
    assert shop.tables() == engine(TOLD)


def test_an_open_transaction_that_is_read_uncommitted_is_landed_once(shop: Shop) -> None:
    uncommitted = KafkaInput(
        bootstrap_servers=shop.broker.bootstrap,
        topics=[shop.topic],
        options={"kafka.isolation.level": "read_uncommitted"},
    )
    shop.config.sources["shop"] = shop.config.sources["shop"].model_copy(update={"kafka": uncommitted})
    shop.produce(TOLD)
    producer = Producer({"bootstrap.servers": shop.broker.bootstrap, "transactional.id": shop.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(shop.topic, b"open", partition=1)
    producer.flush(30)

    landed = [shop.run("bronze")["new_messages"] for _ in range(2)]
    committed = KafkaInput(bootstrap_servers=shop.broker.bootstrap, topics=[shop.topic])
    shop.config.sources["shop"] = shop.config.sources["shop"].model_copy(update={"kafka": committed})
    landed.append(shop.run("bronze")["new_messages"])
    producer.abort_transaction(30)

    assert landed == [len(TOLD) + 1, 0, 0]
    assert status(shop.config, shop.lake)[0].get("gaps", []) == []
    assert [line for line in shop.said if "created anew" in line] == []


def test_no_watermark_passes_a_partition_that_is_made_while_a_pass_runs(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grown(*given: Any, **named: Any) -> Any:
        shop.wait(shop.admin.create_partitions([NewPartitions(shop.topic, 4)]))
        row = next(one for one in TOLD if one.partition == 0)
        shop.produce([structs.replace(row, partition=3), *TOLD])
        return started(*given, **named)

    def dying(*given: Any) -> Any:
        assert passed(*given)[0]
        raise OSError("the machine is gone")

    started, passed = kafka._stream, kafka._pass
    shop.produce(TOLD[:1])
    shop.run("bronze")
    with monkeypatch.context() as patched:
        patched.setattr(kafka, "_stream", grown)
        patched.setattr(kafka, "_pass", dying)
        shop.produce(TOLD[:1])
        with pytest.raises(OSError, match="the machine is gone"):
            shop.run("bronze")
    shop.run("silver", "gold")
    assert status(shop.config, shop.lake)[0]["gold_watermark"] == list(MIN_POSITION)

    shop.run()
    told = status(shop.config, shop.lake)[0]
    assert (told["held_by"], told["lag_messages"]) == (f"{shop.topic}/3", 0)
    shop.produce([resolved(3, LATER)])
    shop.run()
    assert shop.tables() == engine(TOLD)
