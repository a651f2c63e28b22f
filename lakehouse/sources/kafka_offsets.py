"""Progress in a source's topics: which offsets have been read, and which records were lost before they were
read. Rules over a broker's listing, without I/O.

A topic's *incarnation* is its id. Where its offsets begin again under the same id (a broker without ids, or a
log that ended below what was read of it), a count is appended, so that (topic, incarnation, partition,
offset) names one record for ever.

Lost records are distinguished from offsets that never had one by *when* they are looked for: a gap in what
has just been landed that is below the log's start is loss. Above the start the broker still has the range, so
a hole there is what transactions and compaction leave: control records, records of aborted transactions,
overwritten keys.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from msgspec import UNSET

from lakehouse.ops.progress import NextOffset, Partition, Place, TopicOffset
from lakehouse.ops.records.bronze import Gap, OffsetsLost, Read, TopicCreatedAgain
from lakehouse.sources.kafka_admin import ZERO_ID, Topic

Start = str | Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Reading:
    """One checkpoint's life: its number, the topics it reads, of all that were ever read ids, incarnations
    and next offsets, and the number of its last batch (-1: none is known). `wanted` is a pattern of the names
    that were asked for, be there such topics or not ("": it is not known).
    """

    stream: int = 0
    topics: tuple[str, ...] = ()
    ids: dict[str, str] = field(default_factory=dict)
    incarnations: dict[str, str] = field(default_factory=dict)
    following: dict[Partition, int] = field(default_factory=dict)
    batch: int = -1
    wanted: str = ""

    def record(self) -> Read:
        """The reading as a record of the ops log."""
        following = sorted(self.following.items())
        return Read(
            stream=self.stream,
            topics=self.topics,
            ids=self.ids,
            incarnations=self.incarnations,
            next=tuple(TopicOffset(*place, offset) for place, offset in following),
            batch=UNSET if self.batch < 0 else self.batch,
            wanted=self.wanted or UNSET,
        )

    def waits_for(self, name: str) -> bool:
        """Whether all that a topic has ever had is to be read: it was asked for before it was there, or has
        been read.
        """
        return name in self.ids or bool(self.wanted and re.fullmatch(self.wanted, name))


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets [first, end) of a partition that the broker no longer has; some of them may have been landed
    before.
    """

    place: Place
    first: int
    end: int


def reading_of(record: Read | None) -> Reading | None:
    """The reading that a record of the ops log holds."""
    if record is None:
        return None
    following = {(one.topic, one.partition): one.offset for one in record.next}
    return Reading(
        record.stream,
        record.topics,
        {topic: id_.replace(ZERO_ID, "") for topic, id_ in record.ids.items()},  # of an older lake
        dict(record.incarnations),
        following=following,
        batch=-1 if record.batch is UNSET else record.batch,
        wanted="" if record.wanted is UNSET else record.wanted,
    )


def pattern_of(names: Iterable[str] | None, pattern: str | None) -> str:
    """The topics that a configuration asks for, by `names` or a `pattern`, as one pattern."""
    return pattern or "|".join(sorted(map(re.escape, names or ())))


def created_anew(reading: Reading | None, topics: Iterable[Topic]) -> list[str]:
    """Topics that are not the ones that were read: another id, or a log that ends below what was
    read of it.
    """
    if reading is None:
        return []
    return [topic.name for topic in topics if topic.name in reading.ids and _is_another(reading, topic)]


def come_back(reading: Reading, topics: Iterable[Topic]) -> list[str]:
    """Topics that were read before but not by this checkpoint, which would read them from their start."""
    known = frozenset(reading.topics)
    return [topic.name for topic in topics if topic.name in reading.ids and topic.name not in known]


def _is_another(reading: Reading, topic: Topic) -> bool:
    return has_another_id(reading, topic) or any(
        end < reading.following.get((topic.name, number), 0) for number, (_, end) in topic.offsets.items()
    )


def has_another_id(reading: Reading, topic: Topic) -> bool:
    """Whether two ids are known, and differ. A broker that begins to tell ids, or no longer does, names the
    topic that is there and begins none.
    """
    known = reading.ids.get(topic.name, "")
    return bool(known and topic.id) and known != topic.id


def _ids(reading: Reading | None, topics: Iterable[Topic]) -> dict[str, str]:
    """The ids of all topics that were ever read, as far as a broker has told them."""
    known = reading.ids if reading else {}
    return {**known, **{topic.name: topic.id or known.get(topic.name, "") for topic in topics}}


def incarnations_of(reading: Reading | None, topics: Iterable[Topic]) -> dict[str, str]:
    """Every topic's incarnation, those of earlier topics included."""
    topics = list(topics)
    anew = created_anew(reading, topics)
    known = dict(reading.incarnations) if reading else {}
    for topic in topics:
        if reading is None or topic.name not in reading.ids or has_another_id(reading, topic):
            known[topic.name] = topic.id
        elif topic.name in anew:
            known[topic.name] = _next_life(known[topic.name])
    return known


def _next_life(incarnation: str) -> str:
    """The incarnation after this one, of a topic whose offsets began again under the same id."""
    before, plus, number = incarnation.rpartition("+")
    return f"{before}+{int(number) + 1}" if plus and number.isdecimal() else f"{incarnation}+1"


def begun(
    reading: Reading | None,
    topics: Iterable[Topic],
    landed: Mapping[Place, int],
    first: Mapping[Partition, int],
    wanted: str = "",
) -> Reading:
    """A reading with a new checkpoint. It continues where the previous one and bronze (`landed`: next
    offsets) end, else at `first`. `wanted`: the topics that are asked for now.

    A topic that was created anew or was waited for, or a partition that is new, is read from 0, so that what
    it lost in the meantime is known. What a recording had under a topic's name is none of the topic's.
    """
    topics = list(topics)
    incarnations, anew = incarnations_of(reading, topics), created_anew(reading, topics)
    known_topics = reading.ids.keys() - set(anew) if reading else frozenset[str]()
    following = (
        {place: offset for place, offset in reading.following.items() if place[0] in known_topics}
        if reading
        else {}
    )
    for topic in topics:
        fresh = (
            reading is not None
            and reading.waits_for(topic.name)
            and (topic.name not in anew or has_another_id(reading, topic))
        )
        for number, (low, _) in topic.offsets.items():
            place = (topic.name, number)
            known = [landed[key]] if (key := (topic.name, incarnations[topic.name], number)) in landed else []
            known += [following[place]] if place in following else []
            following[place] = max(known, default=0 if fresh else first.get(place, low))
    stream = reading.stream + 1 if reading else 0
    return Reading(
        stream, _names(topics), _ids(reading, topics), incarnations, following=following, wanted=wanted
    )


def joined(reading: Reading, topics: Iterable[Topic], wanted: str = "") -> Reading:
    """The reading with new topics and partitions added: a new partition counts from 0, and so does a topic
    that was waited for; any other new topic counts from its start. `wanted`: the topics that are asked for
    now.
    """
    following = dict(reading.following)
    topics = list(topics)
    for topic in topics:
        for number, (low, _) in topic.offsets.items():
            following.setdefault((topic.name, number), 0 if reading.waits_for(topic.name) else low)
    return replace(
        reading,
        topics=_names(topics),
        ids=_ids(reading, topics),
        incarnations=incarnations_of(reading, topics),
        following=following,
        wanted=wanted,
    )


def _names(topics: Iterable[Topic]) -> tuple[str, ...]:
    return tuple(sorted(topic.name for topic in topics))


def backlog(reading: Reading, topics: Iterable[Topic]) -> dict[Partition, int]:
    """The partitions that have offsets beyond those read, and how many; some of them may hold no record."""
    ends = {(topic.name, number): end for topic in topics for number, (_, end) in topic.offsets.items()}
    waiting = {place: end - reading.following.get(place, 0) for place, end in ends.items()}
    return {place: number for place, number in waiting.items() if number > 0}


def undone(reading: Reading | None, following: Mapping[Place, int]) -> int:
    """About how many records bronze has read and silver has not done, whose next offsets are `following`."""
    if reading is None:
        return 0
    places = {
        (topic, reading.incarnations.get(topic, ""), number): end
        for (topic, number), end in reading.following.items()
    }
    return sum(max(0, end - following[place]) for place, end in places.items() if place in following)


def has_more(following: Iterable[NextOffset], reading: Reading) -> bool:
    """Whether silver, which goes on at `following`, has read records of topics that landed after the last
    reading was recorded. Of a partition that the reading does not know nothing is said, nor of a topic that
    is read no more.
    """
    topics = frozenset(reading.topics)
    ends = {
        (topic, reading.incarnations.get(topic, ""), number): end
        for (topic, number), end in reading.following.items()
        if topic in topics
    }
    return any(one.offset > ends[one.place] for one in following if one.place in ends)


def is_read(following: Iterable[NextOffset], reading: Reading) -> bool:
    """Whether silver, which goes on at `following`, has read what passes over topics have landed up to the
    last reading, and nothing else.
    """
    done = {one.place: one.offset for one in following}
    places = {
        (topic, reading.incarnations.get(topic, ""), number): end
        for (topic, number), end in reading.following.items()
    }
    return all(done.get(place, 0) == end for place, end in places.items())


def unread(
    reading: Reading | None, topics: Iterable[Topic], following: Mapping[Place, int]
) -> dict[Partition, int]:
    """How many offsets of each partition lie behind those that were read (`following`: next offsets), in the
    topic's present incarnation.
    """
    topics = list(topics)
    incarnations = incarnations_of(reading, topics)
    return {
        (topic.name, number): max(
            0, end - max(following.get((topic.name, incarnations[topic.name], number), first), first)
        )
        for topic in topics
        for number, (first, end) in topic.offsets.items()
    }


def advanced(reading: Reading, ends: Mapping[Partition, int], batch: int = -1) -> Reading:
    """After a pass that read up to `ends`, with the checkpoint's `batch` as its last one."""
    return replace(
        reading,
        batch=max(reading.batch, batch),
        following={place: max(offset, ends.get(place, 0)) for place, offset in reading.following.items()},
    )


def counted_partitions(topics: Iterable[Topic], limit: int | None) -> tuple[Partition, ...]:
    """The partitions that a watermark waits for: of each topic all, or the first `limit`, where the producer
    was told of fewer than the topic has.
    """
    return tuple(
        (topic.name, number)
        for topic in topics
        for number in topic.offsets
        if limit is None or number < limit
    )


def deleted(before: Reading, topics: Iterable[Topic]) -> list[Lost]:
    """Offsets between a pass's start and the log's start after it: landed in time, or lost."""
    return [
        Lost((topic.name, before.incarnations[topic.name], number), start, low)
        for topic in topics
        for number, (low, _) in topic.offsets.items()
        if (start := before.following.get((topic.name, number))) is not None
        and low > start
        and not has_another_id(before, topic)
    ]


def first_offsets(start: Start, topics: Iterable[Topic]) -> dict[Partition, int]:
    """The offsets of the first reading: `earliest`, `latest`, or offsets by topic and partition (-1 latest,
    -2 earliest).
    """
    found: dict[Partition, int] = {}
    for topic in topics:
        for number, (low, end) in topic.offsets.items():
            said = (
                {"earliest": -2, "latest": -1}[start]
                if isinstance(start, str)
                else start.get(topic.name, {}).get(str(number), -2)
            )
            found[topic.name, number] = {-1: end, -2: low}.get(said, said)
    return found


def loss_text(gap: Gap) -> str:
    """A loss as a sentence."""
    match gap:
        case TopicCreatedAgain():
            return f"topic {gap.topic} was created anew: what its former life held unread is not known"
        case OffsetsLost():
            place = f"{gap.topic}/{gap.partition} from {gap.first} on"
            if gap.read is True:
                return f"{gap.missing} offsets of {place} were read and are not in bronze"
            if gap.read is False:
                return f"{gap.missing} offsets of {place} are in no recording"
            return f"{gap.missing} offsets of {place} were deleted before they were read"
    raise TypeError(f"expected what a topic lost, got {type(gap).__name__}")
