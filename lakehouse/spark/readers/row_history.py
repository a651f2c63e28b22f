"""The changes of a table or of one of its rows, as gold's readers may see them."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_
from typing import Any

import msgspec
from pyspark.sql import Column, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.events import Position, just_below
from lakehouse.fold.upcast import Carrier
from lakehouse.gold.modes import Mode
from lakehouse.gold.shown_images import Shown, shown_image
from lakehouse.gold.upstream import upstream_of
from lakehouse.lineage import Lineage, key_orders
from lakehouse.ops.records.gold import TableEntry
from lakehouse.reporting.text.values import origin
from lakehouse.reporting.web.readings import After, Image, RowChange
from lakehouse.spark.change_log.changes import any_of, between, counted_changes, of_lineage
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.readers.timeline import commit_millis

# A key of more columns is looked for as it most likely is, not in every way.
COLUMNS = 6
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,40})(\.\d{1,40})?")


def key_columns(reader: Reader, entry: TableEntry) -> tuple[str, ...]:
    """Gold's names of a table's key, in the order in which its messages name them; () where gold has no key
    as it is in messages: there is none, it is masked, or left out.
    """
    shown = {one.column.id: one.name for one in reader.columns((entry.database, entry.table))}
    return tuple(shown[column] for column in _key_ids(reader, entry))


def _key_ids(reader: Reader, entry: TableEntry) -> tuple[int, ...]:
    """The columns of the key by their ids, in the same order."""
    modes = reader.modes(entry)
    named = [size.keys for size in (reader.done.tables if reader.done else ()) if size.name in entry.names]
    names = named[-1] if named else None
    if not names or not all(mode.advances and set(mode.ids) == set(modes[0].ids) for mode in modes):
        return ()
    columns = [column for step in modes[0].lineage.steps for column in step.schema.columns]
    ids = {column.name.lower(): column.id for column in columns}
    order = tuple(ids.get(name.lower(), 0) for name in names)
    return order if sorted(order) == sorted(modes[0].ids) else ()


def keys_like(values: Sequence[str]) -> list[str]:
    """The JSON texts that silver may hold of a key whose values read so: what looks like a number may be one,
    or text.
    """
    forms = []
    for value in values:
        as_text = msgspec.json.encode(value).decode()
        number = [value] if _NUMBER.fullmatch(value) else []
        forms.append([*number, as_text] if len(values) <= COLUMNS else (number or [as_text]))
    return [f"[{','.join(parts)}]" for parts in itertools.product(*forms)]


def of_row(reader: Reader, entry: TableEntry, key: Sequence[str]) -> Column:
    """The condition of changes of a row, by the text of its key's values in the order of `key_columns`. A
    retention floor's rows, and those of messages that know no key, tell theirs by their images alone; and so
    do all of a table whose key has changed: another row may have had this key's text.
    """
    ids, modes = _key_ids(reader, entry), reader.modes(entry)
    told: list[Column] = []
    for mode in modes:
        for low, high, names in _names_of(mode.lineage, ids):
            wanted = list(zip(names, key, strict=True))
            told.append(between(low, high) & (_has("before", wanted) | _has("after", wanted)))
    if any(len(key_orders(mode.lineage)) > 1 for mode in modes):
        return any_of(told)
    return F.col("key").isin(keys_like(key)) | ((F.col("key") == "[]") & any_of(told))


def _names_of(
    lineage: Lineage, ids: Sequence[int]
) -> Iterator[tuple[Position | None, Position | None, list[str]]]:
    """The names of a key's columns, and the positions between which they have them."""
    steps: list[tuple[Position | None, list[str] | None]] = []
    for step in lineage.steps:
        columns = [step.schema.by_id(one) for one in ids]
        names = None if None in columns else [one.name for one in columns if one is not None]
        if not steps or names != steps[-1][1]:
            steps.append((step.position if steps else None, names))
    for (low, names), (high, _) in pairwise([*steps, (None, None)]):
        if names is not None:
            yield low, high, names


def _has(side: str, wanted: Iterable[tuple[str, str]]) -> Column:
    """Whether an image has these texts of values."""
    image = F.from_json(side, T.MapType(T.StringType(), T.StringType()))
    return reduce(and_, [image[name].eqNullSafe(F.lit(value)) for name, value in wanted])


def shown_changes(
    reader: Reader, entry: TableEntry, chosen: Column, after: After | None, number: int
) -> list[RowChange]:
    """At most so many of a table's changes behind a place, oldest first; of batches that are done."""
    done = reader.done.batch if reader.done else 0
    lineages = [one for one in reader.history.lineages if one.id in entry.lineages]
    mine: Column = F.lit(False)
    for lineage in lineages:
        mine = mine | of_lineage(lineage)
    frame = counted_changes(reader.log, done).where(mine & chosen)
    if after is not None:
        frame = frame.where(between(just_below(after.position), None))
    ordered = frame.orderBy("position", "origin", "key", "after").offset(0 if after is None else after.shown)
    rows = ordered.limit(number).collect()
    images = _Images(reader, reader.modes(entry))
    return [images.change(row) for row in rows]


@dataclass(slots=True)
class _Images:
    """Reads images in the schema of their time, and hides what gold hides."""

    reader: Reader
    modes: list[Mode]

    def change(self, row: Row) -> RowChange:
        position = tuple(row.position)
        owner = self.reader.history.owner((row.database, row.table), position)
        mode = next(one for one in self.modes if one.lineage is owner)
        schema = mode.lineage.steps[mode.lineage.step_at(position)].schema
        shown = shown_image(mode.lineage, mode.options)
        columns = [schema.by_id(column) for column in mode.ids]
        millis = commit_millis(self.reader.settings, row.commit_ts) if row.commit_ts is not None else None
        return RowChange(
            position,
            millis,
            f"{row.database}.{row.table}",
            tuple(column.name for column in columns if column is not None),
            op=row.op,
            before=self._image(row, row.before, mode.lineage, shown),
            after=self._image(row, row.after, mode.lineage, shown),
            flags=tuple(row.flags or ()),
            origin="" if row.origin is None else origin(row.origin.asDict()),
            batch=row.batch,
        )

    def _image(self, row: Row, text: str | None, lineage: Lineage, shown: Shown) -> Image | None:
        if text is None:
            return None
        settings = self.reader.settings
        step = lineage.step_at(tuple(row.position))
        upstream = upstream_of(settings.format, settings.options)
        carry = Carrier(lineage, step, step, row.encoding, upstream=upstream)
        values: dict[int, Any] = carry(msgspec.json.decode(text)) or {}
        return shown(lineage.steps[step].schema, values)
