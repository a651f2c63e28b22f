"""Delta's log on this machine's own disk, read without Spark: a query of DESCRIBE HISTORY costs as much as
the commit that it asks for. Format: PROTOCOL.md of delta-io/delta, "Delta Log Entries", "Commit Provenance
Information" and "Version Checksum File".
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_NAME = re.compile(r"(\d{20})\.json")
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
