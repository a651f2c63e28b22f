"""How far a source's topics have been read, and what can no longer be read of them: rules over what a broker
lists.

A topic's *incarnation* is its id. Where its offsets begin again under the same id (a broker without ids, or a
log that ended below what was read of it), a count is appended, so that (topic, incarnation, partition,
offset) names one record for ever.

What retention took is told from what was never there by *when* it is looked at: a hole in what has just been
landed that lies below the log's start is loss. Above the start the broker still has the range, so a hole
there is what transactions and compaction leave: control records, records of aborted transactions, overwritten
keys.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lakehouse.ops.progress import Partition, Place, TopicOffset
from lakehouse.ops.records import Gap, OffsetsLost, Read, TopicCreatedAgain
from lakehouse.sources.kafka_admin import Topic

Start = str | Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Reading:
    """One checkpoint's life: its number, the topics it reads, and of all that were ever read ids,
    incarnations and next offsets.
    """

    stream: int = 0
    topics: tuple[str, ...] = ()
    ids: dict[str, str] = field(default_factory=dict)
    incarnations: dict[str, str] = field(default_factory=dict)
    following: dict[Partition, int] = field(default_factory=dict)

    def record(self) -> Read:
        """As the ops log keeps it."""
        following = sorted(self.following.items())
        return Read(
            stream=self.stream,
            topics=self.topics,
            ids=self.ids,
            incarnations=self.incarnations,
            next=tuple(TopicOffset(*place, offset) for place, offset in following),
        )


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets [first, end) of a partition that the broker no longer has; some of them may have been landed in
    time.
    """

    place: Place
    first: int
    end: int


def reading_of(record: Read | None) -> Reading | None:
    """The reading of an ops record."""
    if record is None:
        return None
    following = {(one.topic, one.partition): one.offset for one in record.next}
    return Reading(
        record.stream, record.topics, dict(record.ids), dict(record.incarnations), following=following
    )


def created_anew(reading: Reading | None, topics: Iterable[Topic]) -> list[str]:
    """Topics that are not the ones that were read: another id, or a log that ends below what was
    read of it.
    """
    if reading is None:
        return []
    return [topic.name for topic in topics if topic.name in reading.ids and _is_another(reading, topic)]


def come_back(reading: Reading, topics: Iterable[Topic]) -> list[str]:
    """Topics that were read before and are not among those the checkpoint knows: it would read them from
    their start.
    """
    return [topic.name for topic in topics if topic.name in reading.ids and topic.name not in reading.topics]


def _is_another(reading: Reading, topic: Topic) -> bool:
    return topic.id != reading.ids[topic.name] or any(
        end < reading.following.get((topic.name, number), 0) for number, (_, end) in topic.offsets.items()
    )


def incarnations_of(reading: Reading | None, topics: Iterable[Topic]) -> dict[str, str]:
    """Every topic's incarnation, of those known before too."""
    topics = list(topics)
    anew = created_anew(reading, topics)
    known = dict(reading.incarnations) if reading else {}
    for topic in topics:
        if topic.name in anew and reading is not None and reading.ids[topic.name] == topic.id:
            number = int(known[topic.name].removeprefix(topic.id).removeprefix("+") or 0)
            known[topic.name] = f"{topic.id}+{number + 1}"
        elif topic.name in anew or topic.name not in known:
            known[topic.name] = topic.id
    return known


def begun(
    reading: Reading | None,
    topics: Iterable[Topic],
    landed: Mapping[Place, int],
    first: Mapping[Partition, int],
) -> Reading:
    """A reading with a checkpoint of its own. It goes on where the one before and bronze (`landed`: next
    offsets) end, else at `first`.

    A topic that was created anew, or a partition that is new, is read from 0, so that what it lost in the
    meantime is known.
    """
    topics = list(topics)
    incarnations, anew = incarnations_of(reading, topics), created_anew(reading, topics)
    following = (
        {place: offset for place, offset in reading.following.items() if place[0] not in anew}
        if reading
        else {}
    )
    for topic in topics:
        fresh = (
            reading is not None
            and topic.name in reading.ids
            and (topic.name not in anew or topic.id != reading.ids[topic.name])
        )
        for number, (low, _) in topic.offsets.items():
            place = (topic.name, number)
            known = [landed[key]] if (key := (topic.name, incarnations[topic.name], number)) in landed else []
            known += [following[place]] if place in following else []
            following[place] = max(known, default=0 if fresh else first.get(place, low))
    ids = {**(reading.ids if reading else {}), **{topic.name: topic.id for topic in topics}}
    return Reading(
        reading.stream + 1 if reading else 0, _names(topics), ids, incarnations, following=following
    )


def joined(reading: Reading, topics: Iterable[Topic]) -> Reading:
    """The same reading with topics and partitions that have come since: a new partition counts from 0, a new
    topic from its start.
    """
    following = dict(reading.following)
    topics = list(topics)
    for topic in topics:
        for number, (low, _) in topic.offsets.items():
            following.setdefault((topic.name, number), 0 if topic.name in reading.ids else low)
    ids = {**reading.ids, **{topic.name: topic.id for topic in topics}}
    return replace(
        reading,
        topics=_names(topics),
        ids=ids,
        incarnations=incarnations_of(reading, topics),
        following=following,
    )


def _names(topics: Iterable[Topic]) -> tuple[str, ...]:
    return tuple(sorted(topic.name for topic in topics))


def backlog(reading: Reading, topics: Iterable[Topic]) -> int:
    """How many records, or places of deleted ones, partitions have beyond what was read."""
    ends = {(topic.name, number): end for topic in topics for number, (_, end) in topic.offsets.items()}
    return sum(max(0, end - reading.following.get(place, 0)) for place, end in ends.items())


def advanced(reading: Reading, ends: Mapping[Partition, int]) -> Reading:
    """After a pass that read up to `ends`."""
    return replace(
        reading,
        following={place: max(offset, ends.get(place, 0)) for place, offset in reading.following.items()},
    )


def deleted(before: Reading, topics: Iterable[Topic]) -> list[Lost]:
    """What lies between where a pass began and the log's start after it: landed in time, or lost."""
    return [
        Lost((topic.name, before.incarnations[topic.name], number), start, low)
        for topic in topics
        for number, (low, _) in topic.offsets.items()
        if (start := before.following.get((topic.name, number))) is not None
        and low > start
        and before.ids.get(topic.name) == topic.id
    ]


def first_offsets(start: Start, topics: Iterable[Topic]) -> dict[Partition, int]:
    """Where the first reading of all begins: `earliest`, `latest`, or offsets by topic and partition (-1
    latest, -2 earliest).
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


def told_loss(gap: Gap) -> str:
    """A loss in words."""
    match gap:
        case TopicCreatedAgain():
            return f"topic {gap.topic} was created anew: what its former life held unread is not known"
        case OffsetsLost():
            place = f"{gap.topic}/{gap.partition} from {gap.first} on"
            return f"{gap.missing} offsets of {place} were deleted before they were read"
    raise TypeError(f"expected what a topic lost, got {type(gap).__name__}")
