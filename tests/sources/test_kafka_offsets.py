"""What is read of a topic and what is said to be lost, against a broker in memory that deletes, compacts,
aborts and begins anew.
"""

from dataclasses import dataclass, field, replace

from hypothesis import event, given
from hypothesis import strategies as st

from lakehouse.ops.progress import NextOffset, Place
from lakehouse.ops.records.bronze import Read
from lakehouse.sources.kafka_admin import Topic
from lakehouse.sources.kafka_offsets import (
    Lost,
    Reading,
    advanced,
    backlog,
    begun,
    come_back,
    counted_partitions,
    created_anew,
    deleted,
    first_offsets,
    has_more,
    incarnations_of,
    joined,
    pattern_of,
    reading_of,
    unread,
)
from lakehouse.spark.bronze.recordings import read_up_to


@dataclass
class Log:
    """One partition: records by offset; `None` are control records, records of aborted transactions and
    compacted ones.
    """

    records: dict[int, str | None] = field(default_factory=dict)
    low: int = 0
    end: int = 0

    def append(self, what: str | None) -> None:
        self.records[self.end] = what
        self.end += 1


class Kafka:
    """One topic that can do what a real one does; every record is a text of its own."""

    def __init__(self) -> None:
        self.lives, self.made = 0, 0
        self.create()

    def create(self) -> None:
        self.lives += 1
        self.logs = [Log(), Log()]

    def produce(self, partition: int, holes: int) -> None:
        log = self.logs[partition % len(self.logs)]
        self.made += 1
        log.append(f"record {self.made}")
        for _ in range(holes):
            log.append(None)

    def topics(self) -> list[Topic]:
        return [
            Topic(
                "t", f"id{self.lives}", {number: (log.low, log.end) for number, log in enumerate(self.logs)}
            )
        ]


class Bronze:
    """The passes of lakehouse/spark/bronze/kafka.py over that broker: the same calls, a dictionary
    for Delta.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, int, int], str] = {}
        self.record: Read | None = None
        self.checkpoints: set[int] = set()
        self.missing = 0

    def run(self, kafka: Kafka, *, dies: bool = False, deletes: int = 0) -> None:
        topics, known = kafka.topics(), reading_of(self.record)
        if known is not None and not created_anew(known, topics) and known.stream in self.checkpoints:
            reading = joined(known, topics)
        else:
            if known is not None:
                self.look(deleted(known, topics))
            reading = begun(known, topics, self.ends(), {} if known else first_offsets("earliest", topics))
        self.record = reading.record()
        if not backlog(reading, topics):
            return
        ends = self.read(kafka, reading, deletes)
        if dies:
            return
        for lost in self.look(deleted(reading, kafka.topics())):
            ends["t", lost.place[2]] = max(lost.end, ends["t", lost.place[2]])
        self.record = advanced(reading, ends).record()

    def look(self, found: list[Lost]) -> list[Lost]:
        for lost in found:
            landed = sum(row[:3] == lost.place and lost.first <= row[3] < lost.end for row in self.rows)
            self.missing += lost.end - lost.first - landed
        return found

    def read(self, kafka: Kafka, reading: Reading, deletes: int) -> dict[tuple[str, int], int]:
        """What Spark does: where a checkpoint ended, and from there whatever is left; retention may be
        quicker.
        """
        self.checkpoints.add(reading.stream)
        for log in kafka.logs:
            log.low = max(log.low, min(log.end, deletes))
        for number, log in enumerate(kafka.logs):
            for offset in range(max(reading.following["t", number], log.low), log.end):
                record = log.records[offset]
                place = ("t", reading.incarnations["t"], number, offset)
                if record is not None:
                    assert self.rows.get(place, record) == record
                    self.rows[place] = record
        return {("t", number): log.end for number, log in enumerate(kafka.logs)}

    def ends(self) -> dict[Place, int]:
        found: dict[Place, int] = {}
        for topic, incarnation, partition, offset in self.rows:
            found[topic, incarnation, partition] = max(
                found.get((topic, incarnation, partition), 0), offset + 1
            )
        return found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(0, 2), st.integers(0, 2)),
        st.tuples(st.just("run"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("retain"), st.integers(0, 2), st.integers(1, 6)),
        st.tuples(st.sampled_from(["anew", "partition", "lose checkpoint"]), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS)
def test_every_record_is_landed_once_or_counted_as_lost_and_holes_that_the_broker_still_has_are_not(
    steps: list[tuple[str, int, int]],
) -> None:
    kafka, bronze, unread, retained = Kafka(), Bronze(), set[str](), False
    for name, first, second in steps:
        if name == "produce":
            kafka.produce(first, second)
        elif name == "run":
            bronze.run(kafka, dies=bool(second), deletes=first)
            retained = retained or first > 0
        elif name == "retain":
            log = kafka.logs[first % len(kafka.logs)]
            log.low = max(log.low, min(log.end, second))
            retained = True
        elif name == "anew":
            unread |= {record for log in kafka.logs for record in log.records.values() if record}
            kafka.create()
        elif name == "partition":
            kafka.logs.append(Log())
        else:
            bronze.checkpoints.clear()
    bronze.run(kafka)
    event("retained" if retained else "kept")

    landed = list(bronze.rows.values())
    everything = {f"record {number + 1}" for number in range(kafka.made)}
    lost = everything - set(landed) - unread
    assert len(landed) == len(set(landed))
    assert len(lost) <= bronze.missing or gone_before_the_first_run(steps)
    if not retained:
        assert (lost, bronze.missing) == (set(), 0)


def gone_before_the_first_run(steps: list[tuple[str, int, int]]) -> bool:
    """Whether retention may have taken something before the first reading: that was never promised."""
    names = [name for name, _, _ in steps]
    return "retain" in (names[: names.index("run")] if "run" in names else names)


def topic(name: str = "t", id: str = "a", **ends: int) -> Topic:
    return Topic(name, id, {int(number[1:]): (0, end) for number, end in ends.items()})


def test_a_log_that_ends_below_what_was_read_begins_an_incarnation_of_our_own_count() -> None:
    reading = begun(None, [topic(p0=9)], {}, {("t", 0): 0})
    read = advanced(reading, {("t", 0): 9})

    shorter = begun(read, [topic(p0=4)], {("t", "a", 0): 9}, {})
    again = begun(advanced(shorter, {("t", 0): 4}), [topic(p0=1)], {}, {})

    assert created_anew(read, [topic(p0=4)]) == ["t"]
    assert (shorter.stream, shorter.incarnations, shorter.following) == (1, {"t": "a+1"}, {("t", 0): 0})
    assert again.incarnations == {"t": "a+2"}


def test_topics_of_a_broker_that_gives_no_ids_are_told_apart_by_count() -> None:
    read = advanced(begun(None, [topic(id="", p0=9)], {}, {}), {("t", 0): 9})

    assert incarnations_of(read, [topic(id="", p0=2)]) == {"t": "+1"}
    assert incarnations_of(read, [topic(id="", p0=12)]) == {"t": ""}


def test_a_broker_that_begins_or_ceases_to_tell_ids_names_the_topic_that_is_there() -> None:
    read = advanced(begun(None, [topic(id="", p0=9)], {}, {}), {("t", 0): 9})

    named = joined(read, [topic(id="a", p0=12)])
    unnamed = joined(named, [topic(id="", p0=12)])

    assert (created_anew(read, [topic(id="a", p0=12)]), named.ids, named.incarnations) == (
        [],
        {"t": "a"},
        {"t": ""},
    )
    assert (created_anew(named, [topic(id="", p0=12)]), unnamed.ids) == ([], {"t": "a"})
    assert created_anew(named, [topic(id="b", p0=12)]) == ["t"]
    assert incarnations_of(named, [topic(id="b", p0=12)]) == {"t": "b"}
    assert incarnations_of(named, [topic(id="a", p0=2)]) == {"t": "+1"}


def test_what_is_unread_is_of_the_present_incarnation_and_never_negative() -> None:
    read = advanced(begun(None, [topic(p0=9, p1=9)], {}, {}), {("t", 0): 9, ("t", 1): 9})
    following = {("t", "a", 0): 9_999, ("t", "a", 1): 9_999, ("t", "b", 0): 2}

    assert unread(read, [topic(id="b", p0=23)], following) == {("t", 0): 21}
    assert unread(read, [topic(p0=9_999, p1=10_002)], following) == {("t", 0): 0, ("t", 1): 3}
    assert unread(None, [Topic("t", "a", {0: (5, 9)})], {}) == {("t", 0): 4}


def test_a_topic_that_was_away_for_a_while_is_gone_on_with_by_a_checkpoint_that_knows_where() -> None:
    both = [topic(p0=9), topic("u", "b", p0=5)]
    read = advanced(begun(None, both, {}, {}), {("t", 0): 9})

    away = joined(read, both[1:])
    back = begun(away, both, {}, {})

    assert (created_anew(away, both), come_back(read, both), come_back(away, both)) == ([], [], ["t"])
    assert (away.topics, back.topics, back.stream, back.following["t", 0]) == (("u",), ("t", "u"), 1, 9)


def test_a_new_partition_counts_from_nought_and_a_new_topic_from_its_start() -> None:
    read = begun(None, [topic(p0=9)], {}, {})

    grown = joined(read, [Topic("t", "a", {0: (0, 9), 1: (3, 8)}), Topic("u", "b", {0: (40, 50)})])

    assert grown.following == {("t", 0): 0, ("t", 1): 0, ("u", 0): 40}
    assert [
        (lost.place, lost.first, lost.end)
        for lost in deleted(grown, [Topic("t", "a", {0: (0, 9), 1: (3, 8)})])
    ] == [(("t", "a", 1), 0, 3)]


def test_a_topic_that_was_waited_for_counts_from_nought_and_one_that_was_not_from_its_start() -> None:
    """What retention takes of a topic before it is listed for the first time is lost, unless nobody wanted it
    until now.
    """
    new, asked = Topic("d.u", "b", {0: (40, 50)}), pattern_of(["t", "d.u"], None)
    patterns = {asked: 0, pattern_of(None, "t|d[.].*"): 0, pattern_of(["t", "dxu"], None): 40}
    for before, start in patterns.items():
        read = reading_of(begun(None, [topic(p0=9)], {}, {}, wanted=before).record())
        assert read is not None

        grown = joined(read, [topic(p0=9), new], asked)
        again = begun(read, [topic(p0=9), new], {}, {}, wanted=asked)

        assert (grown.following["d.u", 0], again.following["d.u", 0]) == (start, start)
        assert grown.wanted == again.wanted == asked
        losses = [(lost.first, lost.end) for lost in deleted(grown, [new])]
        assert losses == ([(0, 40)] if start == 0 else [])


def test_a_watermark_waits_for_as_many_partitions_as_the_configuration_says() -> None:
    topics = [topic(p0=9, p1=0, p2=0), topic("u", "b", p0=1)]

    assert counted_partitions(topics, None) == (("t", 0), ("t", 1), ("t", 2), ("u", 0))
    assert counted_partitions(topics, 2) == (("t", 0), ("t", 1), ("u", 0))


def test_a_reading_starts_where_the_configuration_says() -> None:
    topics = [Topic("t", "a", {0: (5, 9), 1: (6, 8)})]

    assert first_offsets("earliest", topics) == {("t", 0): 5, ("t", 1): 6}
    assert first_offsets("latest", topics) == {("t", 0): 9, ("t", 1): 8}
    assert first_offsets({"t": {"0": 7}}, topics) == {("t", 0): 7, ("t", 1): 6}
    assert first_offsets({"t": {"0": -1, "1": -2}}, topics) == {("t", 0): 9, ("t", 1): 6}


def test_a_reading_is_the_same_after_the_ops_log() -> None:
    reading = replace(begun(None, [topic(p0=9, p1=2)], {}, {}), stream=3)

    assert reading_of(reading.record()) == reading


class Named(str):
    """A topic's name that counts with how many others it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Named.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_a_topic_is_compared_with_no_other_of_thousands() -> None:
    topics = [Topic(Named(f"t{number}"), "a", {0: (0, 9)}) for number in range(300)]
    reading = begun(None, topics, {}, first_offsets("earliest", topics))
    following = [NextOffset(Named(f"t{number}"), "a", 0, 9) for number in range(300)]
    Named.compared = 0

    assert has_more(following, reading)
    assert come_back(reading, topics) == []
    assert Named.compared < 20 * len(topics)


def test_what_a_recording_had_under_a_topics_name_is_none_of_the_topics() -> None:
    """A source that has tried a recording, and reads the topic from now on: its offsets are its own."""
    recorded = read_up_to(Reading(), {("t", "", 0): 25_000, ("other", "", 0): 3})
    landed = {("t", "", 0): 25_000, ("other", "", 0): 3}

    for end in (9_000, 40_000):
        found = begun(recorded, [topic(p0=end)], landed, {("t", 0): 5})
        assert (found.incarnations["t"], found.following) == ("a", {("t", 0): 5})
        assert backlog(found, [topic(p0=end)]) == {("t", 0): end - 5}
    again = advanced(found, {("t", 0): 9_000})
    assert begun(again, [topic(p0=9_500)], {**landed, ("t", "a", 0): 9_100}, {}).following["t", 0] == 9_100
    back = read_up_to(again, {("t", "", 0): 25_000})
    assert begun(back, [topic(p0=9_500)], {("t", "a", 0): 9_100}, {}).following == {("t", 0): 9_100}
