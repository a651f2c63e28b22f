"""Files that a storage sink's folder lacks though later ones of the same writer are there.

    CDC000001.csv  CDC000003.csv   ─▶   Gap(CDC000002.csv, behind: CDC000003.csv)

A writer (a dispatcher, or the only one) counts its files from 1 in each folder of a version and a date, and
writes them one after another: a number that is neither there nor landed was deleted, or never copied. Its
rows are in no table.

Not lost are the first numbers of a table's earliest day: `file-expiration-days` deletes whole days, file by
file, and a feed that began later never had them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.formats.ticdc.storage_csv import META_PREFIX, Broken, read_settings, split
from lakehouse.formats.ticdc.storage_layout import DataFile, Owner, classify, has_commit_ts

Held = Mapping[str, Mapping[str | None, Mapping[int, str]]]
"""The paths of data files, by folder, writer and number."""


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
    least of each of the table's folders that have data files, there or landed.
    """
    earliest = min((file.day for file in files if _is_day(file)), default=None)
    return [
        gap
        for gap in gaps
        if not (
            _is_day(gap.missing)
            and gap.missing.number == 1
            and (earliest is None or gap.missing.day <= earliest)
        )
    ]


def unexplained(held: Held, landed: Iterable[str], options: Mapping[str, str]) -> list[DataFile]:
    """What the numbers of the files that are held, and of those that have landed since, lack: of numbers in a
    row the first, where no expiry explains it. Only folders whose files are fewer than their numbers are
    looked into.
    """
    fresh: dict[str, dict[str | None, dict[int, str]]] = {}
    for file in _data_files(landed, options):
        fresh.setdefault(file.folder, {}).setdefault(file.dispatcher, {})[file.number] = file.path
    gaps: dict[Owner, list[Gap]] = {}
    for folder in {**held, **fresh}:
        for paths in _by_writer(held.get(folder, {}), fresh.get(folder, {})):
            if max(paths) > len(paths):
                for gap in gaps_of(_data_files(paths.values(), options)):
                    gaps.setdefault(gap.behind[1:4], []).append(gap)
    if not gaps:
        return []
    of_each = [_any_path(folder) for files in (held, fresh) for folder in files.values()]
    files = list(_data_files(of_each, options))
    return [
        gap.missing
        for owner, found in gaps.items()
        for gap in without_expired(found, (file for file in files if file[1:4] == owner))
    ]


def _by_writer(
    held: Mapping[str | None, Mapping[int, str]], fresh: Mapping[str | None, Mapping[int, str]]
) -> Iterator[Mapping[int, str]]:
    for writer in {**held, **fresh}:
        known = held.get(writer, {})
        yield {**known, **fresh[writer]} if writer in fresh else known


def _any_path(folder: Mapping[str | None, Mapping[int, str]]) -> str:
    return next(path for paths in folder.values() for path in paths.values())


def _data_files(paths: Iterable[str], options: Mapping[str, str]) -> Iterator[DataFile]:
    files = (classify(path, options) for path in paths)
    return (file for file in files if isinstance(file, DataFile))


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
