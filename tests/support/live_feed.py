"""A feed of what is run on a real MariaDB, at the places of its own binlog: what the server stands at and
what the feed has told can be compared.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from lakehouse.config.load import load
from lakehouse.events import Message
from lakehouse.spark.pipeline.run import runs
from lakehouse.spark.source import Source, source_of
from tests.oracle.check import delivered
from tests.oracle.database import Database
from tests.oracle.formats import logged
from tests.oracle.program import ZONE, Program, Step
from tests.oracle.runner import Runner
from tests.support.encode_binlog import Logged, binlog, cut, feed, packets
from tests.support.lakes import quiet, write_recording

BINLOG = ("--log-bin=mysql-bin", "--server-id=1", "--binlog-format=ROW")


class LiveFeed:
    """What has been run so far, and the feed of it in one format."""

    def __init__(self, database: Database, format_: str, name: str = "shop") -> None:
        self.database, self.format = database, format_
        self.runner = Runner(database, Program(7, strict=False, database=name))
        self._ends: dict[int, tuple[int, int]] = {}
        self._begun = self._place()
        self.skipped: set[int] = set()
        self._packets: list[Sequence[Logged]] = []
        self._chance = random.Random(2)

    def _place(self) -> tuple[int, int]:
        file, offset = self.database.ask("SHOW MASTER STATUS")[0][:2]
        return int(file.rpartition(".")[2]), int(offset)

    def step(self, step: Step) -> "LiveFeed":
        """Run a step of a program, which the feed tells."""
        self.runner.ts += 1  # no two steps have one time
        assert self.runner.step(step), self.runner.why
        self._ends[self.runner.ts] = self._place()
        return self

    def rows(self, *statements: str) -> "LiveFeed":
        return self.step({"rows": list(statements)})

    def ddl(self, table: str, statement: str, **more: bool) -> "LiveFeed":
        return self.step({"ddl": statement, "table": (self.runner.program.database, table), **more})

    def skip(self) -> "LiveFeed":
        """The feed does not tell what was run last."""
        self.skipped.add(self.runner.ts)
        return self

    def log(self) -> list[Logged]:
        """The events at their places: each transaction's lie behind the one before it."""
        events, begun = binlog(logged(self.runner.events), random.Random(1)), self._begun
        found: list[Logged] = []
        for event in events:
            if not found or event.commit_ts != found[-1].commit_ts:
                number, (file, start) = 0, begun
                begun = self._ends[event.commit_ts]
            found.append(event._replace(file=file, offset=start + number))
            number += 1
        return [event for event in found if event.commit_ts not in self.skipped]

    def messages(self) -> list[Message]:
        if self.format == "ticdc-open":
            told, row_ids = delivered(self.runner.events, random.Random(3), keyless=True, raw=False)
            assert row_ids  # as FedLake's source says
            return told
        if self.format == "canal-protobuf":
            # what was told stays as it was, whatever comes behind it
            new = self.log()[sum(map(len, self._packets)) :]
            self._packets += cut(new, self._chance)
            return list(packets(self._packets))
        return feed(self.format, self.log(), random.Random(2), ZONE)


class FedLake:
    """A configured source of a LiveFeed's recording, and its lake."""

    def __init__(self, folder: Path, told: LiveFeed, port: int) -> None:
        zone = "" if told.format in ("debezium", "tencent-dts") else f"time_zone: {ZONE}\n"
        row_ids = "row_ids: sent\n" if told.format == "ticdc-open" else ""
        self.folder, self.told, self.recording = folder, told, folder / "recording.jsonl"
        (folder / "sources").mkdir(parents=True)
        (folder / "tables").mkdir()
        (folder / "sources/shop.yml").write_text(
            f"format: {told.format}\nrecording: {self.recording}\ntables: auto\nlake: {folder}/lake\n"
            f"database: {{host: 127.0.0.1, port: {port}, user: root, tls: 'off'}}\n{zone}{row_ids}"
        )
        self.lake = folder / "lake"
        self.lost: bytes | None = None

    def run(self) -> "FedLake":
        """Run the pipeline over all that the feed has told, without the records that it has lost."""
        told = [
            one for one in self.told.messages() if self.lost is None or self.lost not in (one.value or b"")
        ]
        write_recording(self.recording, told)
        return self.layers("bronze", "silver", "gold")

    def layers(self, *layers: str) -> "FedLake":
        list(runs(load(self.folder), layers, True, (), lake=None, progress=quiet))
        return self

    def source(self) -> Source:
        return source_of(load(self.folder), "shop", None)

    def beat(self, _: float = 0) -> None:
        """Something is written elsewhere, and the pipeline runs."""
        self.told.rows("INSERT INTO `beat` VALUES ()")
        self.run()


def created(told: LiveFeed) -> LiveFeed:
    """With the table that `beat` writes to."""
    return told.ddl("beat", "CREATE TABLE `beat` (`id` int NOT NULL AUTO_INCREMENT PRIMARY KEY)")
