"""Files that a storage sink's folder lacks though later ones of the same writer are there.

    CDC000001.csv  CDC000003.csv   ─▶   Gap(CDC000002.csv, behind: CDC000003.csv)

A writer (a dispatcher, or the only one) counts its files from 1 in each folder of a version and a date, and
writes them one after another: a number that is neither there nor landed was deleted, or never copied. Its
rows are in no table.

Not lost are the first numbers of a table's earliest day: `file-expiration-days` deletes whole days, file by
file, and a feed that began later never had them.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.formats.ticdc.storage_csv import Broken, split
from lakehouse.formats.ticdc.storage_layout import DataFile, has_commit_ts
from lakehouse.formats.ticdc.storage_rows import META_PREFIX, read_settings


class Gap(NamedTuple):
    """Numbers in a row that a writer lacks in a folder: the first, `missing`, and the next one that is
    there, `behind`.
    """

    missing: DataFile
    behind: DataFile


def gaps_of(files: Iterable[DataFile]) -> list[Gap]:
    """The gaps in one folder. `files` are all that are there or have landed."""
    writers: dict[str | None, dict[int, DataFile]] = {}
    for file in files:
        writers.setdefault(file.dispatcher, {})[file.number] = file
    found = []
    for known in writers.values():
        for before, number in pairwise([0, *sorted(known)]):
            if number > before + 1:
                found.append(Gap(known[number].numbered(before + 1), known[number]))
    return found


def without_expired(gaps: Iterable[Gap], files: Iterable[DataFile]) -> list[Gap]:
    """The gaps of one table, without those that the producer's own expiry explains; `files` are one at
    least of each of the table's folders that are there or have landed.
    """
    earliest = min((file.day for file in files if _is_day(file)), default=None)
    return [
        gap
        for gap in gaps
        if not (_is_day(gap.missing) and gap.missing.number == 1 and gap.missing.day == earliest)
    ]


def _is_day(file: DataFile) -> bool:
    return file.date is not None and re.fullmatch(r"\d{4}-\d{2}-\d{2}", file.date) is not None


def first_commit_ts(file: DataFile, data: bytes, options: Mapping[str, str]) -> int | None:
    """The commit ts of a data file's first row: what the files before it hold is not later. None where rows
    carry none, or it can't be read.
    """
    if not has_commit_ts(options):
        return None
    try:
        return _of_csv(data, options) if file.extension == "csv" else _of_json(data)
    except (DecodeError, msgspec.MsgspecError, ValueError, IndexError):
        return None


def _of_csv(data: bytes, options: Mapping[str, str]) -> int | None:
    settings = read_settings(options)
    row, behind = split(data, 0, settings.dialect)
    if data.startswith(META_PREFIX) and behind is not None:
        row, _ = split(data, behind, settings.dialect)
    if isinstance(row, Broken):
        return None
    return int(row[settings.meta.index("commit-ts")] or b"")


class _Extension(msgspec.Struct, rename={"commit_ts": "commitTs"}):
    commit_ts: int


class _Line(msgspec.Struct, rename={"extension": "_tidb"}):
    extension: _Extension


_LINE = msgspec.json.Decoder(_Line)


def _of_json(data: bytes) -> int:
    """Of the first line; a JSON text holds no control character."""
    return _LINE.decode(re.split(rb"[\r\n]", data, maxsplit=1)[0]).extension.commit_ts
