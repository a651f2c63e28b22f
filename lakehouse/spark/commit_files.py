"""Delta's log on this machine's own disk, read without Spark: a query of DESCRIBE HISTORY costs as much as
the commit that it asks for, and one of a few records two Spark jobs. Format: PROTOCOL.md of delta-io/delta,
"Delta Log Entries", "Checkpoints", "Commit Provenance Information" and "Version Checksum File".
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

_NAME = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_CHECKSUM = re.compile(r"\d{20}\.crc")


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
    newest = max((name for name in _names_in(table) if _CHECKSUM.fullmatch(name)), default=None)
    if newest is None:
        return None
    try:
        told = json.loads((table / "_delta_log" / newest).read_text(encoding="utf-8"))
        return str(told["metadata"]["id"])
    except (OSError, ValueError, KeyError):  # it is being written or cleaned up, or lacks what it may lack
        return None


def small_table(table: Path, columns: Sequence[str]) -> pa.Table | None:
    """The rows of a table's newest version, all of them; None where only Delta can tell them: of a table that
    needs a newer reader, is partitioned, or is being written or cleaned up at this moment.
    """
    try:
        files = _data_files(table / "_delta_log", _names_in(table))
        if not files:
            return None
        found = [pq.ParquetFile(table / file).read(columns).select(columns) for file in files]
        return pa.concat_tables(found).replace_schema_metadata()
    except (OSError, ValueError, KeyError, pa.ArrowException):  # gone, half there, or of another format
        return None


def _data_files(folder: Path, names: Sequence[str]) -> list[str] | None:
    """The files of the newest version: of the newest checkpoint, and what the commits behind it did."""
    commits, checkpoints = (
        {int(found[1]) for name in names if (found := pattern.fullmatch(name))}
        for pattern in (_NAME, _CHECKPOINT)
    )
    newest, base = max(commits, default=-1), max(checkpoints, default=-1)
    behind = range(base + 1, newest + 1)
    if newest < base or not commits.issuperset(behind):
        return None
    actions = [] if base < 0 else _checkpointed(folder / f"{base:020d}.checkpoint.parquet")
    for version in behind:
        text = (folder / f"{version:020d}.json").read_text(encoding="utf-8")
        actions += map(json.loads, filter(None, text.split("\n")))
    files: dict[str, None] = {}
    is_plain = False
    for action in actions:
        if (protocol := action.get("protocol")) is not None:
            is_plain = protocol["minReaderVersion"] == 1
        if (metadata := action.get("metaData")) is not None and metadata["partitionColumns"]:
            return None
        if (added := action.get("add")) is not None:
            files[unquote(added["path"])] = None
        if (removed := action.get("remove")) is not None:
            files.pop(unquote(removed["path"]), None)
    return list(files) if is_plain and not any(":" in file for file in files) else None


def _checkpointed(path: Path) -> list[dict[str, Any]]:
    """The actions of a checkpoint, whose files are those that are there."""
    found = pq.ParquetFile(path).read(["add.path", "protocol.minReaderVersion", "metaData.partitionColumns"])
    return list(found.to_pylist())


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
