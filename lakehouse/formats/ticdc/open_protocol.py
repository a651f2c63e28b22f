"""TiCDC Open Protocol: many events per message, as length-prefixed JSON in the Kafka key and value.

    key     8 bytes: version 1
            per event: 8 bytes length, {"ts", "scm", "tbl", "t", "rid"?, "ptn"?, "ohk"?, "ccl"?}
    value   per event: 8 bytes length, a row {"u", "p"? | "d"}, a DDL {"q", "t"}, or nothing
    column  {"t": MySQL type code, "h"?: handle key, "f": flags, "v": value}     see open_values.py

Producers: all TiCDC releases; the oldest (columns without `f`) too. Specification: docs.pingcap.com, "TiCDC
Open Protocol". Order: commit_ts, then delete before upsert before DDL, positions (epoch, ts, rank). `t` 3 is
a watermark of the partition. Outcomes: framing that does not add up is a DecodeError for the whole message; a
row that can't be read, or of which only the handle key was sent (`ohk`, or `ccl` whose file was not joined),
is a DeadLetter in its place and the others go on. `u` without `p` is an upsert and given as insert; of a row
without a key in a feed without old values, as an update. Old images that hold only what changed are completed
from `u`. ENUM and SET are index and mask, a TIME may lack its fraction: such tables' rows are `encoding`
"ticdc-open".
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import (
    DDL,
    DELETE,
    NO_HANDLE,
    UPSERT,
    DeadLetter,
    Event,
    Image,
    Message,
    RowChange,
    SchemaChange,
    Stored,
    Watermark,
)
from lakehouse.formats.invalid_text import decode_again, with_lost_text
from lakehouse.formats.open_frames import framed, frames
from lakehouse.formats.open_templates import FLOAT, INTEGER, TEXT, Sample, templates_of
from lakehouse.formats.ticdc.open_values import (
    BIT,
    COLUMN,
    FLOATS,
    INTEGERS,
    Column,
    Columns,
    ImagePlan,
    Reading,
    plan_of,
    read_image,
)
from lakehouse.formats.wire_json import read_json

_SPILLED = frozenset("tfvh")  # member names that the malformed `p` writes in place of a column's
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Key(msgspec.Struct, gc=False):
    ts: _Int64
    t: int
    scm: str = ""
    tbl: str = ""
    rid: int | None = None
    ptn: _Int64 | None = None
    ohk: bool = False
    ccl: str = ""


class _Row(msgspec.Struct):
    u: Columns | None = None
    p: Columns | None = None
    d: Columns | None = None


class _LooseRow(msgspec.Struct):
    """A row whose `p` holds members that are no columns (a known bug of the new architecture)."""

    u: Columns
    p: dict[str, msgspec.Raw]


class _Statement(msgspec.Struct):
    q: str


_KEY = msgspec.json.Decoder(_Key)
_ROW = msgspec.json.Decoder(_Row)
_LOOSE_ROW = msgspec.json.Decoder(_LooseRow)
_STATEMENT = msgspec.json.Decoder(_Statement)


def decode(message: Message, options: Mapping[str, str]) -> list[Event]:
    """The events of one message. Text that lost bytes on its way, as in the classic architecture, is none."""
    if rb"\ufffd" in (message.value or b""):
        keys, values = frames(message.key, message.value)
        rows = [value if value.startswith(b'{"q"') else with_lost_text(value) for value in values]
        key, value = framed(keys, rows)
        copy = msgspec.structs.replace(message, key=key, value=value)
        if events := decode_again(_decode, copy, options, "ticdc-open", framed=True):
            return events
    return _decode(message, options)


def _decode(message: Message, options: Mapping[str, str]) -> list[Event]:
    settings = _settings(options)
    found: list[Event] = []
    for key, value in zip(*frames(message.key, message.value), strict=True):
        for event in _framed_events(key, value, message.epoch, settings):
            event.index = len(found)
            found.append(event)
    return found


def decode_stored(message: Message, options: Mapping[str, str]) -> Sequence[Stored]:
    """The same with changes as silver stores them, where a row is like one before."""
    settings = _settings(options)
    templates = templates_of(*settings)
    if (only := templates.only_change(message)) is not None:
        return (only,)
    if rb"\ufffd" in (message.value or b""):
        return decode(message, options)
    found: list[Stored] = []
    for key, value in zip(*frames(message.key, message.value), strict=True):
        change = templates.change(key, value, message.epoch, len(found))
        if change is not None:
            found.append(change)
            continue
        events = _framed_events(key, value, message.epoch, settings)
        if len(events) == 1 and type(events[0]) is RowChange:
            sample = functools.partial(_sample, key, value, events[0], settings)
            templates.learn(key, value, events[0], sample)
        for event in events:
            event.index = len(found)
            found.append(event)
    return found


def _settings(options: Mapping[str, str]) -> tuple[str, bool]:
    """The server's zone, and whether the feed sends old values."""
    return options.get("time_zone", "UTC"), options.get("output-old-value", "true") == "true"


def _framed_events(key: bytes, value: bytes, epoch: int, settings: tuple[str, bool]) -> Sequence[Event]:
    """The events of one frame, or its dead letter; the caller sets their `index`."""
    event_key = None
    try:
        event_key = read_json(_KEY, key, "event key")
        return _events(event_key, value, epoch, _reading(*settings, event_key.rid, event_key.ptn))
    except DecodeError as error:
        place = (event_key.scm or None, event_key.tbl or None) if event_key else (None, None)
        return [DeadLetter(error.code, str(error), 0, *place)]


def _sample(key: bytes, value: bytes, change: RowChange, settings: tuple[str, bool]) -> Sample | None:
    """What a row that has been decoded has in common with others. None where its change says more than the
    row: without a key, where a delete may have the key alone, text that is none, columns without flags.
    """
    event_key, (row, _) = _KEY.decode(key), _read_row(value)
    columns = row.u or row.d or {}
    plan = plan_of(columns, _reading(*settings, event_key.rid, event_key.ptn))
    is_key_alone = change.op == "delete" and len(plan.key_names) == len(columns)
    is_flagged = all(cell.f is not None for cell in columns.values())
    if plan.types is not change.types or not plan.key_names or is_key_alone or not is_flagged:
        return None
    codes = [cell.t for cell in columns.values()]
    return Sample(
        names=list(columns),
        heads=[_head(name, cell) for name, cell in columns.items()],
        values=[INTEGER if code in INTEGERS else FLOAT if code in FLOATS else TEXT for code in codes],
        convert=dict(plan.converters),
        key_names=plan.key_names,
        encoding=plan.encoding,
    )


def _head(name: str, column: Column) -> bytes:
    """A column's JSON before its value, as all releases write it."""
    handle = b'"h":true,' if column.h else b""
    return b'%b:{"t":%d,%b"f":%d,"v":' % (msgspec.json.encode(name), column.t, handle, column.f or 0)


# Envelope


def _events(key: _Key, value: bytes, epoch: int, reading: Reading) -> Sequence[Event]:
    """The events of one key and value; the caller sets their `index`."""
    match key.t:
        case 1:
            try:
                return _row(key, value, epoch, reading)
            except UnicodeDecodeError:
                return _row(key, value, epoch, reading._replace(is_loose=True))
        case 2:
            statement = read_json(_STATEMENT, value, "DDL").q
            return [
                SchemaChange(
                    "ddl",
                    key.scm,
                    key.tbl or None,
                    commit_ts=key.ts,
                    position=(epoch, key.ts, DDL, 0, 0, 0),
                    ddl=statement,
                    index=0,
                )
            ]
        case 3:
            return [Watermark((epoch, key.ts, DDL, 0, 0, 0), key.ts, 0)]
        case _:
            raise DecodeError("kind", f"event key: expected t 1, 2 or 3, got {key.t}")


def _reading(zone: str, old_values: bool, row_id: int | None, partition: int | None) -> Reading:
    """How a row's values are read. A row with an id is of the classic architecture, whose flags are right."""
    return _readings(zone, old_values, row_id is not None, row_id is None and partition is not None)


@functools.cache
def _readings(zone: str, old_values: bool, has_row_id: bool, is_unflagged: bool) -> Reading:
    return Reading(zone, old_values=old_values, has_row_id=has_row_id, is_unflagged=is_unflagged)


def _row(key: _Key, value: bytes, epoch: int, reading: Reading) -> Sequence[Event]:
    if value == b"{}":  # in 6.5 and 7.1 a row without a key of which only the key is sent: a delete, or any
        _refuse_unresolved(key)
        return [_delete(key, {}, epoch, reading)]
    row, intact = _read_row(value)
    if row.d is not None:
        return [_delete(key, row.d, epoch, reading)]
    if not row.u:
        raise DecodeError("shape", "row: expected columns in u or d, got none")
    _refuse_unresolved(key)
    plan = plan_of(row.u, reading)
    after = read_image(row.u, plan)
    if row.p is None:
        # without its key nothing tells which row an update replaces: it must not pass for an insert
        op = "insert" if reading.old_values or plan.key_names else "update"
        return [_change(key, op, None, after, plan=plan, rank=UPSERT, epoch=epoch)]
    before, flags = _old_image(row.p, row.u, after, plan, intact=intact)
    return _update(key, before, after, plan, epoch=epoch, flags=flags)


def _refuse_unresolved(key: _Key) -> None:
    if key.ohk or key.ccl:
        why = (
            "its claim-check file is missing or unreadable"
            if key.ccl
            else "the feed sends handle-key-only messages"
        )
        raise DecodeError("unresolved", f"row: expected all columns, got the handle key only: {why}")


def _read_row(value: bytes) -> tuple[_Row, bool]:
    """The row, and whether its `p` was well-formed; members of a malformed `p` that are no columns are
    dropped.
    """
    try:
        return read_json(_ROW, value, "row"), True
    except DecodeError as error:
        if error.code != "shape":
            raise
        try:
            loose = read_json(_LOOSE_ROW, value, "row")
        except DecodeError:
            raise error from None
    columns = {
        name: read_json(COLUMN, raw, "column") for name, raw in loose.p.items() if bytes(raw).startswith(b"{")
    }
    if len(columns) == len(loose.p):
        raise DecodeError("shape", "row: expected columns in p, got something else")
    return _Row(loose.u, columns), False


# Rows


def _old_image(
    columns: Columns, new: Columns, after: Image, plan: ImagePlan, intact: bool
) -> tuple[Image, tuple[str, ...]]:
    """The old image: `p`, completed from the new image, since columns that `p` leaves out have not changed.

    A malformed `p` has lost the names of columns that became NULL, and columns named as its spilled members:
    those stay out. So do those that were NULL or empty (`_nulled`), or a BIT (`_unsent_bits`).
    """
    same_shape = columns.keys() == new.keys()
    sent = read_image(
        columns,
        plan if same_shape or columns.keys() <= new.keys() else plan_of(columns, plan.reading),
        new,
        after,
    )
    if same_shape and None not in sent.values():
        return sent, ()
    unknown = _nulled(columns, new) | _unsent_bits(columns, new)
    if intact and not unknown:
        return {**after, **sent}, ()
    kept = {
        name: value
        for name, value in {**after, **sent}.items()
        if name not in unknown and (intact or name in sent or (value is not None and name not in _SPILLED))
    }
    return kept, ("partial_before",)


def _nulled(columns: Columns, new: Columns) -> frozenset[str]:
    """The columns of a `p` of changed columns that were NULL or empty, which the new architecture 8.5.4 and
    8.5.5 writes alike: '', a zero of DECIMAL, DATE or TIME, an ENUM's 0. Its flags in `p` are not the
    protocol's.
    """
    return frozenset(
        name
        for name, column in columns.items()
        if column.v is None and name in new and column.f != new[name].f
    )


def _unsent_bits(columns: Columns, new: Columns) -> frozenset[str]:
    """The BIT columns that a `p` of changed columns leaves out though they may have changed: the same
    releases compare the new value with itself. Flags tell them; where nothing else changed, nothing does.
    """
    if any(name in new and column.f == new[name].f for name, column in columns.items()):
        return frozenset()
    return frozenset(
        name
        for name, column in new.items()
        if column.t == BIT and column.v is not None and name not in columns
    )


def _update(
    key: _Key, before: Image, after: Image, plan: ImagePlan, epoch: int, flags: tuple[str, ...]
) -> Sequence[Event]:
    """The change of an update, or the delete of the old key and the insert of the new one."""
    names = plan.key_names
    if not before.keys() >= set(names):
        return [
            _change(
                key,
                "update",
                before,
                after,
                plan=plan,
                rank=UPSERT,
                epoch=epoch,
                flags=(*flags, "old_key_unknown"),
            )
        ]
    if [before[name] for name in names] == [after[name] for name in names]:
        return [_change(key, "update", before, after, plan=plan, rank=UPSERT, epoch=epoch, flags=flags)]
    deleted = _change(key, "delete", before, None, plan=plan, rank=DELETE, epoch=epoch, flags=flags)
    return [deleted, _change(key, "insert", None, after, plan=plan, rank=UPSERT, epoch=epoch)]


def _delete(key: _Key, columns: Columns, epoch: int, reading: Reading) -> RowChange:
    plan = plan_of(columns, reading)
    # With delete-only-output-handle-key-columns the key is all there is; a table of key columns only looks
    # the same.
    flags: tuple[str, ...] = ("partial_before",) if len(plan.key_names) == len(columns) else ()
    if not columns:
        flags = ("old_key_unknown", "partial_before")
    return _change(
        key, "delete", read_image(columns, plan), None, plan=plan, rank=DELETE, epoch=epoch, flags=flags
    )


def _change(
    key: _Key,
    op: str,
    before: Image | None,
    after: Image | None,
    plan: ImagePlan,
    rank: int,
    epoch: int,
    flags: tuple[str, ...] = (),
) -> RowChange:
    image = before if after is None else after
    row_key = tuple([image[name] for name in plan.key_names]) if image else ()
    row_id = None
    if key.rid is not None:
        row_id = str(key.rid) if key.ptn is None else f"{key.ptn}/{key.rid}"
    return RowChange(
        key.scm,
        key.tbl,
        op,
        row_key,
        key_names=plan.key_names,
        commit_ts=key.ts,
        position=(epoch, key.ts, rank, 0, 0, 0),
        before=before,
        after=after,
        index=0,
        encoding=plan.encoding,
        types=plan.types,
        flags=flags if plan.key_names else (*flags, NO_HANDLE),
        row_id=row_id,
        physical_table=key.ptn,
    )
