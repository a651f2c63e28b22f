"""The records of all kinds: reading and writing them as they are stored."""

import json
from typing import Any

import msgspec

from lakehouse.errors import LakehouseError
from lakehouse.ops.progress import plain
from lakehouse.ops.records.bronze import (
    Backfill,
    FilesMissing,
    Gap,
    Looked,
    OffsetsLost,
    Partitions,
    Read,
    Scan,
    TopicCreatedAgain,
)
from lakehouse.ops.records.gold import Inferred, Intent, Lineages, Manifest, Sightings, Spreads
from lakehouse.ops.records.operators import (
    Accepted,
    Decision,
    Dismissed,
    Epoch,
    Floor,
    Generation,
    Imported,
    Rebuild,
    Rebuilding,
    Retired,
    Verified,
)
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.runs import Run, Summary
from lakehouse.ops.records.silver import Done, Planned

KINDS: dict[str, type[Record]] = {
    one.kind: one
    for one in (
        Planned,
        Done,
        Intent,
        Manifest,
        Inferred,
        Lineages,
        Sightings,
        Spreads,
        Read,
        Partitions,
        Gap,
        Backfill,
        Scan,
        FilesMissing,
        Looked,
        Epoch,
        Retired,
        Dismissed,
        Decision,
        Imported,
        Rebuild,
        Accepted,
        Floor,
        Verified,
        Rebuilding,
        Generation,
        Run,
        Summary,
    )
}


def decode(kind: str, text: str) -> Record | None:
    """The record that is stored as `text`; None for a kind that only a newer lakehouse knows. LakehouseError
    where it is no record."""
    stored = KINDS.get(kind)
    if stored is None:
        return None
    try:
        if stored is Gap:
            stored = TopicCreatedAgain if "by" in json.loads(text) else OffsetsLost
        return msgspec.json.decode(text, type=stored)
    except (msgspec.MsgspecError, ValueError) as error:
        raise LakehouseError(f"ops log: expected a record of kind {kind}, got: {error}") from error


def encode(record: Record) -> str:
    """The record as it is stored."""
    return json.dumps(msgspec.to_builtins(record))


def to_json(value: msgspec.Struct) -> dict[str, Any]:
    """A record, or a part of one, as the plain data that commands print."""
    members = plain(value)
    assert isinstance(members, dict)
    return members
