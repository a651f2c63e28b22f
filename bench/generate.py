"""Seeded TiCDC Open Protocol messages: CREATE TABLE, inserts, updates with old values, deletes, resolved
events.

One row event per message, as with `max-batch-size=1`: the baselines then need no loop over a message's
frames, which favours them. The same seed gives the same bytes.
"""

import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from lakehouse.events import Message
from lakehouse.formats.open_frames import framed

DATABASE, TOPIC, FIRST_TS = "bench", "bench", 470_600_000_000_000_000
PARTITIONS, RESOLVED_EVERY = 3, 500
RECENT = 1000  # changes are of one of the newest so many rows
INT, BIGINT, VARCHAR, DECIMAL, DATETIME, DOUBLE = 3, 8, 15, 246, 12, 5


class Field(NamedTuple):
    """A column: its SQL type, its type code on the wire, and the type that a notebook would cast it to."""

    name: str
    sql: str
    code: int
    spark: str


NARROW = (
    Field("id", "BIGINT PRIMARY KEY", BIGINT, "bigint"),
    Field("customer", "VARCHAR(64)", VARCHAR, "string"),
    Field("amount", "DECIMAL(12,2)", DECIMAL, "decimal(12,2)"),
    Field("quantity", "INT", INT, "int"),
    Field("at", "DATETIME(6)", DATETIME, "timestamp_ntz"),
)
KINDS = (
    ("VARCHAR(64)", VARCHAR, "string"),
    ("DECIMAL(12,2)", DECIMAL, "decimal(12,2)"),
    ("INT", INT, "int"),
    ("DOUBLE", DOUBLE, "double"),
)
WIDE = (*NARROW, *(Field(f"c{number}", *KINDS[number % len(KINDS)]) for number in range(35)))


def table_names(tables: int) -> list[str]:
    return [f"t{number}" for number in range(tables)]


def generate(count: int, tables: int, fields: tuple[Field, ...], seed: int = 1) -> Iterator[Message]:
    """`count` row messages over `tables` tables, with the DDL before and the resolved events between them."""
    chance, topic, ts = random.Random(seed), Topic(), FIRST_TS
    for name in table_names(tables):
        ts += 1 << 18
        columns = ", ".join(f"`{field.name}` {field.sql}" for field in fields)
        yield from topic.broadcast(
            {"ts": ts, "scm": DATABASE, "tbl": name, "t": 2},
            {"q": f"CREATE TABLE `{name}` ({columns})", "t": 3},
        )
    rows: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in table_names(tables)}
    for number in range(count):
        ts += chance.randrange(1, 1 << 20)
        name = chance.choice(table_names(tables))
        key, value = change(chance, rows[name], number, fields)
        yield topic.message(key % PARTITIONS, {"ts": ts, "scm": DATABASE, "tbl": name, "t": 1}, value)
        if number % RESOLVED_EVERY == RESOLVED_EVERY - 1:
            yield from topic.broadcast({"ts": ts, "t": 3}, None)
    yield from topic.broadcast({"ts": ts + 1, "t": 3}, None)


def change(
    chance: random.Random, rows: dict[int, dict[str, Any]], number: int, fields: tuple[Field, ...]
) -> tuple[int, dict[str, Any]]:
    """One change of a table: six inserts to three updates to one delete; returns the key and the wire's
    value.
    """
    dice = chance.random()
    if not rows or dice < 0.6:
        rows[number] = image(chance, number, fields)
        return number, {"u": rows[number]}
    key = chance.choice([*islice(reversed(rows), RECENT)][::-1])
    if dice < 0.9:
        old, rows[key] = rows[key], image(chance, key, fields)
        return key, {"u": rows[key], "p": old}
    return key, {"d": rows.pop(key)}


def image(chance: random.Random, key: int, fields: tuple[Field, ...]) -> dict[str, Any]:
    first = {fields[0].name: {"t": BIGINT, "h": True, "f": 11, "v": key}}
    return first | {
        field.name: {
            "t": field.code,
            "f": 65 if field.code != VARCHAR else 64,
            "v": value(chance, field.code),
        }
        for field in fields[1:]
    }


def value(chance: random.Random, code: int) -> Any:
    match code:
        case 15:
            return f"{chance.getrandbits(64):016x}" * chance.randrange(1, 4)
        case 246:
            return f"{chance.randrange(10**8)}.{chance.randrange(100):02}"
        case 12:
            day = f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
            return f"{day} 12:30:{chance.randrange(60):02}.{chance.randrange(10**6):06}"
        case 5:
            return chance.random()
        case _:
            return chance.randrange(1 << 31)


class Topic:
    """Hands out offsets."""

    def __init__(self) -> None:
        self.next = [0] * PARTITIONS

    def message(self, partition: int, key: dict[str, Any], value: dict[str, Any] | None) -> Message:
        encoded = framed([dumps(key)], [b"" if value is None else dumps(value)])
        self.next[partition] += 1
        return Message(TOPIC, partition, self.next[partition] - 1, *encoded)

    def broadcast(self, key: dict[str, Any], value: dict[str, Any] | None) -> Iterator[Message]:
        return (self.message(partition, key, value) for partition in range(PARTITIONS))


def dumps(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
