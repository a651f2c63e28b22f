"""The one partition of a Kafka topic in which a feed in order of arrival comes, as a snapshot needs it: where
it ends, and what its messages tell of the server's binlog.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.events import Message
from lakehouse.formats.row import Logged
from lakehouse.sources.dumps.records import TopicPlace
from lakehouse.sources.kafka_admin import Topic
from lakehouse.sources.kafka_sample import read_span

# offsets that are read at once, and the seconds that it may take
SPAN, SECONDS = 100_000, 120.0


def only_partition(name: str, topics: Sequence[Topic]) -> tuple[Topic, int]:
    """The topic and partition that have all messages of a source. LakehouseError where several have some, or
    none has.
    """
    used = [(topic, number) for topic in topics for number, (_, end) in topic.offsets.items() if end > 0]
    if not used:
        raise LakehouseError(
            f"{name}: expected a topic in which the feed has told something, got none: a change before its "
            "first message would be in neither; start the feed first"
        )
    if len(used) > 1:
        raise LakehouseError(
            f"{name}: expected a feed in one partition of one topic, got {len(used)}: which of their "
            "messages came before a SELECT has no one order; use Canal's protobuf"
        )
    return used[0]


class KafkaFeed:
    """A feed in Kafka. `listed` lists its topics as they are now, `logged` reads a message. `topic` is what
    it was when the feed was found.
    """

    def __init__(
        self,
        name: str,
        broker: tuple[str, Mapping[str, str]],
        listed: Callable[[], Sequence[Topic]],
        logged: Callable[[Message], Logged | None],
    ) -> None:
        self.name, self._broker, self._listed, self._logged = name, broker, listed, logged
        self.topic, self._partition = only_partition(name, listed())
        self._ended, self._lock = 0, threading.Lock()

    def end(self) -> TopicPlace:
        """The offset behind the last message. LakehouseError where the topic has become another one, or a
        second partition has messages.
        """
        # of two that ask at once, the one that was told first would seem to be told of another topic
        with self._lock:
            return self._end()

    def _end(self) -> TopicPlace:
        topic, partition = only_partition(self.name, self._listed())
        end = topic.offsets[partition][1]
        is_same = (topic.name, topic.id, partition) == (self.topic.name, self.topic.id, self._partition)
        if not is_same or end < self._ended:
            raise LakehouseError(
                f"{self.name}: expected the topic {self.topic.name} to stay what it was, got one that was "
                "created anew; `lakehouse run all` first, then run the command again"
            )
        self._ended = end
        return TopicPlace(topic.name, partition, end)

    def read(self, first: int, end: int) -> Iterator[tuple[int, Logged]]:
        """What the messages of offsets [first, end) tell of the binlog. EnvironmentError_ where the broker
        does not have them, or is too slow.
        """
        for low in range(first, end, SPAN):
            begun = time.monotonic()
            for message in self._span(low, min(end, low + SPAN)):
                if (logged := self._logged(message)) is not None:
                    yield message.offset, logged
            if time.monotonic() - begun >= SECONDS:
                raise EnvironmentError_(
                    f"{self.name}: expected {SPAN} messages of {self.topic.name} within {SECONDS:.0f} s, got "
                    "fewer; run the command again, which goes on"
                )

    def _span(self, low: int, high: int) -> Iterator[Message]:
        bootstrap, options = self._broker
        name, number = self.topic.name, self._partition
        return read_span(bootstrap, options, name, number, start=low, end=high, seconds=SECONDS)
