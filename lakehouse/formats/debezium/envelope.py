"""Parts that both Debezium dialects share: the converter's frame, record keys, schema changes, and metadata
of unwrapped rows.

    with schemas     {"schema": {…}, "payload": {…}}      (TiCDC leaves "payload" even where schemas are off)
    without          the payload itself
    schema change    {"source", "ddl", "databaseName", "tableChanges": [CHANGE, …]}
                     CHANGE = {"type", "id", "table": {"columns": […], …}}
"""

import re
from collections.abc import Collection
from typing import Any, Generic, TypeVar

import msgspec

from lakehouse.events import Image, Message
from lakehouse.formats.binlog import rules_of_gtid
from lakehouse.formats.debezium.connect_schema import type_text
from lakehouse.formats.wire_json import number_or_text, read_json
from lakehouse.schema import unquote

P = TypeVar("P")
NULL = msgspec.Raw(b"null")
_FRAME = {"schema", "payload"}
# what Debezium's topic routers add to the keys of tables that share a topic: ByLogicalTableRouter, and
# ToLogicalTopicRouter from 3.7 on
_ROUTED = frozenset({"__dbz__physicalTableIdentifier", "__dbz__sourceIdentifier"})


class Frame(msgspec.Struct, Generic[P]):
    """A value with its embedded schema; both names as the converter spells them."""

    payload: P | None
    schema: msgspec.Raw = NULL

    def schema_bytes(self) -> bytes | None:
        data = bytes(self.schema)
        return None if data == b"null" else data


class _Column(msgspec.Struct):
    name: str
    typeName: str
    charsetName: str | None = None
    length: int | None = None
    scale: int | None = None
    optional: bool | None = None
    comment: str | None = None
    enumValues: list[str] | None = None


class _Table(msgspec.Struct):
    columns: list[_Column] = []
    primaryKeyColumnNames: list[str] | None = None


class TableChange(msgspec.Struct):
    """One member of `tableChanges`; `table` is null where a table was dropped."""

    type: str
    id: str
    table: _Table | None = None


def value_of(message: Message) -> bytes:
    """The record's value, empty where it is null. The delete of an unwrapped row (mode `tombstone`) is a null
    that has a schema, of which a converter without schemas makes the text `null`.
    """
    return b"" if message.value is None or message.value == b"null" else message.value


def key_image(key: bytes | None) -> Image:
    """The record key's columns, as the wire has them; none for a table without key, and where another
    converter or a transform has made the key something else than an object: the row's own images tell it all
    the same.
    """
    if key is None or not key.lstrip().startswith(b"{"):
        return {}
    image = read_json(_KEY, key, "key")
    if "payload" in image and image.keys() <= _FRAME:
        if isinstance(image["payload"], dict):
            image = image["payload"]
        elif isinstance(image.get("schema", ""), dict | None):  # else columns that are called so
            image = {}
    return {name: value for name, value in image.items() if name not in _ROUTED}


def is_metadata(name: str) -> bool:
    """Whether a member of an unwrapped row was added by the transform (`add.fields`, `add.headers`) and is no
    column.
    """
    return name in _METADATA or name.startswith(("__source_", "__transaction_"))


def metadata_among(names: Collection[str]) -> set[str]:
    """The members of an unwrapped row that are no columns. `__id`, which may be one, is the transaction's
    beside a number in it: `add.fields=id,total_order`.
    """
    numbered = not _NUMBERS.isdisjoint(names)
    return {name for name in names if is_metadata(name) or (numbered and name == "__id")}


def header_members(message: Message) -> dict[str, Any]:
    """The members that `add.headers` puts into a row's headers: JSON with or without a schema around it, or
    plain text.
    """
    told = {}
    for name, data in message.headers:
        if data is not None and (is_metadata(name) or name == "__id"):
            try:
                content = msgspec.json.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                content = data.decode(errors="replace")
            told[name] = (
                content.get("payload")
                if isinstance(content, dict)
                else content
                if isinstance(content, str)
                else data.decode()
            )
    return told


def schema_columns(change: TableChange) -> list[dict[str, Any]] | None:
    """The table's columns after the change, in table order."""
    return None if change.table is None else [_column(column) for column in change.table.columns]


def _column(column: _Column) -> dict[str, Any]:
    text = type_text(
        column.typeName, column.length, column.scale, [_label(value) for value in column.enumValues or ()]
    )
    if column.charsetName:
        text += f" character set {column.charsetName}"
    told: dict[str, Any] = {"name": column.name, "type": text, "not_null": column.optional is False}
    return {**told, "comment": column.comment} if column.comment else told


def _label(value: str) -> str:
    """Debezium keeps the quotes of an ENUM's members, TiCDC does not."""
    return unquote(value[1:-1]) if len(value) > 1 and value[0] == value[-1] == "'" else value


def misread_charset(change: TableChange, connector: str) -> str | None:
    """The character set of a text column that the connector reads wrong: `binary`, whose bytes it writes as
    characters, one each (a server itself spells such a column BLOB, BINARY or VARBINARY), and those that Java
    has not, for which it takes another.
    """
    misread = _MISREAD_BY_MARIADB if connector == "mariadb" else _MISREAD
    for column in change.table.columns if change.table is not None else ():
        charset = (column.charsetName or "").lower()
        if charset in misread and _TEXT_TYPE.match(column.typeName):
            return charset
    return None


_MISREAD = frozenset({"binary", "swe7", "hp8", "dec8", "armscii8", "geostd8", "keybcs2"})
_MISREAD_BY_MARIADB = _MISREAD | {"cp932"}  # as GB2312
_TEXT_TYPE = re.compile(r"(?:TINY|MEDIUM|LONG)?TEXT\b|(?:VAR)?CHAR(?:ACTER)?\b|LONG\b", re.I)


def primary_key(change: TableChange) -> tuple[str, ...] | None:
    return None if change.table is None else tuple(change.table.primaryKeyColumnNames or ())


_SOURCE_MEMBERS = (
    *("version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence"),
    *("table", "server_id", "gtid", "file", "pos", "row", "thread", "query"),
)
_NUMBERS = frozenset(("__total_order", "__data_collection_order"))
_METADATA = _NUMBERS | {"__op", "__deleted", *(f"__{name}" for name in _SOURCE_MEMBERS)}
_KEY = msgspec.json.Decoder(dict[str, Any], float_hook=number_or_text)


class _Origin(msgspec.Struct):
    connector: str | None = None
    gtid: str | None = None


class _Record(msgspec.Struct):
    source: _Origin | None = None
    payload: "_Record | None" = None


_RECORD = msgspec.json.Decoder(_Record)


def rules_told(message: Message) -> str | None:
    """Whose server it is, by the connector's name or a GTID. Debezium's MySQL connector reads a MariaDB too,
    so that its name says nothing.
    """
    try:
        record = _RECORD.decode(message.value or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    source = (record.payload or record).source
    if source is None:
        return None
    return "mariadb" if source.connector == "mariadb" else rules_of_gtid(source.gtid)
