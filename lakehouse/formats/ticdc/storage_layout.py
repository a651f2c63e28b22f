"""The file layout of the TiCDC storage sink: what a path means, and which schema file describes a data file's
rows.

    metadata                                                  the checkpoint
    {schema}/meta/schema_{version}_{checksum}.json            a database's DDL
    {schema}/{table}/meta/schema_{version}_{checksum}.json    a table's schema, and the DDL that made it
    {schema}/{table}/{version}/schema.json                    the same, before 6.5.3 and 7.1
    {schema}/{table}/{version}[/{physical id}][/{date}]/CDC[_{dispatcher}_]{number}.{csv|json}
                                                              data
    …/meta/CDC[_{dispatcher}].index                           the newest data file's name (in the first
                                                              releases it is in the data's folder)

With use-table-id-as-path `{table id}` stands for `{schema}/{table}`, and there is no physical id. Names are
raw: any character but a slash. Paths are relative to the sink's root. Pure functions: no I/O here
(lakehouse.sources has it).
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.formats.invalid_text import is_text
from lakehouse.formats.options import STORAGE
from lakehouse.formats.ticdc.storage_history import (
    Described,
    Facts,
    Name,
    Orders,
    Place,
    Version,
    column_orders,
    facts_of,
)
from lakehouse.formats.ticdc.storage_schema import read_definition


def setting(options: Mapping[str, str], name: str) -> str:
    """The text of a setting, or its default."""
    return options.get(name, STORAGE[name].default)


def switch(options: Mapping[str, str], name: str) -> bool:
    """A setting that is true or false."""
    return setting(options, name).strip().lower() == "true"


def has_commit_ts(options: Mapping[str, str]) -> bool:
    """Whether rows carry their commit ts: then order is TiDB's own and the checkpoint is a watermark; else
    files are the order.
    """
    return switch(
        options, "include-commit-ts" if setting(options, "protocol") == "csv" else "enable-tidb-extension"
    )


def virtual_columns(options: Mapping[str, str], database: str, table: str) -> frozenset[str]:
    """The columns of a table that a setting says are VIRTUAL."""
    prefix = f"{database}.{table}."
    names = (name.strip() for name in setting(options, "virtual-columns").split(","))
    return frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix))


class DataFile(NamedTuple):
    """A data file. `schema` and `table` are None in a table-id path (`layout` "table-id", else "names"): its
    schema file tells them.
    """

    path: str
    schema: str | None
    table: str | None
    table_id: int | None
    version: int
    physical_id: int | None
    date: str | None
    dispatcher: str | None
    number: int
    extension: str
    layout: str

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def day(self) -> int:
        """The date as yyyymmdd, what is not in it zero."""
        return int((self.date or "").replace("-", "").ljust(8, "0"))

    def numbered(self, number: int) -> "DataFile":
        """Its writer's file of another number."""
        path = re.sub(r"[0-9]+(?=\.[a-z]+$)", lambda found: f"{number:0{len(found[0])}}", self.path)
        return self._replace(path=path, number=number)


class SchemaFile(NamedTuple):
    """A schema file; `table` is None for a database's DDL. `checksum` is None in the old layout."""

    path: str
    schema: str | None
    table: str | None
    table_id: int | None
    version: int
    checksum: str | None


class Checkpoint(NamedTuple):
    path: str


class Index(NamedTuple):
    """An index file of a data folder."""

    path: str


class Other(NamedTuple):
    """No file of the sink, or one whose path can't be read; `why` says so."""

    path: str
    why: str


_DATA = re.compile(r"CDC(?:_([0-9A-Za-z-]+)_)?([0-9]{1,20})\.(csv|json)")
_INDEX = re.compile(r"CDC(?:_[0-9A-Za-z-]+)?\.index")
_SCHEMA = re.compile(r"schema_([0-9]{1,19})_([0-9]{1,10})\.json")
_DATE = re.compile(r"[0-9]{4}(?:-[0-9]{2}){0,2}")
_NUMBER = re.compile(r"[0-9]{1,19}")


def classify(path: str, options: Mapping[str, str]) -> DataFile | SchemaFile | Checkpoint | Index | Other:
    """What the file at `path` is. Only a single numeric folder below the version needs `date-separator` to be
    read.
    """
    if not is_text(path):
        return Other(path.encode(errors="backslashreplace").decode(), "a name that is no UTF-8")
    *folders, name = path.split("/")
    if not folders and name == "metadata":
        return Checkpoint(path)
    by_id = switch(options, "use-table-id-as-path")
    if found := _DATA.fullmatch(name):
        return _data_file(path, folders, found, options)
    if _INDEX.fullmatch(name):
        return Index(path)
    if (found := _SCHEMA.fullmatch(name)) and folders[-1:] == ["meta"]:
        return _schema_file(path, folders[:-1], int(found[1]), found[2], by_id=by_id)
    if name == "schema.json" and folders and _NUMBER.fullmatch(folders[-1]):
        return _schema_file(path, folders[:-1], int(folders[-1]), None, by_id=by_id)
    return Other(path, "no file name of the storage sink")


def _data_file(
    path: str, folders: list[str], found: re.Match[str], options: Mapping[str, str]
) -> DataFile | Other:
    by_id = switch(options, "use-table-id-as-path")
    owner, tail = (folders[:1], folders[1:]) if by_id else (folders[:2], folders[2:])
    named = _owner(owner, by_id)
    below = _below_version(tail[1:], options) if tail and _NUMBER.fullmatch(tail[0]) else None
    if named is None or below is None or int(found[2]) >= 2**63 or int(tail[0]) >= 2**63:
        return Other(path, "a data file, but not in {schema}/{table}/{version}[/{physical id}][/{date}]")
    return DataFile(
        path,
        *named,
        int(tail[0]),
        *below,
        dispatcher=found[1],
        number=int(found[2]),
        extension=found[3],
        layout="table-id" if by_id else "names",
    )


def _below_version(folders: list[str], options: Mapping[str, str]) -> tuple[int | None, str | None] | None:
    """The physical id and the date that the folders below a version mean; None: neither."""
    match folders:
        case []:
            return None, None
        case [one] if _is_date(one, options):
            return None, one
        case [one] if _NUMBER.fullmatch(one):
            return int(one), None
        case [physical, date] if _NUMBER.fullmatch(physical) and _DATE.fullmatch(date):
            return int(physical), date
        case _:
            return None


def _is_date(folder: str, options: Mapping[str, str]) -> bool:
    if not _DATE.fullmatch(folder):
        return False
    partitioned = switch(options, "enable-partition-separator") and not switch(
        options, "use-table-id-as-path"
    )
    return "-" in folder or not partitioned or setting(options, "date-separator") == "year"


def _owner(folders: list[str], by_id: bool) -> tuple[str | None, str | None, int | None] | None:
    """Schema, table and table id of the folders above the version."""
    if by_id:
        return (None, None, int(folders[0])) if len(folders) == 1 and _NUMBER.fullmatch(folders[0]) else None
    return (folders[0], folders[1], None) if len(folders) == 2 else None


def _schema_file(
    path: str, folders: list[str], version: int, checksum: str | None, by_id: bool
) -> SchemaFile | Other:
    named = _owner(folders, by_id)
    if named is None and checksum is not None and len(folders) == 1 and not by_id:
        named = (folders[0], None, None)
    if named is None or version >= 2**63:
        return Other(path, "a schema file, but not in {schema}[/{table}]/meta or {schema}/{table}/{version}")
    return SchemaFile(path, *named, version, checksum)


def several_dispatchers(
    landed: Iterable[tuple[str, int]], first: Iterable[tuple[str, int]], options: Mapping[str, str]
) -> dict[int, int]:
    """How many dispatchers had written into a data file's folder when it landed, by the file's number, where
    they were several. `landed` are files with their numbers, `first` at least the first file that each
    dispatcher has written into each of their folders.
    """
    begun: dict[str, dict[str | None, int]] = {}
    for path, number in first:
        if isinstance(file := classify(path, options), DataFile):
            writers = begun.setdefault(file.folder, {})
            writers[file.dispatcher] = min(number, writers.get(file.dispatcher, number))
    found = {
        number: sum(other <= number for other in begun.get(file.folder, {}).values())
        for path, number in landed
        if isinstance(file := classify(path, options), DataFile)
    }
    return {number: count for number, count in found.items() if count > 1}


Headers = tuple[tuple[str, bytes | None], ...]
Owner = tuple[str | None, str | None, int | None]


class Schemas(NamedTuple):
    """The schema files that have landed, by owner and version: their bytes, and what their history tells.
    `names` are those of the tables that rows spell otherwise than the file's path or content, by path.
    `orders` are versions and the orders of their columns, where those of equal checksum have several: a row
    that is older or newer than its folder may have any. `emptied` are places that may have rows of before a
    statement that empties the table, or gives it former columns back, and of behind it. `statements` are the
    versions that statements have made, by table. `sharers` are the names of tables that one id has had at one
    version: EXCHANGE PARTITION swaps ids.

    A data file is described by the schema file of its folder's own version: a writer that finds none for its
    version, but one of equal checksum, writes into that one's folder, which may be a later one, or an earlier
    one where the statement's file is in another folder than the rows and their schema. Two files of
    one version (before and after an upgrade that changed the checksum) list equal columns.
    """

    known: dict[Place, tuple[SchemaFile, bytes, Facts]]
    names: dict[str, Name]
    orders: dict[Place, Orders]
    statements: dict[Owner, list[int]]
    sharers: dict[Place, list[Name]]
    emptied: frozenset[Place]

    def headers(self, file: DataFile | SchemaFile, dispatchers: int = 1) -> Headers | None:
        """What a file's message carries beside its bytes; None: a data file's schema file has not come yet.

        `dispatchers`: how many had written into a data file's folder when it landed, itself included.
        """
        if isinstance(file, SchemaFile):
            return self._name(file)
        found = self.known.get(file[1:5])
        if found is None:
            return None
        schema_file, data, facts = found
        joined: Headers = (("schema", data), *(self._name(schema_file) if file.layout == "table-id" else ()))
        if (orders := self.orders.get(file[1:5])) is not None and file.extension == "csv":
            joined += (("orders", msgspec.json.encode(orders)),)
        if file[1:5] in self.emptied:
            joined += (("emptied", b""),)
        if (sharers := self.sharers.get(file[1:5])) is not None:
            joined += (("sharers", msgspec.json.encode(sharers)),)
        if file.extension == "json" and (versions := self.statements.get(file[1:4])):
            made = versions[: bisect_right(versions, file.version)]
            joined += (("statements", msgspec.json.encode(made)),)
        if facts.virtual:
            joined += (("virtual", msgspec.json.encode(sorted(facts.virtual))),)
        if schema_file.checksum is None and not facts.clustered:
            joined += (("unsplit", b""),)
        return joined if dispatchers < 2 else (*joined, ("dispatchers", str(dispatchers).encode()))

    def of(self, files: Iterable[DataFile | SchemaFile]) -> "Schemas":
        """What the headers of these files need."""
        seen = {(file[1:5], file.path if isinstance(file, SchemaFile) else "") for file in files}
        places, owners = {place for place, _ in seen}, {place[:3] for place, _ in seen}
        known = {place: self.known[place] for place in places & self.known.keys()}
        paths = {path for _, path in seen} | {file.path for file, _, _ in known.values()}
        return Schemas(
            known=known,
            names={path: self.names[path] for path in paths & self.names.keys()},
            orders={place: self.orders[place] for place in places & self.orders.keys()},
            statements={owner: self.statements[owner] for owner in owners & self.statements.keys()},
            sharers={place: self.sharers[place] for place in places & self.sharers.keys()},
            emptied=self.emptied & places,
        )

    def _name(self, file: SchemaFile) -> Headers:
        name = self.names.get(file.path)
        return () if name is None else (("name", msgspec.json.encode(name)),)


def join_schemas(files: Iterable[tuple[SchemaFile, bytes]]) -> Schemas:
    """All schema files of a source, in any order. One that can't be read describes nothing; its own message
    is a dead letter.
    """
    readable = []
    for file, data in files:
        try:
            definition = read_definition(data)
        except DecodeError:
            continue
        table = definition.table if file.schema is None else file.table or ""
        readable.append((file, data, Version(file.schema or definition.schema, table, definition)))
    readable.sort(key=lambda item: (item[0].version, item[0].checksum is not None, item[0].path))
    told = list(facts_of(version for _, _, version in readable))
    known = {file[1:5]: (file, data, facts) for (file, data, _), facts in zip(readable, told, strict=True)}
    names: dict[str, Name] = {}
    for (file, data, version), facts in zip(readable, told, strict=True):
        if facts.name != version[:2] and version.table:
            names[file.path] = facts.name
            # rows are beside no schema file of their own, where only the folder in lower case has one
            known.setdefault((*facts.name, None, file.version), (file, data, facts))
    statements: dict[Owner, list[int]] = {}
    for file, _, version in readable:
        if version.definition.query:
            statements.setdefault(file[1:4], []).append(file.version)
    columns = [
        Described(file[1:5], file.checksum, version, facts.name)
        for (file, _, version), facts in zip(readable, told, strict=True)
    ]
    orders, emptied = column_orders(columns)
    sharers = _sharers(zip(readable, told, strict=True))
    return Schemas(known, names, orders=orders, statements=statements, sharers=sharers, emptied=emptied)


def _sharers(
    files: Iterable[tuple[tuple[SchemaFile, bytes, Version], Facts]],
) -> dict[Place, list[Name]]:
    """The tables' names, where several have one id and version."""
    found: dict[Place, set[Name]] = {}
    for (file, _, _), facts in files:
        if file.table_id is not None:
            found.setdefault(file[1:5], set()).add(facts.name)
    return {place: sorted(names) for place, names in found.items() if len(names) > 1}


class _Metadata(msgspec.Struct):
    checkpoint: int = msgspec.field(name="checkpoint-ts")


_METADATA = msgspec.json.Decoder(_Metadata)


def read_checkpoint(data: bytes) -> int:
    """The checkpoint ts that the sink's `metadata` tells."""
    try:
        checkpoint = _METADATA.decode(data).checkpoint
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DecodeError(
            "checkpoint", 'metadata: expected {"checkpoint-ts": number}, got something else'
        ) from None
    if not 0 <= checkpoint < 2**63:
        raise DecodeError("checkpoint", "metadata: expected a checkpoint-ts of 63 bits, got another number")
    return checkpoint
