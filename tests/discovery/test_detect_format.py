"""What messages show of their format, and what a sample shows of its producer."""

import json
import random
from pathlib import Path

import cramjam
import pytest

from lakehouse.discovery.detect_format import guess_format, sample_of
from lakehouse.discovery.survey import producer_findings, survey_messages
from lakehouse.errors import ConfigError
from lakehouse.events import Message
from lakehouse.formats import FORMATS
from lakehouse.sources.recording import read_recording
from tests.support.paths import DATA

FOLDERS = {"dts": "tencent-dts"}
RECORDINGS = sorted(
    path
    for path in DATA.glob("*/**/*.jsonl.gz")
    if path.name != "expected.jsonl.gz" and path.relative_to(DATA).parts[0] != "ddl"
)


def format_of(path: Path) -> str:
    """A folder is one format's, or its files bear the names of theirs."""
    folder = path.relative_to(DATA).parts[0]
    name = path.name.removesuffix(".jsonl.gz")
    return name if name in FORMATS else FOLDERS.get(folder, folder)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: "/".join(path.relative_to(DATA).parts))
def test_the_format_of_every_recording_is_found_with_its_compression_and_extension(path: Path) -> None:
    messages = list(read_recording(path))

    guess = guess_format(messages)

    assert guess.format == format_of(path)
    assert guess.read == guess.sampled
    assert guess.options.get("compression") == ("lz4" if ".lz4." in path.name else None)
    if guess.format == "ticdc-canal-json":
        plain = ".plain." in path.name or ".content-compatible." in path.name
        assert guess.options["tidb_extension"] == ("false" if plain else "true")


@pytest.mark.parametrize(("extension", "told"), [({}, "false"), ({"_tidb": {"commitTs": 5}}, "true")])
def test_a_compressed_feed_shows_its_extension_too(extension: dict[str, object], told: str) -> None:
    row = {
        "id": 0,
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "mysqlType": {"id": "int"},
        "data": [{"id": "1"}],
        **extension,
    }
    value = bytes(cramjam.lz4.compress(json.dumps(row).encode()))

    guess = guess_format([Message("t", 0, number, None, value) for number in range(3)])

    assert guess.options == {"compression": "lz4", "tidb_extension": told}


def test_a_format_is_found_among_messages_that_are_none_of_it() -> None:
    messages = list(read_recording(DATA / "ticdc-open/classic-v6.5.0/shop.batch1.jsonl.gz"))
    noise = random.Random(3)
    garbage = [
        Message("t", 0, 10_000 + number, None, noise.randbytes(50)) for number in range(len(messages) // 2)
    ]

    assert guess_format([*messages, *garbage]).format == "ticdc-open"


def test_messages_of_no_format_are_an_error_that_says_what_was_tried() -> None:
    messages = [Message("t", 0, number, None, b"hello %d" % number) for number in range(9)]

    with pytest.raises(ConfigError) as error:
        guess_format(messages)

    assert str(error.value) == (
        "messages: expected a format of ticdc-open, ticdc-canal-json, ticdc-debezium, canal, "
        "canal-protobuf, debezium, tencent-dts, "
        "got others (none can be read); add --format NAME if you know it"
    )
    with pytest.raises(ConfigError, match=r"a format of canal, got .*; leave --format out, and it is detect"):
        guess_format(messages, "canal")


def test_a_sample_is_bounded_and_has_the_beginning_the_middle_and_the_end() -> None:
    messages = [Message("t", 0, number, None, b"x") for number in range(100_000)]

    sample = sample_of(messages)

    assert len(sample) == 400
    assert {message.offset for message in sample} >= {0, 50_000, 99_999}


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("ticdc-open/classic-v9.0.0-beta.1/shop.batch1.jsonl.gz", []),
        ("ticdc-open/classic-v9.0.0-beta.1/shop.batch1.seq-duplicates.jsonl.gz", []),
        ("ticdc-open/classic-v9.0.0-beta.1/shop.no-old-value.jsonl.gz", ["warn old values"]),
        ("ticdc-open/classic-v9.0.0-beta.1/shop.delete-handle-key.jsonl.gz", ["warn images", "warn deletes"]),
        ("ticdc-open/classic-v9.0.0-beta.1/keys.batch1.jsonl.gz", ["warn keys"]),
        (
            "ticdc-canal-json/classic-v9.0.0-beta.1/big.claim-check.none.jsonl.gz",
            ["warn images", "warn deletes", "fail claim check", "fail dead letters unresolved"],
        ),
        ("canal/inventory.jsonl.gz", ["fail server"]),
        ("canal/inventory.3p.jsonl.gz", ["fail server"]),
    ],
)
def test_a_sample_shows_what_its_producer_leaves_out(path: str, shown: list[str]) -> None:
    messages = list(read_recording(DATA / path))
    guess = guess_format(messages)

    assert [
        f"{sign.severity} {sign.what}"
        for sign in producer_findings(survey_messages(messages, guess.format, guess.options))
    ] == shown


def test_keys_that_change_their_partition_are_a_failure_where_order_is_arrival_order() -> None:
    messages = [
        Message(m.topic, number % 3, m.offset, m.key, m.value)
        for number, m in enumerate(read_recording(DATA / "canal/inventory.jsonl.gz"))
    ]

    found = next(
        sign
        for sign in producer_findings(survey_messages(messages, "canal", {}))
        if sign.what == "partitioning"
    )

    assert found.severity == "fail"
    assert "this feed's order is arrival order, so the order of its changes is lost" in found.text
