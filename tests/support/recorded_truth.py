"""Recordings under tests/data with their truth, and the one question that tests ask of both: are these the
same values?

A truth cell is the server's text with the column's type. Both it and a decoded value go through `resolve`,
which brings equal values into one form, so a wire value that only the schema can read is compared by what it
means.
"""

import base64
import gzip
import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lakehouse.events import Message, RowChange
from lakehouse.schema import ColumnType, parse_type
from lakehouse.values.decode_with_schema import resolve
from lakehouse.values.scalars import timestamp_utc


def recorded(path: Path) -> Iterator[tuple[Message, list[dict[str, Any]]]]:
    """The messages of a recording, each with the events that its truth expects."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            headers = tuple((name, _bytes(value)) for name, value in line.get("headers", ()))
            topic = line.get("topic", path.name)
            message = Message(
                topic,
                line["partition"],
                line["offset"],
                _bytes(line["key_b64"]),
                _bytes(line["value_b64"]),
                headers,
            )
            yield message, line.get("expected", {}).get("events", [])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def true_value(value: Any, column_type: ColumnType, zone: str = "UTC") -> Any:
    """The canonical value of the server's text."""
    if value is None:
        return None
    match column_type.family:
        case "integer" | "bit" | "year":
            value = int(value)
        case "float" | "double":
            value = float(value)
        case "binary":
            value = base64.b64encode(
                bytes.fromhex(value["hex"] if isinstance(value, dict) else value.removeprefix("0x"))
            ).decode()
        case "geometry":
            value = base64.b64encode(
                struct.pack("<I", value["srid"]) + bytes.fromhex(value["wkb_hex"])
            ).decode()
        case "timestamp":
            value = timestamp_utc(value, zone)
    return resolve(value, column_type, "canonical")


def fold(changes: Iterable[RowChange]) -> dict[str, dict[tuple[Any, ...], tuple[dict[str, Any], str]]]:
    """Tables as the changes leave them: by key, in the order of positions, each position once."""
    once = {(change.table, change.key, change.position): change for change in changes}
    tables: dict[str, dict[tuple[Any, ...], tuple[dict[str, Any], str]]] = {}
    for change in sorted(once.values(), key=lambda change: change.position):
        rows = tables.setdefault(change.table, {})
        if change.after is None:
            rows.pop(change.key, None)
        else:
            rows[change.key] = (change.after, change.encoding)
    return tables


def wrong_cells(
    truth: dict[str, Any], tables: dict[str, dict[tuple[Any, ...], tuple[dict[str, Any], str]]]
) -> list[str]:
    """Where folded tables differ from the truth, in every column that a row's last message carried."""
    wrong = []
    for table, told in truth.items():
        types = {name: parse_type(text) for name, text in told["types"].items()}
        names = sorted(told["primary_key"])
        expected = {tuple(row[name] for name in names): row for row in told["rows"]}
        actual = tables.get(table, {})
        wrong += [f"{table}: missing row" for key in expected if key not in actual]
        wrong += [f"{table}: row too many" for key in actual if key not in expected]
        for key in expected.keys() & actual.keys():
            image, encoding = actual[key]
            wrong += [
                f"{table}.{name}: {value!r}"
                for name, value in image.items()
                if resolve(value, types[name], encoding) != true_value(expected[key][name], types[name])
            ]
    return wrong
