"""CSV rows of a TiCDC storage data file as changes: meta fields, the types of the schema file, and update
pairs.

    op, table, schema, [commit ts], [is-update], [handle key], the table's columns without VIRTUAL ones

With output-old-value an update is two rows in a row, D with the old and I with the new image, both is-update
true: they become one update of the D's row number (two changes, should their keys differ). is-update false
stays D and I: TiCDC split a key change. A header line is known by its first name, needs no setting, and tells
which columns were sent. Without one they are the schema file's without those known as VIRTUAL; a number of
fields that is another is no guess but an error.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import DELETE, UPSERT, DeadLetter, Event, Image, Position, RowChange
from lakehouse.formats.ticdc.storage_csv import (
    KINDS_OF,
    META,
    META_PREFIX,
    TEXT,
    TEXT_CONVERTER,
    Broken,
    Row,
    Settings,
    converter,
    first_rows,
    read_settings,
    rows,
    sent_order,
)
from lakehouse.formats.ticdc.storage_gaps import first_commit_ts
from lakehouse.formats.ticdc.storage_layout import DataFile, virtual_columns
from lakehouse.formats.ticdc.storage_schema import TableColumn, is_hidden, read_definition, type_text
from lakehouse.schema import parse_type
from lakehouse.values.scalars import base64_text


class Place(NamedTuple):
    """Where a file's rows stand: whose they are, and in which order. `unsplit`: an UPDATE that changed the
    key may be one row, with the new image alone. `statements`: versions that statements have made.
    """

    database: str
    table: str
    file: DataFile
    epoch: int
    by_commit_ts: bool
    unsplit: bool = False
    statements: tuple[int, ...] = ()

    def position(self, commit_ts: int | None, rank: int, row: int, half: int) -> Position:
        if self.by_commit_ts:
            return (self.epoch, commit_ts or 0, rank, 0, 0, 0)
        return (self.epoch, self.file.version, self.file.day, self.file.number, row * 2 + half, 0)


def csv_rows(
    place: Place, joined: Mapping[str, bytes | None], data: bytes, options: Mapping[str, str]
) -> Iterator[Event]:
    """The changes of one CSV file; `joined` are its headers: `schema` describes its table, `virtual` is a
    JSON list of columns that no row has, `orders` are those that the columns of older rows may have.
    """
    named = virtual_columns(options, place.database, place.table)
    plan = _plan(joined["schema"] or b"", joined.get("virtual"), named, read_settings(options))
    if (orders := joined.get("orders")) is not None:
        plan = plan.only(sent_order(place.file, first_commit_ts(place.file, data, options), orders))
    start, plan = _fitted(data, plan, place.file.version)
    head, of_key = tuple(META[name] for name in plan.meta), plan.of_key()
    records = rows(data, start, plan.settings.dialect, head + plan.kinds, of_key=head + of_key.kinds)
    yield from _changes(records, _Reader(plan, place, of_key))


# The plan


class _Plan(NamedTuple):
    """How to read the rows of one table version: everything that the rows themselves do not change."""

    settings: Settings
    meta: tuple[str, ...]
    names: tuple[str, ...]
    virtual: frozenset[str]
    converters: tuple[Callable[[bytes], Any], ...]
    kinds: tuple[str, ...]
    key_names: tuple[str, ...]
    types: dict[str, str]
    nulls: tuple[Any, ...]
    defaults: dict[str, bytes]

    @property
    def width(self) -> int:
        """How many fields a row has."""
        return len(self.meta) + len(self.names)

    def without_virtual(self) -> "_Plan":
        """The plan for rows without the VIRTUAL columns that are known."""
        return self.only(name for name in self.names if name not in self.virtual)

    def of_key(self) -> "_Plan":
        """The plan for a delete of which the key alone is sent, as 6.5.0 to 7.1.0 do without old values."""
        is_new = "is-update" in self.meta or "handle-key" in self.meta
        key = [name for name in self.names if name in self.key_names]
        return self if is_new or not key else self.only(key)

    def only(self, sent: Iterable[str]) -> "_Plan":
        """The plan for rows that carry these columns."""
        names = tuple(sent)
        places = [self.names.index(name) for name in names]
        kinds, converters = (
            tuple(self.kinds[place] for place in places),
            tuple(self.converters[place] for place in places),
        )
        key_names = self.key_names if set(self.key_names) <= set(names) else ()
        types = {name: self.types[name] for name in names}
        nulls = tuple(self.nulls[place] for place in places)
        return self._replace(
            names=names, kinds=kinds, converters=converters, key_names=key_names, types=types, nulls=nulls
        )


@functools.lru_cache(maxsize=256)
def _plan(schema: bytes, virtual: bytes | None, named: frozenset[str], settings: Settings) -> _Plan:
    """The plan for all columns of a schema file."""
    columns = read_definition(schema).columns
    types = {column.column_name: type_text(column) for column in columns}
    families = [parse_type(column.column_type).family for column in columns]
    known = msgspec.json.decode(virtual, type=list[str]) if virtual else ()
    return _Plan(
        settings,
        settings.meta,
        tuple(column.column_name for column in columns),
        frozenset([*named, *known, *filter(is_hidden, types)]),
        converters=tuple(converter(family, settings) for family in families),
        kinds=tuple(KINDS_OF.get(family, TEXT) for family in families),
        key_names=tuple(sorted(column.column_name for column in columns if column.column_is_pk)),
        types=types,
        nulls=tuple(map(functools.partial(_null, settings), columns, families)),
        defaults={
            column.column_name: column.column_default.encode()
            for column, family in zip(columns, families, strict=True)
            if family == "binary" and isinstance(column.column_default, str)
        },
    )


def _null(settings: Settings, column: TableColumn, family: str) -> Any:
    """What the null word is in a column: where it takes no NULL, the text that is written alike."""
    takes_null = column.column_nullable and not column.column_is_pk
    if takes_null or family not in ("text", "enum", "set", "binary") or not settings.dialect.null_may_be_text:
        return None
    try:
        return converter(family, settings)(settings.dialect.null)
    except ValueError:
        return None


# Which columns a file carries

_HANDLE = re.compile(rb"-?[0-9]{1,20}|\{.*\}", re.S)


def _fitted(data: bytes, plan: _Plan, version: int) -> tuple[int, _Plan]:
    """Where the rows begin, and the plan for the columns that they have; `version` is their folder's."""
    if data.startswith(META_PREFIX):
        return _fitted_to_header(data, plan)
    sent = plan.without_virtual()
    found = first_rows(data, 0, plan.settings.dialect)
    counts = list(map(len, found))
    if sent.width in counts or not counts or all(_is_of_key(row, sent, version) for row in found):
        return 0, sent
    if plan.meta[-1] == "handle-key" and sent.width - 1 in counts:
        return 0, _without_handles(sent._replace(meta=plan.meta[:-1]), found)
    hint = "include-commit-ts, output-old-value and virtual-columns must be as its feed has them"
    raise DecodeError(
        "columns",
        (
            f"data file: expected {sent.width} fields, as its schema file and the settings say, got "
            f"{counts[0]}; {hint}"
        ),
    )


def _is_of_key(row: Row, plan: _Plan, version: int) -> bool:
    """Whether a row can only be a delete of a key alone: what its settings take for a commit ts is one."""
    if row[0] != b"D" or len(row) != plan.of_key().width:
        return False
    told = row[3] or b"" if "commit-ts" in plan.meta else None
    return told is None or (told.isdigit() and int(told) > version)


def _without_handles(plan: _Plan, found: list[Row]) -> _Plan:
    """The plan for rows without the handle that settings speak of, which the new architecture never writes.
    Refused where the first column may be one (an integer or `{…}`, as a text): then a VIRTUAL column that is
    not known has as many fields.
    """
    told = (row[len(plan.meta)] or b"" for row in found if len(row) == plan.width)
    if (plan.kinds[0] == TEXT or not plan.settings.dialect.quote) and any(map(_HANDLE.fullmatch, told)):
        hint = "say output-handle-key: false where the new architecture wrote it, else virtual-columns"
        raise DecodeError("columns", f"data file: expected a handle, got one or a first column; {hint}")
    return plan


def _fitted_to_header(data: bytes, plan: _Plan) -> tuple[int, _Plan]:
    """The same of a file with a header. Until July 2026 a header names the VIRTUAL columns too, which no row
    has; that of the classic architecture leaves out the handle key, which rows have.
    """
    start, named = _read_header(data, plan)
    fits = [named, named.without_virtual()]
    if "handle-key" in plan.meta:
        fits.append(named._replace(meta=(*named.meta, "handle-key")))
    found = first_rows(data, start, plan.settings.dialect)
    fit = next((fit for fit in fits if fit.width in map(len, found)), named)
    return start, _without_handles(fit, found) if len(fits) > 2 and fit is not fits[2] else fit


def _read_header(data: bytes, plan: _Plan) -> tuple[int, _Plan]:
    """Names stand raw in a header, whatever is in them: it is read by the names that can come next."""
    delimiter, terminator = plan.settings.dialect.delimiter, plan.settings.dialect.terminator
    position, meta = 0, [name for name in plan.meta if name != "handle-key"]
    for name in meta:
        written = META_PREFIX + name.encode() + delimiter
        if not data.startswith(written, position):
            raise DecodeError(
                "columns",
                f"header: expected {META_PREFIX.decode()}{name}, as the settings say, got another name",
            )
        position += len(written)
    sent: list[str] = []
    for name in plan.names:
        end = position + len(name.encode())
        if data.startswith(name.encode() + terminator, position):
            return end + len(terminator), plan.only([*sent, name])._replace(meta=tuple(meta))
        if data.startswith(name.encode() + delimiter, position):
            sent.append(name)
            position = end + len(delimiter)
    raise DecodeError(
        "columns", "header: expected names of its schema file's columns in their order, got another name"
    )


# Rows


class _Reader(NamedTuple):
    """One file's rows as changes."""

    plan: _Plan
    place: Place
    of_key: _Plan

    def is_half(self, row: Row, op: bytes) -> bool:
        """Whether a row is the old (D) or the new (I) half of an update."""
        return (
            row[0] == op
            and "is-update" in self.plan.meta
            and row[self.plan.meta.index("is-update")] == b"true"
        )

    def commit_ts(self, row: Row) -> int | None:
        if "commit-ts" not in self.plan.meta:
            return None
        value = int(row[3] or -1)
        if not 0 <= value < 2**63:
            raise DecodeError("commit-ts", "row: expected a commit ts of 63 bits, got something else")
        return value

    def image(self, row: Row) -> Image:
        if row[1] != self.place.table.encode() or row[2] != self.place.database.encode():
            raise DecodeError("table", "row: expected the table that its folder names, got another one")
        plan, values = self.plan, row[len(self.plan.meta) :]
        try:
            return {
                name: null if value is None else convert(value)
                for name, convert, value, null in zip(
                    plan.names, plan.converters, values, plan.nulls, strict=True
                )
            }
        except ValueError:
            return self._loose(values)

    def _loose(self, values: Row) -> Image:
        """The row where text in it may be no UTF-8, and bytes be a default as it is, which TiCDC before
        6.5.9, 7.1.5 and 7.5.2 fills in; what else can't be read is named.
        """
        image: Image = {}
        plan = self.plan
        for name, convert, value, null in zip(plan.names, plan.converters, values, plan.nulls, strict=True):
            try:
                image[name] = null if value is None else convert(value)
            except ValueError:
                if value is not None and value == plan.defaults.get(name):
                    image[name] = base64_text(value)
                    continue
                if convert is not TEXT_CONVERTER or name in self.plan.key_names or value is None:
                    wanted = (
                        f"column {name}: expected a value of type {self.plan.types[name]}, got something else"
                    )
                    raise DecodeError("value", wanted) from None
                image[name] = {"base64": base64_text(value)}
        return image

    def single(self, index: int, row: Row) -> Iterator[RowChange]:
        """A row that is a change by itself."""
        match row[0]:
            case b"D" if len(row) < self.plan.width:
                before = self._replace(plan=self.of_key).image(row)
                yield self.change("delete", before, None, row, index=index, flags=("partial_before",))
            case b"D" if not self.is_half(row, b"D"):
                yield self.change("delete", self.image(row), None, row, index=index)
            case b"I" if not self.is_half(row, b"I"):
                yield self.change("insert", None, self.image(row), row, index=index)
            case b"U":
                flags = ("old_key_unknown",) if self.place.unsplit else ()
                yield self.change("update", None, self.image(row), row, index=index, flags=flags)
            case b"I":
                raise DecodeError("pair", "row: expected the old half of its update before it, got none")
            case _:
                raise DecodeError("op", "row: expected I, D or U, got something else")

    def pair(self, index: int, old: Row, new: Row) -> Iterator[RowChange]:
        """An update's two rows: one change, or two where the key changes."""
        before, after = self.image(old), self.image(new)
        if self.commit_ts(old) != self.commit_ts(new):
            raise DecodeError("pair", "row: expected the commit ts of its update's old half, got another one")
        if all(before[name] == after[name] for name in self.plan.key_names):
            yield self.change("update", before, after, new, index=index)
        else:
            yield self.change("delete", before, None, old, index=index, half=0)
            yield self.change("insert", None, after, new, index=index + 1)

    def change(
        self,
        op: str,
        before: Image | None,
        after: Image | None,
        row: Row,
        index: int,
        half: int = 1,
        flags: tuple[str, ...] = (),
    ) -> RowChange:
        image, commit_ts, names = (
            (before if after is None else after) or {},
            self.commit_ts(row),
            self.plan.key_names,
        )
        position = self.place.position(commit_ts, DELETE if op == "delete" else UPSERT, index, half)
        key = tuple([image[name] for name in names])
        if None in key:
            raise DecodeError("key", "row: expected a value in every column of the primary key, got NULL")
        is_loose = dict in map(type, image.values()) or (
            before is not None and dict in map(type, before.values())
        )
        return RowChange(
            self.place.database,
            self.place.table,
            op,
            key,
            key_names=names,
            commit_ts=commit_ts,
            position=position,
            before=before,
            after=after,
            index=index,
            encoding="ticdc-storage" if is_loose else "canonical",
            types=self.plan.types,
            flags=flags,
            physical_table=self.place.file.physical_id,
        )

    def dead(self, code: str, text: str, index: int) -> DeadLetter:
        return DeadLetter(code, text, index, database=self.place.database, table=self.place.table)


def _changes(records: Iterable[Row | Broken], reader: _Reader) -> Iterator[Event]:
    """Changes in the order of rows; of an update the new half has to follow the old one."""
    old: tuple[int, Row] | None = None
    for index, row in enumerate(records):
        if old and (isinstance(row, Broken) or not reader.is_half(row, b"I")):
            yield reader.dead("pair", "row: expected the new half of its update behind it, got none", old[0])
            old = None
        if isinstance(row, Broken):
            yield reader.dead(*row, index)
        elif reader.is_half(row, b"D"):
            old = (index, row)
        else:
            try:
                yield from reader.pair(*old, row) if old else reader.single(index, row)
            except DecodeError as error:
                yield reader.dead(error.code, str(error), index)
            old = None
    if old:
        yield reader.dead("pair", "row: expected the new half of its update behind it, got none", old[0])
