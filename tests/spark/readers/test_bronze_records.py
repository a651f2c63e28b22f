"""Bronze is looked at and given back: what `inspect` shows is what the recording shows, and a replay is the
recording again.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from lakehouse.discovery.inspect import inspect_messages
from lakehouse.discovery.read_input import shown_options
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.events import SNAPSHOT_TOPIC
from lakehouse.formats import order_of
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.sources.recording import read_recording
from lakehouse.spark.bronze.recordings import land_messages
from lakehouse.spark.bronze.storage import land_storage
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import register
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.readers import bronze_records
from lakehouse.spark.readers.bronze_records import Chosen, chosen_records, inspect_bronze, replay
from tests.support.paths import DATA

SHOP = DATA / "ticdc-open/newarch-202606/shop.index-value.3p.jsonl.gz"
DTS = DATA / "dts/inventory/stream.jsonl.gz"
TREE = DATA / "storage/csv-header/data"


def quiet(_: str) -> None:
    pass


def place(item: Any) -> tuple[Any, ...]:
    origin = item["origin"]
    return (origin["topic"], origin["partition"], origin["offset"])


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with the bronze of three feeds, and nothing above."""
    root = str(tmp_path_factory.mktemp("lake"))
    for name, path, format in (("shop", SHOP, "ticdc-open"), ("dts", DTS, "tencent-dts")):
        register(
            spark,
            Lake(root),
            name,
            SourceSettings(format=format, order=order_of(format, {}), options={}, virtual=False),
        )
        land_messages(RunContext(OpsLog(spark, Lake(root), name), quiet), read_recording(path))
    options = shown_options(TREE, "ticdc-storage", {})
    register(
        spark,
        Lake(root),
        "sink",
        SourceSettings(format="ticdc-storage", order="tidb", options=dict(options), virtual=False),
    )
    land_storage(RunContext(OpsLog(spark, Lake(root), "sink").load(), quiet), str(TREE), options)
    return root


def test_bronze_shows_the_events_that_the_recording_shows(lake: str) -> None:
    whole = sorted(inspect_messages(read_recording(SHOP), "ticdc-open", {}), key=place)

    assert list(inspect_bronze(lake, "shop", Chosen())) == whole
    some = list(inspect_bronze(lake, "shop", Chosen(whole[0]["origin"]["topic"], 1, 2, 4)))
    assert some == [event for event in whole if place(event)[1] == 1 and 2 <= place(event)[2] <= 4]
    assert some


def test_parts_of_one_message_are_joined_though_one_of_them_is_asked_for(lake: str) -> None:
    whole = list(inspect_messages(read_recording(DTS), "tencent-dts", {}))
    offsets = sorted({event["origin"]["offset"] for event in whole})

    for offset in (offsets[0], offsets[len(offsets) // 2], offsets[-1]):
        expected = [event for event in whole if event["origin"]["offset"] == offset]
        assert list(inspect_bronze(lake, "dts", Chosen(None, None, offset, offset))) == expected


def test_a_record_that_bronze_does_not_have_is_said_with_what_it_has(lake: str) -> None:
    with pytest.raises(LakehouseError) as error:
        list(inspect_bronze(lake, "shop", Chosen("nope", 0, 7, 7)))

    assert str(error.value).startswith(
        "shop: expected bronze to have nope/0@7, found no such record; it has "
    )


def test_a_replay_into_a_recording_is_the_recording(lake: str, tmp_path: Path) -> None:
    told = replay(lake, "shop", Chosen(), tmp_path / "again.jsonl.gz", None, None, {})

    original = sorted(
        read_recording(SHOP), key=lambda message: (message.topic, message.partition, message.offset)
    )
    assert list(read_recording(tmp_path / "again.jsonl.gz")) == original
    assert told == {"source": "shop", "messages": len(original), "to": str(tmp_path / "again.jsonl.gz")}


def test_snapshots_that_are_not_replayed_are_said_so_and_not_as_a_topic_created_anew() -> None:
    """Needs no session."""
    rows = [SimpleNamespace(topic=SNAPSHOT_TOPIC, incarnation=name) for name in ("a", "b")]
    frame = MagicMock()
    frame.select().distinct().orderBy().collect.return_value = rows

    with pytest.raises(LakehouseError, match=r"^shop: its bronze holds 2 snapshots .*; replay .* --topic"):
        bronze_records._one_incarnation(frame, "shop")


def test_a_replay_of_a_storage_sink_is_its_folder(lake: str, tmp_path: Path) -> None:
    replay(lake, "sink", Chosen(), tmp_path, None, None, {})

    def files(root: Path) -> dict[str, bytes]:
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    landed = files(TREE)
    given = files(tmp_path)
    assert given == {name: data for name, data in landed.items() if name in given}
    assert {name for name in landed if name.endswith((".csv", ".json"))} <= set(given)


def test_a_replay_into_a_topic_has_every_message_in_its_partition(lake: str, broker: Any, topic: str) -> None:
    from lakehouse.sources.kafka_admin import list_topics
    from lakehouse.sources.kafka_sample import sample

    told = replay(lake, "shop", Chosen(), None, broker.bootstrap, topic, {})

    found = sample(broker.bootstrap, {}, list_topics(broker.bootstrap, {}, [topic], None))
    key = [
        (m.partition, m.key, m.value)
        for m in sorted(read_recording(SHOP), key=lambda m: (m.partition, m.offset))
    ]
    assert [(m.partition, m.key, m.value) for m in found] == key
    assert told["messages"] == len(key)


def test_a_file_that_is_there_is_not_overwritten_and_files_go_to_a_folder_only(
    lake: str, tmp_path: Path
) -> None:
    (tmp_path / "there.jsonl").write_text("mine")

    with pytest.raises(
        LakehouseError, match=r"there.jsonl: expected a new file that can be written, got: File exists"
    ):
        replay(lake, "shop", Chosen(), tmp_path / "there.jsonl", None, None, {})
    with pytest.raises(ConfigError, match="its bronze holds files of a storage sink; expected --to FOLDER"):
        replay(lake, "sink", Chosen(), None, "127.0.0.1:1", None, {})

    assert (tmp_path / "there.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "first", "last"), [("7", 7, 7), ("7-20", 7, 20), ("7-", 7, None), (None, None, None)]
)
def test_offsets_are_one_or_a_range(text: str | None, first: int | None, last: int | None) -> None:
    chosen = chosen_records("t", 0, text)

    assert (chosen.first, chosen.last) == (first, last)


@pytest.mark.parametrize("text", ["x", "-7", "7-x", ""])
def test_other_offsets_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        chosen_records("t", 0, text)

    assert str(error.value) == f"--offset {text}: expected an offset such as 7, or a range such as 7-20"
