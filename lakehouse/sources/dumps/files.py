"""The files of a dump: which there are, what each one holds by its name, and their bytes uncompressed."""

import gzip
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, cast
from urllib.parse import unquote

import zstandard

from lakehouse.errors import LakehouseError
from lakehouse.sources.dumps.window import Stream, Window
from lakehouse.sources.file_systems import FileInfo, LocalFiles

_SUFFIX = re.compile(
    r"(?P<stem>.+?)\.(?P<kind>sql|csv|dat)(?:\.(?P<packed>gz|zst|zstd|snappy|lz4|xz|bz2))?", re.S
)
# views and the like, TiDB's placement policies and MySQL's tablespaces. What has a dot is of a table, which
# may be one of a database `checkpoint`
_OTHER = re.compile(
    r"-schema-(?:view|triggers|post|sequence)$"
    r"|^(?:-?checkpoint[^.]*|[^.]*-placement-policy-create|all-schema-create-tablespace)$"
)
# what mydumper calls a database or table by whose name can't be a file's
_STAND_IN = re.compile(r"mydumper_\d+\.")
# packed bytes that are decompressed at once: of rows that are all alike, Zstandard makes 30,000 times as many
PACKED = 1 << 12
_TOO_PACKED = ("snappy", "lz4", "xz", "bz2")


class DumpFiles(Protocol):
    """The files of one folder, or of one file."""

    name: str

    def paths(self) -> list[FileInfo]: ...

    def open(self, path: str) -> Stream: ...


class LocalDump:
    """A local folder, or one file. Names that lead out of the folder, by a link too, count as missing."""

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        self._only = root.name if root.is_file() else None
        self._files = LocalFiles(root.parent if root.is_file() else root)
        if not root.exists():
            raise LakehouseError(f"{root}: expected the folder or the file of a dump, got nothing there")

    def paths(self) -> list[FileInfo]:
        """The files, in the order of their names."""
        found = [info for info in self._files.list_dir("") if not info.is_dir]
        return [info for info in found if self._only in (None, info.path)]

    def open(self, path: str) -> Stream:
        found = self._files.open(path)
        if found is None:
            raise LakehouseError(f"{path}: expected a file of the dump's folder, got none that can be read")
        return cast(Stream, found)


class Metered:
    """The files of a dump, with how many of their bytes, packed as they are, have been read."""

    def __init__(self, files: DumpFiles) -> None:
        self.files, self.name, self.read = files, files.name, 0

    def paths(self) -> list[FileInfo]:
        """The files, in the order of their names."""
        return self.files.paths()

    def open(self, path: str) -> Stream:
        return _MeteredStream(self.files.open(path), self)


class _MeteredStream:
    def __init__(self, raw: Stream, meter: Metered) -> None:
        self._raw, self._meter = raw, meter

    def read(self, size: int = -1, /) -> bytes:
        data = self._raw.read(size)
        self._meter.read += len(data)
        return data

    def close(self) -> None:
        close = getattr(self._raw, "close", None)
        if close is not None:
            close()


class SqlFile(NamedTuple):
    """A file by its name: `role` is schema, database, data or other; `stem` the part that names what it is
    of, `kind` sql, csv or dat.
    """

    path: str
    role: str
    stem: str
    kind: str


def classify(path: str) -> SqlFile | None:
    """What a file of Dumpling or mydumper holds; None for one that is neither SQL nor rows. LakehouseError
    for rows in a form that is not read.
    """
    if path.endswith(".parquet"):
        raise LakehouseError(f"{path}: expected SQL or CSV, got Parquet; dump again with --filetype sql")
    found = _SUFFIX.fullmatch(path)
    if found is None:
        return None
    if found["packed"] in _TOO_PACKED:
        raise LakehouseError(
            f"{path}: expected a plain file, gzip (.gz) or Zstandard (.zst), got .{found['packed']}; "
            "unpack it, or dump again"
        )
    stem = found["stem"]
    for suffix, role in (("-schema-create", "database"), ("-schema", "schema")):
        if stem.endswith(suffix):
            return SqlFile(path, role, stem.removesuffix(suffix), found["kind"])
    if _OTHER.search(stem):
        return SqlFile(path, "other", re.sub(r"-schema-[a-z]+$", "", stem), found["kind"])
    return SqlFile(path, "data", stem, found["kind"])


def stem_of_data(file: SqlFile, tables: frozenset[str]) -> str | None:
    """The table, by the stem of its schema file, whose rows a data file has."""
    stem = file.stem
    while stem not in tables:
        cut = stem.rpartition(".")
        if not cut[2].isdigit():
            return None
        stem = cut[0]
    return stem


def loaded_by_statements(found: list[SqlFile]) -> dict[str, SqlFile]:
    """The files of rows that have an SQL file of the same stem."""
    statements = {file.stem for file in found if file.role == "data" and file.kind == "sql"}
    rows = [file for file in found if file.role == "data" and file.kind != "sql"]
    if lonely := [file.path for file in rows if file.kind == "dat" and file.stem not in statements]:
        raise LakehouseError(
            f"{lonely[0]}: expected the SQL file that loads it beside it (mydumper's .sql), got none; copy "
            "it again, or dump again"
        )
    return {file.stem: file for file in rows if file.stem in statements}


def refuse_twice(found: list[SqlFile]) -> None:
    """LakehouseError where a file lies there packed and unpacked: its rows would count twice."""
    paths: dict[tuple[str, str, bool], str] = {}
    for file in (file for file in found if file.role in ("schema", "data")):
        other = paths.setdefault((file.role, file.stem, file.kind == "sql"), file.path)
        if other != file.path:
            raise LakehouseError(
                f"{file.path}: expected each file of the dump once, got {other} too; remove one of them"
            )


def database_named(file: SqlFile, table: str, databases: Mapping[str, str]) -> str:
    """The database of a table by its file's name; `databases` are those that have files, by their stems.
    LakehouseError where none tells.
    """
    stems = [stem for stem in sorted(databases, key=len, reverse=True) if file.stem.startswith(f"{stem}.")]
    whole = [stem for stem in stems if unquote(file.stem.removeprefix(f"{stem}.")) == table]
    if stems:
        return databases[(whole or stems)[0]]
    for text in (file.stem, unquote(file.stem)):
        if text.endswith(f".{table}") and not _STAND_IN.match(text):
            return text.removesuffix(f".{table}")
    raise LakehouseError(
        f"{file.path}: expected the name of the table's database in the file's, got none; add the "
        "…-schema-create.sql of the database"
    )


@contextmanager
def window_of(files: DumpFiles, path: str) -> Iterator[Window]:
    """A window on a file's bytes, uncompressed."""
    raw = files.open(path)
    try:
        yield Window(_unpacked(raw, path), path)
    finally:
        close = getattr(raw, "close", None)
        if close is not None:
            close()


class _Zstandard:
    """The bytes of Zstandard frames, one after another; EOFError where the last one is cut short."""

    def __init__(self, raw: Stream) -> None:
        self._raw, self._frame = raw, zstandard.ZstdDecompressor().decompressobj()
        self._begun, self._left = False, b""

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        while sum(map(len, parts)) < size:
            data = self._left or self._raw.read(PACKED)
            if not data:
                if self._begun:
                    raise EOFError
                break
            parts.append(self._unpacked(data))
        return b"".join(parts)

    def _unpacked(self, data: bytes) -> bytes:
        try:
            found = self._frame.decompress(data)
        except zstandard.ZstdError as error:
            raise OSError("damaged") from error
        self._begun, self._left = not self._frame.eof, self._frame.unused_data
        if self._frame.eof:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        return found


def _unpacked(raw: Stream, path: str) -> Stream:
    if path.endswith(".gz"):
        return cast(Stream, gzip.GzipFile(fileobj=cast(io.BytesIO, raw)))
    return _Zstandard(raw) if path.endswith((".zst", ".zstd")) else raw


def text_of(files: DumpFiles, path: str) -> str:
    """A small file as text."""
    with window_of(files, path) as window:
        while window.more():
            pass
        return window.buffer.decode(errors="replace")
