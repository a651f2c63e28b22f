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
from lakehouse.values.charsets import LOST


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
    def has_columns(self) -> bool:
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
    """The shape of a table by its rows in position order: of each its columns' types, the names in its image,
    those of its key, and its position. None without rows.

    A column whose type no message has (Debezium without schemas, TiCDC's strings) is among them all the same.
    One that was widened by a statement that the feed lacks has the wider type from the beginning.
    """
    types: dict[str, str] = {}
    keys: tuple[str, ...] = ()
    first: Position | None = None
    for row_types, names, key_names, place in rows:
        first, keys, row_types, names = first or place, keys or tuple(key_names), row_types or {}, list(names)
        for column in [*row_types] if row_types.keys() >= set(names) else [*names, *row_types]:
            types[column] = _common_type(types.get(column, ""), row_types.get(column, ""))
    return Shape(types, keys, first) if first else None


def _common_type(known: str, found: str) -> str:
    """The type that holds the values of both; `known` where no type does."""
    if known == found or not known or not found:
        return known or found
    one, other = parse_type(known), parse_type(found)
    if one.family == other.family == "integer":
        return _common_integer(one, other)
    if one.family == other.family == "decimal" and one.length and other.length:
        scale = max(one.scale or 0, other.scale or 0)
        whole = max(type_.length - (type_.scale or 0) for type_ in (one, other) if type_.length)
        return f"decimal({whole + scale},{scale})"
    if one.members and other.members[: len(one.members)] == one.members:
        return found
    if (one.base, other.base) == ("float", "double"):
        return found
    is_longer = one.base == other.base and (other.length or 0) > (one.length or 0)
    return found if is_longer and one.family in ("datetime", "timestamp", "time", "bit") else known


def _common_integer(one: ColumnType, other: ColumnType) -> str:
    unsigned = one.unsigned and other.unsigned
    bits = max(INTEGER_BITS[each.base] + (each.unsigned and not unsigned) for each in (one, other))
    base = next((base for base, most in INTEGER_BITS.items() if most >= bits), "")
    return f"{base}{' unsigned' if unsigned else ''}" if base else "decimal(20,0)"


def inferred_schema(shape: Shape) -> TableSchema:
    """A schema from the types that messages name; a column without one holds the message's text."""
    columns = [Column(0, name, parse_type(text)) for name, text in shape.types.items()]
    return make_schema(columns, tuple(name for name in shape.key_names if name in shape.types), inferred=True)


def with_types(schema: TableSchema, types: Mapping[int, ColumnType]) -> TableSchema:
    """The schema with types for columns that have none from messages, or a DECIMAL without digits."""
    return replace(
        schema,
        columns=tuple(
            replace(column, type=types[column.id]) if _is_more(types.get(column.id), column.type) else column
            for column in schema.columns
        ),
    )


def _is_more(given: ColumnType | None, known: ColumnType) -> bool:
    """Whether a type is more precise than the known one, which is missing or a DECIMAL without digits."""
    if given is None or not known.base:
        return given is not None
    return _has_digits(given) and known.base == "decimal" and not _has_digits(known)


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


def misread_texts(schema: TableSchema, told: TableSchema) -> list[str]:
    """The text columns that a connector takes for ones of another character set: it does not follow every
    CONVERT TO, or a table's new default, and reads bytes of the one as characters of the other.
    """
    read = {name_key(column.name): column.type for column in told.columns}
    pairs = (
        (column.name, column.type, read.get(name_key(column.name)))
        for column in schema.columns
        if not schema.inferred and column.type.family == "text"
    )
    return [
        name
        for name, own, other in pairs
        if other is not None and other.family == "text" and own.charset and other.charset
        if _encoding(own.charset) != _encoding(other.charset)
    ]


def is_other_table(schema: TableSchema, told: TableSchema) -> bool:
    """Whether a connector takes the table for another one than its statements made, and reads rows by that
    one's columns: of an exchange of names it loses a column.
    """
    own, others = ([name_key(column.name) for column in one.columns] for one in (schema, told))
    return not schema.inferred and own != others


def _encoding(charset: str) -> str:
    return "utf8" if charset.startswith("utf8") else charset


def lost_labels(schema: TableSchema) -> list[str]:
    """What is wrong with ENUM and SET columns whose labels a reader of the binlog could not decode: it takes
    the charset of a statement's session for UTF-8.
    """
    lost = (column.name for column in schema.columns if any(LOST in label for label in column.type.members))
    return [f"column {name}: characters of its labels are lost in the statement's message" for name in lost]


def with_columns(schema: TableSchema, added: Sequence[Column]) -> TableSchema:
    """The schema with more columns behind its own, under new ids."""
    numbered = tuple(replace(column, id=schema.next_id + number) for number, column in enumerate(added))
    return replace(schema, columns=(*schema.columns, *numbered), next_id=schema.next_id + len(numbered))


def after_snapshot(before: TableSchema, record: Record) -> TableSchema:
    """The schema of a snapshot's record; the one before it where both are alike, since that has more details.
    Columns of the same name keep their ids.
    """
    recorded = recorded_schema(record)
    same = is_alike(before, recorded) if record.schema is not None else _has_columns_and_key(before, recorded)
    return kept(before, recorded) if same else with_ids_of(before, recorded)


def kept(before: TableSchema, recorded: TableSchema) -> TableSchema:
    """The schema before a snapshot that has the same one, which may add system versioning."""
    return replace(before, versioned=before.versioned or recorded.versioned)


def is_alike(before: TableSchema, recorded: TableSchema) -> bool:
    """Whether a CREATE TABLE has the known schema, in all that decides values, keys, and the effects of later
    statements.
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

    return form(before) == form(recorded)


def _has_columns_and_key(before: TableSchema, recorded: TableSchema) -> bool:
    """The same for a record that has columns and a key alone; its key may be a unique one."""
    names = {column.id: column.name for column in before.columns}
    key = {column.name for column in recorded.columns if column.id in recorded.primary_key}
    return key == {names[column] for column in before.handle_key} and [
        (column.name, column.type, column.not_null) for column in before.columns
    ] == [(column.name, column.type, column.not_null) for column in recorded.columns]


def with_ids_of(before: TableSchema, recorded: TableSchema) -> TableSchema:
    """The recorded schema, with the ids of columns of the same name before, and new ids for the others. What
    gold keeps of older schemas stays kept.
    """
    next_id = before.next_id
    ids: dict[int, int] = {}
    for column in recorded.columns:
        same = before.column(column.name)
        ids[column.id] = same.id if same is not None else next_id
        next_id += same is None

    def renumbered(key: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(ids[column_id] for column_id in key)

    rule = recorded.partition
    return replace(
        recorded,
        columns=tuple(replace(column, id=ids[column.id]) for column in recorded.columns),
        primary_key=renumbered(recorded.primary_key),
        unique_keys=tuple(renumbered(key) for key in recorded.unique_keys),
        partition=None if rule is None else replace(rule, columns=renumbered(rule.columns)),
        indexes=tuple(replace(index, columns=renumbered(index.columns)) for index in recorded.indexes),
        next_id=next_id,
        keeps=_kept_by_gold(before.keeps, set(ids.values())),
        versioned=before.versioned or recorded.versioned,
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
    """The effects on images of former rows where a table of the same name gets another schema: columns that
    it lacks are dropped, those of another type converted.
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
