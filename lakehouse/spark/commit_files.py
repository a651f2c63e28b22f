"""Delta's log on this machine's own disk, read without Spark: a query of DESCRIBE HISTORY costs as much as
the commit that it asks for, and one of a few records two Spark jobs. Format: PROTOCOL.md of delta-io/delta,
"Delta Log Entries", "Checkpoints", "Commit Provenance Information" and "Version Checksum File".
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_NAME = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_CHECKSUM = re.compile(r"\d{20}\.crc")
_CHECKPOINT_COLUMNS = [
    "add.path",
    "add.size",
    "add.modificationTime",
    "add.stats",
    "add.deletionVector",
    "protocol.minReaderVersion",
    "metaData.partitionColumns",
]
# the largest table that is read here, in bytes of its files
SMALL = 8 * 1024 * 1024
# a file that is gone, half there, or not as the format has it
UNREADABLE = (OSError, ValueError, KeyError, OverflowError, pa.ArrowException)


Above = tuple[str, int]  # a column, and a number above which its values are asked for


class CommitFile(NamedTuple):
    """A commit: its version, when its file was written (in milliseconds, as DESCRIBE HISTORY has it), and its
    `commitInfo`, of which there may be none.
    """

    version: int
    at: int
    info: dict[str, Any]


def newest_commits(table: Path) -> Iterator[CommitFile]:
    """The commits whose files are there, newest first, up to the first one that is not. None of a folder that
    is no Delta table.
    """
    folder, names = table / "_delta_log", _names_in(table)
    versions = sorted((int(found[1]) for name in names if (found := _NAME.fullmatch(name))), reverse=True)
    for expected, version in zip(range(versions[0] if versions else 0, -1, -1), versions, strict=False):
        path = folder / f"{version:020d}.json"
        if version != expected or not path.exists():
            return
        yield CommitFile(version, path.stat().st_mtime_ns // 1_000_000, _info(path))


def metadata_id(table: Path) -> str | None:
    """The id that Delta gave the table when it was made, as the newest checksum file tells it; None where
    there is none that can be read.
    """
    told = _newest_checksum(table).get("metadata") or {}
    return None if told.get("id") is None else str(told["id"])


def file_count(table: Path) -> int | None:
    """About how many files a table has, as the newest checksum file tells it; None where there is none."""
    told = _newest_checksum(table).get("numFiles")
    return None if told is None else int(told)


def _newest_checksum(table: Path) -> dict[str, Any]:
    """What the newest checksum file tells; nothing where there is none that can be read."""
    newest = max((name for name in _names_in(table) if _CHECKSUM.fullmatch(name)), default=None)
    if newest is None:
        return {}
    try:
        return dict(json.loads((table / "_delta_log" / newest).read_text(encoding="utf-8")))
    except (OSError, ValueError):  # it is being written or cleaned up
        return {}


def small_table(table: Path, columns: Sequence[str], above: Above | None = None) -> pa.Table | None:
    """The rows of a table's newest version, all of them or those `above` a number of a column; None where
    only Delta can tell them: of a table that is not small, needs a newer reader, is partitioned, or is being
    written or cleaned up at this moment.
    """
    try:
        files = live_files(table, plain=True)
        if not files or sum(one["size"] for one in files.values()) > SMALL:
            return None
        read = [file for file, one in files.items() if above is None or _reaches(one, above)]
        # the last one tells the columns where no file has such rows
        found = [pq.ParquetFile(table / file).read(columns).select(columns) for file in read or [*files][-1:]]
        rows = pa.concat_tables(found).replace_schema_metadata()
        return rows if above is None else rows.filter(pc.field(above[0]) > above[1])
    except UNREADABLE:
        return None


def _reaches(file: dict[str, Any], above: Above) -> bool:
    """Whether a file may have rows above a number of a column, as its statistics tell."""
    column, number = above
    highest = json.loads(file.get("stats") or "{}").get("maxValues", {}).get(column)
    return highest is None or bool(highest > number)


def row_count(table: Path, version: int | None = None) -> int | None:
    """How many rows a table has in a version, by default the newest one, as the statistics of its files tell;
    None where only Delta can tell it.
    """
    try:
        files = live_files(table, version, plain=True)
        return None if not files else sum(json.loads(one["stats"])["numRecords"] for one in files.values())
    except (*UNREADABLE, TypeError):  # a file without statistics
        return None


def live_files(table: Path, version: int | None = None, *, plain: bool = False) -> dict[str, Any] | None:
    """The files of a version, each with its action: of the newest checkpoint up to it, and what the commits
    behind that did. None where only Delta can tell them; with `plain` of each table that needs a newer
    reader.
    """
    folder, names = table / "_delta_log", _names_in(table)
    commits, checkpoints = (
        [int(found[1]) for name in names if (found := pattern.fullmatch(name))]
        for pattern in (_NAME, _CHECKPOINT)
    )
    newest = max(commits, default=-1) if version is None else version
    base = max((one for one in checkpoints if version is None or one <= version), default=-1)
    behind = range(base + 1, newest + 1)
    if newest < base or not set(commits).issuperset(behind):
        return None
    actions = [] if base < 0 else _checkpointed(folder / f"{base:020d}.checkpoint.parquet")
    for number in behind:
        text = (folder / f"{number:020d}.json").read_text(encoding="utf-8")
        actions += map(json.loads, filter(None, text.split("\n")))
    return _replayed(actions, plain=plain)


def _replayed(actions: Iterable[dict[str, Any]], *, plain: bool) -> dict[str, Any] | None:
    """The files that are there after some actions; None of a table that is partitioned, or not plain."""
    files: dict[str, Any] = {}
    is_plain = not plain
    for action in actions:
        protocol, metadata = action.get("protocol"), action.get("metaData")
        if protocol is not None:
            is_plain = not plain or protocol["minReaderVersion"] == 1
        if metadata is not None and metadata["partitionColumns"]:
            return None
        if (added := action.get("add")) is not None:
            files[unquote(added["path"])] = added
        if (removed := action.get("remove")) is not None:
            path = unquote(removed["path"])
            # not the same file with another deletion vector, which a commit adds before it removes this one
            if path in files and _vector(files[path]) == _vector(removed):
                del files[path]
    return files if is_plain and not any(":" in file for file in files) else None


def _vector(action: dict[str, Any]) -> tuple[Any, ...] | None:
    """What tells a deletion vector from others of the same file."""
    told = action.get("deletionVector")
    return None if told is None else (told["storageType"], told["pathOrInlineDv"], told.get("offset"))


def _checkpointed(path: Path) -> list[dict[str, Any]]:
    """The actions of a checkpoint, whose files are those that are there."""
    return list(pq.ParquetFile(path).read(_CHECKPOINT_COLUMNS).to_pylist())


def _names_in(table: Path) -> list[str]:
    """The names in a table's log; none of a folder that is no Delta table."""
    try:
        return [entry.name for entry in os.scandir(table / "_delta_log")]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _info(path: Path) -> dict[str, Any]:
    """A commit's `commitInfo`, which writers put first."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            action = json.loads(line)
            if "commitInfo" in action:
                return dict(action["commitInfo"])
    return {}
