"""Two processes that commit to bronze at once, on a machine's own file system. No session."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.spark.bronze.recordings import append_whole
from lakehouse.spark.lake import Lake

KINDS = ("ours", "theirs behind it", "theirs over it")


class Folder:
    """A lake whose bronze has one commit, and gets another while a stream commits too."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.log, self.kind = folder / "_delta_log", kind
        self.log.mkdir()
        self.commit(0)

    def folder(self, *_: Any) -> Path:
        return self.log.parent

    def append_rows(self, *_: Any, schema: Any, mark: str) -> None:
        self.commit(1, userMetadata=mark)
        if self.kind != "ours":
            self.commit(2 if self.kind == "theirs behind it" else 1)

    def commit(self, version: int, **info: str) -> None:
        (self.log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": info}) + "\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_that_another_process_has_replaced_is_told(tmp_path: Path, kind: str) -> None:
    context: Any = SimpleNamespace(lake=Folder(tmp_path, kind), spark=None, source="feed")
    if kind != "theirs over it":
        append_whole(context, [])
        return
    with pytest.raises(LakehouseError, match="run the command again"):
        append_whole(context, [])


@pytest.mark.parametrize(("layer", "taken"), [("bronze", True), ("ops", True), ("silver", False)])
def test_commits_to_tables_of_several_processes_take_turns(tmp_path: Path, layer: str, taken: bool) -> None:
    with Lake(str(tmp_path)).committing(layer, "feed"):
        assert (tmp_path / "_locks").exists() == taken
