"""The ops log's records: those that commit 7c69826 wrote are read as structs, and stored again as they
were."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION
from lakehouse.ops import progress, source_settings
from lakehouse.ops.progress import InPartition
from lakehouse.ops.records import bronze, gold, operators, runs, silver
from lakehouse.ops.records.bronze import Gap
from lakehouse.ops.records.gold import Beginning, Manifest
from lakehouse.ops.records.kinds import KINDS, decode, encode
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.ops.source_settings import SourceSettings
from tests.support.records import table_entry

DATA = Path(__file__).parents[1] / "data/lake-7c69826"
# stored, and empty in each of these lakes
ALWAYS_EMPTY = {"TableEntry.lacking", "Transactions.ends", "SourceSettings.keys"}
# set since those lakes were written
NEWER = {
    "Transactions.divided",
    "Read.wanted",
    "TableEntry.table_id",
    "TableEntry.counted",
    "TableEntry.made_for",
    "HeldAt.shard",
    "Lineages.begun",
    "Retired.read",
    "Planned.read_as",
    "BinlogPlace.tops",
    "Read.batch",
    *(f"DividedStatement.{name}" for name in progress.DividedStatement.__struct_fields__),
    *(f"RowShape.{name}" for name in gold.RowShape.__struct_fields__),
    *(f"Sighted.{name}" for name in gold.Sighted.__struct_fields__),
    *(f"Sightings.{name}" for name in gold.Sightings.__struct_fields__),
    *(f"Intent.{name}" for name in gold.Intent.__struct_fields__),
    *(f"Verified.{name}" for name in operators.Verified.__struct_fields__),
    *(f"VerifiedTable.{name}" for name in operators.VerifiedTable.__struct_fields__),
    "Manifest.disproved",
    "Manifest.silver_rows",
    "Manifest.bronze",
    "Manifest.dismissals",
    "Manifest.lacking",
    "TableEntry.changes",
    "TableSize.rows",
    "Done.short",
    "Done.bronze",
    "Planned.bronze",
    "Planned.files",
    "SentState.since",
    "Transactions.waiting",
    "Transactions.held",
    "Transactions.passed",
    "Transactions.drops",
    *(f"TableSpread.{name}" for name in gold.TableSpread.__struct_fields__),
    *(f"Spreads.{name}" for name in gold.Spreads.__struct_fields__),
    *(f"Summary.{name}" for name in runs.Summary.__struct_fields__),
    "OffsetsLost.read",
    "Manifest.ended",
    "TableSize.topics",
    "Done.backfills",
    "Done.low",
    "Done.snapshots",
    *(f"TableSnapshot.{name}" for name in progress.TableSnapshot.__struct_fields__),
    *(f"TableSnapshots.{name}" for name in progress.TableSnapshots.__struct_fields__),
    "Backfill.ranges",
    "Dismissed.files",
    "FilesMissing.files",
    "Imported.ddl",
    *(f"MissingFile.{name}" for name in bronze.MissingFile.__struct_fields__),
    "Floor.batch",
    "Floor.folded",
    *(f"Beginning.{name}" for name in Beginning.__struct_fields__),
    *(f"TopicEnd.{name}" for name in progress.TopicEnd.__struct_fields__),
    *(f"BronzeRows.{name}" for name in progress.BronzeRows.__struct_fields__),
    "ServerChange.beside",
    *(f"Shortfall.{name}" for name in progress.Shortfall.__struct_fields__),
    *(f"Disproved.{name}" for name in progress.Disproved.__struct_fields__),
}
NEWER_KINDS = {"summary", "backfill", "intent", "missing", "lineages", "sightings", "spreads", "verified"}
STORED = [json.loads(line) for line in (DATA / "records.jsonl").read_text().splitlines()]


SETTINGS = [json.loads(line) for line in (DATA / "settings.jsonl").read_text().splitlines()]


def read(stored: dict[str, Any]) -> Record:
    record = decode(stored["kind"], json.dumps(stored["body"]))
    assert record is not None
    return record


def structs_in(value: Any) -> Iterator[msgspec.Struct]:
    """The structs that a value consists of."""
    parts: Any = ()
    if isinstance(value, msgspec.Struct):
        yield value
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    for part in parts:
        yield from structs_in(part)


def test_a_stored_record_is_stored_again_as_it_was() -> None:
    for stored in STORED:
        record = read(stored)
        assert json.loads(encode(record)) == stored["body"]
        assert record.kind == stored["kind"]


def test_stored_settings_are_stored_again_as_they_were() -> None:
    for stored in SETTINGS:
        settings = msgspec.json.decode(json.dumps(stored), type=SourceSettings)
        assert progress.plain(settings) == stored


def test_every_kind_is_among_the_stored_records() -> None:
    assert {stored["kind"] for stored in STORED} == set(KINDS) - NEWER_KINDS


def test_every_field_is_set_in_a_stored_record() -> None:
    """A field that no writer sets would be one that readers wait for in vain."""
    kinds = [
        one
        for module in (bronze, silver, gold, operators, runs, progress, source_settings)
        for one in vars(module).values()
        if isinstance(one, type)
    ]
    fields = {
        (one, name) for one in kinds if issubclass(one, msgspec.Struct) for name in one.__struct_fields__
    }
    values = [*map(read, STORED), *(msgspec.convert(stored, SourceSettings) for stored in SETTINGS)]
    seen = {
        (type(struct), name)
        for struct in structs_in(values)
        for name in struct.__struct_fields__
        if getattr(struct, name) not in (None, UNSET, (), {})
    }

    never = {
        f"{one.__name__}.{name}"
        for one, name in fields - seen
        if one not in (msgspec.Struct, Gap, InPartition, Record)
    }

    assert never == ALWAYS_EMPTY | NEWER


def test_what_a_storage_sink_lacks_is_stored_with_its_place() -> None:
    known = bronze.MissingFile("d/t/5/CDC000001.csv", ("d", "t"), (0, 5, 2, 0, 0, 1))
    unknown = bronze.MissingFile("7/5/CDC000001.csv", None, (0, 5, 2, 0, 0, 1))
    for record in (
        bronze.FilesMissing(files=(known, unknown)),
        operators.Dismissed(code=None, batch=1, gaps=0, why="w", files=("d/t/5/CDC000001.csv",)),
    ):
        assert decode(record.kind, encode(record)) == record


def test_records_of_older_lakes_are_read_with_defaults() -> None:
    done = {
        "batch": 1,
        "counts": {"messages": 2},
        "top": None,
        "reach": None,
        "next": [],
        "marks": [],
        "dead": [],
        "tables": [],
    }
    entry = {
        "lineage": "a",
        "database": "d",
        "table": "t",
        "gold": "d__t",
        "version": 3,
        "shape": "",
        "state": "exact",
        "since": None,
        "notes": [],
        "names": [["d", "t"]],
    }
    manifest = {"batch": 1, "watermark": MIN_POSITION, "consistency": "resolved", "tables": [entry]}

    old_done, old_manifest = decode("done", json.dumps(done)), decode("manifest", json.dumps(manifest))

    assert isinstance(old_done, Done) and isinstance(old_manifest, Manifest)
    assert (old_done.counts.messages, old_done.counts.copies, old_done.runs, old_done.transactions) == (
        2,
        0,
        {},
        None,
    )
    assert (old_manifest.generation, old_manifest.tables[0].held, old_manifest.tables[0].name) == (
        1,
        None,
        "d.t",
    )


def test_what_says_nothing_is_not_stored() -> None:
    plan = Planned(batch=1, generation="g", small=True, arrow_rows=5, ranges=())
    entry = table_entry(version=3)

    assert encode(plan) == '{"batch": 1, "generation": "g", "small": true, "arrow_rows": 5, "ranges": []}'
    assert not {"stopped", "lacking", "shards", "collided", "made_for"} & set(progress.plain(entry))


def test_what_a_newer_lakehouse_wrote_is_read_as_far_as_it_is_known() -> None:
    assert decode("scan", '{"checkpoint": 5, "folder": "a"}') == bronze.Scan(checkpoint=5)
    assert decode("a kind of tomorrow", '{"checkpoint": 5}') is None


@pytest.mark.parametrize("text", ['{"checkpoint": "5"}', "{}", "[]", "no JSON"])
def test_a_record_that_is_none_is_one_sentence(text: str) -> None:
    with pytest.raises(LakehouseError, match=r"^ops log: expected a record of kind scan, got: "):
        decode("scan", text)
