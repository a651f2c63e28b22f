"""Gold's own columns, which a mode adds to the source's columns: names, types, and text of their values.

    soft      _deleted, _deleted_at
    history   _valid_from, _valid_to, _current, and the exact bounds _from_ts and _to_ts, in the feed's own
              commit times
    append    _op, _commit_ts, _committed_at, _position
    shards    _shard

Own columns have negative ids, so that rows, typing and merging treat them as any other. Where the source has
a column of that name, the own one has an underscore more.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lakehouse.events import POSITION_PARTS, position_struct
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import GoldColumn, gold_column
from lakehouse.gold.masks import Masked
from lakehouse.gold.options import GoldOptions
from lakehouse.schema import Column, parse_type
from lakehouse.values.scalars import base64_text

DELETED, DELETED_AT = -1, -2
VALID_FROM, VALID_TO, CURRENT, FROM_TS, TO_TS = -3, -4, -5, -6, -7
OP, COMMIT_TS, COMMITTED_AT, POSITION = -8, -9, -10, -11
SHARD, COMPUTED = -12, -13
_TYPES = {
    DELETED: ("_deleted", "BOOLEAN"),
    DELETED_AT: ("_deleted_at", "TIMESTAMP"),
    VALID_FROM: ("_valid_from", "TIMESTAMP"),
    VALID_TO: ("_valid_to", "TIMESTAMP"),
    CURRENT: ("_current", "BOOLEAN"),
    FROM_TS: ("_from_ts", "BIGINT"),
    TO_TS: ("_to_ts", "BIGINT"),
    OP: ("_op", "STRING"),
    COMMIT_TS: ("_commit_ts", "BIGINT"),
    COMMITTED_AT: ("_committed_at", "TIMESTAMP"),
    POSITION: ("_position", f"STRUCT<{', '.join(f'{part}: BIGINT' for part in POSITION_PARTS)}>"),
    SHARD: ("_shard", "STRING"),
}
_OF_MODE = {
    "soft": (DELETED, DELETED_AT),
    "history": (VALID_FROM, VALID_TO, CURRENT, FROM_TS, TO_TS),
    "append": (OP, COMMIT_TS, COMMITTED_AT, POSITION),
    "upsert": (),
}


def mode_word(options: GoldOptions) -> str:
    """The mode as these columns know it: upsert with soft deletes is `soft`."""
    return "soft" if options.mode == "upsert" and options.deletes == "soft" else options.mode


def own_columns(options: GoldOptions, taken: Iterable[str]) -> list[GoldColumn]:
    """The columns that the mode adds, behind the source's, whose names are `taken`."""
    names = {name.casefold() for name in taken}
    ids = [*_OF_MODE[mode_word(options)], *([SHARD] if options.merged else [])]
    return [own_column(column_id, names) for column_id in ids]


def own_column(column_id: int, taken: set[str]) -> GoldColumn:
    """One own column, under a name that is not taken."""
    name, spark = _TYPES[column_id]
    while name.casefold() in taken:
        name = f"_{name}"
    base = "timestamp(3)" if spark == "TIMESTAMP" else "varchar(64)"
    column = Column(column_id, name, parse_type(base))
    to_python = position_struct if column_id == POSITION else _same
    return GoldColumn(column, spark, to_python, _PRINTED.get(spark[:6], _same), companion="")


def remade(column: Column, spark: str, companion: str, mask: str | None) -> GoldColumn:
    """A gold column from what is plain data, so that workers can make it. A column that a shard has not has
    the id 0.
    """
    if column.id >= 0:
        return gold_column(column, spark, companion, mask)
    return replace(own_column(column.id, set()), column=column)


def computed_column(name: str) -> GoldColumn:
    """A column that Spark computes, as it is printed: whatever JSON has no word for, as text."""
    return GoldColumn(
        Column(COMPUTED, name, parse_type("varchar(64)")), "", _same, _printed_value, companion=""
    )


def _printed_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64_text(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{value.astimezone(UTC).replace(tzinfo=None)}Z"
    if isinstance(value, list):
        return [_printed_value(item) for item in value]
    if isinstance(value, dict):
        return {name: _printed_value(item) for name, item in value.items()}
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _same(value: Any) -> Any:
    return value


def _printed_moment(value: datetime) -> str:
    text = value.astimezone(UTC) if value.tzinfo else value
    return f"{text:%Y-%m-%d %H:%M:%S}.{text.microsecond // 1000:03d}Z"


_PRINTED: Mapping[str, Callable[[Any], Any]] = {
    "TIMEST": _printed_moment,
    "STRUCT": lambda value: [value[part] for part in POSITION_PARTS],
}


def source_part(row: Row) -> Row:
    """A row of gold without gold's own columns."""
    return {column_id: value for column_id, value in row.items() if column_id > 0}


def canonical_rows(columns: list[GoldColumn], values: Mapping[str, list[Any]], count: int) -> list[Row]:
    """Rows of a gold table, given column by column, as rows by id again. Values that a mask made are marked
    as such.
    """
    read = [(column, values[column.name]) for column in columns if column.name in values]
    return [
        {column.column.id: _read(column, held[index]) for column, held in read if held[index] is not None}
        for index in range(count)
    ]


def _read(column: GoldColumn, value: Any) -> Any:
    if column.column.id == POSITION:
        return tuple(value[part] for part in POSITION_PARTS)
    if column.column.id < 0:
        return value
    return Masked(value) if column.mask is not None else column.to_canonical(value)
