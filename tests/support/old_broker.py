"""A broker that tells no topic ids and no settings: Kafka before 2.8, and services that speak as it does."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

API_VERSIONS, METADATA, LIST_OFFSETS = 18, 3, 2
# by request the lowest and highest version; Metadata has had topic ids since version 10
SPOKEN = {1: (4, 11), LIST_OFFSETS: (1, 1), METADATA: (0, 8), API_VERSIONS: (0, 0)}
UNSUPPORTED_VERSION, NOT_ASKED = 35, -(2**31)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Topic(NamedTuple):
    """A topic of one partition: its name, the offset behind its last message, and its broker's port."""

    name: str
    end: int
    port: int


def metadata(topic: Topic) -> bytes:
    broker = struct.pack(">iii", 0, 1, 1) + text("127.0.0.1") + struct.pack(">ih", topic.port, -1)
    partition = struct.pack(">hiiiiiiii", 0, 0, 1, 0, 1, 1, 1, 1, 0)
    named = struct.pack(">h", 0) + text(topic.name) + struct.pack(">?i", False, 1) + partition
    cluster = text("cluster") + struct.pack(">ii", 1, 1)
    return broker + cluster + named + struct.pack(">ii", NOT_ASKED, NOT_ASKED)


def answer(key: int, version: int, request: bytes, topic: Topic) -> bytes:
    if key == METADATA:
        return metadata(topic)
    if key == LIST_OFFSETS:
        (asked,) = struct.unpack(">q", request[-8:])
        found = struct.pack(">iihqq", 1, 0, 0, -1, 0 if asked == -2 else topic.end)
        return struct.pack(">i", 1) + text(topic.name) + found
    error = UNSUPPORTED_VERSION if version else 0
    spoken = b"".join(struct.pack(">hhh", api, *versions) for api, versions in SPOKEN.items())
    return struct.pack(">hi", error, len(SPOKEN)) + spoken


def serve(connection: socket.socket, topic: Topic) -> None:
    stream = connection.makefile("rb")
    while len(head := stream.read(4)) == 4:
        request = stream.read(*struct.unpack(">i", head))
        key, version, number = struct.unpack(">hhi", request[:8])
        told = struct.pack(">i", number) + answer(key, version, request, topic)
        connection.sendall(struct.pack(">i", len(told)) + told)


@contextmanager
def old_broker(name: str, end: int = 0) -> Iterator[str]:
    """A broker of one topic with one partition; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        topic = Topic(name, end, listening.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:  # closed
                    return
                threading.Thread(target=serve, args=(connection, topic), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{topic.port}"
