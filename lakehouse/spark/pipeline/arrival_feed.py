"""What a snapshot needs of a feed in order of arrival: its topic, checked against bronze, and the places from
which on tables are exact (lakehouse/sources/live/arrival.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from lakehouse.errors import LakehouseError
from lakehouse.formats import FORMATS
from lakehouse.formats.snapshot.records import Place
from lakehouse.ops.records.bronze import Read
from lakehouse.sources.database import Database
from lakehouse.sources.kafka_offsets import created_anew, reading_of
from lakehouse.sources.live.arrival import ArrivalServer, caught_up, is_overtaken
from lakehouse.sources.live.read import Ending
from lakehouse.sources.live.servers import MariaDbServer, MySqlServer, Server
from lakehouse.sources.live.tables import Listed
from lakehouse.sources.live.topic import KafkaFeed
from lakehouse.sources.server_sql import server_time
from lakehouse.spark.bronze.epochs import last_epoch
from lakehouse.spark.bronze.kafka import listed
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress
from lakehouse.spark.source import Source, kafka_input


def feed_of(source: Source, log: OpsLog) -> KafkaFeed | None:
    """The topic of a feed whose messages tell no place, but come in the order of a binlog; None for any other
    feed. LakehouseError where it is not what bronze reads, or has no one order.
    """
    logged = FORMATS[source.silver.format].logged
    if logged is None or source.silver.order != "arrival":
        return None
    if source.config.kafka is None:
        raise LakehouseError(
            f"{source.name}: expected a feed in Kafka, for its topic tells what a SELECT has seen, got a "
            "recording"
        )
    kafka = kafka_input(source)
    broker = kafka.bootstrap, kafka.options
    feed = KafkaFeed(source.name, broker, lambda: listed(kafka), logged())
    reading = reading_of(log.last(Read))
    if reading is None or feed.topic.name not in reading.ids or created_anew(reading, [feed.topic]):
        raise LakehouseError(
            f"{source.name}: expected the topic {feed.topic.name} to be in bronze, got one that it has not "
            "read; `lakehouse run all` first"
        )
    return feed


def server_by_arrival(server: Server, feed: KafkaFeed) -> ArrivalServer:
    """The server, with the end of the feed's topic as its places. LakehouseError where no such feed reads its
    binlog.
    """
    if not isinstance(server, MariaDbServer | MySqlServer):
        raise LakehouseError(
            f"{feed.name}: expected the MySQL or MariaDB whose binlog the feed reads, got {server.name}"
        )
    return ArrivalServer(server, feed.end)


def refuse_new_epoch(log: OpsLog, known: int) -> None:
    """LakehouseError where another epoch has begun since: a table's records would be of both."""
    now = last_epoch(OpsLog(log.spark, log.lake, log.source).load())
    if now != known:
        raise LakehouseError(
            f"{log.source}: expected no epoch to begin while tables are read, got epoch {now}; run the "
            "command again"
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """Tables that have been read, each with the place from which on it is exact; and those on which a
    statement comes behind their place that they were read with.
    """

    exact: list[tuple[Ending, Place]]
    overtaken: list[Listed]


def settle(feed: KafkaFeed, database: Database, endings: Sequence[Ending], progress: Progress) -> Settled:
    """Wait until the feed has told all that the tables show. LakehouseError where it does not."""
    if not endings:
        return Settled([], [])
    found = caught_up(
        feed,
        min(one.place.offset for one in endings),
        lambda: server_time(database),
        lambda line: progress(f"snapshot  {feed.name}: {line}"),
    )
    late = [one for one in endings if is_overtaken(one.table.name, one.place.offset, one.time, found)]
    return Settled(
        [(one, replace(one.place, offset=found.offset)) for one in endings if one not in late],
        [one.table for one in late],
    )
