"""What recordings and trees show of their own settings."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from lakehouse.discovery.inspect import inspect_messages
from lakehouse.discovery.read_input import detected_format, has_watermark, read_input, shown_options
from lakehouse.errors import ConfigError
from tests.support.paths import DATA


@pytest.mark.parametrize(
    ("path", "format", "told"),
    [
        ("ticdc-open/newarch-202606/shop.only-updated.jsonl.gz", "ticdc-open", True),
        ("ticdc-canal-json/classic-v6.5.0/shop.tidb-ext.jsonl.gz", "ticdc-canal-json", True),
        ("ticdc-canal-json/classic-v9.0.0-beta.1/shop.plain.jsonl.gz", "ticdc-canal-json", False),
        ("ticdc-debezium/basictypes.default.jsonl.gz", "ticdc-debezium", False),
        ("ticdc-debezium/basictypes.tidb-ext.jsonl.gz", "ticdc-debezium", True),
        ("canal/inventory.jsonl.gz", "canal", False),
        ("debezium/inventory/noschema.jsonl.gz", "debezium", True),
        ("dts/inventory/stream.jsonl.gz", "tencent-dts", True),
        ("storage/json-several-dispatchers/data", "ticdc-storage", True),
        ("storage/json-without-extension/data", "ticdc-storage", False),
    ],
)
def test_an_input_tells_a_watermark_or_not(path: str, format: str, told: bool) -> None:
    options = shown_options(DATA / path, format, {})

    assert has_watermark(DATA / path, format, options) == told


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("ticdc-open/classic-v9.0.0-beta.1/big.handle-key-only.lz4.jsonl.gz", "ticdc-open"),
        ("ticdc-canal-json/classic-v9.0.0-beta.1/big.handle-key-only.lz4.jsonl.gz", "ticdc-canal-json"),
        ("ticdc-debezium/basictypes.default.jsonl.gz", "ticdc-debezium"),
        ("canal/inventory.jsonl.gz", "canal"),
        ("debezium/inventory/noschema.jsonl.gz", "debezium"),
        ("dts/inventory/stream.jsonl.gz", "tencent-dts"),
        ("storage/json-several-dispatchers/data", "ticdc-storage"),
    ],
)
def test_an_input_tells_its_format_and_compression(path: str, format: str) -> None:
    assert detected_format(DATA / path).format == format

    options = shown_options(DATA / path, format, {})

    assert options.get("compression") == ("lz4" if ".lz4." in path else None)
    if ".lz4." in path:
        assert shown_options(DATA / path, format, {"compression": "none"})["compression"] == "none"


@pytest.mark.parametrize(
    ("path", "format", "told"),
    [
        ("debezium/inventory/noschema.jsonl.gz", "debezium", {"server": "mariadb"}),
        ("debezium/inventory/withschema.jsonl.gz", "debezium", {"server": "mariadb"}),
        ("canal/inventory.jsonl.gz", "canal", {"server": "mariadb"}),
        ("canal-protobuf/inventory.jsonl.gz", "canal-protobuf", {"server": "mariadb"}),
        ("canal/orders_small.jsonl.gz", "canal", {}),
        ("dts/inventory/stream.jsonl.gz", "tencent-dts", {"server": "mariadb"}),
    ],
)
def test_an_input_tells_whose_server_it_is_of_unless_it_is_said(
    path: str, format: str, told: dict[str, str]
) -> None:
    """Values are converted by its rules."""
    assert shown_options(DATA / path, format, {}) == told
    said = {"server": "mysql 8.0"}
    assert shown_options(DATA / path, format, said) == said


def test_a_recording_tells_its_connector_s_modes_unless_they_are_said(tmp_path: Path) -> None:
    source = {"file": "bin.000001", "pos": 4, "row": 0, "db": "d", "table": "t", "server_id": 7}
    table = {
        "type": "CREATE",
        "id": "d.t",
        "table": {"columns": [{"name": "n", "typeName": "DECIMAL", "scale": 2}]},
    }
    sent = [
        {"source": source, "ddl": "CREATE TABLE t (n DECIMAL(10,2))", "tableChanges": [table]},
        {"source": source | {"pos": 40}, "op": "c", "before": None, "after": {"n": "12.34"}},
    ]
    lines = [
        {
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "value_b64": b64encode(json.dumps(one).encode()).decode(),
        }
        for offset, one in enumerate(sent)
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert shown_options(path, "debezium", {}) == {"decimal_handling_mode": "string"}
    said = {"decimal_handling_mode": "double"}
    assert shown_options(path, "debezium", said) == said


def test_a_message_without_the_extension_has_no_place_in_a_feed_that_has_it(tmp_path: Path) -> None:
    row = {
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "es": 5,
        "mysqlType": {"id": "int"},
        "data": [{"id": "1"}],
    }
    values = [row | {"_tidb": {"commitTs": 5 << 18}}, row]
    lines = [
        {"partition": 0, "offset": n, "value_b64": b64encode(json.dumps(value).encode()).decode()}
        for n, value in enumerate(values)
    ]
    (tmp_path / "mixed.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = shown_options(tmp_path / "mixed.jsonl", "ticdc-canal-json", {})

    events = list(
        inspect_messages(
            read_input(tmp_path / "mixed.jsonl", "ticdc-canal-json", options), "ticdc-canal-json", options
        )
    )

    assert [event["event"] for event in events] == ["change", "dead_letter"]


@pytest.mark.parametrize(
    ("added", "told"), [({}, False), ({"__transaction_id": "g:1", "__transaction_total_order": 1}, True)]
)
def test_rows_that_do_not_tell_their_transaction_make_no_watermark(
    added: dict[str, Any], told: bool, tmp_path: Path
) -> None:
    place = {
        "__op": "c",
        "__source_db": "d",
        "__source_table": "t",
        "__source_file": "b.000001",
        "__source_pos": 4,
        "__source_row": 0,
    }
    values = [
        {"id": 1} | place | added,
        {"status": "END", "id": "g:1", "event_count": 1, "data_collections": []},
    ]
    lines = [
        {
            "partition": 0,
            "offset": n,
            "key_b64": None,
            "value_b64": b64encode(json.dumps(v).encode()).decode(),
        }
        for n, v in enumerate(values)
    ]
    (tmp_path / "flat.jsonl").write_text("\n".join(map(json.dumps, lines)))

    assert has_watermark(tmp_path / "flat.jsonl", "debezium", {}) == told


def test_a_tree_is_inspected_like_a_recording_with_the_place_of_each_row() -> None:
    tree = DATA / "storage/csv-header/data"
    options = shown_options(tree, "ticdc-storage", {})

    events = list(inspect_messages(read_input(tree, "ticdc-storage", options), "ticdc-storage", options))

    changes = [event for event in events if event["event"] == "change"]
    assert changes and [event for event in events if event["event"] == "dead_letter"] == []
    assert all(
        (tree / event["origin"]["path"]).is_file() and event["origin"]["row"] == event["origin"]["index"]
        for event in changes
    )


def test_a_folder_is_no_recording_and_a_recording_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a recording of canal, found a folder"):
        shown_options(tmp_path, "canal", {})
    with pytest.raises(ConfigError, match="expected the folder of a storage sink"):
        shown_options(tmp_path / "no", "ticdc-storage", {})
