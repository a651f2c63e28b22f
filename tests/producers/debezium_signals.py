"""Signals to a Debezium connector: snapshots that it takes of some tables while it streams, and their end.

    incremental   the rows of tables in chunks, between windows that the connector writes to its signal table,
                  or of GTIDs where it is `read.only`
    blocking      the stream stands still while tables are read

They go to the connector by its signal table or by a file. A stop or pause may find nothing that runs. Of two
blocking snapshots at once the connector hangs: one is signalled where the one before has been read.
"""

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lakehouse.discovery.inspect import events_of
from lakehouse.events import Message, RowChange
from tests.oracle.database import Database, Table
from tests.oracle.runner import State
from tests.producers.debezium_programs import Playing, lost_in_snapshot
from tests.producers.judging import Place

TABLE = "marks.signals"
KINDS = ("incremental", "blocking", "stop", "pause")


class Signals:
    """Sends signals of some `kinds`, each now and then."""

    def __init__(self, database: Database, folder: Path, seed: int, kinds: Sequence[str]) -> None:
        self.database, self.kinds, self.sent = database, kinds, 0
        self.file = folder / "signals.jsonl"
        self.chance = random.Random(f"{seed} signals")
        self.channels: tuple[str, ...] = ("source", "file")
        self.is_blocked = False  # a blocking snapshot may be under way
        columns = "id VARCHAR(64) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(8000)"
        self.database.run(f"CREATE TABLE {TABLE} ({columns})")

    def settings(self, told: dict[str, str]) -> dict[str, str]:
        """What a connector needs for them, beside the settings that the run was told."""
        read_only = told.get("read.only") == "true"
        self.channels = ("file",) if read_only else self.channels
        self.file.unlink(missing_ok=True)
        found = {
            "signal.enabled.channels": ",".join(self.channels),
            "signal.file": str(self.file),
            "signal.poll.interval.ms": "100",
            "incremental.snapshot.chunk.size": self.chance.choice(("1", "2", "3", "1024")),
            "incremental.snapshot.allow.schema.changes": "true",
        }
        if not read_only:
            found["signal.data.collection"] = TABLE
            strategies = ("insert_insert", "insert_delete")
            found["incremental.snapshot.watermarking.strategy"] = self.chance.choice(strategies)
        return found

    def maybe(self, played: Sequence[Playing], release: str) -> None:
        """A signal, or none."""
        if not self.kinds or self.chance.random() < 0.3:
            return
        kind = self.chance.choice(self.kinds)
        if kind == "blocking" and self.is_blocked:
            return
        if kind == "pause":
            self._send(self.chance.choice(("pause-snapshot", "resume-snapshot")), {"type": "incremental"})
            return
        one = self.chance.choice(played)
        # a name with a dot is another table to the connector
        tables = one.runner.tables.items()
        names = [name for name, table in tables if "." not in name[1] and _is_told(release, table)]
        if not names:
            return
        chosen = self.chance.sample(names, min(len(names), self.chance.choice((1, 1, 2, 5))))
        collections = [re.sub(r"([^\w\s`])", r"\\\1", ".".join(name)) for name in chosen]
        if kind == "stop":
            few = {"data-collections": collections} if self.chance.random() < 0.5 else {}
            self._send("stop-snapshot", {"type": "incremental", **few})
            return
        more = self._incremental(chosen, collections, one.runner.tables) if kind == "incremental" else {}
        kind_told = kind.upper() if self.chance.random() < 0.5 else kind
        data = {"type": kind_told, "data-collections": collections, **more}
        self.is_blocked = self.is_blocked or kind == "blocking"
        self._send("execute-snapshot", data)

    def _incremental(
        self, names: Sequence[tuple[str, str]], collections: Sequence[str], tables: State
    ) -> dict[str, object]:
        """Conditions, and another key for the chunks, of one table now and then."""
        table = tables[names[0]]
        if self.chance.random() < 0.3:
            column = self.chance.choice(table.columns).name.replace("`", "``")
            told = {"data-collection": collections[0], "filter": f"`{column}` IS NOT NULL"}
            return {"additional-conditions": [told]}
        keys = [columns[0] for _, columns, unique in table.indexes if unique and len(columns) == 1]
        if keys and len(names) == 1 and self.chance.random() < 0.5:
            return {"surrogate-key": self.chance.choice(keys)}
        return {}

    def resume(self) -> None:
        """Let what is paused go on."""
        if "pause" in self.kinds:
            self._send("resume-snapshot", {"type": "incremental"})

    def places(self, messages: Iterable[Message]) -> set[Place]:
        """Where the signal table was written, by whomever."""
        events = events_of((one for one in messages if one.topic.endswith(TABLE)), "debezium", {})
        return {(event.position[1], event.position[2]) for _, event in events if isinstance(event, RowChange)}

    def _send(self, kind: str, data: Mapping[str, object]) -> None:
        self.sent += 1
        if self.chance.choice(self.channels) == "file":
            line = json.dumps({"id": f"s{self.sent}", "type": kind, "data": data}, ensure_ascii=False)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            return
        text = json.dumps(data, ensure_ascii=False).replace("\\", "\\\\").replace("'", "''")
        self.database.run(f"INSERT INTO {TABLE} VALUES ('s{self.sent}', '{kind}', '{text}')")


def _is_told(release: str, table: Table) -> bool:
    """Whether a snapshot's query reads the table's values as the binlog has them."""
    return all(column.base != "float" for column in table.columns) and not any(
        lost_in_snapshot(release, row, table) for row in table.rows
    )
