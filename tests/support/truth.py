"""The truth that a TiCDC recording carries, as canonical values: what SELECT gave on the source, not what a
message says.
"""

import base64
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit")


def canonical(cell: dict[str, Any], zone: str) -> Any:
    """The value that a right decoder gives for a cell {"type", "value", "num"?}: ENUM and SET as index and
    mask.
    """
    value, kind = cell["value"], cell["type"].split("(")[0].split()[0].lower()
    if value is None:
        return None
    if cell.get("num") is not None:
        return int(cell["num"])
    if kind in INTEGERS:
        return int(value)
    if kind in ("float", "double"):
        return float(value)
    if "binary" in kind or "blob" in kind:
        return base64.b64encode(bytes.fromhex(value.removeprefix("0x"))).decode()
    if kind == "timestamp" and not value.startswith("0000"):
        moved = datetime.fromisoformat(value[:19]).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        return f"{moved.replace(tzinfo=None)}{value[19:]}Z"
    return value


def image(cells: dict[str, Any] | None, zone: str) -> dict[str, Any] | None:
    return None if cells is None else {name: canonical(cell, zone) for name, cell in cells.items()}


def truth(recording: Path) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """((partition, offset), event) for every event of the recording."""
    for message in map(json.loads, gzip.decompress(recording.read_bytes()).splitlines()):
        for event in message["expected"]["events"]:
            yield (message["partition"], message["offset"]), event


def meta(recording: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        recording.with_name(recording.name.replace(".jsonl.gz", ".meta.json")).read_text()
    )
    return found


def options(recording: Path) -> dict[str, str]:
    """The settings of the feed that its messages do not tell."""
    told = meta(recording)
    settings = {
        "time_zone": told["time_zone"],
        "compression": told["options"].get("large-message-handle-compression", "none"),
    }
    files = told.get("claim_check_files")
    return {**settings, "claim_check": str(recording.parent / files)} if files else settings
