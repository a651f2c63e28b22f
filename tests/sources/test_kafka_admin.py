"""Topics as a broker lists them that tells no ids: Kafka before 2.8, and services that speak as it does."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from lakehouse.ops.records.bronze import Read
from lakehouse.sources.kafka_admin import Topic, list_topics
from lakehouse.sources.kafka_offsets import begun, created_anew, reading_of

API_VERSIONS, METADATA, LIST_OFFSETS = 18, 3, 2
# by request the lowest and highest version; Metadata has had topic ids since version 10
SPOKEN = {1: (4, 11), LIST_OFFSETS: (1, 1), METADATA: (0, 8), API_VERSIONS: (0, 0)}
UNSUPPORTED_VERSION, NOT_ASKED = 35, -(2**31)
END = 7


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def metadata(topic: str, port: int) -> bytes:
    broker = struct.pack(">iii", 0, 1, 1) + text("127.0.0.1") + struct.pack(">ih", port, -1)
    partition = struct.pack(">hiiiiiiii", 0, 0, 1, 0, 1, 1, 1, 1, 0)
    named = struct.pack(">h", 0) + text(topic) + struct.pack(">?i", False, 1) + partition
    return (
        broker + text("cluster") + struct.pack(">ii", 1, 1) + named + struct.pack(">ii", NOT_ASKED, NOT_ASKED)
    )


def answer(key: int, version: int, request: bytes, topic: str, port: int) -> bytes:
    if key == METADATA:
        return metadata(topic, port)
    if key == LIST_OFFSETS:
        (asked,) = struct.unpack(">q", request[-8:])
        found = struct.pack(">iihqq", 1, 0, 0, -1, 0 if asked == -2 else END)
        return struct.pack(">i", 1) + text(topic) + found
    error = UNSUPPORTED_VERSION if version else 0
    spoken = b"".join(struct.pack(">hhh", api, *versions) for api, versions in SPOKEN.items())
    return struct.pack(">hi", error, len(SPOKEN)) + spoken


def serve(connection: socket.socket, stream: BinaryIO, topic: str, port: int) -> None:
    while len(head := stream.read(4)) == 4:
        request = stream.read(*struct.unpack(">i", head))
        key, version, number = struct.unpack(">hhi", request[:8])
        told = struct.pack(">i", number) + answer(key, version, request, topic, port)
        connection.sendall(struct.pack(">i", len(told)) + told)


@contextmanager
def old_broker(topic: str) -> Iterator[str]:
    """A broker of one topic with one partition; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:  # closed
                    return
                arguments = (connection, connection.makefile("rb"), topic, port)
                threading.Thread(target=serve, args=arguments, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{port}"


def test_a_broker_without_topic_ids_tells_none_and_its_upgrade_creates_no_topic_anew() -> None:
    with old_broker("shop") as bootstrap:
        listed = list_topics(bootstrap, {}, ["shop"], None)

    assert listed == [Topic("shop", "", {0: (0, END)})]
    reading = begun(None, listed, {}, {})
    assert created_anew(reading, [Topic("shop", "hOTHwQAzTiqdbRFYhtCPfA", {0: (0, END)})]) == []


def test_an_older_lake_that_took_kafkas_zero_for_an_id_has_none() -> None:
    zero = "AAAAAAAAAAAAAAAAAAAAAA"
    reading = reading_of(
        Read(stream=0, topics=("shop",), ids={"shop": zero}, incarnations={"shop": zero}, next=())
    )

    assert created_anew(reading, [Topic("shop", "hOTHwQAzTiqdbRFYhtCPfA", {0: (0, END)})]) == []
