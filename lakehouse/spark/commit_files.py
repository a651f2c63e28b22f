"""Delta's log on this machine's own disk, read without Spark: a query of DESCRIBE HISTORY costs as much as
the commit that it asks for. Format: PROTOCOL.md of delta-io/delta, "Delta Log Entries" and "Commit Provenance
Information".
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_NAME = re.compile(r"(\d{20})\.json")


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
    folder = table / "_delta_log"
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return
    versions = sorted((int(found[1]) for name in names if (found := _NAME.fullmatch(name))), reverse=True)
    for expected, version in zip(range(versions[0] if versions else 0, -1, -1), versions, strict=False):
        path = folder / f"{version:020d}.json"
        if version != expected or not path.exists():
            return
        yield CommitFile(version, path.stat().st_mtime_ns // 1_000_000, _info(path))


def _info(path: Path) -> dict[str, Any]:
    """A commit's `commitInfo`, which writers put first."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            action = json.loads(line)
            if "commitInfo" in action:
                return dict(action["commitInfo"])
    return {}
