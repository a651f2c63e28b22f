"""When the partitions of a topic are recorded, and which watermarks count before they are. Needs Spark's
package, but neither a session nor a broker.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from lakehouse.events import MIN_POSITION, Message
from lakehouse.ops.progress import Counts, Mark, NextOffset, TopicOffset
from lakehouse.ops.records.bronze import Partitions, Read
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Generation
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.sources.kafka_admin import Topic
from lakehouse.sources.kafka_offsets import Reading
from lakehouse.spark.bronze import kafka, recordings
from lakehouse.spark.change_log.watermark import source_watermark
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.silver.done_record import WHOLE_SOURCE
from tests.support.lakes import quiet


class Landing(Exception):
    """Records are landed from here on, and another process may take them."""


def test_a_new_partition_is_recorded_before_a_record_of_the_pass_is_landed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing: Any = None
    log = OpsLog(nothing, Lake("lake"), "shop")
    topics = [Topic("t", "id", {0: (0, 5), 1: (0, 2)})]
    reading = Reading(0, ("t",), {"t": "id"}, {"t": "id"}, following={("t", 0): 0, ("t", 1): 0})

    def add_all(log: OpsLog, records: Sequence[Record]) -> int:
        log.records += [log._logged(record, log.seq + 1) for record in records]
        return log.seq

    def landing(*_: Any, **__: Any) -> Any:
        raise Landing

    monkeypatch.setattr(OpsLog, "add_all", add_all)
    for name, given in {"_settled": topics, "_reading": reading, "bronze_version": -1}.items():
        monkeypatch.setattr(kafka, name, lambda *_, given=given, **__: given)
    monkeypatch.setattr(kafka, "_stream", landing)
    log.add(Partitions(listed=(("t", 0),)))
    log.add(Read(stream=0, topics=("t",), ids={}, incarnations={}, next=()))

    with pytest.raises(Landing):
        kafka.land_topics(
            RunContext(log, quiet), kafka.KafkaInput("broker", ["t"]), lambda: False, first=False
        )

    listed = log.last(Partitions)
    assert listed is not None
    assert listed.listed == (("t", 0), ("t", 1))


def test_a_topic_that_is_there_for_the_first_time_is_read_as_one_that_the_pass_before_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, asked = log_of(read(5)), kafka.KafkaInput("broker", ["t", "u", "v"])
    topics = [Topic("t", "id", {0: (0, 5)})]
    monkeypatch.setattr(OpsLog, "add_all", lambda log, records: log.records.extend(log_of(*records).records))

    kafka._reading(RunContext(log, quiet), kafka.KafkaInput("broker", ["t", "u"]), topics, first=False)
    made = [Topic("u", "iu", {0: (40, 50)}), Topic("v", "iv", {0: (40, 50)})]
    found = kafka._reading(RunContext(log, quiet), asked, [*topics, *made], first=False)

    assert found.following == {("t", 0): 5, ("u", 0): 0, ("v", 0): 40}
    last = log.last(Read)
    assert last is not None
    assert last.wanted == "t|u|v"


def done(batch: int, following: Sequence[int], marks: Sequence[int]) -> Done:
    """A batch that goes on at some offset of each partition of the topic, and its watermarks."""
    return Done(
        batch=batch,
        counts=Counts(),
        top=None,
        reach=None,
        next=tuple(NextOffset("t", "id", number, offset) for number, offset in enumerate(following)),
        marks=tuple(Mark("t", number, (0, mark, 0, 0, 0, 0)) for number, mark in enumerate(marks)),
        dead=(),
        tables=(),
    )


def read(*following: int) -> Read:
    offsets = tuple(TopicOffset("t", number, offset) for number, offset in enumerate(following))
    return Read(stream=0, topics=("t",), ids={"t": "id"}, incarnations={"t": "id"}, next=offsets)


def test_the_partitions_of_a_recording_are_listed_before_the_first_of_its_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, first = log_of(), done(1, [2], [10])
    told = [Message("t", number % 2, number, None, b"") for number in range(4)]
    context = RunContext(log, quiet)
    added = lambda log, new: log.records.extend(log._logged(one, 1) for one in new)  # noqa: E731
    monkeypatch.setattr(OpsLog, "add_all", added)
    monkeypatch.setattr(recordings, "CHUNK", 4)

    monkeypatch.setattr(recordings, "bronze_ends", lambda *_: {})
    assert not recordings.is_several([lambda: told]), "one commit has all of it"

    monkeypatch.setattr(recordings, "CHUNK", 2)
    assert recordings.is_several([lambda: told])
    assert recordings.is_several([lambda: told[:3], lambda: told[3:]])
    monkeypatch.setattr(recordings, "CHUNK", 4)
    large = [structs.replace(one, value=b"x" * 10) for one in told]
    monkeypatch.setattr(recordings, "CHUNK_BYTES", 20)
    assert [len(chunk) for chunk in recordings.chunks(large)] == [2, 2], "few messages may be many bytes"
    ended = [recordings.begin_pass(context, [lambda: large]) for _ in range(2)]
    assert [one.following for one in ended] == [{("t", 0): 3, ("t", 1): 4}] * 2
    assert log.all(Read) == [structs.replace(read(0, 0), ids={}, incarnations={"t": ""})]
    assert log.all(Partitions) == [Partitions(listed=(("t", 0), ("t", 1)))]
    assert source_watermark(first, log) == (MIN_POSITION, ("t", 1)), "as a run that has died leaves it"


def log_of(*records: Record) -> OpsLog:
    nothing: Any = None
    log = OpsLog(nothing, Lake("lake"), "shop")
    for record in records:
        log.records.append(log._logged(record, len(log.records) + 1))
    return log


def test_watermarks_of_records_that_landed_since_partitions_were_listed_do_not_count() -> None:
    listed, first, second = Partitions(listed=(("t", 0),)), done(1, [5], [10]), done(2, [9], [20])
    beside = log_of(listed, read(5), first, second)
    assert source_watermark(second, beside) == ((0, 10, 0, 0, 0, 0), ("t", 0))

    ended = log_of(listed, read(5), first, second, Partitions(listed=(("t", 0), ("t", 1))), read(9, 0))
    assert source_watermark(second, ended) == (MIN_POSITION, ("t", 1))

    as_before = log_of(listed, read(5), first, second, read(9))
    assert source_watermark(second, as_before) == ((0, 20, 0, 0, 0, 0), ("t", 0))

    read_no_more = log_of(listed, structs.replace(read(5), topics=("u",)), first, second)
    assert source_watermark(second, read_no_more)[0] == (0, 20, 0, 0, 0, 0)


def test_silver_that_was_built_again_beside_a_pass_goes_no_further_than_what_is_published() -> None:
    published = Manifest(batch=1, watermark=(0, 10, 0, 0, 0, 0), consistency="resolved", tables=())
    again = done(1, [9], [20])
    log = log_of(Partitions(listed=(("t", 0),)), read(5), done(1, [5], [10]), published)
    for record in (again, Generation(number=2)):
        log.records.append(log._logged(record, len(log.records) + 1))
    assert source_watermark(again, log)[0] == published.watermark


def test_the_transactions_of_a_feed_count_their_rows_in_every_partition() -> None:
    whole = done(2, [9], [])
    whole = structs.replace(whole, marks=(Mark("", WHOLE_SOURCE, (0, 20, 0, 0, 0, 0)),))
    log = log_of(Partitions(listed=(("t", 0),)), read(5), whole)
    assert source_watermark(whole, log)[0] == (0, 20, 0, 0, 0, 0)


def spoken(batch: int, following: int, mark: int) -> Done:
    """A batch of a feed with one watermark for all of its topics."""
    of_all = Mark("", WHOLE_SOURCE, (0, mark, 0, 0, 0, 0))
    return structs.replace(done(batch, [following], []), marks=(of_all,))


def planned(batch: int, *, whole: bool, again: bool = False) -> Planned:
    return Planned(batch=batch, generation="g", small=True, ranges=(), whole=whole, again=again)


def test_the_watermark_of_all_topics_counts_once_none_has_records_that_are_landed_and_not_read() -> None:
    first, second, third = spoken(1, 2, 10), spoken(2, 4, 20), spoken(3, 4, 20)
    told = [read(6), planned(1, whole=True), first, planned(2, whole=False), second]
    assert source_watermark(second, log_of(*told))[0] == (0, 10, 0, 0, 0, 0)

    requeued = log_of(*told, planned(3, whole=False, again=True), third)
    assert source_watermark(third, requeued)[0] == (0, 10, 0, 0, 0, 0)

    none_is_whole = log_of(read(6), planned(2, whole=False), second)
    assert source_watermark(second, none_is_whole)[0] == MIN_POSITION

    pass_has_ended = log_of(*told, read(4))
    assert source_watermark(second, pass_has_ended)[0] == (0, 20, 0, 0, 0, 0)

    rest_is_read = log_of(*told, planned(3, whole=True), third)
    assert source_watermark(third, rest_is_read)[0] == (0, 20, 0, 0, 0, 0)
