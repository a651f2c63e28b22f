"""One source, eight formats: whatever it did, each gives its tables, at every commit.

The source is source_model's; encode_open, encode_tidb and encode_binlog write what the producers would
(tests/formats/test_encoders.py proves it). Tables, names, columns, their order and every value are compared;
what a format's producer loses before a byte is written stands in LOSSES.
"""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from lakehouse.events import Message, Position
from lakehouse.sources.storage_tree import read_tree
from tests.fold.test_properties import (
    OPTIONS,
    ZONE,
    assert_all_understood,
    assert_every_state,
    assert_tables,
    place,
    seeds,
    steps,
)
from tests.support.arrivals import Feed
from tests.support.encode_binlog import Logged, binlog, feed
from tests.support.encode_tidb import canal_json, debezium, storage_tree
from tests.support.engine import Memory
from tests.support.examples import EXAMPLES, QUICK
from tests.support.source_model import MORE_TYPES, History

# types that a format can't carry, and why; every other type is in the source of every format
LOSSES = {
    "ticdc-debezium": {"decimal(38,10)": "a DECIMAL is sent as a double: digits beyond its 17 are lost"}
}
SHORT = settings(QUICK, max_examples=int(EXAMPLES or 20))
BINLOG = ("canal", "canal-protobuf", "debezium", "tencent-dts")


@SHORT
@given(seeds, steps, seeds)
def test_ticdc_open(seed: int, count: int, chance: int) -> None:
    history = History(seed, count, types=MORE_TYPES)

    messages = Feed(history.events, random.Random(chance), 2, "table").arrival(random.Random(chance))

    assert_every_state(Memory("ticdc-open", OPTIONS).add(messages), history)


@pytest.mark.parametrize("format", ["ticdc-canal-json", "ticdc-debezium"])
@SHORT
@given(seeds, steps)
def test_ticdc_json(format: str, seed: int, count: int) -> None:
    history = History(seed, count, types=types_of(format))

    silver = Memory(format, OPTIONS).add(tidb_messages(format, history))

    assert_every_state(silver, history)
    assert silver.watermark == place(history.events[-1]["commit_ts"])


@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
@SHORT
@given(seeds, steps)
def test_ticdc_storage(
    tmp_path_factory: pytest.TempPathFactory, protocol: str, seed: int, count: int
) -> None:
    history = History(seed, count, types=MORE_TYPES)
    root = tmp_path_factory.mktemp("sink")
    options = storage_options(protocol)

    write_tree(root, storage_tree(history.events, protocol))

    silver = Memory("ticdc-storage", options).add(read_tree(root, options))
    assert_every_state(silver, history)
    assert silver.watermark == place(history.events[-1]["commit_ts"])


@pytest.mark.parametrize("format", BINLOG)
@SHORT
@given(seeds, steps, seeds)
def test_binlog(format: str, seed: int, count: int, chance: int) -> None:
    history = History(seed, count, raw_updates=True, types=MORE_TYPES)
    log = binlog(history.events, random.Random(chance))

    silver = binlog_silver(format).add(feed(format, log, random.Random(chance), ZONE))

    assert_states(silver, history, places(format, log))


def types_of(format: str) -> tuple[str, ...]:
    return tuple(type_ for type_ in MORE_TYPES if type_ not in LOSSES.get(format, {}))


def tidb_messages(format: str, history: History) -> list[Message]:
    """All events, each a message, and a watermark at the end."""
    events = [*history.events, {"kind": "resolved", "commit_ts": history.events[-1]["commit_ts"]}]
    if format == "ticdc-canal-json":
        return [
            Message("t", 0, n, None, canal_json(event, event.get("shape"))) for n, event in enumerate(events)
        ]
    return [Message("t", 0, n, *debezium(event, event.get("shape"), ZONE)) for n, event in enumerate(events)]


def storage_options(protocol: str) -> dict[str, str]:
    settings = {
        "csv": {"include-commit-ts": "true", "output-old-value": "true"},
        "canal-json": {"enable-tidb-extension": "true"},
    }
    return {**OPTIONS, "protocol": protocol, **settings[protocol]}


def write_tree(root: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def binlog_silver(format: str) -> Memory:
    """Of a producer that does not mix up columns which exchange their names, and that leaves no table out, as
    the encoders here don't.
    """
    silver = Memory(format, OPTIONS, tidb=False)
    silver.rules = replace(silver.rules, mixes_names=False, tells_all=False)
    return silver


def places(format: str, log: list[Logged]) -> dict[int, Position]:
    """The position right behind each commit."""
    found = {}
    offset = -1
    for event in log:
        offset += event.op not in ("begin", "commit")
        found[event.commit_ts] = (0, offset, 2**31, 1, 0, 0) if format == "canal" else event.place
    return found


def assert_states(silver: Memory, history: History, at: dict[int, Position]) -> None:
    assert_all_understood(silver)
    for moment, tables in history.states:
        found: dict[str, Any] = silver.tables(at[moment]) if moment in at else {}
        assert silver.breaks == {}
        if moment not in at:
            continue
        assert_tables(found, moment, tables)
