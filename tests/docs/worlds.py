"""Small worlds in which the commands of a page are run: a folder with what the page's reader has by then."""

import json
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from lakehouse.demo.run import RECORDING
from lakehouse.events import Message
from lakehouse.sources.kafka_produce import produce
from lakehouse.sources.recording import read_recording
from tests.support.paths import DATA

SINK = DATA / "storage/csv-ddl-and-partitions/data"
# a record behind the last of its partition
GARBAGE = {"topic": "shop", "partition": 0, "offset": 19, "key_b64": "", "value_b64": "bm8gbWVzc2FnZQ=="}
STATEMENTS = {
    "create.sql": "CREATE TABLE shop.clients (id INT NOT NULL PRIMARY KEY, name VARCHAR(64));\n",
    "migration.sql": "ALTER TABLE shop.orders ADD COLUMN channel VARCHAR(9) DEFAULT 'web';\n",
    "statements.sql": "ALTER TABLE shop.orders DROP COLUMN comment;\n",
}


class World(NamedTuple):
    """A folder, and what is in it for the places and the topic that pages name."""

    folder: Path
    places: Mapping[str, str]
    topic: str = ""

    def arguments(self, words: list[str]) -> list[str]:
        """A command's arguments with the world's places."""
        found = [self._placed(word) for word in words]
        if self.topic and "--topic" in words:
            index = words.index("--topic") + 1
            found[index] = re.sub(r"^[\w-]+", self.topic, words[index])
        return found

    def _placed(self, word: str) -> str:
        for name, place in self.places.items():
            word = word.replace(name, place)
        return word


def newcomer(folder: Path) -> World:
    """A dump of a topic, a storage sink's folder, and files with statements."""
    shutil.copy(RECORDING, folder / "dump.jsonl")
    shutil.copytree(SINK, folder / "sink")
    for name, text in STATEMENTS.items():
        (folder / name).write_text(text)
    exported = "/var/lib/node_exporter/textfile"
    return World(folder, {"/mnt/sink/shop": str(folder / "sink"), exported: str(folder / "textfile")})


def with_topic(world: World, bootstrap: str, recording: Path = RECORDING, first: int | None = None) -> World:
    """The same, and a running broker with the recording, or its `first` messages, in topics of its own."""
    name = f"shop-{uuid.uuid4().hex[:8]}"
    produce(list(_renamed(islice(read_recording(recording), first), name)), bootstrap)
    return World(world.folder, {**world.places, "broker:9092": bootstrap}, name)


def _renamed(messages: Iterable[Message], name: str) -> Iterator[Message]:
    """The messages in topics that begin with `name`, as a connector's do."""
    for message in messages:
        rest = message.topic.partition(".")[2]
        yield msgspec.structs.replace(message, topic=f"{name}.{rest}" if rest else name)


def with_source(world: World, tables: str = "auto") -> World:
    """The same, and the YAML of a source that reads the dump."""
    sources = world.folder / "configs/sources"
    sources.mkdir(parents=True)
    text = f"format: ticdc-open\nrecording: dump.jsonl\ntime_zone: UTC\ntables: {tables}\n"
    (sources / "shop.yml").write_text(text)
    return world


def with_garbage(world: World) -> World:
    """The same, with a message in the dump that is none."""
    with (world.folder / "dump.jsonl").open("a") as dump:
        dump.write(json.dumps(GARBAGE) + "\n")
    return world
