"""Who writes a record sets all of its fields: a default is for the records of older lakes."""

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from lakehouse.ops import records, source_settings
from lakehouse.ops.records.bronze import Gap
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.kinds import KINDS
from lakehouse.ops.records.record import Record
from lakehouse.ops.source_settings import SourceSettings

CODE = Path(records.__file__).parents[2]
STRUCTS: tuple[type[msgspec.Struct], ...] = (
    *Record.__subclasses__(),
    *Gap.__subclasses__(),
    TableEntry,
    SourceSettings,
)
WRITTEN = {one.__name__: one for one in STRUCTS}


def required(record: type[msgspec.Struct]) -> set[str]:
    """The fields that a stored record always has: not those that are stored only where they say something."""
    info = msgspec.structs.fields(record)
    if record.__struct_config__.omit_defaults:
        return {field.name for field in info if field.required}
    return {field.name for field in info if field.default is not UNSET}


def written(source: str) -> Iterator[tuple[type[msgspec.Struct], set[str]]]:
    """The records that a module makes, with the fields that it sets."""
    tree = ast.parse(source)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    names = {
        one.asname or one.name: WRITTEN[one.name]
        for node in imports
        if (node.module or "").startswith((f"{records.__name__}.", source_settings.__name__))
        for one in node.names
        if one.name in WRITTEN
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield names[node.func.id], {one.arg for one in node.keywords if one.arg is not None}


def test_every_writer_sets_every_field() -> None:
    made = [(path, *one) for path in CODE.rglob("*.py") for one in written(path.read_text())]

    forgotten = {
        f"{path.name}: {record.__name__}.{name}"
        for path, record, fields in made
        for name in required(record) - fields
    }

    assert forgotten == set()
    assert {record.kind for _, record, _ in made if issubclass(record, Record)} == set(KINDS)


@pytest.mark.parametrize("left_out", ["asked=None, ", "rebuilds=0, "])
def test_a_field_that_is_left_out_is_seen(left_out: str) -> None:
    call = (
        "Manifest(batch=1, watermark=w, held_by=None, consistency='', auto=True, tables=(), applied=0, "
        "asked=None, generation=1, rebuilds=0, problems=())"
    )
    module = f"from lakehouse.ops.records.gold import Manifest\n{call.replace(left_out, '')}"

    ((record, fields),) = written(module)

    assert record is Manifest
    assert required(record) - fields == {left_out.partition("=")[0]}
