"""Rows of Debezium's transform ExtractNewRecordState: a flat object of the columns, without an envelope.

    {columns…, "__op", "__deleted", "__source_file", "__source_pos", "__transaction_id", …}

The members with two underscores are there as far as the transform is configured to add them, to the row
(`add.fields`) or to the headers (`add.headers`). A delete is a row with `__deleted`, or a tombstone whose key
and headers say it all. Where rows have neither `__deleted` nor such headers the transform sends no delete
that tells its place, and they are flagged.
"""

from typing import Any, TypeVar

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import DELETES_HIDDEN, Message
from lakehouse.formats.debezium.envelope import header_members, metadata_among
from lakehouse.formats.debezium.records import (
    RowRecord,
    Source,
    Transaction,
    embedded_schema,
    operation,
    read_members,
    snapshot_flags,
    transaction_flags,
)

S = TypeVar("S")
_FILES = frozenset({"__source_file", "__file"})
_UNWRAPPED = _FILES | {"__op", "__deleted"}


def unwrapped_row(message: Message, value: bytes) -> RowRecord | None:
    """The row of a message without an envelope, or None for any other message. Updates have no old image, and
    neither has a delete that is a key and headers alone (mode `tombstone`).
    """
    headers = header_members(message)
    if (not headers and b'"__' not in value) or (not value and headers.keys().isdisjoint(_FILES)):
        return None
    members = {**headers, **read_members(value)} if value else headers
    if members.keys().isdisjoint(_UNWRAPPED):
        return None
    source = _source(members)
    metadata = metadata_among(members)
    row = {name: content for name, content in members.items() if name not in metadata}
    deleted = str(members.get("__deleted")).lower() == "true" or members.get("__op") == "d"
    code = "d" if deleted else operation(str(members.get("__op") or "u"), source)
    before, after = (row or None, None) if deleted else (None, row)
    transaction = _transaction(members)
    hidden = "__deleted" not in members and code != "d" and headers.keys().isdisjoint(_FILES)
    flags = snapshot_flags(source, code) + transaction_flags(transaction)
    return RowRecord(
        message,
        embedded_schema(value),
        "",
        source,
        op=code,
        before=before,
        after=after,
        transaction=transaction,
        flags=(*flags, DELETES_HIDDEN) if hidden else flags,
    )


def _source(members: dict[str, Any]) -> Source:
    fields = {
        name: members.get(f"__source_{name}", members.get(f"__{name}")) for name in Source.__struct_fields__
    }
    if fields["file"] is None or fields["pos"] is None:
        raise DecodeError(
            "position",
            "unwrapped row: expected __source_file and __source_pos (add.fields, prefix __), got none: it "
            "has no place in the order",
        )
    return _converted(fields, Source)


def _transaction(members: dict[str, Any]) -> Transaction | None:
    numbered = "__total_order" in members
    fields = {
        name: members.get(f"__transaction_{name}", members.get(f"__{name}") if numbered else None)
        for name in Transaction.__struct_fields__
    }
    return _converted(fields, Transaction) if fields["id"] else None


def _converted(members: dict[str, Any], kind: type[S]) -> S:
    """The members of a flat row as `source` or `transaction`; the transform may leave some of them out."""
    try:
        return msgspec.convert(
            {name: content for name, content in members.items() if content is not None}, kind, strict=False
        )
    except msgspec.ValidationError as error:
        raise DecodeError("shape", f"unwrapped row: {error}") from None
