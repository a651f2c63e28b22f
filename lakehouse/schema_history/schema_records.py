"""What records and rows tell of a table's shape, as schemas: where no CREATE does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.events import MIN_POSITION, Position
from lakehouse.schema import Column, ColumnType, TableSchema, make_schema, parse_type


@dataclass(frozen=True, slots=True)
class Record:
    """One row of silver's schema_changes."""

    kind: str
    database: str
    table: str | None
    position: Position
    ddl: str | None
    columns: list[dict[str, Any]] | None = None
    primary_key: tuple[str, ...] | None = None
    commit_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """What rows of a name tell of its columns: types by name (table order where the wire has it; "" where no
    message tells one), the key, and the first row's place.
    """

    types: Mapping[str, str]
    key_names: tuple[str, ...]
    first: Position = MIN_POSITION


def shape_of_rows(
    rows: Iterable[tuple[Mapping[str, str] | None, Iterable[str], tuple[str, ...], Position]],
) -> Shape | None:
    """The shape that rows tell, each by its types, the names in its image, its key's and its place, in
    position order; None where there are none.

    A column whose type no message tells (Debezium without schemas, TiCDC's strings) is there all the same.
    """
    types: dict[str, str] = {}
    keys: tuple[str, ...] = ()
    first: Position | None = None
    for told, names, key_names, place in rows:
        first, keys, told, names = first or place, keys or tuple(key_names), told or {}, list(names)
        for column in [*told] if told.keys() >= set(names) else [*names, *told]:
            types[column] = types.get(column) or told.get(column, "")
    return Shape(types, keys, first) if first else None


def inferred_schema(shape: Shape) -> TableSchema:
    """A schema of type words alone, as messages tell it; a column without one holds the wire's text."""
    columns = [Column(0, name, parse_type(text)) for name, text in shape.types.items()]
    return make_schema(columns, tuple(name for name in shape.key_names if name in shape.types), inferred=True)


def with_types(schema: TableSchema, types: Mapping[int, ColumnType]) -> TableSchema:
    """The schema with the types of those columns that no message has told."""
    return replace(
        schema,
        columns=tuple(
            replace(column, type=types.get(column.id, column.type)) if not column.type.base else column
            for column in schema.columns
        ),
    )


def with_columns(schema: TableSchema, added: Sequence[Column]) -> TableSchema:
    """The schema with more columns behind its own, under new ids."""
    numbered = tuple(replace(column, id=schema.next_id + number) for number, column in enumerate(added))
    return replace(schema, columns=(*schema.columns, *numbered), next_id=schema.next_id + len(numbered))


def kept_ids(before: TableSchema, told: TableSchema) -> TableSchema:
    """The schema that a snapshot tells, or the one before it where they are alike: that one knows more. Same
    names keep their ids.
    """
    if [(column.name, column.type) for column in before.columns] == [
        (column.name, column.type) for column in told.columns
    ]:
        return before
    next_id = before.next_id
    ids: dict[int, int] = {}
    for column in told.columns:
        same = before.column(column.name)
        ids[column.id] = same.id if same is not None else next_id
        next_id += same is None
    columns = tuple(replace(column, id=ids[column.id]) for column in told.columns)
    return replace(
        told, columns=columns, primary_key=tuple(ids[key] for key in told.primary_key), next_id=next_id
    )


def recorded_schema(record: Record) -> TableSchema:
    """The schema of a schema file or a tableChanges record."""
    columns = [
        Column(
            0,
            entry["name"],
            parse_type(entry["type"]),
            bool(entry.get("not_null")),
            default=entry.get("default"),
            generated=entry.get("generated"),
        )
        for entry in record.columns or []
    ]
    names = {column.name.casefold() for column in columns}
    return make_schema(columns, tuple(name for name in record.primary_key or () if name.casefold() in names))
