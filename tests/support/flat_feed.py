"""What a BusyServer does, as Canal's flat messages, some time after it was committed."""

import json
import time
from collections.abc import Iterator
from typing import Any

from lakehouse.events import Message
from lakehouse.formats.canal.flat_message import logged
from lakehouse.formats.row import Logged
from lakehouse.sources.dumps.records import TopicPlace
from tests.support.busy_server import KEYS, BusyServer, Committed, Row, kind_of

KINDS = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
TYPES = {"id": "int", "v": "varchar(20)", "n": "int"}


class FlatFeed:
    """The messages of one partition: `sent` has those that are in the topic, which grow when somebody looks,
    each `lag` seconds after its commit.
    """

    def __init__(self, busy: BusyServer, lag: float, topic: str = "canal") -> None:
        self.busy, self.lag, self.topic, self.sent = busy, lag, topic, list[Message]()

    def send(self, lag: float | None = None) -> list[Message]:
        """The messages that come into the topic now."""
        until, first = time.time() - (self.lag if lag is None else lag), len(self.sent)
        for one in self.busy.log[first:]:
            if one.committed > until:
                break
            value = json.dumps(flat(one, len(self.sent) + 1)).encode()
            self.sent.append(Message(self.topic, 0, len(self.sent), None, value))
        return self.sent[first:]

    def end(self) -> TopicPlace:
        self.send()
        return TopicPlace(self.topic, 0, len(self.sent))

    def read(self, first: int, end: int) -> Iterator[tuple[int, Logged]]:
        for message in self.sent[first:end]:
            told = logged(message)
            assert told is not None
            yield message.offset, told


def flat(one: Committed, number: int) -> dict[str, Any]:
    """A change as Canal sends it; its time is that of its statement, in whole seconds."""
    op, old, new = one.change
    changed = {name: _text(old[name]) for name in TYPES if old and new and old[name] != new[name]}
    return {
        "id": number,
        "database": "shop",
        "table": one.table,
        "type": KINDS[op],
        "isDdl": False,
        "es": int(one.began) * 1000,
        "ts": int(time.time() * 1000),
        "pkNames": list(KEYS[kind_of(one.table)]) or None,
        "mysqlType": TYPES,
        "sqlType": {"id": 4, "v": 12, "n": 4},
        "data": [_texts(new or old or {})],
        "old": [changed] if op == "u" else None,
    }


def _texts(row: Row) -> dict[str, str | None]:
    return {name: _text(value) for name, value in row.items()}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
