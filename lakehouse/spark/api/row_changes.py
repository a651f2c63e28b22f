"""A table's changes as its readers see them: typed, under its newest schema, masked as gold masks it."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.ddl_effects import Clear
from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION, Position
from lakehouse.gold.columns import GoldColumn, gold_columns
from lakehouse.gold.upstream import clock_of
from lakehouse.lineage import Lineage, key_ids, key_orders
from lakehouse.reporting.text.values import statement
from lakehouse.spark.change_log.changes import between, counted_changes, position_literal
from lakehouse.spark.gold.layout import constant
from lakehouse.spark.quality.gates import rejected_rows
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.readers.views import typed_changes

Key = Any
"""The value of a key's one column; of several a tuple in the key's order, or a dict by column."""
OPS = ("insert", "update", "delete", "snapshot")
TIMELINE = ("committed_at", "op", "text", "values")
_AS_BEFORE = object()
# what silver's text of a key and gold's value of it agree on
_SAME_TEXT = ("integer", "text")


def counted(reader: Reader) -> DataFrame:
    """Silver's changes of finished batches, without those that a restore or a broken snapshot has voided."""
    if reader.done is None:
        raise LakehouseError(
            f"{reader.source}: expected a finished batch of silver; `lakehouse run silver` makes one"
        )
    return counted_changes(reader.log, reader.done.batch)


def changes_of_table(
    reader: Reader, lineage: Lineage, since: Position | None, until: Position | None
) -> DataFrame:
    """The changes of a table's life after `since`, up to `until`."""
    return _shown(reader, lineage, counted(reader).where(between(since, until)))


def changes_of_row(reader: Reader, lineage: Lineage, key: Key) -> DataFrame:
    """The changes of the row with a key, in the order of the source."""
    columns = key_columns(reader, lineage)
    if not columns:
        name = ".".join(lineage.intervals[-1].name)
        raise LakehouseError(f"{name}: expected a table with a key; without one, choose from `changes`")
    wanted = _named(columns, key, ".".join(lineage.intervals[-1].name))
    rows = counted(reader)
    if (found := _by_text(lineage, columns, wanted)) is not None:
        rows = rows.where(found)
    typed = _shown(reader, lineage, rows)
    same = [_is_row(typed, side, wanted) for side in ("before", "after")]
    return typed.where(same[0] | same[1]).orderBy("position")


def timeline_of(reader: Reader, lineage: Lineage, key: Key, last: int) -> pd.DataFrame:
    """The last changes of a row and the statements between them, with its values after each."""
    newest = changes_of_row(reader, lineage, key).orderBy(F.col("position").desc()).limit(last)
    rows = newest.select("position", "op", "after", F.unix_millis("committed_at").alias("millis")).collect()
    shown = _columns(reader, lineage)
    found: list[tuple[Position, str, datetime | None, Any]] = [
        (tuple(row.position), row.op, _in_utc(row.millis), _there(lineage, shown, row)) for row in rows
    ]
    first = min((one[0] for one in found), default=MIN_POSITION)
    clock = clock_of(reader.settings.format, reader.settings.order)
    for step in lineage.steps:
        if step.ddl is not None and found and step.position > first:
            cleared = any(isinstance(effect, Clear) for effect in step.effects)
            time = clock.moment(lineage.times.get(step.position))
            found.append((step.position, step.ddl, time, None if cleared else _AS_BEFORE))
    return pd.DataFrame(_timeline(sorted(found, key=itemgetter(0))), columns=list(TIMELINE))


def _in_utc(millis: int | None) -> datetime | None:
    """A time; collected as a TIMESTAMP it would be in this machine's time zone."""
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)


def _there(lineage: Lineage, shown: list[GoldColumn], row: Row) -> dict[str, Any] | None:
    """A row after a change, with the columns that the table had then."""
    if row.after is None:
        return None
    then = {column.id for column in lineage.schema_at(tuple(row.position)).columns}
    return {column.name: row.after[column.name] for column in shown if column.column.id in then}


def _timeline(steps: Iterable[tuple[Position, str, datetime | None, Any]]) -> Iterator[tuple[Any, ...]]:
    time, values = None, None
    for _, word, at, row in steps:
        is_ddl = word not in OPS
        # a statement of a feed without its time has that of the change before it
        time = pd.Timestamp(at) if at is not None else time
        values = values if row is _AS_BEFORE else row
        yield time, "ddl" if is_ddl else word, statement(word) if is_ddl else word, values


def rejected_changes(reader: Reader, lineage: Lineage) -> DataFrame:
    """The changes that expectations keep out of gold, with the `reasons`."""
    rejected = rejected_rows(reader.spark, reader.lake, reader.source).where(F.col("lineage") == lineage.id)
    places = rejected.select("position", "origin", "reasons")
    mine = counted(reader).join(rejected.select("key", "position"), ["key", "position"], "left_semi")
    return _shown(reader, lineage, mine).join(places, ["position", "origin"])


def key_columns(reader: Reader, lineage: Lineage) -> list[GoldColumn]:
    """The columns of a table's key, in its order; none where gold has not all of them."""
    columns, ids = _columns(reader, lineage), key_ids(lineage, -1)
    found = [column for one in ids for column in columns if column.column.id == one]
    return found if len(found) == len(ids) else []


def _columns(reader: Reader, lineage: Lineage) -> list[GoldColumn]:
    schema, options = lineage.steps[-1].schema, reader.options(lineage)
    return gold_columns(schema, virtual=reader.settings.virtual, options=options)


def _shown(reader: Reader, lineage: Lineage, rows: DataFrame) -> DataFrame:
    typed = typed_changes(rows, lineage, reader.settings, options=reader.options(lineage))
    return typed.select(
        "committed_at",
        "op",
        "key",
        _changed(typed).alias("changed"),
        "before",
        "after",
        _published(reader, lineage).alias("published"),
        "position",
        "commit_ts",
        "flags",
        "origin",
        "batch",
        "source",
    )


def _changed(typed: DataFrame) -> Column:
    """The names of the columns that an update changed; what an old image of only some columns lacks is no
    change.
    """
    image = typed.schema["after"].dataType
    assert isinstance(image, T.StructType)
    partial = F.array_contains("flags", "partial_before")
    names = []
    for field in image.fields:
        if field.dataType.typeName() != "variant":
            before, after = (F.col(side).getField(field.name) for side in ("before", "after"))
            differs = ~before.eqNullSafe(after) & ~(partial & before.isNull())
            names.append(F.when(differs, F.lit(field.name)))
    is_update = (F.col("op") == "update") & F.col("before").isNotNull() & F.col("after").isNotNull()
    return F.when(is_update, F.array_compact(F.array(*names, F.lit(None).cast("string"))))


def _published(reader: Reader, lineage: Lineage) -> Column:
    """Whether gold has taken a change."""
    if reader.manifest is None:
        return F.lit(False)
    entry = next((one for one in reader.manifest.tables if lineage.id in one.lineages), None)
    upto = reader.manifest.watermark if entry is None else reader.manifest.position_of(entry)
    return F.col("position") <= position_literal(upto)


def _named(columns: list[GoldColumn], key: Key, table: str) -> dict[str, Any]:
    """The key's values by the names of its columns."""
    names = [column.name for column in columns]
    if isinstance(key, Mapping):
        values = dict(key)
    elif isinstance(key, list | tuple):
        values = dict(zip(names, key, strict=False)) if len(key) == len(names) else {}
    else:
        values = {names[0]: key} if len(names) == 1 else {}
    if set(values) != set(names):
        raise LakehouseError(f"{table}: expected a key of {', '.join(names)}")
    return {name: values[name] for name in names}


def _by_text(lineage: Lineage, columns: list[GoldColumn], wanted: Mapping[str, Any]) -> Column | None:
    """A condition on silver's own text of the key, which leaves most rows unread; None where only typed
    values tell.
    """
    orders = key_orders(lineage)
    plain = all(column.mask is None and _is_same_text(lineage, column) for column in columns)
    if len(set(map(frozenset, orders))) > 1 or not plain or any(value is None for value in wanted.values()):
        return None
    texts = {column.column.id: str(wanted[column.name]) for column in columns}
    held = F.from_json("key", T.ArrayType(T.StringType()))
    # a retention floor's rows, and those of messages that know no key, tell theirs by their images alone
    found = F.col("key") == "[]"
    for order in orders:
        found = found | (held == F.array(*[F.lit(texts[one]) for one in order]))
    return found


def _is_same_text(lineage: Lineage, column: GoldColumn) -> bool:
    """Whether silver's text of a key's column is the text of gold's value, whatever types it has had."""
    had = (step.schema.by_id(column.column.id) for step in lineage.steps)
    families = {one.type.family for one in had if one is not None}
    return len(families) == 1 and families <= set(_SAME_TEXT)


def _is_row(typed: DataFrame, side: str, wanted: Mapping[str, Any]) -> Column:
    image = typed.schema[side].dataType
    assert isinstance(image, T.StructType)
    same = F.col(side).isNotNull()
    for name, value in wanted.items():
        same = same & F.col(side).getField(name).eqNullSafe(F.lit(constant(value)).cast(image[name].dataType))
    return same
