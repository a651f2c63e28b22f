"""However the messages of any format come, the tables are the source's at every commit: permuted as far as
the format's order rule allows, in any batches, twice, and again from somewhere back.
(tests/fold/test_properties.py has the same for Open Protocol, and more.)

    commit ts   partitions interleave, a restart sends again in other pieces, some messages are lost before it
                (B A B)
    files       any order of files, files again under other numbers
    binlog      any order of messages (Debezium: of topics; DTS: parts stay in order), a restart from
                somewhere back
    arrival     one partition in its order, in any batches
"""

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Message
from lakehouse.sources.storage_tree import read_tree
from tests.fold.test_properties import (
    OPTIONS,
    ZONE,
    as_set,
    assert_every_state,
    assert_once,
    canonical,
    dispatchers,
    partitions,
    place,
    seeds,
    steps,
)
from tests.support.arrivals import Feed
from tests.support.encode_binlog import Logged, binlog, feed
from tests.support.encode_tidb import canal_json, debezium, storage_tree
from tests.support.engine import Memory
from tests.support.source_model import History
from tests.whole_path.test_eight_formats import (
    SHORT,
    assert_states,
    binlog_silver,
    places,
    storage_options,
    types_of,
    write_tree,
)

WRITERS = {
    "ticdc-canal-json": lambda event: (None, canal_json(event, event.get("shape"))),
    "ticdc-debezium": lambda event: debezium(event, event.get("shape"), ZONE),
}


@pytest.mark.parametrize("format", WRITERS)
@SHORT
@given(seeds, steps, partitions, dispatchers, seeds, st.integers(0, 2), st.booleans(), st.booleans())
def test_by_commit_ts(
    format: str,
    seed: int,
    count: int,
    parts: int,
    dispatcher: str,
    chance: int,
    restarts: int,
    losing: bool,
    raw: bool,
) -> None:
    history, rand = (
        History(seed, count, keyless=False, raw_updates=raw, types=types_of(format)),
        random.Random(chance),
    )
    sent = Feed(history.events, rand, parts, dispatcher)
    for _ in range(restarts):
        sent.restart(at_resolved=False, losing=losing)

    silver = batched(
        Memory(format, OPTIONS),
        sent.repeat().arrival_of(rand, WRITERS[format], one_ddl=format == "ticdc-canal-json"),
        rand,
    )

    assert_every_state(silver, history)
    assert_once(silver, history)
    assert silver.watermark == place(history.events[-1]["commit_ts"])


@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
@SHORT
@given(seeds, steps, seeds)
def test_files(
    tmp_path_factory: pytest.TempPathFactory, protocol: str, seed: int, count: int, chance: int
) -> None:
    history, rand = (
        History(seed, count, keyless=False, types=types_of("ticdc-storage")),
        random.Random(chance),
    )
    root, options = tmp_path_factory.mktemp("sink"), storage_options(protocol)
    write_tree(root, storage_tree(history.events, protocol))
    files = list(read_tree(root, options))
    again = [
        msgspec.structs.replace(file, path=file.path.replace("/CDC00", "/CDC01"))
        for file in files
        if file.path and rand.random() < 0.3
    ]

    silver = batched(Memory("ticdc-storage", options), shuffled([*files, *again], rand), rand)

    assert_every_state(silver, history)
    assert_once(silver, history)


@pytest.mark.parametrize("format", ["canal-protobuf", "debezium", "tencent-dts"])
@SHORT
@given(seeds, steps, seeds, st.integers(0, 2))
def test_by_binlog_position(format: str, seed: int, count: int, chance: int, restarts: int) -> None:
    history, rand = History(seed, count, raw_updates=True, types=types_of(format)), random.Random(chance)
    log = binlog(history.events, rand)
    sent = [feed(format, log, rand, ZONE)]
    for _ in range(restarts):
        begin = rand.randrange(len(log))
        while log[begin].op not in ("begin", "ddl"):
            begin -= 1
        sent.append(feed(format, log[begin:], rand, ZONE))
    once = binlog_silver(format).add(sent[0])

    told = delivered(format, sent, rand)
    # parts are joined over batches by what bronze holds: tests/formats/test_assemble.py
    whole = format == "tencent-dts"
    silver = binlog_silver(format).add(told) if whole else batched(binlog_silver(format), told, rand)

    assert_states(silver, history, places(format, log))
    assert len(silver.changes) == len(once.changes) == len(rows_of(log))
    assert silver.watermark == once.watermark


@SHORT
@given(seeds, steps, seeds)
def test_by_arrival(seed: int, count: int, chance: int) -> None:
    history, rand = History(seed, count, raw_updates=True, types=types_of("canal")), random.Random(chance)
    log = binlog(history.events, rand)

    silver = batched(binlog_silver("canal"), feed("canal", log, rand, ZONE), rand)

    assert_states(silver, history, places("canal", log))


@SHORT
@given(seeds, steps, seeds)
def test_a_contiguous_run_that_arrives_again_is_neutral_or_reported(
    seed: int, count: int, chance: int
) -> None:
    """Rows by key are right again once the replay has caught up; tables whose statements came again
    say so.
    """
    history, rand = (
        History(seed, count, keyless=False, raw_updates=True, types=types_of("canal")),
        random.Random(chance),
    )
    sent = feed("canal", binlog(history.events, rand), rand, ZONE)
    end = rand.randrange(len(sent)) + 1
    begin = rand.randrange(end)
    told = [
        msgspec.structs.replace(message, offset=offset)
        for offset, message in enumerate(sent[:end] + sent[begin:])
    ]
    silver = batched(binlog_silver("canal"), told, rand)
    found, lineages = silver.tables(silver.reach), silver.history().live(silver.reach)
    truth = history.states[-1][1]

    right = {
        name for name in truth if as_set(found.get(".".join(name), [])) == as_set(canonical(truth[name]))
    }

    reported = {name for name, lineage in lineages.items() if lineage.held or lineage.incomplete}
    assert (truth.keys() | lineages.keys()) - right <= reported
    if not any(b'"isDdl":true' in (message.value or b"") for message in sent[begin:end]):
        assert truth.keys() == right and not reported


def batched(silver: Memory, messages: Sequence[Message], chance: random.Random) -> Memory:
    start = 0
    while start < len(messages):
        count = chance.choice((1, 5, 50))
        silver.add(messages[start : start + count])
        start += count
    return silver


def shuffled(messages: list[Message], chance: random.Random) -> list[Message]:
    chance.shuffle(messages)
    return messages


def delivered(format: str, sent: list[list[Message]], chance: random.Random) -> list[Message]:
    """One delivery after another, each record at an offset of its own."""
    offsets: dict[str, int] = {}
    queues: dict[str, list[Message]] = {}
    for message in (message for messages in sent for message in messages):
        offset = offsets[message.topic] = offsets.get(message.topic, -1) + 1
        queues.setdefault(message.topic, []).append(msgspec.structs.replace(message, offset=offset))
    if format == "canal-protobuf":
        return shuffled(queues.pop("packets", []), chance)
    out = []
    while queues:  # the order within a topic stays
        topic = chance.choice(sorted(queues))
        out.append(queues[topic].pop(0))
        if not queues[topic]:
            del queues[topic]
    return out


def rows_of(log: list[Logged]) -> list[object]:
    """The changes in silver: one a row, two where its key changes."""
    changes: list[object] = []
    for event in log:
        for before, after in event.pairs:
            keys = (
                [column.name for column in event.shape.columns if column.id in event.shape.primary_key]
                if event.shape
                else []
            )
            moves = (
                before is not None and after is not None and any(before[name] != after[name] for name in keys)
            )
            changes += [event, event] if moves else [event]
    return changes
