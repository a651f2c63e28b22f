"""The settings of a storage sink, detected from its files.

`inspect`, `try` and `init` use them; a configured source has its settings in YAML. Files don't show, so these
are never detected: the time zone, and partition ids that look like years. Whether binary values are base64
or hex, and the null word where texts have no quotes, show in some files only.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Message, RowChange
from lakehouse.formats import STORAGE_FORMAT, decode_message
from lakehouse.formats.ticdc.storage_csv import (
    META_PREFIX,
    Broken,
    Dialect,
    Row,
    bare_words,
    read_settings,
    split,
)
from lakehouse.formats.ticdc.storage_layout import DataFile, classify, setting
from lakehouse.formats.ticdc.storage_schema import read_definition
from lakehouse.schema import parse_type
from lakehouse.sources.file_systems import LocalFiles, all_files
from lakehouse.sources.storage_tree import read_tree

_SAMPLES, _SAMPLE_BYTES = 8, 1 << 20
_HEADER = META_PREFIX + b"operation"
_DATA = re.compile(r"/CDC[^/]*\.(?:csv|json)$")
_BY_ID = re.compile(r"[0-9]+/[0-9]{10,19}(?:/[0-9]{4}(?:-[0-9]{2}){0,2})?")
_FLAGS = ("output-handle-key", "output-old-value", "include-commit-ts")
_BINARY = "binary-encoding-method"
_NULLS = ("", "NULL", "null")
_ROWS = 16  # of a file
# of 2004; those of five years, for ids that applications make of the time may lie further on
_FIRST_TSO, _YEARS = 1 << 58, 5 * 366 * 86_400_000 << 18
_CERTAIN = 16  # characters of base64 that no chance makes hexadecimal digits in hexadecimal


def detect_options(root: str | Path, options: Mapping[str, str]) -> dict[str, str]:
    """`options`, completed by what the files show."""
    detected = dict(options)
    if _is_by_id([info.path for info in all_files(LocalFiles(root), "")]):
        detected.setdefault("use-table-id-as-path", "true")
    files = list(itertools.islice(_data_files(root, detected), 200))
    if not files:
        return detected
    detected.setdefault("protocol", "csv" if files[0][0].extension == "csv" else setting({}, "protocol"))
    if _is_year([file for file, _ in files]):
        detected.setdefault("date-separator", "year")
    sample = files[0][1].value or b""
    is_crlf = any((message.value or b"").endswith(b"\r\n") for _, message in files)
    detected.setdefault("terminator", "\r\n" if is_crlf else "\n")
    if detected["protocol"] == "csv":
        _detect_dialect(_table_of(*files[0]), sample, detected)
        _detect_null([message.value or b"" for _, message in files], detected)
        samples = _samples(files, detected["terminator"].encode())
        if "include-commit-ts" not in detected and _has_commit_ts(samples, detected):
            detected["include-commit-ts"] = "true"
        _detect_fields(samples, detected)
    else:
        detected.setdefault(
            "enable-tidb-extension",
            "true" if _has_extension(sample.split(detected["terminator"].encode())[0]) else "false",
        )
    return detected


def _data_files(root: str | Path, options: Mapping[str, str]) -> Iterator[tuple[DataFile, Message]]:
    for message in read_tree(root, options):
        file = classify(message.path or "", options)
        if isinstance(file, DataFile) and message.value:
            yield file, message


def _is_by_id(paths: list[str]) -> bool:
    """Whether all data files are in folders {table id}/{version}[/{date}]."""
    data = [path for path in paths if _DATA.search(path)]
    return bool(data) and all(_BY_ID.fullmatch(path.rpartition("/")[0]) for path in data)


def _is_year(files: list[DataFile]) -> bool:
    """Whether all folders that could be partition ids are years."""
    numbers = {file.physical_id for file in files if file.date is None and file.physical_id is not None}
    return bool(numbers) and all(2020 <= number < 2100 for number in numbers)


def _has_extension(line: bytes) -> bool:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(row, dict) and "_tidb" in row


def _table_of(file: DataFile, message: Message) -> str:
    """The name of a file's table, from the schema file where the path has an id instead."""
    schema = dict(message.headers).get("schema")
    try:
        return file.table or (read_definition(schema).table if schema else "")
    except DecodeError:
        return ""


def _detect_dialect(table: str, sample: bytes, detected: dict[str, str]) -> None:
    """Detect quote and delimiter: they enclose the operation that begins each row, before the table's
    name.
    """
    row = sample.partition(detected["terminator"].encode())[2] if sample.startswith(_HEADER) else sample
    quoted = row[1:2] in (b"I", b"D", b"U") and row[:1] == row[2:3]
    detected.setdefault("quote", row[:1].decode(errors="replace") if quoted else "")
    rest, next_field = (row[3:], row[:1]) if quoted else (row[1:], table.encode())
    end = rest.find(next_field, 1) if next_field else -1
    if 0 < end <= 9:
        detected.setdefault("delimiter", rest[:end].decode(errors="replace"))


def _detect_null(samples: list[bytes], detected: dict[str, str]) -> None:
    """Detect the null word where texts have quotes: the only word without them."""
    delimiter, quote, terminator = (
        setting(detected, name).encode() for name in ("delimiter", "quote", "terminator")
    )
    if "null" in detected or len(quote) != 1 or not delimiter:
        return
    rows = (sample.partition(terminator)[2] if sample.startswith(_HEADER) else sample for sample in samples)
    words = set().union(
        *(bare_words(data, Dialect(delimiter, quote, terminator=terminator)) for data in rows)
    )
    if len(words) == 1:
        detected["null"] = words.pop().decode(errors="replace")


def _has_commit_ts(samples: list[Message], detected: Mapping[str, str]) -> bool:
    """Whether the field behind the names can only be a commit ts: in all rows it is a TSO, not below the
    table's version. Where VIRTUAL columns are not known, the number of fields does not tell.
    """
    try:
        dialect = read_settings(detected).dialect
    except DecodeError:
        return False
    found = [
        _is_behind(row, file.version)
        for message in samples
        if isinstance(file := classify(message.path or "", detected), DataFile)
        for row in itertools.islice(_rows(message.value or b"", dialect), _ROWS)
    ]
    return bool(found) and all(found)


def _rows(data: bytes, dialect: Dialect) -> Iterator[Row | Broken]:
    """The rows of a file, as far as they can be told apart, without its header."""
    header, ending, _ = data.partition(dialect.terminator)
    position: int | None = len(header + ending) if header.startswith(_HEADER) else 0
    while position is not None and position < len(data):
        row, position = split(data, position, dialect)
        yield row


def _is_behind(row: Row | Broken, version: int) -> bool:
    value = b"" if isinstance(row, Broken) or len(row) < 4 else row[3] or b""
    return value.isdigit() and version >= _FIRST_TSO and version <= int(value) < version + _YEARS


def _samples(files: list[tuple[DataFile, Message]], terminator: bytes) -> list[Message]:
    """The beginnings of some files, of as many tables as there are."""
    seen: Counter[tuple[str | int | None, ...]] = Counter()
    turns = []
    for file, message in files:
        seen[file[1:4]] += 1
        turns.append((seen[file[1:4]], message))
    chosen = [message for _, message in sorted(turns, key=lambda turn: turn[0])[:_SAMPLES]]
    return [_beginning(message, terminator) for message in chosen]


def _beginning(message: Message, terminator: bytes) -> Message:
    data = message.value or b""
    if len(data) <= _SAMPLE_BYTES:
        return message
    end = data.rfind(terminator, 0, _SAMPLE_BYTES) + len(terminator)
    return msgspec.structs.replace(message, value=data[:end])


def _detect_fields(samples: list[Message], detected: dict[str, str]) -> None:
    """Detect which optional fields rows have, and how NULL and binary values are written: the first choice
    that reads the most rows. The handle key, which could be any text, is tried last.
    """
    most, best = 0, detected
    for chosen in _choices(detected):
        read, refused = _counts(samples, chosen)
        if read > most:
            most, best = read, chosen
        if not refused:
            break
    if "binary-encoding-method" not in detected and _is_hex(samples, best):
        best = {**best, _BINARY: "hex"}
    detected.update(best)


def _choices(detected: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """What may be left out is left out where it is the default."""
    flags = [flag for flag in _FLAGS if flag not in detected]
    words = [{}, *({"null": word} for word in _NULLS)] if _is_null_open(detected) else [{}]
    binary = [{}] if _BINARY in detected else [{}, {_BINARY: "hex"}]
    for written, null in itertools.product(binary, words):
        for values in itertools.product(("false", "true"), repeat=len(flags)):
            yield {**detected, **written, **null, **dict(zip(flags, values, strict=True))}


def _is_null_open(detected: Mapping[str, str]) -> bool:
    """Whether the null word can't be told from texts: they have no quotes either."""
    return "null" not in detected and not setting(detected, "quote")


def _counts(samples: list[Message], options: Mapping[str, str]) -> tuple[int, int]:
    """How many changes, and how many dead letters, the samples give."""
    events = [event for message in samples for event in decode_message(STORAGE_FORMAT, message, options)]
    refused = sum(isinstance(event, DeadLetter) for event in events)
    return len(events) - refused, refused


def _is_hex(samples: list[Message], options: Mapping[str, str]) -> bool:
    """Whether binary values are hexadecimal: what can be read so can often be read as base64 too, but base64
    of many bytes is not of sixteen characters alone.
    """
    hexadecimal = {**options, _BINARY: "hex"}
    if _counts(samples, hexadecimal) < _counts(samples, options):
        return False
    events = [event for message in samples for event in decode_message(STORAGE_FORMAT, message, hexadecimal)]
    changes = [event for event in events if isinstance(event, RowChange)]
    return sum(map(_binary_characters, changes)) >= _CERTAIN


def _binary_characters(change: RowChange) -> int:
    image = change.after or change.before or {}
    types = change.types or {}
    return sum(
        len(value or "") for name, value in image.items() if parse_type(types[name]).family == "binary"
    )
