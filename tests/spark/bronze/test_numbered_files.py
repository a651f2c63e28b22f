"""Numbers of a storage sink's files that neither bronze nor the sink has. Needs Spark's package, but no
session.
"""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.ops.records.bronze import FilesMissing
from lakehouse.ops.records.record import Record
from lakehouse.sources.file_systems import LocalFiles
from lakehouse.sources.storage_files import new_files
from lakehouse.spark.bronze.storage import reconcile_numbers
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from tests.support.lakes import quiet

OPTIONS = {"protocol": "csv", "include-commit-ts": "true"}
FOLDER = "k/t/500"


def recorded(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """What is recorded of the sink's numbers."""
    found: list[Record] = []
    monkeypatch.setattr(OpsLog, "add", lambda _, record: found.append(record))
    no_session: Any = None
    context = RunContext(OpsLog(no_session, Lake("nowhere"), "sink"), quiet)
    files = LocalFiles(root)
    scan = new_files(files, {}, OPTIONS)
    assert scan.checkpoint is not None
    reconcile_numbers(context, files, scan, OPTIONS)
    return found


def sink(root: Path) -> Path:
    """Files 1 and 3 have rows; the checkpoint is far behind them."""
    folder = root / FOLDER
    folder.mkdir(parents=True)
    for number in (1, 3):
        (folder / f"CDC00000{number}.csv").write_bytes(f'"I","t","k",60{number},1,1\r\n'.encode())
    (root / "metadata").write_text(f'{{"checkpoint-ts":{4_000_000_000_000 << 18}}}')
    return folder


def test_a_file_that_is_there_and_empty_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sink(tmp_path) / "CDC000002.csv").touch()

    assert recorded(tmp_path, monkeypatch) == []


def test_a_file_that_is_not_there_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink(tmp_path)

    [found] = recorded(tmp_path, monkeypatch)

    assert isinstance(found, FilesMissing)
    assert [file.path for file in found.files] == [f"{FOLDER}/CDC000002.csv"]
