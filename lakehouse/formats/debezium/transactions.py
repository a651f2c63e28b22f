"""The transaction, or the snapshot, of a record that could not be decoded as a change: a transaction's END
counts its row, too, and it may be a snapshot's last one.

    envelope    {"source": {"file", "pos"}, "transaction": {"id", "total_order"}}
    unwrapped   "__source_file", "__source_pos", "__transaction_id", "__transaction_total_order", in the row
                or in headers

The images are not decoded, so that no value in them hides the transaction.
"""

from typing import Annotated, Any, TypeVar

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import Message, Position
from lakehouse.formats.binlog import file_number
from lakehouse.formats.debezium.envelope import header_members, value_of
from lakehouse.formats.debezium.records import (
    SNAPSHOT,
    STREAMED,
    Source,
    operation,
    snapshot_flags,
    transaction_end,
)
from lakehouse.formats.row import TransactionRow, Transactions
from lakehouse.formats.wire_json import read_json

T = TypeVar("T")
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Members = dict[str, msgspec.Raw]


class _Transaction(msgspec.Struct):
    id: str | None = None
    total_order: _Int64 | None = None


class _Source(msgspec.Struct):
    file: str = ""
    pos: _Int64 = 0
    snapshot: Any = None
    server_id: int | None = None


_MEMBERS = msgspec.json.Decoder(_Members)
_ANY = msgspec.json.Decoder()


def transaction_row(message: Message) -> TransactionRow | None:
    """The record's row number in its transaction, or the flags of a snapshot's row; None for any other
    record, such as a schema change.
    """
    try:
        members = _members(message)
        transaction = _part(members, "transaction", "__transaction_", _Transaction)
    except DecodeError:
        return TransactionRow(None, 0, (message.epoch, 0, 0, 0, 0, 0))
    if transaction is None or transaction.id is None:
        return _snapshot_row(message.epoch, members)
    number = transaction.total_order or 0
    return TransactionRow(transaction.id, number, _position(message.epoch, members, number))


def _snapshot_row(epoch: int, members: _Members) -> TransactionRow | None:
    """A row of a snapshot; None for one that does not tell its place, and for any other record."""
    try:
        source = _part(members, "source", "__source_", _Source) or _Source()
        op = read_json(_ANY, members.get("op", members.get("__op", msgspec.Raw(b"null"))), "op")
        told = Source(snapshot=source.snapshot, server_id=source.server_id)
        flags = snapshot_flags(told, operation(str(op), told))
        place = (epoch, file_number(source.file), source.pos, SNAPSHOT, 0, 1)
    except DecodeError:
        return None
    return TransactionRow("", 0, place, flags) if flags else None


def _members(message: Message) -> _Members:
    headers = {
        name: msgspec.Raw(msgspec.json.encode(content)) for name, content in header_members(message).items()
    }
    value = value_of(message)
    if not value:
        return headers
    members = read_json(_MEMBERS, value, "value")
    if members.keys() <= {"schema", "payload"}:
        members = read_json(_MEMBERS, members.get("payload", msgspec.Raw(b"{}")), "value")
    return headers | members


def _part(members: _Members, name: str, prefix: str, kind: type[T]) -> T | None:
    """A member of the envelope, or of the flat members that the transform makes of it."""
    contents: Any = {}
    if name in members:
        decoder: msgspec.json.Decoder[T | None] = msgspec.json.Decoder(kind | None)
        return read_json(decoder, members[name], name)
    unprefixed = name == "source" or "__total_order" in members
    for field in msgspec.structs.fields(kind):  # type: ignore[arg-type]
        short = members.get(f"__{field.name}") if unprefixed else None
        if (raw := members.get(prefix + field.name, short)) is not None:
            contents[field.name] = read_json(_ANY, raw, name)
    try:
        return msgspec.convert(contents, kind, strict=False)
    except msgspec.ValidationError as error:
        raise DecodeError("shape", f"{name}: {error}") from None


def _position(epoch: int, members: _Members, number: int) -> Position:
    """The row's position, or the first of the epoch, which raises no watermark, where it can't be read."""
    try:
        source = _part(members, "source", "__source_", _Source) or _Source()
        return (epoch, file_number(source.file), source.pos, STREAMED, number, 1)
    except DecodeError:
        return (epoch, 0, 0, 0, 0, 0)


TRANSACTIONS = Transactions(transaction_end, transaction_row)
