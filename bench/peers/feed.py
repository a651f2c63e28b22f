"""The topic of all peers: flat messages of Canal, of one narrow table, and the rows that are right at its
end.

A message is a binlog event, with the rows of one statement, as Canal writes it (the tests' encoder): a CREATE
TABLE first, then inserts, updates with their old values, and deletes. `es` is when the statement began and
runs backwards, as in a binlog; only the place in the topic is an order. The same seed gives the same bytes.
"""

import json
import random
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from itertools import chain, islice
from typing import Any, NamedTuple

from bench.formats import cells
from bench.generate import DATABASE, NARROW, change
from lakehouse.events import Message
from lakehouse.schema import Column, TableSchema, parse_type
from tests.support.encode_binlog import Logged, canal_flat, statements

TABLE = "t0"
COLUMNS = ", ".join(f"`{field.name}` {field.sql}" for field in NARROW)
SHAPE = TableSchema(
    tuple(
        Column(number, field.name, parse_type(field.sql.partition(" ")[0]))
        for number, field in enumerate(NARROW, 1)
    ),
    primary_key=(1,),
    next_id=len(NARROW) + 1,
)
LONGEST = 7  # changes of a transaction, at most
Row = dict[str, Any]


class Cells(NamedTuple):
    """A row of the table: what is compared, whoever wrote it and however it prints."""

    id: int
    customer: str
    amount: Decimal
    quantity: int
    at: datetime


def messages(count: int, topic: str, seed: int = 1) -> Iterator[Message]:
    """The CREATE TABLE, and `count` messages of rows."""
    chance = random.Random(seed)
    create = Logged(
        "ddl",
        1,
        4,
        1_790_000_000,
        1,
        schema=DATABASE,
        table=TABLE,
        query=f"CREATE TABLE `{TABLE}` ({COLUMNS})",
        session=DATABASE,
    )
    for offset, event in enumerate(chain([create], islice(_logged(chance), count))):
        # Canal sends what it has read together in batches, whose number is the messages' id
        yield Message(topic, 0, offset, None, canal_flat(event, 1 + offset // 5))


def _logged(chance: random.Random) -> Iterator[Logged]:
    clock = 1_790_000_000
    for number, group in enumerate(_transactions(chance), 2):
        clock += chance.choice((0, 1, 5))
        for op, rows in statements(group):
            pairs = tuple((row.get("before"), row.get("after")) for row in rows)
            time = clock - chance.choice((0, 0, 3, 60))
            yield Logged(op, 1, 4, time, number, DATABASE, TABLE, pairs, SHAPE)


def _transactions(chance: random.Random) -> Iterator[list[Row]]:
    """Changes without end, in transactions that change a row once at most."""
    rows: dict[int, Row] = {}
    group: list[Row] = []
    seen: set[int] = set()
    wanted, number = chance.randrange(1, LONGEST + 1), 0
    while True:
        key, told = change(chance, rows, number, NARROW)
        number += 1
        if len(group) == wanted or key in seen:
            yield group
            group, seen, wanted = [], set(), chance.randrange(1, LONGEST + 1)
        seen.add(key)
        group.append(_event(told))


def _event(told: dict[str, Any]) -> Row:
    before, after = (cells(image, NARROW) for image in (told.get("p") or told.get("d"), told.get("u")))
    row = {"schema": DATABASE, "table": TABLE, "shape": SHAPE}
    return row | ({"before": before} if before else {}) | ({"after": after} if after else {})


def rows_at_end(feed: Iterable[Message]) -> dict[int, Cells]:
    """The table that a feed tells, by key."""
    found: dict[int, Cells] = {}
    for message in feed:
        told = json.loads(message.value or b"")
        for image in () if told["isDdl"] else told["data"]:
            row = cells_of(image)
            if told["type"] == "DELETE":
                del found[row.id]
            else:
                found[row.id] = row
    return found


def changes_in(feed: Iterable[Message]) -> int:
    return sum(len(json.loads(message.value or b"")["data"] or ()) for message in feed)


def cells_of(row: dict[str, str]) -> Cells:
    """A row as any peer prints it: zeros at the end of a fraction may be left out."""
    moment, _, fraction = row["at"].replace("T", " ").partition(".")
    return Cells(
        int(row["id"]),
        row["customer"],
        Decimal(row["amount"]).quantize(Decimal("0.01")),
        int(row["quantity"]),
        datetime.fromisoformat(f"{moment}.{fraction:0<6}"),
    )
