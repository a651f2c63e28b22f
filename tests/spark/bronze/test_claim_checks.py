"""The copies of claim-check payloads, which are made once."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.sources.file_systems import LocalFiles
from lakehouse.spark.bronze.claim_checks import _local, _payloads

NAMES = ["whole.json", "cut.json", "gone.json", "empty.json"]


def test_a_payload_that_cannot_be_read_to_its_end_is_copied_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(b"" if name == "empty.json" else b"{}")
    read = LocalFiles.read

    def some(files: LocalFiles, path: str, start: int = 0) -> bytes:
        return {"cut.json": b"{", "gone.json": b""}.get(path, read(files, path, start))

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "read", some)
        assert [row["path"] for row in _local(str(tmp_path), [*NAMES, "none.json"])] == ["whole.json"]
    assert [row["value"] for row in _local(str(tmp_path), NAMES)] == [b"{}"] * 3


def test_payloads_whose_folder_is_not_there_any_more_are_none(spark: Any, tmp_path: Path) -> None:
    """An object store has no folder once its last file has expired: what names one must stop no pass."""
    folder = tmp_path / "payloads {a}"
    assert _payloads(spark, f"file://{folder}", NAMES).count() == 0

    folder.mkdir()
    (folder / "whole.json").write_bytes(b"{}")
    (folder / "empty.json").write_bytes(b"")

    found = _payloads(spark, f"file://{folder}", NAMES).select("path", "value").collect()
    assert [(row.path, bytes(row.value)) for row in found] == [("whole.json", b"{}")]
