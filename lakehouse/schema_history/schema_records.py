"""Schemas from schema records and rows, for tables without a CREATE."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.ddl_effects import Drop, Effect, Retype
from lakehouse.events import MIN_POSITION, Position
from lakehouse.schema import (
    INTEGER_BITS,
    Column,
    ColumnType,
    GoldKeeps,
    TableSchema,
    make_schema,
    name_key,
    parse_type,
)


@dataclass(frozen=True, slots=True)
class Record:
    """A row of silver's schema_changes; where its message has no columns, `schema` is its statement's."""

    kind: str
    database: str
    table: str | None
    position: Position
    ddl: str | None
    columns: list[dict[str, Any]] | None = None
    primary_key: tuple[str, ...] | None = None
    commit_ts: int | None = None
    schema: TableSchema | None = None

    @property
    def tells_columns(self) -> bool:
        return bool(self.columns) or self.schema is not None


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a name as its rows show them: types by name (in table order where the wire has it; ""
    where no message has a type), the key, and the first row's place.
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
    One that a statement has widened, which the feed does not have, has the wider type from its beginning on.
    """
    types: dict[str, str] = {}
    keys: tuple[str, ...] = ()
    first: Position | None = None
    for told, names, key_names, place in rows:
        first, keys, told, names = first or place, keys or tuple(key_names), told or {}, list(names)
        for column in [*told] if told.keys() >= set(names) else [*names, *told]:
            types[column] = _of_both(types.get(column, ""), told.get(column, ""))
    return Shape(types, keys, first) if first else None


def _of_both(known: str, told: str) -> str:
    """The type that holds the values of two; the first of those that have none in common."""
    if known == told or not known or not told:
        return known or told
    one, other = parse_type(known), parse_type(told)
    if one.family == other.family == "integer":
        return _integer_of_both(one, other)
    if one.family == other.family == "decimal" and one.length and other.length:
        scale = max(one.scale or 0, other.scale or 0)
        whole = max(type_.length - (type_.scale or 0) for type_ in (one, other) if type_.length)
        return f"decimal({whole + scale},{scale})"
    if one.members and other.members[: len(one.members)] == one.members:
        return told
    if (one.base, other.base) == ("float", "double"):
        return told
    is_longer = one.base == other.base and (other.length or 0) > (one.length or 0)
    return told if is_longer and one.family in ("datetime", "timestamp", "time", "bit") else known


def _integer_of_both(one: ColumnType, other: ColumnType) -> str:
    unsigned = one.unsigned and other.unsigned
    bits = max(INTEGER_BITS[each.base] + (each.unsigned and not unsigned) for each in (one, other))
    base = next((base for base, most in INTEGER_BITS.items() if most >= bits), "")
    return f"{base}{' unsigned' if unsigned else ''}" if base else "decimal(20,0)"


def inferred_schema(shape: Shape) -> TableSchema:
    """A schema made of type words alone, as messages have them; a column without a type holds the wire's
    text.
    """
    columns = [Column(0, name, parse_type(text)) for name, text in shape.types.items()]
    return make_schema(columns, tuple(name for name in shape.key_names if name in shape.types), inferred=True)


def with_types(schema: TableSchema, types: Mapping[int, ColumnType]) -> TableSchema:
    """The schema with types for the columns that have none from messages, or only a word of theirs."""
    return replace(
        schema,
        columns=tuple(
            replace(column, type=types[column.id]) if _is_more(types.get(column.id), column.type) else column
            for column in schema.columns
        ),
    )


def _is_more(told: ColumnType | None, known: ColumnType) -> bool:
    """Whether a type says more of a column than the one that is known, which has no word, or no digits."""
    if told is None or not known.base:
        return told is not None
    return _has_digits(told) and known.base == "decimal" and not _has_digits(known)


def _has_digits(type_: ColumnType) -> bool:
    """Whether it is a DECIMAL whose digits are known."""
    return type_.base == "decimal" and type_.length is not None


def with_charsets(schema: TableSchema, told: TableSchema) -> TableSchema:
    """The schema with the charsets of text columns that the statements have not named; one in UTF-8 is as
    good as none.
    """
    named = {
        name_key(column.name): column.type.charset
        for column in told.columns
        if not (column.type.charset or "").startswith(("utf8", "binary"))
    }
    columns = tuple(
        replace(column, type=replace(column.type, charset=named.get(name_key(column.name))))
        if column.type.family == "text" and column.type.charset is None
        else column
        for column in schema.columns
    )
    return schema if columns == schema.columns else replace(schema, columns=columns)


def with_columns(schema: TableSchema, added: Sequence[Column]) -> TableSchema:
    """The schema with more columns behind its own, under new ids."""
    numbered = tuple(replace(column, id=schema.next_id + number) for number, column in enumerate(added))
    return replace(schema, columns=(*schema.columns, *numbered), next_id=schema.next_id + len(numbered))


def after_snapshot(before: TableSchema, record: Record) -> TableSchema:
    """The schema of a snapshot's record, or the one before it where they are alike and that knows more. Same
    names keep their ids.
    """
    told = recorded_schema(record)
    same = is_alike(before, told) if record.schema is not None else _has_columns_and_key(before, told)
    return kept(before, told) if same else with_ids_of(before, told)


def kept(before: TableSchema, told: TableSchema) -> TableSchema:
    """The schema that was known, where a snapshot tells the same."""
    return replace(before, versioned=before.versioned or told.versioned)


def is_alike(before: TableSchema, told: TableSchema) -> bool:
    """Whether a CREATE TABLE tells what was known: what is compared decides values, keys, and the effects of
    later statements.
    """

    def form(schema: TableSchema) -> tuple[object, ...]:
        names = {column.id: column.name for column in schema.columns}
        columns = [
            (one.name, one.type, one.not_null, one.generated, one.expression) for one in schema.columns
        ]
        keys = [[names[key] for key in ids] for ids in (schema.primary_key, *schema.unique_keys)]
        rule = schema.partition
        bounds = rule and (rule.method, [names[key] for key in rule.columns], rule.partitions)
        return columns, keys, bounds

    return form(before) == form(told)


def _has_columns_and_key(before: TableSchema, told: TableSchema) -> bool:
    """The same for a record that has columns and a key alone; its key may be a unique one."""
    names = {column.id: column.name for column in before.columns}
    key = {column.name for column in told.columns if column.id in told.primary_key}
    return key == {names[column] for column in before.handle_key} and [
        (column.name, column.type, column.not_null) for column in before.columns
    ] == [(column.name, column.type, column.not_null) for column in told.columns]


def with_ids_of(before: TableSchema, told: TableSchema) -> TableSchema:
    """A schema whose columns have the ids of those of the same name before, and new ones where there are
    none. What gold keeps of older shapes it goes on to keep.
    """
    next_id = before.next_id
    ids: dict[int, int] = {}
    for column in told.columns:
        same = before.column(column.name)
        ids[column.id] = same.id if same is not None else next_id
        next_id += same is None

    def renumbered(key: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(ids[column_id] for column_id in key)

    rule = told.partition
    return replace(
        told,
        columns=tuple(replace(column, id=ids[column.id]) for column in told.columns),
        primary_key=renumbered(told.primary_key),
        unique_keys=tuple(renumbered(key) for key in told.unique_keys),
        partition=None if rule is None else replace(rule, columns=renumbered(rule.columns)),
        indexes=tuple(replace(index, columns=renumbered(index.columns)) for index in told.indexes),
        next_id=next_id,
        keeps=_kept_by_gold(before.keeps, set(ids.values())),
        versioned=before.versioned or told.versioned,
    )


def _kept_by_gold(keeps: GoldKeeps, living: set[int]) -> GoldKeeps:
    types = living | {column.id for column in keeps.dropped}
    return replace(
        keeps,
        hidden=tuple(key for key in keeps.hidden if key in living),
        names=tuple((key, name) for key, name in keeps.names if key in living),
        types=tuple((key, kind) for key, kind in keeps.types if key in types),
    )


def replaced(before: TableSchema, after: TableSchema) -> tuple[Effect, ...]:
    """What becomes of the images of rows that are gone, where a table of the same name has another schema: a
    column that it has not goes, one of another type is converted.
    """
    effects: list[Effect] = []
    following = {column.id: column for column in after.columns}
    for column in before.columns:
        same = following.get(column.id)
        if same is None:
            effects.append(Drop(column.id))
        elif same.type != column.type:
            effects.append(Retype(column.id, column.type, same.type))
    return tuple(effects)


def recorded_schema(record: Record) -> TableSchema:
    """The schema of a schema file, a tableChanges record or a snapshot's CREATE TABLE."""
    if record.schema is not None:
        return record.schema
    key = {name_key(name) for name in record.primary_key or ()}
    columns = [
        Column(
            0,
            entry["name"],
            parse_type(entry["type"]),
            bool(entry.get("not_null")) or name_key(entry["name"]) in key,
            default=entry.get("default"),
            generated=entry.get("generated"),
        )
        for entry in record.columns or []
    ]
    names = {name_key(column.name) for column in columns}
    return make_schema(columns, tuple(name for name in record.primary_key or () if name_key(name) in names))
